"""Every checkable claim of a text: times, quantities, generations, people, places, titles.

Rules, not a model: each is a bounded regular expression, so the work is linear in the text. Years, reigns,
numbers, generations and titles are looked for with high recall; people and places by patterns that stay
silent rather than take an ordinary word for a name.
"""

from collections.abc import Collection

import msgspec

from wenmai.chat.gate.claim import TIMES, Claim, ClaimKind
from wenmai.chat.gate.counts import find_counts
from wenmai.chat.gate.dates import find_times
from wenmai.chat.gate.names import find_names
from wenmai.chat.gate.numerals import plain

__all__ = ["Claim", "ClaimKind", "find_claims"]

_NUMERIC = TIMES | {ClaimKind.NUMBER, ClaimKind.GENERATION}


def find_claims(text: str, *, known: Collection[str] = ()) -> list[Claim]:
    """The claims of a text in the order in which they stand, without overlap; offsets count in ``text``.

    Of overlapping claims the longer one stays, and of equally long ones the first found (times before
    quantities before names); a title keeps what it holds to itself.

    Args:
        text: Chinese, English or both.
        known: names that are no claim, such as that of the persona who speaks.
    """
    same = plain(text)
    found = [*find_times(same), *find_counts(same), *find_names(same)]
    found.sort(key=lambda claim: (claim.kind is not ClaimKind.TITLE, claim.start - claim.end))
    taken = bytearray(len(text))
    kept: list[Claim] = []
    for claim in found:
        if any(taken[claim.start : claim.end]):
            continue
        taken[claim.start : claim.end] = b"\x01" * (claim.end - claim.start)
        kept.append(msgspec.structs.replace(claim, text=text[claim.start : claim.end]))
    kept.sort(key=lambda claim: claim.start)
    return [claim for claim in kept if claim.kind in _NUMERIC or not _is_known(claim.text, known)]


def _is_known(name: str, known: Collection[str]) -> bool:
    lowered = name.lower()
    return any(lowered in other.lower() or other.lower() in lowered for other in known if other)
