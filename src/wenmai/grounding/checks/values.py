"""Exact values: dates, numbers, names and titles, codes, links; each beside the words that it belongs to."""

import re
from collections.abc import Iterator, Sequence

from wenmai.grounding.checks.statement import Objection, Reason, TestedStatement
from wenmai.grounding.claims.claim import NAMES, Claim, ClaimKind
from wenmai.grounding.claims.counts import ITEM
from wenmai.grounding.comparison import shared_content
from wenmai.grounding.content import Span, fold_text
from wenmai.grounding.support import PassageFacts, bare_name, implied_keys, supporting_passages
from wenmai.grounding.wording.words import load_words

_LINK = re.compile(
    r"(?:https?://|www\.)[^\s，。；、）)】\]>]+|[\w.+-]+@[\w-]+\.[\w.-]+|\b[\w-]+\.(?:com|org|net|cn|io|gov|edu)\b[^\s，。]*"
)
_CODE = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Z]{2,}[A-Za-z0-9-]*|[A-Za-z]+-?\d[A-Za-z0-9.-]*|\d+[A-Za-z]+[A-Za-z0-9]*)(?![A-Za-z])"
)
_DIGITS = re.compile(r"(?<![\w.])\d+(?:[.:/-]\d+)*(?![\w])")
_UNIT = re.compile(r"(?<=\d)(?=[a-z])")
_CAPITAL = re.compile(r"(?<=[a-z0-9,;] )[A-Z][a-zà-ɏ]+[\w-]*")
_OF_AN_HOUR = re.compile(r"\b(?:half an|half a|quarter of an?) (?:hour|day|year|minute)\b|\band a half\b")
_ALIGNED = 0.5
_CLOSE = 0.15
_LIGHT = 2
"""Weight up to which a clause has no context of its own for its values."""

_COPIED = 0.25
"""Share of a statement that is copied, from which its values stand in the same places as those of the passage."""

_LEAST = 4
"""Weight from which a clause says something of a person."""

_OTHERS = 0.6
"""Share of a clause that is said of another person."""

_LESS = 0.25
"""How much less is said of this one."""

_FREE = frozenset({"I", "AI", "OK", "TV", "PDF", "FAQ", "AD", "BC", "BCE", "CE", "AM", "PM"})


def find_unknown_tokens(statement: TestedStatement) -> Iterator[Objection]:
    """Links, codes, digits and capitalised words that no passage has."""
    texts = [statement.alignment.passages[number].folded for number in statement.numbers]
    foreign = [statement.alignment.languages[number] != statement.language for number in statement.numbers]
    for match in _LINK.finditer(statement.text):
        if not any(fold_text(match[0]).rstrip("./") in text for text in texts):
            yield Objection(*match.span(), Reason.LINK)
    taken = [(claim.start, claim.end) for claim in statement.claims]
    for pattern in (_CODE, _DIGITS, _CAPITAL):
        for match in pattern.finditer(statement.text):
            inside = any(start <= match.start() < end for start, end in taken)
            if match[0].isalpha() and (any(foreign) if pattern is _CAPITAL else all(foreign)):
                continue
            if not inside and match[0] not in _FREE and not any(_is_in(fold_text(match[0]), text) for text in texts):
                yield Objection(*match.span(), Reason.VALUE)


def _is_in(token: str, text: str) -> bool:
    """Whether a passage has a token, as a singular or with a blank before its unit too."""
    return token in text or token.removesuffix("s") in text or _UNIT.sub(" ", token) in text


def find_unknown_words(statement: TestedStatement) -> Iterator[Objection]:
    """Weekdays, frequencies and fractions that no passage has."""
    text = statement.content.folded
    if not load_words().any_exact.search(text) or _OF_AN_HOUR.search(text):
        return
    for words in load_words().exact:
        found = words.stated.search(text)
        if found and not any(
            words.accepted.search(statement.alignment.passages[number].folded) for number in statement.numbers
        ):
            yield Objection(*found.span(), Reason.VALUE)


