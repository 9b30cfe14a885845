"""What model calls use, on its way from the model to whoever pays."""

from wenmai.memory.usage import Spent
from wenmai.providers.pricing import Consumption


class Meter:
    """Adds up what the attempts at an answer use; given to a model as its ``on_consumed``."""

    def __init__(self) -> None:
        self.spent = Spent()

    def __call__(self, consumed: Consumption) -> None:
        """Take in one attempt."""
        self.spent += Spent(
            calls=1,
            prompt_tokens=consumed.prompt_tokens,
            completion_tokens=consumed.completion_tokens,
            cost_usd=consumed.cost_usd,
        )
