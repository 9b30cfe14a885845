"""AnswerRepair: the passage's own sentence in the place of a removed statement."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wenmai.grounding.aligned import Alignment
from wenmai.grounding.content import Content
from wenmai.grounding.quoting import quote_sentences
from wenmai.grounding.types import Passage

_ASKED = 0.5
"""Share of the question's content that a sentence must hold to answer it."""


class Replacement(NamedTuple):
    """A quotation, and the passage that it is from."""

    quote: str
    number: int


class AnswerRepair:
    """Finds replacements for the removed statements of one answer; each sentence of a passage is said once.

    Args:
        passages: by number.
        alignment: of these passages.
        question: as the user wrote it.
        language: BCP 47 tag of the answer.
    """

    def __init__(self, passages: Mapping[int, Passage], alignment: Alignment, question: Content, language: str) -> None:
        self._passages = passages
        self._alignment = alignment
        self._question = question
        self._language = language
        self.said: set[tuple[int, int]] = set()

    def replace(self, removed: str, numbers: Sequence[int]) -> Replacement | None:
        """The sentence that answers the question and is most like the removed statement, or None.

        Args:
            removed: the statement.
            numbers: of the passages that it cites, or all; those in the language of the answer take precedence.
        """
        own = [number for number in numbers if self._passages[number].language[:2] == self._language[:2]]
        found = self._best(Content(removed), own or numbers)
        if found is None:
            return None
        self.said.add(found)
        number, index = found
        words = self._alignment.passages[number].sentences[index].text
        return Replacement(quote_sentences(self._passages[number], [words], self._language), number)

    def _best(self, removed: Content, numbers: Sequence[int]) -> tuple[int, int] | None:
        if not any(token.weight for token in self._question.tokens):
            return None
        found: list[tuple[float, int, int]] = []
        for number in numbers:
            relevance = self._alignment.scores(self._question, number)
            likeness = self._alignment.scores(removed, number)
            found += [
                (asked + likeness[index], -number, -index)
                for index, asked in enumerate(relevance)
                if asked >= _ASKED and (number, index) not in self.said
            ]
        if not found:
            return None
        _, number, index = max(found)
        return -number, -index
