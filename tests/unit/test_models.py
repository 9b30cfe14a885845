"""Timeouts, retries and limits of model calls, against a scripted server on a socket."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from ending_model import EndingModel
from model_peer import QUESTION, QUICK, peer, silence, status, stream
from wenmai.errors import InvalidInput, MissingExtra, ModelError
from wenmai.providers.models import ChatModel, ModelLimits, open_model
from wenmai.text.tokens import estimate_tokens


async def test_the_reply_has_text_usage_and_finish_reason() -> None:
    """The text is the joined pieces, the usage the server's; without a price the cost is 0 and marked so."""
    async with peer(stream("孝", "亲")) as model:
        reply = await model.open().answer(QUESTION)
    assert (reply.text, reply.finish_reason) == ("孝亲", "stop")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.estimated) == (12, 3, False)
    assert (reply.cost_usd, reply.priced) == (0.0, False)
    assert model.requests[0]["stream_options"] == {"include_usage": True}
    assert model.requests[0]["messages"] == [
        {"role": "system", "content": "Answer shortly."},
        {"role": "user", "content": "家训第一条是什么？"},
    ]


async def test_missing_usage_is_estimated_and_marked() -> None:
    """A server that reports no usage gives estimated counts, marked as such."""
    async with peer(stream("孝亲", usage=False)) as model:
        reply = await model.open().answer(QUESTION)
    assert reply.estimated
    assert reply.completion_tokens == estimate_tokens("孝亲")
    assert reply.prompt_tokens > estimate_tokens(QUESTION[1].content)


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_transient_error_is_retried(code: int) -> None:
    """Rate limits and server errors get a second attempt: two requests in all."""
    async with peer(status(code), stream("好")) as model:
        reply = await model.open().answer(QUESTION)
    assert reply.text == "好"
    assert len(model.requests) == 2


@pytest.mark.parametrize("code", [400, 401, 404])
async def test_a_permanent_error_is_not_retried(code: int) -> None:
    """One request, and an error that is not retryable."""
    async with peer(status(code), stream("好")) as model:
        with pytest.raises(ModelError) as failure:
            await model.open().answer(QUESTION)
    assert not failure.value.retryable
    assert len(model.requests) == 1


async def test_attempts_are_bounded() -> None:
    """With two attempts a failing server gets two requests; the client's own retries are off."""
    async with peer(status(503), status(503), stream("好")) as model:
        with pytest.raises(ModelError) as failure:
            await model.open().answer(QUESTION)
    assert failure.value.retryable
    assert len(model.requests) == 2


async def test_an_empty_answer_is_retried() -> None:
    """An answer without text is a failure."""
    async with peer(stream(), stream("好")) as model:
        assert (await model.open().answer(QUESTION)).text == "好"


async def test_no_retry_after_a_piece_was_delivered() -> None:
    """A user who has seen the start of an answer never sees it start again."""
    seen: list[str] = []

    async def collect(piece: str) -> None:
        seen.append(piece)

    async with peer(stream("孝", end=False), stream("好")) as model:
        limits = ModelLimits(idle_seconds=0.1, attempts=3, backoff_seconds=0.01)
        with pytest.raises(ModelError, match="stopped"):
            await model.open(limits).answer(QUESTION, on_token=collect)
    assert seen == ["孝"]
    assert len(model.requests) == 1


async def test_an_answer_that_stops_is_retried_if_nothing_was_delivered() -> None:
    """Without ``on_token`` nothing was delivered, so a second attempt may give the whole answer."""
    async with peer(stream("孝", end=False), stream("好")) as model:
        limits = ModelLimits(idle_seconds=0.1, backoff_seconds=0.01)
        assert (await model.open(limits).answer(QUESTION)).text == "好"


async def test_the_whole_call_has_a_limit() -> None:
    """Continuing pieces do not extend the total timeout. A slow consumer is cut off too, which is no model failure."""

    async def read_slowly(_: str) -> None:
        await asyncio.sleep(60)

    async with peer(stream("孝", "亲")) as model:
        with pytest.raises(ModelError, match=r"the reader had not taken the answer after 0\.2 s") as late:
            await model.open(ModelLimits(timeout_seconds=0.2)).answer(QUESTION, on_token=read_slowly)
    assert not late.value.retryable


