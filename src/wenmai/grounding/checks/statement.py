"""The statement under test, and the objections that checks raise against it."""

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import msgspec

from wenmai.grounding.aligned import AlignedContent, Alignment, Window
from wenmai.grounding.attribution import Attribution
from wenmai.grounding.checks.courtesy import is_courtesy
from wenmai.grounding.checks.forms import SentenceForms, forms_of
from wenmai.grounding.claims.claim import Claim
from wenmai.grounding.comparison import shared_content
from wenmai.grounding.content import Content, Span, Token
from wenmai.grounding.passage_index import bare_clause

_WITHIN = 0.75
"""How much it counts that a clause of a passage is within the statement, against the reverse."""


class Reason(StrEnum):
    """The check that an unsupported part of an answer failed."""

    VALUE = "value"
    LINK = "link"
    QUOTATION = "quotation"
    LIST_ITEM = "list_item"
    POLARITY = "polarity"
    ROLES = "roles"
    RECORDS = "records"
    AFFIRMATION = "affirmation"
    COVERAGE = "coverage"
    VERIFIER = "verifier"


class Objection(NamedTuple):
    """A part of a statement without support; offsets count in the statement."""

    start: int
    end: int
    reason: Reason


class Clause(msgspec.Struct, frozen=True):
    """A clause of a statement.

    Attributes:
        tokens: its words.
        windows: the passages aligned to it, best first.
        start: offset of its first character in the statement.
        end: offset after its last character.
        weight: weight of its content.
        is_verbatim: whether it is a clause of a passage, word by word.
        is_attributed: whether it is attributed to the user or denied.
    """

    tokens: Span
    windows: list[Window]
    start: int
    end: int
    weight: int
    is_verbatim: bool
    is_attributed: bool


class Place(NamedTuple):
    """A clause of a passage, in its sentence."""

    sentence: Content
    tokens: Span


