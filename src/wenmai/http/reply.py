"""Answers as JSON, written by msgspec straight from our records; times are RFC 3339 with ``Z``."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

_encoder = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """The value as JSON; structs, mappings, enums and aware datetimes included."""
    return _encoder.encode(value)


def reply(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response of the value."""
    return Response(encode(value), status, headers=headers, media_type="application/json")
