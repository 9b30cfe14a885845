"""Exact values: dates, numbers, names and titles, codes, links; each beside the words that it belongs to."""

import re
from collections.abc import Iterator, Mapping, Sequence

from wenmai.grounding.checks.statement import Clause, Objection, Reason, TestedStatement
from wenmai.grounding.claims.claim import NAMES, Claim, ClaimKind
from wenmai.grounding.comparison import shared_content
from wenmai.grounding.content import fold_text
from wenmai.grounding.support import PassageFacts, implied_keys

_LINK = re.compile(
    r"(?:https?://|www\.)[^\s，。；、）)】\]>]+|[\w.+-]+@[\w-]+\.[\w.-]+|\b[\w-]+\.(?:com|org|net|cn|io|gov|edu)\b[^\s，。]*"
)
_CODE = re.compile(r"(?<![A-Za-z0-9])(?:[A-Z]{2,}[A-Za-z0-9-]*|[A-Za-z]+-?\d[\w.-]*|\d+[A-Za-z]+\w*)(?![A-Za-z])")
_DIGITS = re.compile(r"(?<![\w.])\d+(?:[.:/-]\d+)*(?![\w])")
_CAPITAL = re.compile(r"(?<=[a-z0-9,;] )[A-Z][a-zà-ɏ]+")
_ALIGNED = 0.5
_CLOSE = 0.15
_FREE = frozenset({"I", "AI", "OK", "TV", "PDF", "FAQ", "AD", "BC", "BCE", "CE", "AM", "PM"})


def unsupported_claims(
    claims: Sequence[Claim], support: Mapping[int, Sequence[int]], numbers: Sequence[int]
) -> list[Claim]:
    """The claims that none of the passages supports."""
    return [claim for claim in claims if not set(support[claim.start]).intersection(numbers)]


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


def find_misplaced_values(
    statement: TestedStatement, facts: Sequence[PassageFacts], support: Mapping[int, Sequence[int]]
) -> Iterator[Objection]:
    """Values that a passage has, but beside other words: 5 元 by day where the passage says 3."""
    allowed = [each for each in facts if each.number in statement.numbers]
    for clause in statement.clauses:
        for claim in statement.claims:
            if claim.kind in NAMES or not support[claim.start] or not clause.start <= claim.start < clause.end:
                continue
            if clause.weight and _is_misplaced(statement, clause, claim, allowed):
                yield Objection(claim.start, claim.end, Reason.VALUE)


def _is_misplaced(statement: TestedStatement, clause: Clause, claim: Claim, facts: Sequence[PassageFacts]) -> bool:
    """Whether the clauses closest to this one have another value of the kind, and none of them this one."""
    scored = []
    for each in facts:
        contents = statement.alignment.passages[each.number].sentences
        for segment, content in zip(each.sentences, contents, strict=False):
            for tokens in content.clauses:
                low, high = tokens[0].start, tokens[-1].end
                near = [other for other in segment.claims if low <= other.start < high]
                same = [other for other in near if _same_kind(claim, other)]
                if same:
                    supports = any(
                        (claim.kind, claim.value) in set(implied_keys(other))
                        or claim.value == other.value
                        or _bare(claim.value) == _bare(other.value)
                        for other in near
                    )
                    scored.append((shared_content(clause.tokens, tokens), supports))
    best = max((share for share, _ in scored), default=0.0)
    return best >= _ALIGNED and not any(supports for share, supports in scored if share >= best - _CLOSE)


def _bare(value: str) -> str:
    return value.partition(" ")[0]


def _same_kind(claim: Claim, other: Claim) -> bool:
    if claim.kind is not other.kind:
        return False
    if claim.kind is not ClaimKind.NUMBER:
        return True
    return claim.value.partition(" ")[2] == other.value.partition(" ")[2]
