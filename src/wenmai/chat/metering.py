"""Sums up the usage of the model calls of one turn."""

from wenmai.providers.pricing import CallUsage
from wenmai.stores.records import TokenUsage


class UsageMeter:
    """Adds up the usage of all attempts; passed to a model as its ``on_usage``."""

    def __init__(self) -> None:
        self.usage: TokenUsage = TokenUsage()
        self._recorded = False

    def __call__(self, usage: CallUsage) -> None:
        """Add one attempt."""
        self.usage += TokenUsage(
            calls=1,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=usage.cost_usd,
        )

    def take(self) -> TokenUsage:
        """The usage to record: the sum on the first call, nothing afterwards."""
        usage = TokenUsage() if self._recorded else self.usage
        self._recorded = True
        return usage
