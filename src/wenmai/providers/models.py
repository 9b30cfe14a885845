"""Any LangChain chat model by name, asked within bounds.

A model is named ``provider:model``: ``openai:gpt-5-mini``, ``anthropic:claude-sonnet-4-5``, ``ollama:qwen3``.
A server that speaks OpenAI's protocol is ``openai:<its model>`` with a ``base_url``.

Clients of models retry by themselves, for minutes if they are left to it. Here their retries are off, and
three limits hold: until the first text, between two pieces, and in all. A failed attempt is repeated only
while nothing of an answer has been handed out.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from typing import TYPE_CHECKING, Any, cast

from wenmai.errors import ModelError
from wenmai.providers.call import Call, ModelLimits, ModelReply, OnToken, PromptMessage
from wenmai.providers.chunks import Chunks
from wenmai.providers.edge import import_extra, provider_package, provider_settings, split_name
from wenmai.providers.http import bounded_client
from wenmai.providers.pricing import Consumption, OnConsumed, Price
from wenmai.providers.tally import Tally
from wenmai.text.tokens import estimate_tokens

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk

__all__ = ["ChatModel", "ModelLimits", "ModelReply", "OnToken", "PromptMessage", "open_model"]

Guard = Callable[[], AbstractContextManager[object]]
"""Opens a context around a whole call and sees how it ends; it may refuse the call by raising a ModelError."""

_CLOSING_SECONDS = 0.5
_REASON_SHOWN = 40
_ANSWER_TOKEN_FIELDS = ("max_tokens", "max_output_tokens", "num_predict")
"""How the models of LangChain's providers call the limit on the answer's tokens."""

_MESSAGE_OVERHEAD = 4
"""Tokens that a chat format spends on each message's role and markers; about right for the common ones."""


class ChatModel:
    """A LangChain chat model behind limits.

    Args:
        name: names the model in errors and traces.
        model: the LangChain model; its own retries should be off.
        limits: see :class:`ModelLimits`.
        price: None if it is not known.
        guard: around each call, all its attempts together, such as a circuit breaker's.
        connections: closed by :meth:`close`.
    """

    def __init__(
        self,
        name: str,
        model: "BaseChatModel",
        *,
        limits: ModelLimits | None = None,
        price: Price | None = None,
        guard: Guard = nullcontext,
        connections: AsyncExitStack | None = None,
    ) -> None:
        self.name = name
        self._guard = guard
        self._model = model
        self._limits = limits or ModelLimits()
        self._price = price
        self._reading: set[asyncio.Task[None]] = set()
        self._connections = AsyncExitStack() if connections is None else connections
        # Only some providers know the switch; the others would send it to their server.
        self._options: dict[str, Any] = {"stream_usage": True} if "stream_usage" in type(model).model_fields else {}

    async def answer(
        self,
        messages: Sequence[PromptMessage],
        *,
        on_token: OnToken | None = None,
        on_consumed: OnConsumed | None = None,
    ) -> ModelReply:
        """Ask the model, and hand out the answer piece by piece if ``on_token`` is given.

        The reply's tokens are those of the attempt that succeeded; ``on_consumed`` hears of all.

        Cancelling the call closes the connection. What ``on_token`` raises is passed on as it is, and closes
        it too.

        Raises:
            ModelError: no complete answer; ``retryable`` tells whether another call may help. Pieces may have
                been handed out before.
        """
        call = Call(messages, on_token, on_consumed, self._limits)
        with self._guard():
            return await self._attempts(call)

    def count_tokens(self, text: str) -> int:
        """How many tokens the text has for this model.

        Exact if the LangChain model carries its own tokenizer (``custom_get_token_ids``), else an estimate:
        the other counters of LangChain download a vocabulary or ask a server.
        """
        tokenizer = self._model.custom_get_token_ids
        return estimate_tokens(text) if tokenizer is None else len(tokenizer(text))

    async def close(self) -> None:
        """Close the connections. A read that a call has abandoned gets a moment to end."""
        if self._reading:
            for task in self._reading:
                task.cancel()
            await asyncio.wait(self._reading, timeout=_CLOSING_SECONDS)
        await self._connections.aclose()

    async def _attempts(self, call: Call) -> ModelReply:
        """The first reply that succeeds; the last error if none does."""
        attempt = 1
        while True:
            try:
                return await self._attempt(call)
            except ModelError as failure:
                mean = self._limits.backoff_seconds * 2 ** (attempt - 1)
                pause = max(mean * random.uniform(0.5, 1.5), failure.retry_after or 0.0)  # noqa: S311 - jitter
                given_up = attempt >= self._limits.attempts or time.monotonic() + pause >= call.first_text_by
                if given_up or call.handed_out or not failure.retryable:
                    raise
            await asyncio.sleep(pause)
            attempt += 1

    async def _attempt(self, call: Call) -> ModelReply:
        tally = Tally(self._limits.answer_characters)
        # An async generator, which its declared type does not say.
        stream = cast("Any", self._model.astream(call.prompt, **self._options))
        try:
            async with Chunks(self.name, stream, self._reading) as chunks:
                while not tally.full and (chunk := await self._next(call, tally, chunks)) is not None:
                    piece = tally.add(chunk)
                    if piece and call.on_token is not None:
                        await self._hand_out(call, piece)
        finally:
            if tally.brought_anything and call.on_consumed is not None:
                call.on_consumed(self._consumption(call, tally))
        self._refuse_broken(tally)
        return self._reply(call, tally)

    async def _next(self, call: Call, tally: Tally, chunks: Chunks) -> "AIMessageChunk | None":
        """The next chunk within the limits; the whole call's is looked at before each one."""
        limits = self._limits
        patience = time.monotonic() + limits.idle_seconds if tally.has_text else call.first_text_by
        try:
            return await chunks.next(min(patience, call.ends_at))
        except TimeoutError as late:
            if call.ends_at <= patience:
                raise self._late("no complete answer", limits.timeout_seconds) from late
            if tally.has_text:
                raise self._late("the answer stopped: nothing more", limits.idle_seconds) from late
            raise self._late("no text", limits.first_token_seconds) from late

    async def _hand_out(self, call: Call, piece: str) -> None:
        assert call.on_token is not None  # noqa: S101 — see the caller
        call.handed_out = True
        reading = asyncio.timeout(call.ends_at - time.monotonic())
        try:
            async with reading:
                await call.on_token(piece)
        except TimeoutError as late:
            if not reading.expired():
                raise
            # A slow reader is not a slow model.
            reason = f"the reader had not taken the answer after {self._limits.timeout_seconds:g} s"
            raise ModelError(self.name, reason) from late

    def _refuse_broken(self, tally: Tally) -> None:
        """An answer whose end was not stated may be half of one, however it ended."""
        if tally.filtered:
            raise ModelError(self.name, f"the answer was withheld: {tally.finish_reason[:_REASON_SHOWN]}")
        if tally.failed:
            raise ModelError(self.name, "the answer ended in an error", retryable=True)
        if not tally.has_text:
            raise ModelError(self.name, "the answer is empty", retryable=True)
        if not tally.finish_reason and not tally.full:
            raise ModelError(self.name, "the answer broke off: no finish_reason", retryable=True)

    def _late(self, what: str, seconds: float) -> ModelError:
        return ModelError(self.name, f"{what} within {seconds:g} s", retryable=True)

    def _reply(self, call: Call, tally: Tally) -> ModelReply:
        consumed = self._consumption(call, tally)
        return ModelReply(
            text=tally.text,
            prompt_tokens=consumed.prompt_tokens,
            completion_tokens=consumed.completion_tokens,
            cost_usd=consumed.cost_usd,
            finish_reason=tally.finish_reason,
            cut_off=tally.cut_off,
            estimated=consumed.estimated,
            priced=self._price is not None,
        )

    def _consumption(self, call: Call, tally: Tally) -> Consumption:
        prompt, completion = tally.prompt_tokens, tally.completion_tokens
        if not prompt:
            prompt = sum(self.count_tokens(each.content) + _MESSAGE_OVERHEAD for each in call.messages)
        if not completion:
            # An answer that broke off has most often come without its count.
            completion = self.count_tokens(tally.text)
        return Consumption(
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost_usd=self._price.cost_usd(prompt, completion) if self._price else 0.0,
            estimated=(prompt, completion) != (tally.prompt_tokens, tally.completion_tokens),
        )


