"""Agents: the person who does something is the one who does it in the passage."""

from collections.abc import Iterator, Sequence

from wenmai.grounding.checks.statement import Objection, Reason, TestedStatement
from wenmai.grounding.comparison import same_word
from wenmai.grounding.content import Token

_MARKERS = frozenset({"由", "被", "by", "交给", "交由", "交", "请", "让"})
_ALIGNED = 0.4
_CLOSE = 0.1
_AGENT = 2
"""Weight of the first words of an agent."""

_SPAN = 8
"""Weight of the words in which the passage names its agent."""


def find_other_agents(statement: TestedStatement) -> Iterator[Objection]:
    """Clauses that give the deed of the closest clause to another person."""
    for clause in statement.clauses:
        named = any(token.word.person or token.form in _MARKERS for token in clause.tokens)
        if named and clause.weight and not clause.is_attributed and not clause.is_verbatim:
            closest = statement.closest(clause, least=_ALIGNED, within=_CLOSE, people=False)
            compared = {_differs(clause.tokens, other.tokens) for other in closest} - {None}
            if compared == {True}:
                yield Objection(clause.start, clause.end, Reason.ROLES)


def _differs(tokens: Sequence[Token], other: Sequence[Token]) -> bool | None:
    """Whether two clauses name different people; None if one of them names no person."""
    agent, others = _agent(tokens, _AGENT), _agent(other, _SPAN)
    if agent and others:
        same = sum(word.weight for word in agent if any(same_word(word, each) for each in others))
        return same <= sum(word.weight for word in agent) / 2
    people = [token for token in tokens if token.word.person]
    named = [token for token in other if token.word.person]
    if not people or not named:
        return None
    return not any(same_word(word, each) for word in people for each in named)


def _agent(tokens: Sequence[Token], weight: int) -> list[Token]:
    """The first words with content after a word that names who does it."""
    found: list[Token] = []
    inside = False
    for token in tokens:
        inside = inside or token.form in _MARKERS
        if inside and token.weight and sum(each.weight for each in found) < weight:
            found.append(token)
    return found
