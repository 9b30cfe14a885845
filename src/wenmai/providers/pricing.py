"""What a model call costs. Prices change and are the operator's to state: there is no table of them here."""

import msgspec

_MILLION = 1_000_000


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """A model's price in US dollars per million tokens."""

    prompt_per_million: float
    completion_per_million: float

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The price of one call in US dollars."""
        return (prompt_tokens * self.prompt_per_million + completion_tokens * self.completion_per_million) / _MILLION