async def test_a_slow_consumer_is_not_an_idle_model() -> None:
    """The time that ``on_token`` takes is not counted against the model's next piece."""

    async def read(_: str) -> None:
        await asyncio.sleep(0.15)

    async with peer(stream("孝", "亲")) as model:
        limits = ModelLimits(idle_seconds=0.1, attempts=1)
        assert (await model.open(limits).answer(QUESTION, on_token=read)).text == "孝亲"


async def test_cancellation_propagates_and_closes_the_connection() -> None:
    """The caller sees the cancellation, the server sees the end of the connection."""
    begun = asyncio.Event()

    async def note(_: str) -> None:
        begun.set()

    async with peer(stream("孝", end=False)) as model:
        task = asyncio.create_task(model.open().answer(QUESTION, on_token=note))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(model.closed.wait(), timeout=5)


async def test_an_error_of_the_consumer_is_not_a_model_error() -> None:
    """An error of ``on_token``, including its own timeout, propagates unchanged; the connection is closed."""

    async def fail(_: str) -> None:
        raise TimeoutError("the client disconnected")

    async with peer(stream("孝", end=False)) as model:
        with pytest.raises(TimeoutError, match="the client disconnected"):
            await model.open().answer(QUESTION, on_token=fail)
        await asyncio.wait_for(model.closed.wait(), timeout=5)


async def test_a_guard_wraps_the_whole_call_and_sees_its_outcome() -> None:
    """Opened once for two attempts; it sees the consumer's error unchanged; if it rejects, nothing is sent."""
    seen: list[BaseException | None] = []

    @contextmanager
    def guard() -> Iterator[None]:
        if len(seen) == 2:
            raise ModelError("guard", "not now", retryable=True)
        try:
            yield
        except BaseException as error:
            seen.append(error)
            raise
        seen.append(None)

    async def fail(_: str) -> None:
        raise TimeoutError("the client disconnected")

    async with peer(status(503), stream("好"), stream("好")) as server:
        model = open_model(server.model, base_url=server.base_url, limits=QUICK, guard=guard)
        await model.answer(QUESTION)
        with pytest.raises(TimeoutError):
            await model.answer(QUESTION, on_token=fail)
        with pytest.raises(ModelError, match="not now"):
            await model.answer(QUESTION)
    assert [str(error) for error in seen] == ["None", "the client disconnected"]
    assert len(server.requests) == 3


async def test_no_attempt_starts_after_the_first_token_timeout() -> None:
    """The longest wait for the first text, however many attempts there are."""
    async with peer(silence, stream("好")) as model:
        limits = ModelLimits(first_token_seconds=0.1, attempts=3, backoff_seconds=0.01)
        with pytest.raises(ModelError, match="no text"):
            await model.open(limits).answer(QUESTION)
    assert len(model.requests) == 1


async def test_another_server_does_not_get_the_key_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A base URL without a key gets requests without one, whatever the environment has."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-operators-own")
    async with peer(stream("好")) as model:
        await model.open().answer(QUESTION)
    assert "sk-the-operators-own" not in model.headers[0]


def test_an_invalid_model_name_is_rejected() -> None:
    """The form is provider:model, and LangChain must know the provider."""
    for name in ("gpt-5-mini", "openai:", ":x", "no-such-provider:x"):
        with pytest.raises(InvalidInput, match="model"):
            open_model(name)


def test_a_provider_whose_package_is_missing_names_what_to_install() -> None:
    """LangChain knows the provider, its package is not installed."""
    with pytest.raises(MissingExtra, match="pip install langchain-fireworks"):
        open_model("fireworks:x")


def test_a_missing_key_is_a_model_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's message names the missing variable."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        open_model("openai:gpt-5-mini")


async def test_tokens_of_a_model_without_usage_or_tokenizer_are_estimated() -> None:
    """Any LangChain model may be passed in; one with a tokenizer counts with it."""
    plain = EndingModel(messages=iter([AIMessage("第一条 是 孝亲")]))
    assert (await ChatModel("own", plain).answer(QUESTION)).text == "第一条 是 孝亲"
    assert ChatModel("own", plain).count_tokens("孝亲") == estimate_tokens("孝亲")
    exact = GenericFakeChatModel(messages=iter([]), custom_get_token_ids=lambda text: list(range(len(text))))
    assert ChatModel("own", exact).count_tokens("abcdefghijkl") == 12
