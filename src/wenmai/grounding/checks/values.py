"""Exact values: dates, numbers, names and titles, codes, links; each beside the words that it belongs to."""

import re
from collections.abc import Iterator, Sequence

from wenmai.grounding.checks.statement import Clause, Objection, Reason, TestedStatement
from wenmai.grounding.claims.claim import NAMES, Claim, ClaimKind
from wenmai.grounding.comparison import shared_content
from wenmai.grounding.content import Span, fold_text
from wenmai.grounding.support import PassageFacts, implied_keys, supporting_passages
from wenmai.grounding.wording.words import load_words

_LINK = re.compile(
    r"(?:https?://|www\.)[^\s，。；、）)】\]>]+|[\w.+-]+@[\w-]+\.[\w.-]+|\b[\w-]+\.(?:com|org|net|cn|io|gov|edu)\b[^\s，。]*"
)
_CODE = re.compile(r"(?<![A-Za-z0-9])(?:[A-Z]{2,}[A-Za-z0-9-]*|[A-Za-z]+-?\d[\w.-]*|\d+[A-Za-z]+\w*)(?![A-Za-z])")
_DIGITS = re.compile(r"(?<![\w.])\d+(?:[.:/-]\d+)*(?![\w])")
_CAPITAL = re.compile(r"(?<=[a-z0-9,;] )[A-Z][a-zà-ɏ]+")
_OF_AN_HOUR = re.compile(r"\b(?:half an|half a|quarter of an?) (?:hour|day|year|minute)\b")
_ALIGNED = 0.5
_CLOSE = 0.15
_FREE = frozenset({"I", "AI", "OK", "TV", "PDF", "FAQ", "AD", "BC", "BCE", "CE", "AM", "PM"})


def find_unknown_tokens(statement: TestedStatement) -> Iterator[Objection]:
    """Links, codes and digits that no passage has."""
    texts = [statement.alignment.passages[number].folded for number in statement.numbers]
    translated = all(statement.alignment.languages[number] != statement.language for number in statement.numbers)
    for match in _LINK.finditer(statement.text):
        if not any(fold_text(match[0]).rstrip("./") in text for text in texts):
            yield Objection(*match.span(), Reason.LINK)
    taken = [(claim.start, claim.end) for claim in statement.claims]
    for pattern in (_CODE, _DIGITS):
        for match in pattern.finditer(statement.text):
            inside = any(start <= match.start() < end for start, end in taken)
            if translated and match[0].isalpha():
                continue
            if not inside and match[0] not in _FREE and not any(fold_text(match[0]) in text for text in texts):
                yield Objection(*match.span(), Reason.VALUE)


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
    for clause in statement.clauses:
        if not clause.weight or statement.is_verbatim(clause):
            continue
        for claim in statement.claims:
            if claim.kind in NAMES or not clause.start <= claim.start < clause.end:
                continue
            if supporting_passages(claim, allowed) and _is_misplaced(statement, clause, claim, allowed):
                yield Objection(claim.start, claim.end, Reason.VALUE)


def _is_misplaced(statement: TestedStatement, clause: Clause, claim: Claim, facts: Sequence[PassageFacts]) -> bool:
    """Whether the clauses closest to this one have another value of the kind, and none of them this one."""
    scored = [
        (shared_content(clause.tokens, tokens), any(_supports(other, claim) for other in near))
        for each in facts
        for tokens, near in _valued_clauses(statement, each)
        if any(_same_kind(claim, other) for other in near)
    ]
    best = max((share for share, _ in scored), default=0.0)
    return best >= _ALIGNED and not any(supports for share, supports in scored if share >= best - _CLOSE)


def _valued_clauses(statement: TestedStatement, facts: PassageFacts) -> list[tuple[Span, list[Claim]]]:
    """The clauses of a passage that have values, with these; once for all statements of an answer."""
    known = statement.alignment.valued_clauses
    if facts.number not in known:
        contents = statement.alignment.passages[facts.number].sentences
        clauses = [
            (tokens, [each for each in segment.claims if tokens[0].start <= each.start < tokens[-1].end])
            for segment, content in zip(facts.sentences, contents, strict=False)
            for tokens in content.clauses
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
    return claim.value.partition(" ")[2] == other.value.partition(" ")[2]
