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
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from wenmai.errors import ModelError
from wenmai.providers.edge import import_extra, provider_errors, provider_package, split_name
from wenmai.providers.pricing import Price
from wenmai.text.tokens import estimate_tokens

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk

OnToken = Callable[[str], Awaitable[None]]
"""Receives the answer piece by piece, in order."""

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
    """

    def __init__(
        self,
        name: str,
        model: "BaseChatModel",
        *,
        limits: ModelLimits | None = None,
        price: Price | None = None,
    ) -> None:
        self.name = name
        self._model = model
        self._limits = limits or ModelLimits()
        self._price = price
        # Only some providers know the switch; the others would send it to their server.
        self._options: dict[str, Any] = {"stream_usage": True} if "stream_usage" in type(model).model_fields else {}

    async def answer(self, messages: Sequence[PromptMessage], *, on_token: OnToken | None = None) -> ModelReply:
        """Ask the model, and hand out the answer piece by piece if ``on_token`` is given.

        Cancelling the call closes the connection. What ``on_token`` raises is passed on as it is, and closes
        it too.

        Raises:
            ModelError: no complete answer; ``retryable`` tells whether another call may help. Pieces may have
                been handed out before.
        """
        limits = self._limits
        call = _Call(messages, on_token, asyncio.get_running_loop().time() + limits.first_token_seconds)
        whole = asyncio.timeout(limits.timeout_seconds)
        try:
            async with whole:
                return await self._attempts(call)
        except TimeoutError as late:
            if not whole.expired():
                raise
            raise self._late("no complete answer", limits.timeout_seconds) from late

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
                        call.handed_out = True
                        await call.on_token(piece)
                    if tally.pieces:
                        patience.reschedule(loop.time() + self._limits.idle_seconds)
        except TimeoutError as late:
            if not patience.expired():
                raise
            if tally.pieces:
                raise self._late("the answer stopped: nothing more", self._limits.idle_seconds) from late
            raise self._late("no text", self._limits.first_token_seconds) from late
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

    def _late(self, what: str, seconds: float) -> ModelError:
        return ModelError(self.name, f"{what} within {seconds:g} s", retryable=True)

    def _reply(self, call: "_Call", tally: "_Tally") -> ModelReply:
        text = "".join(tally.pieces)
        prompt, completion = tally.prompt_tokens, tally.completion_tokens
        estimated = prompt == 0 and completion == 0
        if estimated:
            prompt = sum(self.count_tokens(each.content) + _MESSAGE_OVERHEAD for each in call.messages)
            completion = self.count_tokens(text)
        return ModelReply(
            text=text,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost_usd=self._price.cost_usd(prompt, completion) if self._price else 0.0,
            finish_reason=tally.finish_reason,
            estimated=estimated,
            priced=self._price is not None,
        )


def open_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    limits: ModelLimits | None = None,
    temperature: float = 0.2,
    price: Price | None = None,
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
    return ChatModel(name, model, limits=limits, price=price)


class _Call:
    """What a call carries through its attempts."""

    def __init__(self, messages: Sequence[PromptMessage], on_token: OnToken | None, first_text_by: float) -> None:
        self.messages = messages
        self.on_token = on_token
        self.first_text_by = first_text_by
        self.handed_out = False


class _Tally:
    """What an attempt has received so far."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.finish_reason = ""

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
