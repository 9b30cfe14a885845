"""A server of OpenAI's embeddings protocol on a socket, for what is about the protocol and not about vectors."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def embedding_server(
    *,
    answers: bool = True,
    status: int = 200,
    length: int = 3,
    before: Callable[[Sequence[str]], Awaitable[None]] | None = None,
) -> AsyncIterator[tuple[str, list[dict[str, object]]]]:
    """A server of OpenAI's embeddings protocol; its base URL, and what it was asked.

    A vector begins with its text's length; it has ``length`` numbers. ``before`` is awaited with the texts of each
    request before it is answered.
    """
    asked: list[dict[str, object]] = []
    serving = asyncio.TaskGroup()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.partition("content-length:")[2].split()[0])
        request = json.loads(await reader.readexactly(size))
        asked.append(request)
        if not answers:
            await reader.read()
            writer.close()
            return
        texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
        if before:
            await before(texts)
        data = [
            {"object": "embedding", "index": place, "embedding": [float(len(text)), 1.0, *[0.0] * (length - 2)]}
            for place, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        body = json.dumps({"object": "list", "model": "any", "data": data, "usage": usage}).encode()
        start = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(f"{start}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        writer.close()
        await writer.wait_closed()

    async def serve_until_cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.create_task(serve_until_cut(reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with serving, server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", asked
