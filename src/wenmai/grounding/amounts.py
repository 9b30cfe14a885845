"""Amounts: the same quantity in other words or units: two years and 24 months, both and two, 3 p.m. and three."""

import re
from functools import lru_cache

from wenmai.grounding.claims.claim import Claim, ClaimKind
from wenmai.grounding.claims.counts import ITEM
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.claims.numerals import find_numbers
from wenmai.grounding.passage_index import IndexedPassage
from wenmai.text.cjk import find_words, has_cjk

_UNITS = {
    "年": ("月", 12.0),
    "十年": ("月", 120.0),
    "季度": ("月", 3.0),
    "周": ("分钟", 10080.0),
    "日": ("分钟", 1440.0),
    "小时": ("分钟", 60.0),
    "成": ("%", 10.0),
}
_PHRASES = {
    "半个月": ("日", 15.0),
    "半年|half a year": ("月", 6.0),
    "一年半|year and a half": ("月", 18.0),
    "半天|half a day": ("小时", 12.0),
    "半个?小时|half an hour": ("分钟", 30.0),
    "一刻钟|quarter of an hour": ("分钟", 15.0),
    "每季|quarterly|every quarter": ("月", 3.0),
    "两周|fortnight": ("日", 14.0),
}
"""Durations that are no number with a unit."""

_PAIRS = ["双", "一对", "两", "both", "pair", "couple", "two"]
_TWO = 2.0
_NOON = 12.0


def has_amount(passage: IndexedPassage, claim: Claim) -> bool:
    """Whether a passage has the quantity of a claim in other words."""
    if claim.kind is not ClaimKind.NUMBER or claim.value.startswith("#"):
        return False
    amount, _, unit = claim.value.partition(" ")
    if ":" in amount:
        hour, _, minute = amount.partition(":")
        hours = {float(hour), float(hour) - _NOON, float(hour) + _NOON}
        return minute == "00" and not hours.isdisjoint(_numbers(passage.folded))
    value = float(amount)
    if value == _TWO and find_words(passage.folded, _PAIRS):
        return True
    translated = passage.chinese is not has_cjk(claim.text)
    if (unit in {"", ITEM} or (translated and unit != "%")) and value in _numbers(passage.folded):
        return True
    return _base(unit, value) in _quantities(passage.folded)


@lru_cache(maxsize=64)
def _numbers(text: str) -> frozenset[float]:
    """The numbers of a passage; cached, as each value of an answer is compared with them."""
    return frozenset(number.value for number in find_numbers(text) if number.value is not None)


@lru_cache(maxsize=64)
def _quantities(text: str) -> frozenset[tuple[str, float]]:
    """The amounts of a passage with their units; cached for the same reason."""
    found: set[tuple[str, float]] = set()
    for claim in find_claims(text):
        amount, _, unit = claim.value.partition(" ")
        if claim.kind is ClaimKind.NUMBER and unit and amount.replace(".", "", 1).isdigit():
            found.add(_base(unit, float(amount)))
    found |= {_base(*amount) for phrase, amount in _PHRASES.items() if re.search(phrase, text)}
    return frozenset(found)


def _base(unit: str, value: float) -> tuple[str, float]:
    """A duration in its smaller unit."""
    smaller, factor = _UNITS.get(unit, (unit, 1.0))
    return smaller, value * factor
