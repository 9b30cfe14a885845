"""A peer on a socket that speaks OpenAI's protocol and answers as each test writes down."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from wenmai.providers.models import ChatModel, ModelLimits, PromptMessage, open_model

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]

QUESTION = [PromptMessage("system", "Answer shortly."), PromptMessage("user", "家训第一条是什么？")]
QUICK = ModelLimits(timeout_seconds=10, first_token_seconds=10, idle_seconds=10, attempts=2, backoff_seconds=0.01)


class Peer:
    """What the peer was sent, and whether the other side has closed a connection."""

    def __init__(self) -> None:
        self.requests: list[dict[str, object]] = []
        self.headers: list[str] = []
        self.closed = asyncio.Event()
        self.model = "openai:any"
        self.base_url = ""

    def open(self, limits: ModelLimits = QUICK) -> ChatModel:
        """The peer as a model."""
        return open_model(self.model, base_url=self.base_url, limits=limits)


@asynccontextmanager
async def peer(*answers: Answer) -> AsyncIterator[Peer]:
    """A server that gives each request the next of the answers, then waits for the other side to close."""
    state = Peer()
    remaining = iter(answers)
    serving = asyncio.TaskGroup()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length:")[2].split()[0])
        state.headers.append(head)
        state.requests.append(json.loads(await reader.readexactly(length)))
        await next(remaining)(writer)
        if not writer.is_closing():
            await reader.read()
            state.closed.set()
            writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.create_task(serve(reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with serving, server:
        state.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield state


def status(code: int, *, message: str = "no", header: str = "") -> Answer:
    """Refuse with an HTTP status."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        body = json.dumps({"error": {"message": message}}).encode()
        head = f"HTTP/1.1 {code} No\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{header}"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        writer.close()

    return answer


def stream(*pieces: str, usage: bool = True, end: bool = True, reason: str = "stop") -> Answer:
    """Stream the pieces; with ``end`` finish properly, for that reason, else fall silent."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for piece in pieces:
            writer.write(event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}}]}))
        if end:
            writer.write(event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
            if usage:
                counts = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
                writer.write(event({"choices": [], "usage": counts}))
            writer.write(b"data: [DONE]\n\n")
            await writer.drain()
            writer.close()

    return answer


def event(data: dict[str, object]) -> bytes:
    """One server-sent event of a chat completion."""
    frame = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "any"} | data
    return f"data: {json.dumps(frame)}\n\n".encode()


async def silence(_: asyncio.StreamWriter) -> None:
    """Say nothing at all."""


def events(*frames: dict[str, object], body: bytes = b"") -> Answer:
    """Stream these events and then those bytes, and close the connection."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for frame in frames:
            writer.write(event(frame))
        writer.write(body)
        await writer.drain()
        writer.close()

    return answer


def said(text: str, **more: object) -> dict[str, object]:
    """The data of an event with a piece of text."""
    return {"choices": [{"index": 0, "delta": {"content": text}}]} | more


END: dict[str, object] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
"""The data of the event that ends an answer."""
