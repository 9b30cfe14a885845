"""Strict JSON bodies (RFC 8259): no NaN or Infinity, no out-of-range numbers, no lone surrogates.

Nesting is limited to :data:`MAX_NESTING` levels, so that an accepted body can be stored and serialized again.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from fastapi import Request, Response

from wenmai.http.responses import StructRoute

MAX_NESTING = 100
_TOO_DEEP = f"nested at most {MAX_NESTING} levels deep"


class StrictRoute(StructRoute):
    """A route that decodes JSON bodies with msgspec, which is strict, and fast enough not to block the event loop."""

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
        except ValueError as problem:  # invalid JSON, invalid UTF-8, integers of thousands of digits
            raise json.JSONDecodeError(str(problem), "", 0) from problem
        if body.count(b"[") + body.count(b"{") > MAX_NESTING and _exceeds_max_nesting(value):
            raise json.JSONDecodeError(_TOO_DEEP, "", 0)
        return value


def _exceeds_max_nesting(value: object) -> bool:
    """Whether lists and objects are nested more than :data:`MAX_NESTING` levels deep."""
    level = [value]
    for _ in range(MAX_NESTING):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
