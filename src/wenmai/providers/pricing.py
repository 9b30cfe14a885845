"""What a model call costs. Prices change and are the operator's to state: there is no table of them here."""

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
    """A model's price in US dollars per million tokens; ``prompt`` and ``completion`` in a file."""

    prompt_per_million: _Dollars
    completion_per_million: _Dollars

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The price of one call in US dollars."""
        return (prompt_tokens * self.prompt_per_million + completion_tokens * self.completion_per_million) / _MILLION


class Consumption(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt at an answer used, as far as it is known.

    Attributes:
        cost_usd: 0 if the price is not known.
        estimated: True if the provider did not say how many tokens there were.
    """

    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    estimated: bool


OnConsumed = Callable[[Consumption], None]
"""Is told of each attempt that brought anything, when it ends: one that failed or was cancelled too."""