def open_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    limits: ModelLimits | None = None,
    temperature: float = 0.2,
    answer_tokens: int = 4096,
    price: Price | None = None,
    guard: Guard = nullcontext,
) -> ChatModel:
    """A chat model by its LangChain name; nothing is asked of its server yet.

    Args:
        name: ``provider:model``.
        base_url: another server than the provider's. It gets ``api_key`` or none, never one from the
            environment.
        api_key: by default the provider's own environment variable, ``OPENAI_API_KEY`` for example.
        limits: see :class:`ModelLimits`.
        temperature: left out for models that allow one only.
        answer_tokens: after so many the provider ends the answer, where it takes such a limit; 0 states none.
        price: None if it is not known.
        guard: see :class:`ChatModel`.

    Raises:
        InvalidInput: the name is not of that form, or LangChain knows no such provider.
        MissingExtra: the provider's package is not installed.
        ModelError: the provider refuses the settings; most often it has no API key.
    """
    provider, model_name = split_name("model", name)
    factory = import_extra("langchain.chat_models", package="langchain", extra="openai")
    connections = AsyncExitStack()
    options: dict[str, object] = {"temperature": temperature, "max_retries": 0}
    options |= bounded_client(provider, connections)
    if base_url is not None:
        options |= {"base_url": base_url, "api_key": api_key or "none"}
    elif api_key is not None:
        options["api_key"] = api_key
    with provider_settings(name), provider_package("model", name, provider):
        model = factory.init_chat_model(model_name, model_provider=provider, **options)
    if answer_tokens:
        _limit_answers(model, answer_tokens)
    return ChatModel(name, model, limits=limits, price=price, guard=guard, connections=connections)


def _limit_answers(model: "BaseChatModel", tokens: int) -> None:
    for field in _ANSWER_TOKEN_FIELDS:
        if field in type(model).model_fields:
            setattr(model, field, tokens)
            return
