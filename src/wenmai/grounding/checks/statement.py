"""The statement under test, and the objections that checks raise against it."""

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from wenmai.grounding.aligned import Alignment, Window, bare_clause
from wenmai.grounding.attribution import Attribution
from wenmai.grounding.claims.claim import Claim
from wenmai.grounding.content import Content, Token


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


class Clause(NamedTuple):
    """A clause of a statement with the passages aligned to it, best first."""

    tokens: tuple[Token, ...]
    windows: list[Window]

    @property
    def start(self) -> int:
        """Offset of its first character in the statement."""
        return self.tokens[0].start

    @property
    def end(self) -> int:
        """Offset after its last character."""
        return self.tokens[-1].end

    @property
    def weight(self) -> int:
        """Weight of its content."""
        return sum(token.weight for token in self.tokens)


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
    ) -> None:
        self.text = text
        self.claims = claims
        self.question = question
        self.alignment = alignment
        self.numbers = numbers
        self.attribution = attribution
        self.language = language

    @cached_property
    def content(self) -> Content:
        """Its tokens; those of its values are no content."""
        return Content(self.text, [(claim.start, claim.end) for claim in self.claims])

    @cached_property
    def asked(self) -> frozenset[str]:
        """The words of the question."""
        return frozenset(token.form for token in self.question.tokens if token.weight)

    @cached_property
    def clauses(self) -> list[Clause]:
        """Its clauses, aligned."""
        return [Clause(tokens, self.align(tokens)) for tokens in self.content.clauses]

    @cached_property
    def windows(self) -> list[Window]:
        """The passages aligned to the whole sentence, best first."""
        return self.align(self.content.tokens)

    def align(self, tokens: Sequence[Token]) -> list[Window]:
        """The windows for some of its tokens, best first."""
        return self.alignment.best(tokens, self.content.folded, self.numbers)

    def is_verbatim(self, clause: Clause) -> bool:
        """Whether a clause is one of a passage, word by word."""
        text = bare_clause(self.content, clause.tokens)
        return any(text in self.alignment.passages[number].clauses for number in self.numbers)

    def is_attributed(self, clause: Clause) -> bool:
        """Whether a clause is attributed to the user or denied."""
        return self.attribution.is_attributed(clause.start, clause.end)
