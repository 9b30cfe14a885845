"""JSON responses, encoded by msgspec directly from structs; times are RFC 3339 with ``Z``."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from fastapi.routing import APIRoute
from starlette.responses import Response

T = TypeVar("T")

encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
"""Encodes a value as JSON; supports structs, mappings, enums and aware datetimes."""


class Json(Response, Generic[T]):
    """The value as a JSON response; a route that returns ``Json[T]`` is documented with the schema of ``T``."""

    media_type = "application/json"

    def __init__(self, value: T, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(encode(value), status, headers)


class StructRoute(APIRoute):
    """A route that is documented by the struct that it returns.

    Attributes:
        struct: the ``T`` of its ``Json[T]``; None if it returns something else.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        returned = get_type_hints(endpoint).get("return")
        alternatives = (returned, *get_args(returned))
        self.struct = next((get_args(each)[0] for each in alternatives if get_origin(each) is Json), None)
        super().__init__(path, endpoint, **options | {"response_model": None})