class TestedStatement:
    """A sentence of an answer with all that the checks need; each property is computed once.

    Args:
        text: the sentence, without citation marks and Markdown.
        claims: its values and names.
        question: as the user wrote it.
        alignment: of the passages of this answer.
        numbers: of the passages that may support it, those that it cites or all.
        attribution: of the sentence.
        language: the language of the sentence, ``zh`` or ``en``.
        names: names of the persona.
    """

    def __init__(
        self,
        text: str,
        *,
        claims: Sequence[Claim],
        question: Content,
        alignment: Alignment,
        numbers: Sequence[int],
        attribution: Attribution,
        language: str,
        names: Sequence[str],
    ) -> None:
        self.text = text
        self.claims = claims
        self.question = question
        self.alignment = alignment
        self.numbers = numbers
        self.attribution = attribution
        self.language = language
        self.names = names
        self._courtesies: dict[int, bool] = {}
        self._shares: dict[tuple[int, int, bool], list[tuple[float, Place]]] = {}
        self._copied: dict[tuple[int, tuple[int, ...]], float] = {}

    @cached_property
    def content(self) -> Content:
        """Its tokens; those of its values are no content."""
        return Content(self.text, [(claim.start, claim.end) for claim in self.claims])

    @cached_property
    def asked(self) -> frozenset[str]:
        """The words of the question."""
        return self.question.words

    @cached_property
    def clauses(self) -> list[Clause]:
        """Its clauses, aligned."""
        return [self.clause(tokens) for tokens in self.content.clauses]

    def clause(self, tokens: Span) -> Clause:
        """Some adjacent tokens as a clause."""
        start, end = tokens[0].start, tokens[-1].end
        text = bare_clause(self.content, tokens)
        return Clause(
            tokens,
            self.align(tokens),
            start,
            end,
            tokens.weight,
            any(text in clauses for clauses in self._known_clauses),
            self.attribution.is_attributed(start, end),
        )

    @cached_property
    def _known_clauses(self) -> list[frozenset[str]]:
        return [self.alignment.passages[number].clauses for number in self.numbers]

    @cached_property
    def is_courtesy(self) -> bool:
        """Whether it states nothing."""
        return is_courtesy(self.content.tokens, self.question, self.names)

    @cached_property
    def windows(self) -> list[Window]:
        """The passages aligned to the whole sentence, best first."""
        return self.align(self.content.tokens)

    def align(self, tokens: Sequence[Token]) -> list[Window]:
        """The windows for some of its tokens, best first."""
        return self._aligned.windows(tokens)

    @property
    def nearest(self) -> Sequence[int]:
        """Those of its passages that may hold it best."""
        return self._aligned.numbers

    def scores(self, tokens: Sequence[Token], number: int) -> list[float]:
        """The share of the content of some of its tokens that each sentence of a passage holds."""
        return self._aligned.scores(tokens, number)

    def is_mentioned(self, tokens: Sequence[Token], number: int) -> bool:
        """Whether a passage has any of some of its tokens."""
        return self._aligned.is_mentioned(tokens, number)

    @cached_property
    def copied(self) -> float:
        """The largest share of its adjacent words that an aligned window has; 1.0 if one is in another language."""
        if not self.is_comparable:
            return 1.0
        return max((self.copied_from(window) for window in self.windows), default=0.0)

    @cached_property
    def is_comparable(self) -> bool:
        """Whether all aligned windows are in its language, so that its words are comparable with theirs."""
        return all(self.alignment.languages[window.number] == self.language for window in self.windows)

    def copied_from(self, window: Window) -> float:
        """The share of its adjacent words that stand side by side in a window too."""
        key = window.number, window.sentences
        if key not in self._copied:
            passage = self.alignment.passages[window.number]
            new = self._pairs
            for index in window.sentences:
                known = forms_of(passage.sentences[index]).pairs
                new = [pair for pair in new if pair not in known]
            self._copied[key] = (len(self._pairs) - len(new)) / (len(self._pairs) or 1)
        return self._copied[key]

    @cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        return list(pairwise(self.forms.texts))

    @cached_property
    def forms(self) -> SentenceForms:
        """Its characters and stems."""
        return SentenceForms(self.content)

    @cached_property
    def _aligned(self) -> AlignedContent:
        return AlignedContent(self.content, self.alignment, self.numbers)

    def closest(self, clause: Clause, *, least: float, within: float, people: bool = True) -> list[Place]:
        """The clauses of the aligned sentences, in its own language first, that share most with a clause.

        Args:
            clause: of this statement.
            least: share of its content that they have.
            within: how much less than the best one.
            people: whether people count, and the other language does.
        """
        compared = self._compared(clause, people=people)
        best = max([shared for shared, _ in compared], default=0.0)
        return [place for shared, place in compared if shared >= max(least, best - within)]

    def _compared(self, clause: Clause, *, people: bool) -> list[tuple[float, Place]]:
        """The clauses of the aligned sentences with what they share with a clause."""
        key = clause.start, clause.end, people
        if key not in self._shares:
            words = clause.tokens if people else [token for token in clause.tokens if not token.word.person]
            self._shares[key] = [
                (_likeness(words, tokens, clause.tokens), Place(sentence, tokens))
                for sentence in self.aligned_sentences(clause, translated=people)
                for tokens in sentence.clauses
            ]
        return self._shares[key]

    def closest_sentences(self, clause: Clause, *, least: float) -> list[Span]:
        """The aligned sentences that have this share of a clause's content."""
        spans = [sentence.tokens for sentence in self.aligned_sentences(clause, translated=False)]
        return [span for span in spans if shared_content(clause.tokens, span) >= least]

    def aligned_sentences(self, clause: Clause, *, translated: bool) -> list[Content]:
        """The sentences that the best passages align to a clause, with or without those in the other language."""
        return [
            self.alignment.passages[window.number].sentences[index]
            for window in clause.windows
            if translated or self.alignment.languages[window.number] == self.language
            for index in window.sentences
        ]

    def states_nothing(self, clause: Clause) -> bool:
        """Whether a clause is a courtesy."""
        if clause.start not in self._courtesies:
            self._courtesies[clause.start] = is_courtesy(clause.tokens, self.question, self.names)
        return self._courtesies[clause.start]


def _likeness(words: Sequence[Token], other: Span, clause: Span) -> float:
    """The share of some words that another clause has, or of a shorter clause that these words are from."""
    shared = shared_content(words, other)
    if shared >= _WITHIN or other.weight > clause.weight:
        return shared
    return max(shared, _WITHIN * shared_content(other, clause))
