"""Prices and usage of model calls. Prices change, so the operator configures them; there is no price table here."""

from collections.abc import Callable
from typing import Annotated

import msgspec

_Dollars = Annotated[float, msgspec.Meta(ge=0)]

_MILLION = 1_000_000


class Price(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"prompt_per_million": "prompt", "completion_per_million": "completion"},
):
    """A model's price in US dollars per million tokens; ``prompt`` and ``completion`` in configuration files."""

    prompt_per_million: _Dollars
    completion_per_million: _Dollars

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The cost of one call in US dollars."""
        return (prompt_tokens * self.prompt_per_million + completion_tokens * self.completion_per_million) / _MILLION


class CallUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Token usage and cost of one attempt.

    Attributes:
        cost_usd: 0 if the price is unknown.
        estimated: True if the provider did not report its token counts.
    """

    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    estimated: bool


OnUsage = Callable[[CallUsage], None]
"""Called at the end of each attempt that produced text or usage, including failed and cancelled ones."""
