"""Subjects: what a passage says of one thing is not said of another one that it names elsewhere."""

from collections.abc import Iterator, Sequence

from wenmai.grounding.checks.statement import Clause, Objection, Reason, TestedStatement
from wenmai.grounding.comparison import find_word, shared_content
from wenmai.grounding.content import Span, Token

_COPIED = 0.4
"""Share of a statement that is copied, from which its clauses are those of the passage."""

_LONGEST = 3
"""Words of the longest subject."""

_LEAST = 4
"""Least weight of what is said of it."""

_SAID = 0.9
"""Share of it that a clause with another subject has."""

_NOT_SAID = 0.75
"""Share of it up to which the clause with this subject says something else."""

_AGENTS = frozenset({"由", "被", "by"})
"""Words before who does it, which is no subject."""

_SUBJECT = 2
"""Least weight of the other subject."""


def find_exchanged_subjects(statement: TestedStatement) -> Iterator[Objection]:
    """Clauses that say of their first words what the passage says of others."""
    if not statement.is_comparable or statement.copied < _COPIED:
        return
    for clause in statement.clauses:
        if clause.weight > _LEAST and not clause.is_verbatim and not clause.is_attributed:
            content = [token for token in clause.tokens if token.weight]
            if any(clause.start <= claim.start < content[0].start for claim in statement.claims):
                continue
            sizes = range(1, min(_LONGEST, len(content) - 1) + 1)
            if any(_is_exchanged(statement, clause, content[:size], content[size:]) for size in sizes):
                yield Objection(clause.start, clause.end, Reason.ROLES)


def _is_exchanged(
    statement: TestedStatement, clause: Clause, subject: Sequence[Token], predicate: Sequence[Token]
) -> bool:
    """Whether one clause of the best passage has the predicate, with its own subject, and another one this subject.

    A clause before that one in its sentence does not count: its subject may be that of both.
    """
    if sum(token.weight for token in predicate) < _LEAST:
        return False
    for window in clause.windows[:1]:
        sentences = statement.alignment.passages[window.number].sentences
        said = [
            (index, tokens[0].start)
            for index in window.sentences
            for tokens in sentences[index].clauses
            if shared_content(predicate, tokens) >= _SAID and _has_own_subject(tokens, subject, predicate)
        ]
        if said:
            return any(
                all(find_word(token, tokens) for token in subject) and shared_content(predicate, tokens) <= _NOT_SAID
                for index, sentence in enumerate(sentences[:-1])
                for tokens in sentence.clauses
                if not any(index == of and tokens[0].start < start for of, start in said)
            )
    return False


def _has_own_subject(tokens: Span, subject: Sequence[Token], predicate: Sequence[Token]) -> bool:
    """Whether a clause has other words than the subject before those of the predicate."""
    if tokens[0].form in _AGENTS or all(find_word(token, tokens) for token in subject):
        return False
    first = next(index for index, token in enumerate(tokens) if token.weight and find_word(token, predicate))
    return sum(token.weight for token in tokens[:first]) >= _SUBJECT
