"""Misbehaving models: endless answers, broken streams, repeated counts, echoed keys, redirects."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from model_peer import END, QUESTION, QUICK, events, peer, said, status, stream
from wenmai.errors import ModelError
from wenmai.providers.models import ChatModel, ModelLimits
from wenmai.resilience.breaker import MODEL, Breaker, BreakerPolicy
from wenmai.text.tokens import estimate_tokens

QUICK_ONCE = ModelLimits(timeout_seconds=10, first_token_seconds=10, idle_seconds=10, attempts=1)


class UncancellableModel(BaseChatModel):
    """Streams without end and swallows every cancellation, as a client library may.

    Attributes:
        closed: how many of its streams have ended.
    """

    closed: int = 0

    @property
    def _llm_type(self) -> str:
        return "deaf"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self,
        messages: list[BaseMessage],  # noqa: ARG002 — the name that LangChain gives it
        *_: Any,
        **__: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        try:
            while True:
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue
                finally:
                    yield ChatGenerationChunk(message=AIMessageChunk(content="族"))
        finally:
            self.closed += 1


async def test_a_client_that_swallows_cancellation_does_not_hold_the_call() -> None:
    """The call times out with a retryable error, and the stream is closed soon after."""
    deaf = UncancellableModel()
    model = ChatModel("deaf", deaf, limits=ModelLimits(timeout_seconds=0.2, attempts=1))
    began = time.monotonic()
    with pytest.raises(ModelError, match=r"no complete answer within 0\.2 s") as late:
        await model.answer(QUESTION)
    assert late.value.retryable
    assert time.monotonic() - began < 5
    await model.close()
    assert deaf.closed == 1


async def test_a_cancelled_call_ends_at_once_whatever_the_client_does() -> None:
    """As when the service stops."""
    model = ChatModel("deaf", UncancellableModel())
    task = asyncio.create_task(model.answer(QUESTION))
    await asyncio.sleep(0.05)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=5)
    assert done
    assert task.cancelled()
    await model.close()


async def test_the_timeout_of_the_whole_call_is_checked_after_every_piece() -> None:
    """A consumer that keeps the CPU busy with buffered pieces gets no more time."""
    seen: list[str] = []

    async def work(piece: str) -> None:
        seen.append(piece)
        until = time.monotonic() + 0.01
        while time.monotonic() < until:
            pass

    async with peer(stream(*["族"] * 2000)) as model:
        with pytest.raises(ModelError, match=r"no complete answer within 0\.3 s"):
            await model.open(ModelLimits(timeout_seconds=0.3, attempts=1)).answer(QUESTION, on_token=work)
    assert len(seen) < 100


async def test_an_answer_is_cut_off_after_so_many_characters() -> None:
    """The rest is not read; the reply is marked as cut off."""
    async with peer(stream("一二三", "四五六" * 1000, "七", end=False)) as model:
        reply = await model.open(ModelLimits(answer_characters=5)).answer(QUESTION)
        await asyncio.wait_for(model.closed.wait(), timeout=5)
    assert (reply.text, reply.cut_off) == ("一二三四五", True)


class TextlessModel(UncancellableModel):
    """Sends chunks without text, without end."""

    reasoning: str = ""

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:  # noqa: ARG002
        more = {"reasoning_content": self.reasoning} if self.reasoning else {}
        while True:
            yield ChatGenerationChunk(message=AIMessageChunk(content="", additional_kwargs=more))


@pytest.mark.parametrize("reasoning", ["", "嗯" * 1000])
async def test_chunks_without_text_are_limited(reasoning: str) -> None:
    """LangChain joins them when the stream ends, so an endless stream of them would block the event loop."""
    model = ChatModel("silent", TextlessModel(reasoning=reasoning), limits=QUICK)
    with pytest.raises(ModelError, match="too large"):
        await model.answer(QUESTION)


async def test_a_tool_call_ends_the_answer() -> None:
    """No tools were offered; the text before the call is not an answer, and its arguments are costly to parse."""
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{" * 100}}
    calls: dict[str, object] = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    async with peer(events(said("我查一下。"), calls, END)) as model:
        with pytest.raises(ModelError, match="calls a tool"):
            await model.open().answer(QUESTION)


def endless(head: str, begun: bytes, more: bytes) -> Any:
    """A successful response with an endless body."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\nConnection: close\r\n\r\n".encode() + begun)
        with suppress(ConnectionError):
            while True:
                writer.write(more)
                await writer.drain()
        writer.close()

    return answer


_EVENTS = "Content-Type: text/event-stream"
_CALL = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"'


@pytest.mark.parametrize(
    "answer",
    [
        endless(_EVENTS, b"data: ", b"x" * 65_536),
        endless(_EVENTS, b"", b": " + b"alive" * 2000 + b"\n\n"),
        endless(_EVENTS, _CALL, b"{" * 500),
        endless(_EVENTS, _CALL.replace(b'"arguments":', b'\ndata: "argum\\u0065nts":\ndata: '), b"{" * 500),
        endless("Content-Type: application/json", b"", b"x" * 65_536),
        endless(f"{_EVENTS}\r\nContent-Encoding: gzip", b"", b"x" * 65_536),
    ],
    ids=["event", "comments", "tool call", "escaped tool call", "body", "compressed"],
)
async def test_the_size_of_a_response_is_limited(answer: Any) -> None:
    """The library would buffer or parse it until the timeout."""
    async with peer(answer) as model:
        with pytest.raises(ModelError, match=r"AnswerTooLarge|OpenAIConnectionError"):
            await model.open(QUICK_ONCE).answer(QUESTION)


