"""Ordinals such as 第三条 and *the third one*: their number, and the item's name in an answer that lists it."""

import re
from itertools import takewhile

import msgspec

from wenmai.grounding.lexicon import Lexicon, once_per_lexicon
from wenmai.text.cjk import normalise
from wenmai.text.patterns import any_word

_DIGITS = "一二三四五六七八九"
ORDINALS_EN = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ITEMS_EN = "one|item|point|rule|step|entry"
_MEASURES = "条则个项点句种件段步座位"
_MOST = 40
"""Items of a list that are counted."""

_ITEM_ZH = r"[^，。；：、！？\n]{1,20}?"
_ENUMERATIONS = [
    (
        re.compile(rf"({_ITEM_ZH}(?:、{_ITEM_ZH}){{1,19}}(?:、|和|及|以及|与){_ITEM_ZH})(?=[，。；！？\n]|等|$)"),
        re.compile("、|以及|和|及|与"),
    ),
    (
        re.compile(r"((?:[^,.;:\n]{1,60}, ){1,19}(?:[^,.;:\n]{1,60},? )?and [^,.;:\n]{1,60})(?=[.;\n]|$)"),
        re.compile(r",? and |, "),
    ),
]
"""Enumerations, and what separates their items."""


class Ordinal(msgspec.Struct, frozen=True, kw_only=True):
    """An ordinal in a question.

    Attributes:
        text: as it is written, normalised.
        number: 1 to 99; counted from the end -1 to -99.
        end: where it ends in the normalised text.
        of_list: whether its measure word refers to items of a list.
    """

    text: str
    number: int
    end: int
    of_list: bool


def find_ordinal(text: str, lexicon: Lexicon) -> Ordinal | None:
    """The first ordinal of a text, or None."""
    found = _ordinal(lexicon).search(normalise(text))
    if found is None:
        return None
    if found["back"] or found["to_last"]:
        number = -_number(found["back"] or found["to_last"])
    elif found["last"] or found["last_en"]:
        number = -1
    else:
        number = _number(found["zh"] or found["en"])
    of_list = any(found[group] for group in ("item", "one", "back", "to_last", "last", "last_en"))
    return Ordinal(text=found[0], number=number, end=found.end(), of_list=of_list)


def without_ordinals(normal: str, lexicon: Lexicon) -> str:
    """A normalised text with each ordinal replaced by a blank."""
    return _ordinal(lexicon).sub(" ", normal)


def item_name(number: int, answer: str, lexicon: Lexicon) -> str | None:
    """The name of the item of that number in a text that lists it, or None.

    A Chinese name has 2 to 8 characters (20 in quotation marks) and follows ``一曰``, ``第一条：``,
    ``第一条「`` or ``1.``; an English one is in quotation marks after the ordinal, or follows ``first,``. A list
    without numbers is an enumeration: ``A、B和C``, *A, B and C*.
    """
    if number < 0:
        items = _numbered_items(answer, lexicon) or _enumerated(answer)
        return items[number] if len(items) >= -number else None
    named = _numbered_item(number, answer, lexicon)
    if named is None and _numbered_item(1, answer, lexicon) is None:
        items = _enumerated(answer)
        return items[number - 1] if len(items) >= number else None
    return named


def _numbered_items(answer: str, lexicon: Lexicon) -> list[str]:
    """The items from the first one on, up to a number that is missing."""
    found = takewhile(lambda name: name is not None, (_numbered_item(n, answer, lexicon) for n in range(1, _MOST + 1)))
    return [name for name in found if name]


def _enumerated(text: str) -> list[str]:
    """The items of the first enumeration of at least three."""
    for pattern, separator in _ENUMERATIONS:
        found = pattern.search(text)
        if found:
            return [item for item in (part.strip(" 「」“”\"'") for part in separator.split(found[1])) if item]
    return []


def _numbered_item(number: int, answer: str, lexicon: Lexicon) -> str | None:
    for pattern in _name_patterns(number, lexicon):
        found = pattern.search(answer)
        if found:
            return found[1].strip()
    return None


@once_per_lexicon
def _ordinal(lexicon: Lexicon) -> re.Pattern[str]:
    return re.compile(
        rf"倒数第(?P<back>[一二三四五六七八九十]{{1,3}}|[0-9]{{1,2}})[{_MEASURES}]?"
        rf"|(?P<last>最后(?:面|头)?[一那][{_MEASURES}])"
        rf"|第(?P<zh>[一二三四五六七八九十]{{1,3}}|[0-9]{{1,2}})(?P<item>[{_MEASURES}])?"
        rf"|\bthe (?P<to_last>{'|'.join(ORDINALS_EN)}) (?:to|from)(?: the)? (?:last|end)\b(?: one\b)?"
        rf"|(?P<last_en>\bthe (?:very )?last (?:{any_word(lexicon.words.list_items, _ITEMS_EN)})\b)"
        rf"|\bthe (?P<en>{'|'.join(ORDINALS_EN)}|[0-9]{{1,2}}(?=st|nd|rd|th))(?:st|nd|rd|th)?\b"
        rf"(?P<one> (?:{any_word(lexicon.words.list_items, _ITEMS_EN)})\b)?"
    )


def _number(written: str) -> int:
    if written in ORDINALS_EN:
        return ORDINALS_EN.index(written) + 1
    if written.isdigit():
        return int(written)
    tens, ten, ones = written.rpartition("十")
    if not ten:
        return _DIGITS.index(written[0]) + 1
    return 10 * (_DIGITS.index(tens[0]) + 1 if tens else 1) + (_DIGITS.index(ones) + 1 if ones else 0)


def _han(number: int) -> str:
    tens, ones = divmod(number, 10)
    lead = "" if tens == 0 else "十" if tens == 1 else f"{_DIGITS[tens - 1]}十"
    return lead + (_DIGITS[ones - 1] if ones else "")


def _name_patterns(number: int, lexicon: Lexicon) -> list[re.Pattern[str]]:
    han = _han(number)
    end = r"(?=[，。；、！？,.;」』”》\s]|$)"
    chinese = [
        rf"第(?:{han}|{number})[条则个项点句]?[^\n，。；「『“]{{0,6}}[「『“]([^「」『』“”\n]{{2,20}})[」』”]",
        rf"第(?:{han}|{number})[条则个项点句]?(?:是|为|曰)?[：:，,]\s*([\u4e00-\u9fff]{{2,8}}){end}",
        rf"(?<![{_DIGITS}十]){han}(?:曰|是|为)[：:，,「『“]?([\u4e00-\u9fff]{{2,8}}){end}",
        rf"(?:^|\n)[ \t\u3000]*(?:{han}、|{number}[.、)）])\s*([\u4e00-\u9fff]{{2,8}}){end}",
    ]
    items = any_word(lexicon.words.list_items, _ITEMS_EN)
    word = ORDINALS_EN[number - 1] if number <= len(ORDINALS_EN) else f"{number}(?:st|nd|rd|th)"
    english = [
        rf"\b{word}\b[^\"“”\n.;]{{0,60}}[\"“]([^\"“”\n]{{3,80}}?)[,.]?[\"”]",
        rf"\b{word}(?: (?:{items}))?(?:,|:| is) ([^,;:.\n]{{3,80}})(?=[;:.\n]|$)",
    ]
    return [re.compile(pattern, re.IGNORECASE) for pattern in chinese + english]
