"""What a model is asked, within which limits, and what it replies."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from wenmai.providers.pricing import OnConsumed

OnToken = Callable[[str], Awaitable[None]]
"""Receives the answer piece by piece, in order."""


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
            is drawn evenly from 0.5 to 1.5 times its mean: callers who failed together return apart. It is as long
            as the provider asks for in ``Retry-After``, if that is longer.
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
        cost_usd: 0 if the price is not known, see ``priced``.
        finish_reason: the provider's word, most often ``stop`` or ``length``; empty if the answer was cut off here.
        cut_off: True if it ended at a limit of length; its last sentence may be unfinished.
        estimated: True if the provider did not say how many tokens there were.
        priced: True if the price of the model was stated.
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
    """What a call carries through its attempts; moments are of ``time.monotonic``."""

    def __init__(
        self,
        messages: Sequence[PromptMessage],
        on_token: OnToken | None,
        on_consumed: OnConsumed | None,
        limits: ModelLimits,
    ) -> None:
        now = time.monotonic()
        self.messages = messages
        self.prompt = [(message.role, message.content) for message in messages]
        self.on_token = on_token
        self.on_consumed = on_consumed
        self.first_text_by = now + limits.first_token_seconds
        self.ends_at = now + limits.timeout_seconds
        self.handed_out = False
