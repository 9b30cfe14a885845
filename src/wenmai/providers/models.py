"""Any LangChain chat model by name, asked within bounds.

A model is named ``provider:model``: ``openai:gpt-5-mini``, ``anthropic:claude-sonnet-4-5``, ``ollama:qwen3``.
A server that speaks OpenAI's protocol is ``openai:<its model>`` with a ``base_url``.

Clients of models retry by themselves, for minutes if they are left to it. Here their retries are off, and
three limits hold: until the first text, between two pieces, and in all. A failed attempt is repeated only
while nothing of an answer has been handed out.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from wenmai.errors import ModelError
from wenmai.providers.edge import import_extra, provider_errors, provider_package, split_name
from wenmai.providers.pricing import Consumption, OnConsumed, Price
from wenmai.text.tokens import estimate_tokens

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk

OnToken = Callable[[str], Awaitable[None]]
"""Receives the answer piece by piece, in order."""

Guard = Callable[[], AbstractContextManager[object]]
"""Opens a context around a whole call and sees how it ends; it may refuse the call by raising a ModelError."""

_MESSAGE_OVERHEAD = 4
"""Tokens that a chat format spends on each message's role and markers; about right for the common ones."""


class PromptMessage(msgspec.Struct, frozen=True):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class ModelLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call may take and how often the model is asked.

    Attributes:
        timeout_seconds: the whole call, all attempts, pauses and ``on_token`` included.
        first_token_seconds: from the call to the first text of the answer; no attempt begins after it.
        idle_seconds: from one piece of the answer to the next.
        attempts: how often the model is asked at most; 1 means no retry.
        backoff_seconds: the mean pause before the second attempt; each further one is twice as long. A pause
            is drawn evenly from 0.5 to 1.5 times its mean: callers who failed together return apart.
    """

    timeout_seconds: float = 60.0
    first_token_seconds: float = 20.0
    idle_seconds: float = 15.0
    attempts: int = 2
    backoff_seconds: float = 0.5


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer.

    Attributes:
        cost_usd: 0 if the price is not known, see ``priced``.
        finish_reason: the provider's word, most often ``stop`` or ``length``; empty if it gave none.
        estimated: True if the provider did not say how many tokens there were.
        priced: True if the price of the model was stated.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    finish_reason: str
    estimated: bool
    priced: bool


class ChatModel:
    """A LangChain chat model behind limits.

    Args:
        name: names the model in errors and traces.
        model: the LangChain model; its own retries should be off.
        limits: see :class:`ModelLimits`.
        price: None if it is not known.
        guard: around each call, all its attempts together, such as a circuit breaker's.
    """

    def __init__(
        self,
        name: str,
        model: "BaseChatModel",
        *,
        limits: ModelLimits | None = None,
        price: Price | None = None,
        guard: Guard = nullcontext,
    ) -> None:
        self.name = name
        self._guard = guard
        self._model = model
        self._limits = limits or ModelLimits()
        self._price = price
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
        limits = self._limits
        call = _Call(messages, on_token, on_consumed, asyncio.get_running_loop().time() + limits.first_token_seconds)
        whole = asyncio.timeout(limits.timeout_seconds)
        with self._guard():
            try:
                async with whole:
                    return await self._attempts(call)
            except TimeoutError as late:
                if not whole.expired():
                    raise
                raise self._too_long(call) from late

    def count_tokens(self, text: str) -> int:
        """How many tokens the text has for this model.

        Exact if the LangChain model carries its own tokenizer (``custom_get_token_ids``), else an estimate:
        the other counters of LangChain download a vocabulary or ask a server.
        """
        tokenizer = self._model.custom_get_token_ids
        return estimate_tokens(text) if tokenizer is None else len(tokenizer(text))

    async def _attempts(self, call: "_Call") -> ModelReply:
        """The first reply that succeeds; the last error if none does."""
        loop = asyncio.get_running_loop()
        attempt = 1
        while True:
            try:
                return await self._attempt(call)
            except ModelError as failure:
                mean = self._limits.backoff_seconds * 2 ** (attempt - 1)
                pause = mean * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
                given_up = attempt >= self._limits.attempts or loop.time() + pause >= call.first_text_by
                if given_up or call.handed_out or not failure.retryable:
                    raise
            await asyncio.sleep(pause)
            attempt += 1

    async def _attempt(self, call: "_Call") -> ModelReply:
        loop = asyncio.get_running_loop()
        tally = _Tally()
        patience = asyncio.timeout_at(call.first_text_by)
        try:
            async with patience, aclosing(self._chunks(call)) as chunks:
                async for chunk in chunks:
                    piece = tally.add(chunk)
                    if piece and call.on_token is not None:
                        # A slow reader is not a slow model.
                        patience.reschedule(None)
                        call.handed_out = call.reading = True
                        await call.on_token(piece)
                        call.reading = False
                    if tally.pieces:
                        patience.reschedule(loop.time() + self._limits.idle_seconds)
        except TimeoutError as late:
            if not patience.expired():
                raise
            if tally.pieces:
                raise self._late("the answer stopped: nothing more", self._limits.idle_seconds) from late
            raise self._late("no text", self._limits.first_token_seconds) from late
        finally:
            if tally.brought_anything and call.on_consumed is not None:
                call.on_consumed(self._consumption(call, tally))
        if not tally.pieces:
            raise ModelError(self.name, "the answer is empty", retryable=True)
        return self._reply(call, tally)

    async def _chunks(self, call: "_Call") -> "AsyncGenerator[AIMessageChunk]":
        prompt = [(message.role, message.content) for message in call.messages]
        # An async generator, which its declared type does not say.
        stream = cast("Any", self._model.astream(prompt, **self._options))
        async with aclosing(stream):
            while True:
                with provider_errors(self.name):
                    chunk = await anext(stream, None)
                if chunk is None:
                    return
                yield chunk

    def _too_long(self, call: "_Call") -> ModelError:
        """The whole call took too long; while the reader has a piece it is not the model that is waited for."""
        if call.reading:
            reason = f"the reader had not taken the answer after {self._limits.timeout_seconds:g} s"
            return ModelError(self.name, reason)
        return self._late("no complete answer", self._limits.timeout_seconds)

    def _late(self, what: str, seconds: float) -> ModelError:
        return ModelError(self.name, f"{what} within {seconds:g} s", retryable=True)

    def _reply(self, call: "_Call", tally: "_Tally") -> ModelReply:
        consumed = self._consumption(call, tally)
        return ModelReply(
            text=tally.text,
            prompt_tokens=consumed.prompt_tokens,
            completion_tokens=consumed.completion_tokens,
            cost_usd=consumed.cost_usd,
            finish_reason=tally.finish_reason,
            estimated=consumed.estimated,
            priced=self._price is not None,
        )

    def _consumption(self, call: "_Call", tally: "_Tally") -> Consumption:
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
        price: None if it is not known.
        guard: see :class:`ChatModel`.

    Raises:
        InvalidInput: the name is not of that form, or LangChain knows no such provider.
        MissingExtra: the provider's package is not installed.
        ModelError: the provider refuses the settings; most often it has no API key.
    """
    provider, model_name = split_name("model", name)
    factory = import_extra("langchain.chat_models", package="langchain", extra="openai")
    options: dict[str, object] = {"temperature": temperature, "max_retries": 0}
    if base_url is not None:
        options |= {"base_url": base_url, "api_key": api_key or "none"}
    elif api_key is not None:
        options["api_key"] = api_key
    with provider_errors(name), provider_package("model", name, provider):
        model = factory.init_chat_model(model_name, model_provider=provider, **options)
    return ChatModel(name, model, limits=limits, price=price, guard=guard)


