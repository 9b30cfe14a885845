"""Any LangChain chat model by name, with timeouts, retries and size limits.

A model is named ``provider:model``: ``openai:gpt-5-mini``, ``anthropic:claude-sonnet-4-5``, ``ollama:qwen3``.
A server that speaks OpenAI's protocol is ``openai:<its model>`` with a ``base_url``.

Model clients retry by themselves, for minutes by default. Here their retries are off, and three timeouts apply: to
the first text, between two pieces, and for the whole call. A failed attempt is retried only while nothing of an
answer has been delivered.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from typing import TYPE_CHECKING, Any, cast

from wenmai.errors import ModelError
from wenmai.providers.accumulator import ResponseAccumulator
from wenmai.providers.call import Call, ModelLimits, ModelReply, OnToken, PromptMessage
from wenmai.providers.chunks import Chunks
from wenmai.providers.errors import import_extra, provider_package_errors, provider_setup_errors, split_name
from wenmai.providers.http import bounded_client
from wenmai.providers.pricing import CallUsage, OnUsage, Price
from wenmai.text.tokens import estimate_tokens

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk

__all__ = ["ChatModel", "ModelLimits", "ModelReply", "OnToken", "PromptMessage", "open_model"]

Guard = Callable[[], AbstractContextManager[object]]
"""Opens a context around a whole call, such as a circuit breaker's; rejects the call by raising a ModelError."""

_CLOSING_SECONDS = 0.5
_REASON_SHOWN = 40
_ANSWER_TOKEN_FIELDS = ("max_tokens", "max_output_tokens", "num_predict")
"""Names of the answer's token limit in LangChain's providers."""

_MESSAGE_OVERHEAD = 4
"""Estimated tokens for a message's role and markers in common chat formats."""


