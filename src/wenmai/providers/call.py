"""The values of a model call: prompt, limits, reply."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from wenmai.providers.pricing import OnUsage

OnToken = Callable[[str], Awaitable[None]]
"""Receives the answer in pieces, in order."""


class PromptMessage(msgspec.Struct, frozen=True):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class ModelLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts, retries and the size limit of a call.

    Attributes:
        timeout_seconds: of the whole call, including all attempts, backoff and ``on_token``.
        first_token_seconds: from the call to the first text of the answer; no attempt starts after it.
        idle_seconds: from one piece of the answer to the next.
        attempts: most attempts; 1 means no retry.
        backoff_seconds: the mean backoff before the second attempt; it doubles for each further one. Jitter draws
            the backoff uniformly from 0.5 to 1.5 times its mean. A longer ``Retry-After`` of the provider is followed.
        answer_characters: the answer is cut off after so many.
    """

    timeout_seconds: float = 60.0
    first_token_seconds: float = 20.0
    idle_seconds: float = 15.0
    attempts: int = 2
    backoff_seconds: float = 0.5
    answer_characters: int = 16_000


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer.

    Attributes:
        cost_usd: 0 if the price is unknown, see ``priced``.
        finish_reason: as the provider states it, usually ``stop`` or ``length``; empty if the answer was cut off here.
        cut_off: True if it ended at a length limit; its last sentence may be incomplete.
        estimated: True if the provider did not report its token counts.
        priced: True if the model's price is configured.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    finish_reason: str
    cut_off: bool
    estimated: bool
    priced: bool


class Call:
    """The state of a call across its attempts; deadlines are times of ``time.monotonic``."""

    def __init__(
        self,
        messages: Sequence[PromptMessage],
        on_token: OnToken | None,
        on_usage: OnUsage | None,
        limits: ModelLimits,
    ) -> None:
        now = time.monotonic()
        self.messages = messages
        self.prompt: list[tuple[str, str]] = [(message.role, message.content) for message in messages]
        self.on_token = on_token
        self.on_usage = on_usage
        self.first_text_deadline: float = now + limits.first_token_seconds
        self.deadline: float = now + limits.timeout_seconds
        self.delivered = False
