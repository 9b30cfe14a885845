"""Bodies are JSON as RFC 8259 has it: no NaN, no Infinity, no number that nothing can hold, no half of a character.

They are nested at most :data:`LEVELS` deep, so that what was taken can also be stored and shown again.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from fastapi import Request, Response
from fastapi.routing import APIRoute

LEVELS = 100
_TOO_DEEP = f"nested at most {LEVELS} levels deep"


class StrictRoute(APIRoute):
    """A route whose JSON body is read by msgspec, which is strict, and fast enough not to stop the event loop."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See :class:`fastapi.routing.APIRoute`."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strict


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            value = msgspec.json.decode(body)
        except RecursionError as problem:
            raise json.JSONDecodeError(_TOO_DEEP, "", 0) from problem
        except ValueError as problem:  # msgspec's, bytes that are not UTF-8, integers of thousands of digits
            raise json.JSONDecodeError(str(problem), "", 0) from problem
        if body.count(b"[") + body.count(b"{") > LEVELS and _is_deep(value):
            raise json.JSONDecodeError(_TOO_DEEP, "", 0)
        return value


def _is_deep(value: object) -> bool:
    """Whether lists and objects stand in each other more than :data:`LEVELS` deep."""
    level = [value]
    for _ in range(LEVELS):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
