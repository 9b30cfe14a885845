"""Scores of verified statements: pure functions over what was observed."""

from collections.abc import Sequence

import msgspec

from wenmai.evaluation.cases import Statement
from wenmai.evaluation.comparison import comparable, without_marks

_SENTENCE_MARKS = ".。!！?？;；,， "


class VerifiedStatement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement, and whether the verified answer still has it.

    Attributes:
        id: of its answer.
        number: its place in the answer, from 1.
        kept: its text, or its lie, is in the verified text.
        verified: the verified text.
    """

    set_name: str
    id: str
    number: int
    language: str
    statement: Statement
    kept: bool
    mode: str
    reason: str
    verified: str

    @property
    def right(self) -> bool:
        """Kept if true, removed if false."""
        return self.kept == self.statement.true


class StatementFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over statements.

    Attributes:
        leaked: false statements that were kept; ``leaked_as_normal`` of these in an answer of mode ``normal``.
        overblocked: true statements that were removed.
    """

    false: int
    leaked: int
    leaked_as_normal: int
    true: int
    overblocked: int


def is_kept(statement: Statement, verified: str, supported: Sequence[str]) -> bool:
    """Whether the verified text has the statement, or its lie if it has one; citation marks do not matter.

    Args:
        statement: true or false.
        verified: the text.
        supported: true statements and sentences of the passages. Of a statement that is not there as a whole, a lie
            inside one of these is none: ``fully charged`` in “It is not fully charged.”
    """
    text, whole = _core(verified), _core(statement.text)
    if whole in text or statement.lie is None:
        return whole in text
    for each in supported:
        text = text.replace(_core(each), "\n")
    return _core(statement.lie) in text


def _core(text: str) -> str:
    """A text for comparison, without citation marks and the marks at its end."""
    return comparable(without_marks(text)).rstrip(_SENTENCE_MARKS)


def statement_figures(statements: Sequence[VerifiedStatement]) -> StatementFigures:
    """Count the statements."""
    false = [each for each in statements if not each.statement.true]
    true = [each for each in statements if each.statement.true]
    leaked = [each for each in false if each.kept]
    return StatementFigures(
        false=len(false),
        leaked=len(leaked),
        leaked_as_normal=sum(each.mode == "normal" for each in leaked),
        true=len(true),
        overblocked=sum(not each.kept for each in true),
    )
