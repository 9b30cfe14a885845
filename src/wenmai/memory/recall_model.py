"""What a model may do for recall: put the best items into another order, and split a question into several."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from wenmai.scope import Scope

RERANKED = 20
"""Best items that a reranker may put into another order."""

MOST_PARTS = 4


class RecallModelFailed(Exception):
    """The model gave no usable answer; recall goes on without it."""


class Reranker(Protocol):
    """Judges items by their texts."""

    async def order(self, scope: Scope, session_id: str | None, query: str, texts: Sequence[str]) -> list[int]:
        """The indexes of the texts, best first; :func:`complete_order` makes an order of them.

        Raises:
            RecallModelFailed: it cannot say.
        """
        ...


class QueryDecomposer(Protocol):
    """Splits questions whose answer is spread over several messages."""

    async def parts(self, scope: Scope, session_id: str | None, query: str) -> list[str]:
        """One to four questions that are searched instead of the query; they do not refer to each other.

        Raises:
            RecallModelFailed: it cannot say.
        """
        ...


def complete_order(given: Iterable[int], count: int) -> list[int]:
    """An order of all ``count`` items: those given first, once each; unknown ones are ignored, missing ones follow."""
    known = dict.fromkeys(index for index in given if 0 <= index < count)
    return [*known, *(index for index in range(count) if index not in known)]