async def test_the_largest_event_that_an_answer_needs_is_read() -> None:
    """A server may send the whole answer at once, every character escaped."""
    text = "族" * QUICK.answer_characters
    async with peer(stream(text)) as model:
        assert (await model.open().answer(QUESTION)).text == text


async def test_the_provider_is_sent_a_token_limit() -> None:
    """By its own option."""
    async with peer(stream("好")) as model:
        await model.open().answer(QUESTION)
    assert model.requests[0]["max_completion_tokens"] == 4096


async def test_an_answer_cut_by_the_provider_is_marked() -> None:
    """``length`` is not a regular end."""
    async with peer(stream("第一条是孝。第二", reason="length"), stream("好")) as model:
        assert (await model.open().answer(QUESTION)).cut_off
        assert not (await model.open().answer(QUESTION)).cut_off


async def test_a_connection_closed_before_the_end_is_a_failure() -> None:
    """A partial answer is retried, and is an error if the retry fails too."""
    async with peer(events(said("第一条")), stream("第一条是孝。"), events(said("第一条"))) as model:
        assert (await model.open().answer(QUESTION)).text == "第一条是孝。"
        with pytest.raises(ModelError, match="broke off") as failure:
            await model.open(ModelLimits(attempts=1)).answer(QUESTION)
    assert failure.value.retryable


async def test_a_withheld_answer_is_a_failure() -> None:
    """The text before the filter stepped in is not an answer, and a retry would be withheld again."""
    async with peer(stream("第一条", reason="content_filter")) as model:
        with pytest.raises(ModelError, match="withheld: content_filter") as failure:
            await model.open().answer(QUESTION)
    assert not failure.value.retryable


async def test_text_is_cleaned_of_characters_that_stores_reject() -> None:
    """Lone surrogates and control characters are removed; a character split over two pieces is joined."""
    pieces: list[str] = []

    async def collect(piece: str) -> None:
        pieces.append(piece)

    async with peer(stream("a\ud83d", "\ude00b\ud83d", "c\0\x1b[2J\n\td")) as model:
        reply = await model.open().answer(QUESTION, on_token=collect)
    assert reply.text == "".join(pieces) == "a😀bc[2J\n\td"


@pytest.mark.parametrize("count", [-1_000_000, 10**30])
async def test_an_impossible_token_count_is_replaced_by_an_estimate(count: int) -> None:
    """It neither refills nor exhausts a budget."""
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": 0}
    async with peer(events(said("孝亲"), END, {"choices": [], "usage": usage})) as model:
        reply = await model.open().answer(QUESTION)
    assert reply.estimated
    assert 0 < reply.prompt_tokens < 100
    assert reply.completion_tokens == estimate_tokens("孝亲")


async def test_cumulative_token_counts_are_not_summed() -> None:
    """Of a server that sends cumulative counts, the last one is recorded."""
    counts = [{"prompt_tokens": 100, "completion_tokens": n, "total_tokens": 100 + n} for n in (1, 2, 3)]
    async with peer(events(*(said("孝", usage=usage) for usage in counts), END)) as model:
        reply = await model.open().answer(QUESTION)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.estimated) == (100, 3, False)


async def test_a_redirect_is_not_followed() -> None:
    """The prompt goes to the server that was configured and to no other."""
    async with peer(stream("好")) as other, AsyncExitStack() as opened:
        to_the_other = status(307, header=f"Location: {other.base_url}/chat/completions\r\n")
        model = await opened.enter_async_context(peer(to_the_other))
        with pytest.raises(ModelError, match="status 307"):
            await model.open().answer(QUESTION)
        await opened.aclose()
    assert other.requests == []


async def test_the_providers_message_is_not_in_the_error(caplog: pytest.LogCaptureFixture) -> None:
    """The error has class and status; the log has the message without the key."""
    said_so = "bad key sk-SECRETSECRETSECRET, Bearer abc.def, id 0123456789abcdefghijklmno"
    async with peer(status(401, message=said_so)) as model:
        with pytest.raises(ModelError) as failure, caplog.at_level(logging.WARNING):
            await model.open().answer(QUESTION)
    assert str(failure.value) == "openai:any: OpenAIAuthenticationError, status 401"
    assert "bad key ***, ***" in caplog.text
    for secret in ("SECRET", "abc.def", "0123456789"):
        assert secret not in caplog.text


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\xfe garbage\n\ndata: {not json}\n\n",
        b"<html>hi</html>",
        b"data: [DONE]\n\n",
        b'data: {"choices": 3}\n\n',
    ],
    ids=["bytes", "html", "nothing", "shape"],
)
async def test_garbage_is_a_failure_that_opens_the_breaker(garbage: bytes) -> None:
    """An invalid response is a failure of the server."""
    breaker = Breaker("model", kind=MODEL, policy=BreakerPolicy(consecutive_failures=1))
    async with peer(events(body=garbage)) as server:
        model = server.open(ModelLimits(attempts=1))
        model._guard = breaker.guard
        with pytest.raises(ModelError) as failure:
            await model.answer(QUESTION)
    assert failure.value.retryable
    assert breaker.status.state == "open"


@pytest.mark.parametrize(("wanted", "requests"), [("1", 2), ("100000", 1)])
async def test_a_retry_follows_retry_after(wanted: str, requests: int) -> None:
    """There is no retry if the user would wait too long."""
    answers = status(429, header=f"Retry-After: {wanted}\r\n"), stream("好")
    async with peer(*answers) as model:
        began = time.monotonic()
        if requests == 1:
            with pytest.raises(ModelError, match="status 429"):
                await model.open(QUICK).answer(QUESTION)
        else:
            await model.open(QUICK).answer(QUESTION)
            assert time.monotonic() - began >= 1
    assert len(model.requests) == requests
