"""Responses of JSON lines, streamed in chunks."""

from collections.abc import AsyncIterator
from typing import Any

JSONL = "application/jsonl"
CHUNK_BYTES = 32_768

_EXAMPLE = '{"type":"session","session_id":"my-session","title":"Planning the trip"}\n'


def jsonl_response(description: str) -> dict[int | str, dict[str, Any]]:
    """The response in the OpenAPI document."""
    content = {JSONL: {"schema": {"type": "string"}, "example": _EXAMPLE}}
    return {200: {"description": description, "content": content}}


async def in_chunks(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines, joined to chunks."""
    chunk = bytearray()
    async for line in lines:
        chunk += line
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)
