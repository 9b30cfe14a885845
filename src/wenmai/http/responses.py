"""JSON responses, encoded by msgspec directly from records; times are RFC 3339 with ``Z``."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

_encoder = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """Encode a value as JSON; supports structs, mappings, enums and aware datetimes."""
    return _encoder.encode(value)


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The value as a JSON response."""
    return Response(encode(value), status, headers=headers, media_type="application/json")