class ChatModel:
    """A LangChain chat model behind limits.

    Args:
        name: of the model, for errors and traces.
        model: the LangChain model; its own retries should be off.
        limits: see :class:`ModelLimits`.
        price: None if unknown.
        guard: around each call with all its attempts, such as a circuit breaker.
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
        # Only some providers have this option; others would send it to their server.
        self._options: dict[str, Any] = {"stream_usage": True} if "stream_usage" in type(model).model_fields else {}

    async def answer(
        self,
        messages: Sequence[PromptMessage],
        *,
        on_token: OnToken | None = None,
        on_usage: OnUsage | None = None,
    ) -> ModelReply:
        """Call the model; streams the answer to ``on_token`` if given.

        The reply's tokens are those of the successful attempt; ``on_usage`` is called for every attempt.

        Cancelling the call closes the connection. An exception of ``on_token`` propagates unchanged, and closes it
        too.

        Raises:
            ModelError: no complete answer; ``retryable`` says whether a retry may help. Pieces may have been
                delivered before.
        """
        call = Call(messages, on_token, on_usage, self._limits)
        with self._guard():
            return await self._attempts(call)

    def count_tokens(self, text: str) -> int:
        """The number of tokens of the text for this model.

        Exact if the LangChain model carries its own tokenizer (``custom_get_token_ids``), else an estimate:
        the other counters of LangChain download a vocabulary or ask a server.
        """
        tokenizer = self._model.custom_get_token_ids
        return estimate_tokens(text) if tokenizer is None else len(tokenizer(text))

    async def close(self) -> None:
        """Close the connections. Abandoned reads get a moment to end."""
        if self._reading:
            for task in self._reading:
                task.cancel()
            await asyncio.wait(self._reading, timeout=_CLOSING_SECONDS)
        await self._connections.aclose()

    async def _attempts(self, call: Call) -> ModelReply:
        """The reply of the first successful attempt; raises the last error if there is none."""
        attempt = 1
        while True:
            try:
                return await self._attempt(call)
            except ModelError as failure:
                mean = self._limits.backoff_seconds * 2 ** (attempt - 1)
                pause = max(mean * random.uniform(0.5, 1.5), failure.retry_after or 0.0)  # noqa: S311 - jitter
                given_up = attempt >= self._limits.attempts or time.monotonic() + pause >= call.first_text_deadline
                if given_up or call.delivered or not failure.retryable:
                    raise
            await asyncio.sleep(pause)
            attempt += 1

    async def _attempt(self, call: Call) -> ModelReply:
        received = ResponseAccumulator(self._limits.answer_characters)
        # An async generator, contrary to its declared type.
        stream = cast("Any", self._model.astream(call.prompt, **self._options))
        try:
            async with Chunks(self.name, stream, self._reading) as chunks:
                while not received.full and (chunk := await self._next(call, received, chunks)) is not None:
                    piece = received.add(chunk)
                    if piece and call.on_token is not None:
                        await self._deliver(call, piece)
        finally:
            if received.has_output and call.on_usage is not None:
                call.on_usage(self._usage(call, received))
        self._check_complete(received)
        return self._reply(call, received)

    async def _next(self, call: Call, received: ResponseAccumulator, chunks: Chunks) -> "AIMessageChunk | None":
        """The next chunk within the timeouts; that of the whole call is checked before each one."""
        limits = self._limits
        text_deadline = time.monotonic() + limits.idle_seconds if received.has_text else call.first_text_deadline
        try:
            return await chunks.next(min(text_deadline, call.deadline))
        except TimeoutError as late:
            if call.deadline <= text_deadline:
                raise self._timeout_error("no complete answer", limits.timeout_seconds) from late
            if received.has_text:
                raise self._timeout_error("the answer stopped: nothing more", limits.idle_seconds) from late
            raise self._timeout_error("no text", limits.first_token_seconds) from late

    async def _deliver(self, call: Call, piece: str) -> None:
        assert call.on_token is not None  # noqa: S101 — see the caller
        call.delivered = True
        reading = asyncio.timeout(call.deadline - time.monotonic())
        try:
            async with reading:
                await call.on_token(piece)
        except TimeoutError as late:
            if not reading.expired():
                raise
            # A slow consumer is not a model failure.
            reason = f"the reader had not taken the answer after {self._limits.timeout_seconds:g} s"
            raise ModelError(self.name, reason) from late

    def _check_complete(self, received: ResponseAccumulator) -> None:
        """Reject failed answers, and answers without a finish reason, which may be incomplete."""
        if received.filtered:
            raise ModelError(self.name, f"the answer was withheld: {received.finish_reason[:_REASON_SHOWN]}")
        if received.failed:
            raise ModelError(self.name, "the answer ended in an error", retryable=True)
        if not received.has_text:
            raise ModelError(self.name, "the answer is empty", retryable=True)
        if not received.finish_reason and not received.full:
            raise ModelError(self.name, "the answer broke off: no finish_reason", retryable=True)

    def _timeout_error(self, what: str, seconds: float) -> ModelError:
        return ModelError(self.name, f"{what} within {seconds:g} s", retryable=True)

    def _reply(self, call: Call, received: ResponseAccumulator) -> ModelReply:
        usage = self._usage(call, received)
        return ModelReply(
            text=received.text,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=usage.cost_usd,
            finish_reason=received.finish_reason,
            cut_off=received.cut_off,
            estimated=usage.estimated,
            priced=self._price is not None,
        )

    def _usage(self, call: Call, received: ResponseAccumulator) -> CallUsage:
        prompt, completion = received.prompt_tokens, received.completion_tokens
        if not prompt:
            prompt = sum(self.count_tokens(each.content) + _MESSAGE_OVERHEAD for each in call.messages)
        if not completion:
            # An answer that broke off usually lacks its token count.
            completion = self.count_tokens(received.text)
        return CallUsage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost_usd=self._price.cost_usd(prompt, completion) if self._price else 0.0,
            estimated=(prompt, completion) != (received.prompt_tokens, received.completion_tokens),
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
    """A chat model by its LangChain name; sends no request yet.

    Args:
        name: ``provider:model``.
        base_url: another server than the provider's. It gets ``api_key`` or none, never one from the environment.
        api_key: by default the provider's own environment variable, ``OPENAI_API_KEY`` for example.
        limits: see :class:`ModelLimits`.
        temperature: omitted for models that allow only one.
        answer_tokens: the provider's limit of an answer, where it supports one; 0 for none.
        price: None if unknown.
        guard: see :class:`ChatModel`.

    Raises:
        InvalidInput: the name has another form, or LangChain does not know the provider.
        MissingExtra: the provider's package is not installed.
        ModelError: the provider rejects the settings, usually for a missing API key.
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
    with provider_setup_errors(name), provider_package_errors("model", name, provider):
        model = factory.init_chat_model(model_name, model_provider=provider, **options)
    if answer_tokens:
        _limit_answers(model, answer_tokens)
    return ChatModel(name, model, limits=limits, price=price, guard=guard, connections=connections)


def _limit_answers(model: "BaseChatModel", tokens: int) -> None:
    for field in _ANSWER_TOKEN_FIELDS:
        if field in type(model).model_fields:
            setattr(model, field, tokens)
            return
