"""Exact values: dates, numbers, names and titles, codes, links; each beside the words that it belongs to."""

import re
from collections.abc import Iterator, Sequence

from wenmai.grounding.amounts import has_number, unknown_durations
from wenmai.grounding.checks.statement import Objection, Reason, TestedStatement
from wenmai.grounding.claims.claim import NAMES, Claim, ClaimKind
from wenmai.grounding.claims.counts import ITEM, masked
from wenmai.grounding.claims.numerals import find_numbers, format_number
from wenmai.grounding.comparison import shared_content
from wenmai.grounding.content import Span, fold_text
from wenmai.grounding.support import (
    LIGHT,
    PassageFacts,
    bare_name,
    implied_keys,
    supporting_passages,
    with_context,
)
from wenmai.grounding.wording.words import load_words

_LINK = re.compile(
    r"(?:https?://|www\.)[^\s，。；、）)】\]>]+|[\w.+-]+@[\w-]+\.[\w.-]+|\b[\w-]+\.(?:com|org|net|cn|io|gov|edu)\b[^\s，。]*"
)
_CODE = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Z]{2,}[A-Za-z0-9-]*|[A-Za-z]+-?\d[A-Za-z0-9.-]*|\d+[A-Za-z]+[A-Za-z0-9]*)(?![A-Za-z])"
)
_DIGITS = re.compile(r"(?<![\w.])\d+(?:[.:/-]\d+)*(?![\w])")
_TOKEN = re.compile(r"[\dA-Za-z@]")
"""What every link, code, number and capitalised word has one of."""

_UNIT = re.compile(r"(?<=\d)(?=[a-z])")
_CAPITAL = re.compile(r"(?<=[a-z0-9,;] )[A-Z][a-zà-ɏ]+[\w-]*")
_OF_AN_HOUR = re.compile(r"\b(?:half an|half a|quarter of an?) (?:hour|day|year|minute)\b|\band a half\b")
_ALIGNED = 0.6
_TRANSLATED = 0.7
_CLOSE = 0.15
_COPIED = 0.25
"""Share of a statement that is copied, from which its values stand in the same places as those of the passage."""

_FEW = 3
"""Numbers in words up to which they may be counted from what is listed."""

_NOON = 12
_LEAST = 4
"""Weight from which a clause says something of a person."""

_OTHERS = 0.6
"""Share of a clause that is said of another person."""

_LESS = 0.25
"""How much less is said of this one."""

_FREE = frozenset({"I", "AI", "OK", "TV", "PDF", "FAQ", "AD", "BC", "BCE", "CE", "AM", "PM"})


def find_unknown_tokens(statement: TestedStatement) -> Iterator[Objection]:
    """Links, codes, digits and capitalised words that no passage has."""
    if not _TOKEN.search(statement.text):
        return
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
            if inside or match[0] in _FREE or any(_is_in(fold_text(match[0]), text) for text in texts):
                continue
            if pattern is not _DIGITS or not any(has_number(text, match[0]) for text in texts):
                yield Objection(*match.span(), Reason.VALUE)


def _is_in(token: str, text: str) -> bool:
    """Whether a passage has a token, as a singular or with a blank before its unit too."""
    return token in text or token.removesuffix("s") in text or _UNIT.sub(" ", token) in text


def find_unknown_numbers(statement: TestedStatement) -> Iterator[Objection]:
    """English numbers in words that are no claims, and durations such as a fortnight, that no passage has."""
    passages = [statement.alignment.passages[number] for number in statement.numbers]
    for number in find_numbers(masked(statement.content.folded)):
        if number.value is None or number.value <= _FEW or not number.text[0].isascii() or number.text[0].isdigit():
            continue
        if not any(claim.start <= number.start < claim.end for claim in statement.claims) and not any(
            has_number(each.folded, format_number(number.value)) for each in passages
        ):
            yield Objection(number.start, number.end, Reason.VALUE)
    for start, end in unknown_durations(statement.content.folded, passages):
        yield Objection(start, end, Reason.VALUE)


def find_unknown_words(statement: TestedStatement) -> Iterator[Objection]:
    """Weekdays, frequencies and fractions that no passage has."""
    text = statement.content.folded
    if not load_words().any_exact.search(text) or _OF_AN_HOUR.search(text):
        return
    for words in load_words().exact:
        if not any(word in text for word in words.words):
            continue
        found = words.stated.search(text)
        if found and not any(
            words.accepted.search(statement.alignment.passages[number].folded) for number in statement.numbers
        ):
            yield Objection(*found.span(), Reason.VALUE)


def find_misplaced_values(statement: TestedStatement, facts: Sequence[PassageFacts]) -> Iterator[Objection]:
    """Values that a passage has, but beside other words: 5 元 by day where the passage says 3."""
    claims = [
        claim
        for claim in statement.claims
        if claim.kind is ClaimKind.PERSON or (claim.kind not in NAMES and statement.copied >= _COPIED)
    ]
    if not claims:
        return
    allowed = [each for each in facts if each.number in statement.nearest]
    spans = with_context([clause.tokens for clause in statement.clauses])
    for clause, span in zip(statement.clauses, spans, strict=True):
        if span.weight <= (0 if clause.weight else LIGHT) or clause.is_verbatim:
            continue
        for claim in claims:
            if not clause.start <= claim.start < clause.end:
                continue
            if ":" not in claim.value and not supporting_passages(claim, allowed):
                continue
            misplaced = _is_misplaced_name if claim.kind in NAMES else _is_misplaced
            if misplaced(statement, span, claim, allowed):
                yield Objection(claim.start, claim.end, Reason.VALUE)


def _is_misplaced(statement: TestedStatement, span: Span, claim: Claim, facts: Sequence[PassageFacts]) -> bool:
    """Whether the clauses closest to this one have another value of the kind, and none of them this one."""
    scored = [
        (shared_content(span, tokens), near)
        for each in facts
        for tokens, near in each.valued_clauses
        if any(_same_kind(claim, other) for other in near)
    ]
    best = max([share for share, _ in scored], default=0.0)
    return best >= (_ALIGNED if statement.is_comparable else _TRANSLATED) and not any(
        _supports(other, claim) for share, near in scored if share >= best - _CLOSE for other in near
    )


def _is_misplaced_name(statement: TestedStatement, span: Span, claim: Claim, facts: Sequence[PassageFacts]) -> bool:
    """Whether another sentence, with another person, has what the clause says of this one."""
    if span.weight < _LEAST:
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


def _supports(other: Claim, claim: Claim) -> bool:
    """Whether a value of a passage is, or implies, one of the statement; the same number has any unit."""
    same = claim.value.partition(" ")[0] == other.value.partition(" ")[0]
    if ":" in claim.value and claim.value.endswith(":00"):
        hour = other.value.partition(" ")[0].partition(":00")[0]
        same = same or (hour.isdigit() and (int(hour) - int(claim.value[:-3])) % _NOON == 0)
    return same or (claim.kind, claim.value) in set(implied_keys(other))


def _same_kind(claim: Claim, other: Claim) -> bool:
    if claim.kind is not other.kind:
        return False
    if claim.kind is not ClaimKind.NUMBER:
        return True
    amount, _, unit = claim.value.partition(" ")
    same, _, other_unit = other.value.partition(" ")
    return unit == other_unit or (amount == same and other_unit in {"", ITEM})
