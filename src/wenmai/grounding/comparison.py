"""Comparison of words and clauses: the same, synonyms, translations, or one a part of the other."""

from collections.abc import Sequence

from wenmai.grounding.content import Span, Token


def same_word(token: Token, other: Token) -> bool:
    """Whether two words are the same, synonyms, or one a part of the other."""
    if token.form == other.form or not token.word.concepts.isdisjoint(other.word.concepts):
        return True
    if not (token.han and other.han) or len(token.form) == len(other.form):
        return False
    if (token.word.person or other.word.person) and 1 in {len(token.form), len(other.form)}:
        return False
    return token.form in other.form or other.form in token.form


def is_translated(token: Token) -> bool:
    """Whether the files translate a word; single characters have too many senses."""
    return bool(token.word.concepts) and not (token.han and len(token.form) == 1)


def find_word(token: Token, others: Sequence[Token]) -> list[Token]:
    """The words that are the same as one."""
    form, concepts = token.form, token.word.concepts
    return [
        other
        for other in others
        if form == other.form
        or not concepts.isdisjoint(other.word.concepts)
        or (token.han and other.han and same_word(token, other))
    ]


def shared_content(tokens: Sequence[Token], other: Span) -> float:
    """The share of the content of some words that a clause has."""
    total = held = 0
    forms, concepts = other.forms, other.concepts
    for token in tokens:
        weight = token.weight
        if weight:
            form = token.form
            total += weight
            if (
                form in forms
                or not concepts.isdisjoint(token.word.concepts)
                or (token.han and (form in other.text or not forms.isdisjoint(form)))
            ):
                held += weight
    return held / total if total else 0.0
