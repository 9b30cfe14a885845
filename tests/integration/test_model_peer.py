"""The model provider against a real server of OpenAI's protocol, alive, killed, absent and hanging."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from model_server import ModelServer
from wenmai.errors import ModelError
from wenmai.providers.models import ChatModel, ModelLimits, PromptMessage, open_model
from wenmai.providers.pricing import Price

pytestmark = pytest.mark.xdist_group("model")

HELLO = [
    PromptMessage("system", "You are a friendly helper. Answer in one short sentence."),
    PromptMessage("user", "Say hello to Anna."),
]
LONGEST = 64
"""Tokens of an answer; more take long while other tests use the cores."""

LONG_STORY = [PromptMessage("user", "Tell me a very long story about a village, with many chapters.")]


def open_peer(server: ModelServer, limits: ModelLimits | None = None, price: Price | None = None) -> ChatModel:
    """The server's model behind our limits."""
    return open_model(
        f"openai:{server.model}", base_url=server.base_url, limits=limits, price=price, answer_tokens=LONGEST
    )


async def test_a_whole_answer_comes_with_its_text_its_tokens_and_its_price(model_server: ModelServer) -> None:
    """Text is not empty, the counts are the server's own, and the cost is what the price makes of them."""
    price = Price(prompt_per_million=1.0, completion_per_million=2.0)
    reply = await open_peer(model_server, price=price).answer(HELLO)
    assert reply.text.strip()
    assert reply.prompt_tokens > 0
    assert reply.completion_tokens > 0
    assert not reply.estimated
    assert reply.priced
    assert reply.cost_usd == pytest.approx((reply.prompt_tokens + 2 * reply.completion_tokens) / 1e6)
    assert reply.finish_reason in {"stop", "length"}


async def test_a_streamed_answer_arrives_in_pieces_that_make_the_text(model_server: ModelServer) -> None:
    """There are several pieces, in order: joined they are the text of the reply."""
    pieces: list[str] = []

    async def collect(piece: str) -> None:
        pieces.append(piece)

    reply = await open_peer(model_server).answer(HELLO, on_token=collect)
    assert len(pieces) > 1
    assert "".join(pieces) == reply.text
    assert reply.completion_tokens > 1


async def test_a_server_killed_in_the_middle_of_an_answer_is_a_model_error(model_server: ModelServer) -> None:
    """What was handed out stays so, the answer is not begun again, and another call may help."""
    pieces: list[str] = []
    codes: list[int] = []

    async def kill_at_the_third_piece(piece: str) -> None:
        pieces.append(piece)
        if len(pieces) == 3:
            codes.append(await asyncio.to_thread(model_server.kill))

    model = open_peer(model_server, ModelLimits(timeout_seconds=20, attempts=3))
    with pytest.raises(ModelError) as failure:
        await model.answer(LONG_STORY, on_token=kill_at_the_third_piece)
    assert failure.value.retryable
    assert codes == [-signal.SIGKILL]
    assert not model_server.running
    assert 3 <= len(pieces) < 100


async def test_a_refused_connection_is_a_model_error_that_may_be_retried() -> None:
    """Nobody listens: an error within the attempts, long before the limits."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    limits = ModelLimits(attempts=2, backoff_seconds=0.01)
    model = open_model("openai:any", base_url=f"http://127.0.0.1:{port}/v1", limits=limits)
    with pytest.raises(ModelError) as failure:
        await asyncio.wait_for(model.answer(HELLO), timeout=10)
    assert failure.value.retryable


async def test_a_peer_that_accepts_and_never_answers_is_given_up_at_the_first_text_limit() -> None:
    """The limit on the first text holds over all attempts, and the connection is closed."""
    async with hanging_peer() as (port, closed):
        limits = ModelLimits(first_token_seconds=0.3, attempts=3, backoff_seconds=0.01)
        model = open_model("openai:any", base_url=f"http://127.0.0.1:{port}/v1", limits=limits)
        with pytest.raises(ModelError, match=r"no text within 0\.3 s") as failure:
            await asyncio.wait_for(model.answer(HELLO), timeout=10)
        assert failure.value.retryable
        await asyncio.wait_for(closed.wait(), timeout=10)


@asynccontextmanager
async def hanging_peer() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Its port, and an event that is set when the first connection has been closed by the other side."""
    closed = asyncio.Event()
    serving = asyncio.TaskGroup()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        closed.set()
        writer.close()
        await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.create_task(listen(reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with serving, server:
        yield server.sockets[0].getsockname()[1], closed
