"""Numbers as people write them: digits, full-width digits, Chinese numerals, English words."""

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from wenmai.text.cjk import has_latin
from wenmai.text.patterns import word_list

_DIGITS = {char: value for value, chars in enumerate(
    ("〇零", "一壹", "二贰两", "三叁", "四肆", "五伍", "六陆", "七柒", "八捌", "九玖")
) for char in chars}  # fmt: skip
_PLACES = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_GROUPS = {"万": 10_000, "亿": 100_000_000}
_TENS = {"廿": 20, "卅": 30}

NUMERALS = "〇零一壹二贰两三叁四肆五伍六陆七柒八捌九玖十拾百佰千仟万亿廿卅"
"""All Chinese numerals, as the content of a character class."""

_SAME_LENGTH = str.maketrans(
    {0xFF01 + offset: 0x21 + offset for offset in range(94) if chr(0x21 + offset).isalnum()}
    | {ord(old): new for old, new in zip("貳兩參陸萬億弌年", "贰两叁陆万亿一年", strict=True)}
)
_WIDE = frozenset(map(chr, _SAME_LENGTH))
_NUMERIC = frozenset(NUMERALS)

_UNITS_EN = word_list(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
    """
)
_TENS_EN = word_list("twenty thirty forty fifty sixty seventy eighty ninety")
_ORDINALS_EN = word_list(
    """
    zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
    fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth
    """
)
_TENTHS_EN = word_list("twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth")
_WORDS_EN = {word: value for value, word in enumerate(_UNITS_EN)} | {
    word: 10 * (index + 2) for index, word in enumerate(_TENS_EN)
}
_ORDINAL_WORDS = {word: value for value, word in enumerate(_ORDINALS_EN)} | {
    word: 10 * (index + 2) for index, word in enumerate(_TENTHS_EN)
}
_MULTIPLIERS_EN = {"hundred": 100, "thousand": 1000, "million": 1_000_000}

_WORD = "|".join((*_WORDS_EN, *_MULTIPLIERS_EN))
_ORDINAL = "|".join(_ORDINAL_WORDS)
_FIGURES = (
    r"(?<![\d.])(?P<digits>\d{1,3}(?:,\d{3}){1,4}(?!\d|,\d)|"
    r"\d{1,12}(?:\.\d{1,6})?(?!\d))(?P<scale>(?:[百万亿]|千(?![瓦克米卡帕赫伏])){0,2})"
    r"(?P<suffix>(?:st|nd|rd|th)\b)?"
    rf"|(?<![{NUMERALS}])(?P<chinese>[{NUMERALS}]{{1,16}})"
)
_FIGURE = re.compile(_FIGURES)
_NUMBER = re.compile(
    rf"{_FIGURES}"
    rf"|(?i:\b(?P<words>(?:{_WORD})\b(?:(?:[ -]|(?:(?<=hundred)|(?<=thousand)) and )(?:{_WORD}|{_ORDINAL})\b){{0,8}}))"
    rf"|(?i:\b(?P<ordinal>{_ORDINAL})\b)"
)

_DIGIT_OR_LETTER = re.compile(r"[\dA-Za-z]")


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """A number in a text.

    Attributes:
        value: None for a run of numerals that is no number.
        chinese: it is written in Chinese numerals.
        ordinal: *which* instead of *how many*; for Chinese the caller checks for 第.
    """

    text: str
    value: float | None
    chinese: bool
    ordinal: bool
    start: int
    end: int


def fold_width(text: str) -> str:
    """The text with half-width digits and letters and standard numerals; offsets are unchanged."""
    return text if _WIDE.isdisjoint(text) else text.translate(_SAME_LENGTH)


def may_count(text: str) -> bool:
    """Whether a text may have a number: it has a digit, a Chinese numeral or a letter of ASCII."""
    return not _NUMERIC.isdisjoint(text) or _DIGIT_OR_LETTER.search(text) is not None


def chinese_number(text: str) -> int | None:
    """The value of Chinese numerals: by places (三百二十, 廿三) or digit by digit (一五二三), else None."""
    if not text or any(char not in NUMERALS for char in text):
        return None
    if all(char in _DIGITS for char in text):
        return int("".join(str(_DIGITS[char]) for char in text))
    total = section = digit = 0
    for char in text:
        if char in _DIGITS:
            digit = _DIGITS[char]
        elif char in _TENS:
            section, digit = section + _TENS[char], 0
        elif char in _PLACES:
            section, digit = section + (digit or 1) * _PLACES[char], 0
        else:
            total, section, digit = (total + (section + digit or 1)) * _GROUPS[char], 0, 0
    return total + section + digit


def whole_number(text: str) -> int | None:
    """The value of a short numeral in digits or Chinese; 元 and 正 count as the first."""
    if text in {"元", "正"}:
        return 1
    return int(text) if text.isdecimal() else chinese_number(text)


def ordinal_number(text: str) -> int | None:
    """The value of an English ordinal: ``5th``, ``fifth``, ``twenty-first``; None if it is none."""
    words = text.lower().replace("-", " ").split()
    if len(words) == 1 and words[0][:-2].isdecimal():
        return int(words[0][:-2])
    if not words or words[-1] not in _ORDINAL_WORDS:
        return None
    return sum(_WORDS_EN.get(word, 0) for word in words[:-1]) + _ORDINAL_WORDS[words[-1]]


def find_numbers(text: str) -> Iterator[Number]:
    """The numbers in a text with folded width, in order."""
    return iter(_numbers(text) if may_count(text) else ())


@lru_cache(maxsize=256)
def _numbers(text: str) -> tuple[Number, ...]:
    """The numbers of a text; cached, since several checks look at the same sentence."""
    return tuple(_scan(text))


def _scan(text: str) -> Iterator[Number]:
    for match in (_NUMBER if has_latin(text) else _FIGURE).finditer(text):
        value: float | None
        if match["digits"]:
            value = float(match["digits"].replace(",", ""))
            for scale in match["scale"]:
                value *= _PLACES.get(scale) or _GROUPS[scale]
        elif match["chinese"]:
            value = chinese_number(match["chinese"])
        else:
            value = _english_value(match[0])
        last = match[0].lower().replace("-", " ").split()[-1]
        yield Number(
            text=match[0],
            value=value,
            chinese=match["chinese"] is not None,
            ordinal=match["suffix"] is not None or last in _ORDINAL_WORDS,
            start=match.start(),
            end=match.end(),
        )


def _english_value(text: str) -> float | None:
    total = section = 0
    counted = False
    for word in text.lower().replace("-", " ").split():
        if word in _MULTIPLIERS_EN:
            if not counted:
                return None  # "hundred" alone is a figure of speech
            section = (section or 1) * _MULTIPLIERS_EN[word]
            if word != "hundred":  # its tens may follow
                total, section = total + section, 0
        elif word != "and":
            counted = True
            section += _WORDS_EN.get(word, 0) + _ORDINAL_WORDS.get(word, 0)
    return float(total + section)


def format_number(value: float) -> str:
    """A number in the format of claim values: no trailing zeros, no separators."""
    return str(int(value)) if value == int(value) else str(value)
