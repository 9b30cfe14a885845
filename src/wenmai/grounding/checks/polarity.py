"""Polarity: a negated statement against a positive passage and the reverse, and the two sides of an opposition."""

from collections.abc import Iterator, Sequence

from wenmai.grounding.checks.statement import Clause, Objection, Reason, TestedStatement
from wenmai.grounding.comparison import find_word
from wenmai.grounding.content import Span, Token
from wenmai.grounding.wording.words import load_words

_ALIGNED = 0.6
"""Share of a clause's content from which a clause of a passage speaks of the same."""

_COPIED = 0.5
"""Share of a statement that is copied, from which less is enough."""

_ALIGNED_MORE = 0.4
"""The share that is enough for it, and for a clause that negates, unless a passage denies something like it."""

_RELATED = 0.2
"""The share from which a clause of a passage may be about the same."""

_TRANSLATED = 0.4
"""The same for a clause in another language, of which fewer words are known."""

_CLOSE = 0.15
_WHOLE = 0.8
"""Share of a clause's content from which a whole sentence of a passage speaks of the same."""

_HEAD = 8
"""Weight of the words after a negation that say what it negates."""

_SCOPE = 0.5
"""Share of the head of a negation that the other side must have, for the two to contradict."""

_LEAST = 2
"""Least weight of these words."""

_ATTRIBUTIVE = "的"
"""A negation of a verb still governs what follows it: 不可用于新的授信."""


def find_contradictions(statement: TestedStatement) -> Iterator[Objection]:
    """Clauses that the closest clause of a passage contradicts."""
    for clause in statement.clauses:
        if not clause.weight or clause.is_attributed or clause.is_verbatim:
            continue
        if _is_contradicted(statement, clause):
            yield Objection(clause.start, clause.end, Reason.POLARITY)


def _is_contradicted(statement: TestedStatement, clause: Clause) -> bool:
    """Whether one of the best aligned clauses contradicts, and no other one agrees about the same words."""
    negates, opposites = clause.tokens.negates, frozenset(-side for side in clause.tokens.sides)
    if not negates and not any(
        sentence.tokens.negates or not opposites.isdisjoint(sentence.tokens.sides)
        for sentence in statement.aligned_sentences(clause, translated=True)
    ):
        return False
    translated = all(statement.alignment.languages[number] != statement.language for number in statement.numbers)
    more = statement.copied >= _COPIED or (clause.tokens.negates and not _has_denial(statement, clause))
    least = _TRANSLATED if translated else _ALIGNED_MORE if more else _ALIGNED
    places = statement.closest(clause, least=least, within=_CLOSE)
    close = [place.tokens for place in places]
    if negates and _denies_sentence(statement, clause, close):
        return True
    for place in places:
        if not negates and not place.tokens.negates and opposites.isdisjoint(place.tokens.sides):
            continue
        bound = not translated and _is_bound(place.sentence.tokens, clause.tokens)
        words = contradicted(clause.tokens, place.tokens, bound=bound)
        if words and not any(
            _agrees(words, each) and _holds_as_much(clause.tokens, each, place.tokens) for each in close
        ):
            return True
    return False


def _has_denial(statement: TestedStatement, clause: Clause) -> bool:
    """Whether a negated clause of a passage has something of this one, so that it may be what this one says."""
    return any(place.tokens.negates for place in statement.closest(clause, least=_RELATED, within=1.0))


def _denies_sentence(statement: TestedStatement, clause: Clause, close: Sequence[Span]) -> bool:
    """Whether a negated clause denies a whole sentence: one that it copies, or one that says what may or must be."""
    words = load_words()
    denies = statement.copied >= _COPIED or not words.denials.isdisjoint(clause.tokens.forms)
    for sentence in statement.closest_sentences(clause, least=_WHOLE):
        stated = denies or not words.modals.isdisjoint(sentence.forms)
        denied = _affirmed(clause.tokens, sentence) if stated and not _is_negative(sentence) else []
        if denied and not any(_agrees(denied, each) for each in close):
            return True
    return False


