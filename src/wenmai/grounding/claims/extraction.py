"""Extraction of checkable claims: times, quantities, generations, people, places, titles.

Rules, not a model: each is a bounded regular expression, so time is linear in the text. Years, reigns, numbers,
generations and titles are extracted with high recall; people and places with high precision.
"""

from collections.abc import Collection

import msgspec

from wenmai.grounding.claims.claim import TIMES, Claim, ClaimKind
from wenmai.grounding.claims.counts import find_counts
from wenmai.grounding.claims.dates import find_times
from wenmai.grounding.claims.names import find_names
from wenmai.grounding.claims.numerals import fold_width
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.text.folding import fold

__all__ = ["Claim", "ClaimKind", "find_claims"]

_NUMERIC = TIMES | {ClaimKind.NUMBER, ClaimKind.GENERATION}


def find_claims(text: str, lexicon: Lexicon = EMPTY, *, known: Collection[str] = ()) -> list[Claim]:
    """The claims of a text in order of appearance, without overlap; offsets count in ``text``.

    Of overlapping claims the longest is kept, of equally long ones the first found (times before quantities before
    names); claims inside a title are dropped.

    Args:
        text: Chinese, English or both.
        lexicon: the words of its field.
        known: names that are no claims, such as the persona's.
    """
    folded = fold_width(fold(text)).replace("干隆", "乾隆")
    found = [*find_times(folded), *find_counts(folded, lexicon), *find_names(folded, lexicon)]
    found.sort(key=lambda claim: (claim.kind is not ClaimKind.TITLE, claim.start - claim.end))
    taken = bytearray(len(text))
    kept: list[Claim] = []
    for claim in found:
        if any(taken[claim.start : claim.end]):
            continue
        taken[claim.start : claim.end] = b"\x01" * (claim.end - claim.start)
        written = text[claim.start : claim.end]
        kept.append(claim if claim.text == written else msgspec.structs.replace(claim, text=written))
    kept.sort(key=lambda claim: claim.start)
    return [claim for claim in kept if claim.kind in _NUMERIC or not _is_known(claim.text, known)]


def _is_known(name: str, known: Collection[str]) -> bool:
    lowered = name.lower()
    return any(lowered in other.lower() or other.lower() in lowered for other in known if other)
