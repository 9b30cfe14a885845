"""Romanised Chinese: whether a name in Latin letters is the pinyin of Chinese characters, and the reverse."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product

from wenmai.text.cjk import CJK

_RUN = re.compile(f"[{CJK}]+")
_WORD = re.compile(r"[a-zà-ɏ]+")
_LONGEST = 4
_MOST_READINGS = 3


@cache
def load_readings() -> Mapping[int, str]:
    """The readings of each character, separated by commas, with tone marks."""
    # Imported late: it takes a tenth of a second, and only translations need it.
    from pypinyin.pinyin_dict import pinyin_dict  # noqa: PLC0415  see above

    readings: Mapping[int, str] = pinyin_dict
    return readings


@cache
def syllables(char: str) -> tuple[str, ...]:
    """The common readings of a Chinese character, without tones."""
    found = load_readings().get(ord(char), "").split(",")
    plain = ("".join(c for c in unicodedata.normalize("NFD", each) if c.isascii()) for each in found[:_MOST_READINGS])
    return tuple(dict.fromkeys(filter(None, plain)))


def romanised(text: str) -> Iterator[tuple[str, int, int]]:
    """The romanisations of up to four adjacent Chinese characters, with their offsets."""
    for run in _RUN.finditer(text):
        for start in range(*run.span()):
            for end in range(start + 1, min(start + _LONGEST, run.end()) + 1):
                for reading in product(*map(syllables, text[start:end])):
                    yield "".join(reading), start, end


def romanised_words(texts: Iterable[str]) -> dict[str, int]:
    """For each romanisation the texts that have it, as bits."""
    found: defaultdict[str, int] = defaultdict(int)
    for number, text in enumerate(texts):
        for word, _, _ in romanised(text):
            found[word] |= 1 << number
    return dict(found)


def latin_words(texts: Iterable[str]) -> dict[str, int]:
    """For each word in Latin letters, in lower case, the texts that have it, as bits."""
    found: defaultdict[str, int] = defaultdict(int)
    for number, text in enumerate(texts):
        for word in _WORD.findall(text):
            found[word] |= 1 << number
    return dict(found)


def is_name_in(name: str, words: Mapping[str, int]) -> bool:
    """Whether a name in Latin letters is made of romanisations: its words one by one, or all joined."""
    parts = _WORD.findall(name.lower())
    return bool(parts) and ("".join(parts) in words or all(part in words for part in parts))


def is_spelt_in(name: str, words: Mapping[str, int]) -> bool:
    """Whether a Chinese name is spelt in Latin words, as one word or as surname and given name."""
    spelt = {word for word, _, _ in romanised(name) if word in words}
    return any(_splits("".join(each), spelt) for each in product(*map(syllables, name[:_LONGEST])))


def _splits(reading: str, words: set[str]) -> bool:
    """Whether a reading is one of the words, or two of them joined."""
    return reading in words or any(reading[:cut] in words and reading[cut:] in words for cut in range(1, len(reading)))