def contradicted(tokens: Sequence[Token], other: Sequence[Token], *, bound: bool = False) -> list[Token]:
    """The words of a clause about which another clause with much in common says the opposite.

    Args:
        tokens: of the clause.
        other: the other clause.
        bound: whether its sentence says of something else that it is not so: only, free, until.
    """
    return ([] if bound else _affirmed(tokens, other)) or _denied(tokens, other) or _opposed(tokens, other)


def _agrees(words: Sequence[Token], other: Sequence[Token]) -> bool:
    """Whether a clause has all of these words with the same polarity."""
    return all(any(each.negated == word.negated for each in find_word(word, other)) for word in words)


def _holds_as_much(tokens: Sequence[Token], clause: Span, other: Span) -> bool:
    """Whether a clause has all words with content of some tokens that another one has."""
    return all(find_word(token, clause) for token in tokens if token.weight and find_word(token, other))


def _is_bound(tokens: Span, clause: Span) -> bool:
    return not (load_words().bounds & tokens.forms) <= clause.forms


def _is_negative(tokens: Sequence[Token]) -> bool:
    """Whether a clause has an odd number of negations."""
    return sum(token.word.negates for token in tokens) % 2 == 1


def _heads(tokens: Sequence[Token]) -> list[list[Token]]:
    """For each negation the first words with content that it governs."""
    found: list[list[Token]] = []
    for index, token in enumerate(tokens):
        if token.word.negates and token.negated:
            scope: list[Token] = []
            for each in tokens[index + 1 :]:
                if not each.negated and not any(word.form == _ATTRIBUTIVE for word in (each, *scope[1:])):
                    break
                scope.append(each)
            found.append(_first(scope) or _first([each for each in tokens[:index] if each.negated]))
    return [head for head in found if head]


def _first(scope: Sequence[Token]) -> list[Token]:
    """The first words with content."""
    found: list[Token] = []
    for token in scope:
        if token.weight and sum(each.weight for each in found) < _HEAD:
            found.append(token)
    return found


def _affirmed(tokens: Sequence[Token], other: Sequence[Token]) -> list[Token]:
    """The words that this clause negates and the other one affirms."""
    for head in _heads(tokens):
        if _held(head, other, negated=False):
            return head
    return []


def _denied(tokens: Sequence[Token], other: Sequence[Token]) -> list[Token]:
    """The words of this clause that the other one negates."""
    for head in _heads(other):
        if _held(head, tokens, negated=False):
            return [each for word in head for each in find_word(word, tokens)]
    return []


def _held(head: Sequence[Token], tokens: Sequence[Token], *, negated: bool) -> bool:
    """Whether a clause has most of these words, all of them with this polarity."""
    total = held = 0
    opposite = {-side for token in head for side in token.word.sides}
    if any(not opposite.isdisjoint(token.word.sides) for token in tokens if token.weight):
        return False
    for token in head:
        found = find_word(token, tokens)
        total += token.weight
        if found:
            held += token.weight
            if any(each.negated is not negated for each in found):
                return False
    return held >= max(_SCOPE * total, min(total, _LEAST))


def _opposed(tokens: Sequence[Token], other: Sequence[Token]) -> list[Token]:
    """The word of an opposition, if only its other side stands in the other clause, with the same polarity."""
    here = {side: token for token in tokens for side in token.word.sides}
    there = {side: token for token in other for side in token.word.sides}
    return [
        token
        for side, token in here.items()
        if -side in there
        and side not in there
        and -side not in here
        and token.negated == there[-side].negated
        and (token.weight or _beside(token, tokens) & _beside(there[-side], other))
    ][:1]


def _beside(token: Token, tokens: Sequence[Token]) -> set[tuple[int, str]]:
    """The words with content on either side of a token."""
    index = list(tokens).index(token)
    return {
        (step, tokens[index + step].form)
        for step in (-1, 1)
        if 0 <= index + step < len(tokens) and tokens[index + step].weight
    }
