"""Amounts: the same quantity in other words or units: two years and 24 months, both and two, 3 p.m. and three."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from wenmai.grounding.claims.claim import Claim, ClaimKind
from wenmai.grounding.claims.counts import ITEM, MEASURES, same_unit
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
_DURATIONS = {
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

_DURATION = re.compile("|".join(_DURATIONS))

_PHRASES = {
    **_DURATIONS,
    "一周|一个?星期|一个?礼拜|a week": ("日", 7.0),
    "一个月|a month": ("月", 1.0),
    "一年|a year": ("月", 12.0),
    "半价|半票|减半|half": ("%", 50.0),
    "双倍|加倍|翻倍|twice|double": ("倍", 2.0),
    "triple|threefold": ("倍", 3.0),
}
"""The same, and shares and durations that may be meant in another way too."""

_PAIRS = ["双", "一对", "两", "both", "pair", "couple", "two"]
_COUNTED = frozenset({"", ITEM, "人", "层", "卷"})
_TIMES_OTHER = {"次": "倍", "倍": "次"}
"""English *times* is said of both."""

_ONE = "一"
_TWO = 2.0
_DISCOUNT = "折"
_NOON = 12.0


def has_amount(passage: IndexedPassage, claim: Claim) -> bool:
    """Whether a passage has the quantity of a claim in other words."""
    if claim.kind is not ClaimKind.NUMBER or claim.value.startswith("#"):
        return False
    amount, _, unit = claim.value.partition(" ")
    if ":" in amount:
        return _has_time(passage.folded, amount)
    value = float(amount)
    translated = passage.chinese is not has_cjk(claim.text)
    return (
        (value == 1 and claim.text[0] == _ONE and _has_one(passage.folded, claim.text, unit))
        or (value == _TWO and (unit in _COUNTED or not translated) and bool(find_words(passage.folded, _PAIRS)))
        or (unit == "" and value in _numbers(passage.folded))
        or ((unit == ITEM or (translated and unit != "%")) and value in _without_unit(passage.folded))
        or _base(unit, value) in _quantities(passage.folded)
        or (translated and (_TIMES_OTHER.get(unit, ""), value) in _quantities(passage.folded))
    )


def _has_one(text: str, claimed: str, unit: str) -> bool:
    """Whether a text has *one* of a unit as written, or, of a measure, says what is for each."""
    return claimed in text or (unit in MEASURES and f"每{claimed[1:]}" in text)


def _has_time(text: str, time: str) -> bool:
    hour, _, minute = time.partition(":")
    hours = {float(hour), float(hour) - _NOON, float(hour) + _NOON}
    if minute == "00" and not hours.isdisjoint(_numbers(text)):
        return True
    return (float(hour) % _NOON, minute) in _clocks(text)


def unknown_durations(text: str, passages: Iterable[IndexedPassage]) -> Iterator[tuple[int, int]]:
    """The durations of a folded text that are no number with a unit and that no passage has."""
    for phrase, amount in _DURATIONS.items() if _DURATION.search(text) else ():
        found = re.search(phrase, text)
        if found and not any(_base(*amount) in _quantities(passage.folded) for passage in passages):
            yield found.span()


def has_number(text: str, digits: str) -> bool:
    """Whether a passage has a number above one, in words too."""
    return digits.replace(".", "", 1).isdigit() and float(digits) > 1 and float(digits) in _numbers(text)


@lru_cache(maxsize=2048)
def _numbers(text: str) -> frozenset[float]:
    """The numbers of a passage; cached, as each value of an answer is compared with them."""
    return frozenset(number.value for number in find_numbers(text) if number.value is not None)


@lru_cache(maxsize=2048)
def _clocks(text: str) -> frozenset[tuple[float, str]]:
    """The times of a passage on a dial of twelve hours."""
    times = (claim.value.partition(":") for claim in find_claims(text) if claim.kind is ClaimKind.NUMBER)
    return frozenset((float(hour) % _NOON, minute) for hour, colon, minute in times if colon)


@lru_cache(maxsize=2048)
def _without_unit(text: str) -> frozenset[float]:
    """The numbers of a passage that stand somewhere without a known unit of measure."""
    measured = [
        claim
        for claim in find_claims(text)
        if claim.kind is ClaimKind.NUMBER and not same_unit(claim.value.partition(" ")[2], ITEM)
    ]
    return frozenset(
        number.value
        for number in find_numbers(text)
        if number.value is not None and not any(each.start <= number.start < each.end for each in measured)
    )


@lru_cache(maxsize=2048)
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
    """A duration in its smaller unit; a Chinese discount, which says what is paid, as what is saved."""
    if unit == _DISCOUNT:
        return "%", 100.0 - 10 * value if value < _NOON else 100.0 - value
    smaller, factor = _UNITS.get(unit, (unit, 1.0))
    return smaller, value * factor
