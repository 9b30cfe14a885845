"""Repair: the passage's own sentence in the place of a removed statement."""

from collections.abc import Collection

from wenmai.grounding.aligned import Alignment
from wenmai.grounding.content import Content

_ASKED = 0.5
"""Share of the question's content that a sentence must hold to answer it."""

_SAID = 0.8
"""Share of a sentence's content in the answer from which it is not said again."""


def find_replacement(
    removed: str, question: Content, alignment: Alignment, numbers: Collection[int], used: Collection[tuple[int, int]]
) -> tuple[int, int] | None:
    """The passage and the sentence that answer the question in place of a removed statement, or None.

    Args:
        removed: the statement.
        question: as the user wrote it.
        alignment: of the passages.
        numbers: of the passages that the statement cites, or all.
        used: sentences that are in the answer already.
    """
    asked = [token for token in question.tokens if token.weight]
    if not asked:
        return None
    statement = Content(removed)
    found: list[tuple[float, int, int]] = []
    for number in numbers:
        relevance = alignment.scores(question, number)
        likeness = alignment.scores(statement, number)
        found += [
            (asked_share + likeness[index], -number, -index)
            for index, asked_share in enumerate(relevance)
            if asked_share >= _ASKED and (number, index) not in used
        ]
    if not found:
        return None
    _, number, index = max(found)
    return -number, -index