class _Call:
    """What a call carries through its attempts."""

    def __init__(
        self,
        messages: Sequence[PromptMessage],
        on_token: OnToken | None,
        on_consumed: OnConsumed | None,
        first_text_by: float,
    ) -> None:
        self.messages = messages
        self.on_token = on_token
        self.on_consumed = on_consumed
        self.first_text_by = first_text_by
        self.handed_out = False
        self.reading = False


class _Tally:
    """What an attempt has received so far."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.finish_reason = ""

    @property
    def text(self) -> str:
        """The pieces joined."""
        return "".join(self.pieces)

    @property
    def brought_anything(self) -> bool:
        """Whether there was a piece or a count of tokens."""
        return bool(self.pieces or self.prompt_tokens or self.completion_tokens)

    def add(self, chunk: "AIMessageChunk") -> str:
        """Take in a chunk; its text, often empty. LangChain makes chunks to be summed, their usage too."""
        piece = str(chunk.text)
        if piece:
            self.pieces.append(piece)
        if chunk.usage_metadata is not None:
            self.prompt_tokens += chunk.usage_metadata["input_tokens"]
            self.completion_tokens += chunk.usage_metadata["output_tokens"]
        metadata = chunk.response_metadata
        reason = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason")
        self.finish_reason = str(reason) if reason else self.finish_reason
        return piece