def find_misplaced_values(statement: TestedStatement, facts: Sequence[PassageFacts]) -> Iterator[Objection]:
    """Values that a passage has, but beside other words: 5 元 by day where the passage says 3."""
    allowed = [each for each in facts if each.number in statement.numbers]
    spans = _with_context([clause.tokens for clause in statement.clauses])
    for clause, span in zip(statement.clauses, spans, strict=True):
        if span.weight <= (0 if clause.weight else _LIGHT) or statement.is_verbatim(clause):
            continue
        for claim in statement.claims:
            if not clause.start <= claim.start < clause.end:
                continue
            if ":" not in claim.value and not supporting_passages(claim, allowed):
                continue
            misplaced = _is_misplaced_name if claim.kind in NAMES else _is_misplaced
            if claim.kind not in NAMES and statement.copied < _COPIED:
                continue
            if misplaced(statement, span, claim, allowed):
                yield Objection(claim.start, claim.end, Reason.VALUE)


def _is_misplaced(statement: TestedStatement, span: Span, claim: Claim, facts: Sequence[PassageFacts]) -> bool:
    """Whether the clauses closest to this one have another value of the kind, and none of them this one."""
    scored = [
        (shared_content(span, tokens), any(_supports(other, claim) for other in near))
        for each in facts
        for tokens, near in _valued_clauses(statement, each)
        if any(_same_kind(claim, other) for other in near)
    ]
    best = max((share for share, _ in scored), default=0.0)
    return best >= _ALIGNED and not any(supports for share, supports in scored if share >= best - _CLOSE)


def _is_misplaced_name(statement: TestedStatement, span: Span, claim: Claim, facts: Sequence[PassageFacts]) -> bool:
    """Whether another sentence, with another person, has what the clause says of this one."""
    if claim.kind is not ClaimKind.PERSON or span.weight < _LEAST:
        return False
    own = others = 0.0
    for each in facts:
        if claim.value in each.title.text:
            return False
        follows = False
        scores = statement.scores(span, each.number)
        for segment, score in zip(each.sentences, scores, strict=False):
            people = [other for other in segment.claims if other.kind is ClaimKind.PERSON]
            named = claim.value in fold_text(segment.text) or bare_name(claim.value, each.lexicon) in fold_text(
                segment.text
            )
            follows = named or (follows and not people)
            if follows or not people:
                own = max(own, score)
            else:
                others = max(others, score)
    return others >= _OTHERS and own <= others - _LESS


def _with_context(clauses: Sequence[Span]) -> list[Span]:
    """The clauses, each with the next one if it has little content of its own: 1985年，任主席."""
    words = [sum(token.weight for token in tokens if not token.form[0].isdigit()) for tokens in clauses]
    return [
        tokens if weight > _LIGHT or tokens is clauses[-1] else Span((*tokens, *clauses[index + 1]))
        for index, (tokens, weight) in enumerate(zip(clauses, words, strict=True))
    ]


def _valued_clauses(statement: TestedStatement, facts: PassageFacts) -> list[tuple[Span, list[Claim]]]:
    """The clauses of a passage that have values, with these; once for all statements of an answer."""
    known = statement.alignment.valued_clauses
    if facts.number not in known:
        contents = statement.alignment.passages[facts.number].sentences
        clauses = [
            (span, [each for each in segment.claims if tokens[0].start <= each.start < tokens[-1].end])
            for segment, content in zip(facts.sentences, contents, strict=False)
            for tokens, span in zip(content.clauses, _with_context(content.clauses), strict=True)
        ]
        known[facts.number] = [(tokens, claims) for tokens, claims in clauses if claims]
    return known[facts.number]


def _supports(other: Claim, claim: Claim) -> bool:
    """Whether a value of a passage is, or implies, one of the statement; the same number has any unit."""
    same = claim.value.partition(" ")[0] == other.value.partition(" ")[0]
    return same or (claim.kind, claim.value) in set(implied_keys(other))


def _same_kind(claim: Claim, other: Claim) -> bool:
    if claim.kind is not other.kind:
        return False
    if claim.kind is not ClaimKind.NUMBER:
        return True
    amount, _, unit = claim.value.partition(" ")
    same, _, other_unit = other.value.partition(" ")
    return unit == other_unit or (amount == same and other_unit in {"", ITEM})
