"""The one analysis of text for lexical search, the same at write and at query and on every backend.

Chinese, Japanese and Korean are written without reliable spaces. A run of their characters is indexed as its
single characters and its overlapping pairs; a query uses the pairs, and single characters only for pieces of
one. Function words are cut out of Chinese queries, never out of the index. Latin words are lower-cased and
stemmed (Snowball English), English function words are left out of both, digits stay as they are.

Everything here runs in time linear in the text.
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, lru_cache
from operator import add

from wenmai.text.stopwords import CONTENT_ZH, STOP_EN, STOP_ZH

CJK = "々〇\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U000323af"
"""Han, Kana and Hangul, written as the inside of a regular expression's character class."""

_SLICE = 1024
_LONGEST_STEMMED = 100
"""Letters of a word that is stemmed and remembered; what is longer is no word, and stands for itself."""

_INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_HAS_CJK = re.compile(f"[{CJK}]")
_LETTER = rf"[^\W\d_{CJK}]"
_TOKEN = re.compile(rf"([{CJK}]+)|(\d{{1,3}}(?:,\d{{3}})+(?!\d)|\d+(?:\.\d+)?)|({_LETTER}+(?:['’]{_LETTER}+)*)")


def _longest_first(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=lambda word: (-len(word), word))))


_ABBREVIATIONS = frozenset(
    (
        "mr",
        "mrs",
        "ms",
        "dr",
        "prof",
        "st",
        "no",
        "vol",
        "fig",
        "vs",
        "etc",
        "e.g",
        "i.e",
        "cf",
        "al",
        "jr",
        "sr",
        "ca",
    )
)
_SENTENCE_END = re.compile(
    r"[。！？!?…]++[”’」』）)\]\"']*+"
    r"|(?<!\.)\.++[”’)\]\"']*+(?=\s|\Z)"
    r"|[\r\n]++"
)


def normalise(text: str) -> str:
    """The form in which texts are compared: NFKC (full width is half width), case folded, nothing invisible.

    Python's NFKC is quadratic in a run of combining marks, so a long text is taken in slices.
    """
    if text.isascii():
        return text.lower()
    visible = _INVISIBLE.sub("", text)
    if len(visible) <= _SLICE:
        return unicodedata.normalize("NFKC", visible).casefold()
    slices = (visible[start : start + _SLICE] for start in range(0, len(visible), _SLICE))
    return "".join(unicodedata.normalize("NFKC", part) for part in slices).casefold()


def terms(text: str) -> list[str]:
    """All index terms of a text, repeats kept; their order means nothing."""
    found: list[str] = []
    for run, number, word in _TOKEN.findall(normalise(text)):
        if run:
            found += run
            found += map(add, run, run[1:])
        elif number:
            found.append(number.replace(",", ""))
        else:
            found += _word_term(word)
    return found


def query_terms(text: str) -> list[str]:
    """The terms to search for, each once, in the order of the question; empty if all are function words."""
    found: list[str] = []
    for word in content_words(text):
        if _HAS_CJK.match(word):
            found += map(add, word, word[1:]) if len(word) > 1 else word
        elif word[0].isdigit():
            found.append(word.replace(",", ""))
        else:
            found += _word_term(word)
    return list(dict.fromkeys(found))


def content_words(text: str) -> list[str]:
    """What is left of a question without function words: pieces of CJK, Latin words and numbers, normalised.

    A piece of CJK is what stands between two function words; it may be a word or a phrase.
    """
    found: list[str] = []
    for run, number, word in _TOKEN.findall(normalise(text)):
        if run:
            found += _cut_zh().sub(r" \1 ", run).split()
        elif number or _word_term(word):
            found.append(number or word)
    return found


def sentences(text: str) -> list[str]:
    """The sentences of a Chinese or English text, each with its closing marks, verbatim but for outer blanks.

    A line break ends a sentence. A full stop ends one only before a blank, and not after an initial, a number
    that begins the sentence (``1. …``) or a common abbreviation.
    """
    parts: list[str] = []
    start = 0
    while end := sentence_end(text, start, start):
        parts.append(text[start : end[1]].strip())
        start = end[1]
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def sentence_end(text: str, start: int, position: int) -> tuple[int, int] | None:
    """Where the closing marks of a sentence begin and end.

    Args:
        text: Chinese or English.
        start: where the sentence begins.
        position: the marks are looked for from here on.
    """
    for end in _SENTENCE_END.finditer(text, position):
        if end[0][0] != "." or not _is_abbreviation(text, start, end.start()):
            return end.span()
    return None


def has_words(text: str, words: Sequence[str]) -> list[str]:
    """Which of ``words`` occur in ``text``, in the order of ``words``, whatever the case.

    A word or phrase with Chinese, Japanese or Korean characters is found anywhere; any other matches whole
    words only, so that ``hi`` is not found in ``history``; Chinese beside a Latin word bounds it.
    """
    normal = normalise(text)
    texts = normal, _spaced(normal)
    return [word for word, sought, latin in _sought(tuple(words)) if sought in texts[latin]]


def load_stemmer() -> None:
    """Load what the first English word needs, which takes about 0.3 s; to be called off the event loop."""
    _word_term("ready")


def has_cjk(text: str) -> bool:
    """Whether any character is Han, Kana or Hangul."""
    return _HAS_CJK.search(text) is not None


def _is_abbreviation(text: str, start: int, stop: int) -> bool:
    word = text[max(start, stop - 8) : stop].rpartition(" ")[2].lower()
    return (
        word in _ABBREVIATIONS
        or (len(word) == 1 and word.isascii() and word.isalpha())
        or (word.isdigit() and not text[start : stop - len(word)].strip())
    )


@cache
def _cut_zh() -> re.Pattern[str]:
    return re.compile(f"({_longest_first(CONTENT_ZH)})|{_longest_first(STOP_ZH)}")


class _Stemmer(threading.local):
    """One for each thread: the stemmer works on the word that it holds."""

    @cached_property
    def stem(self) -> Callable[[str], str]:
        # It loads thirty languages; `import wenmai` is light.
        from snowballstemmer import stemmer  # type: ignore[import-untyped]  # noqa: PLC0415  see above

        stem: Callable[[str], str] = stemmer("english").stemWord
        return stem


_stemmer = _Stemmer()


def _word_term(word: str) -> tuple[str, ...]:
    return (word,) if len(word) > _LONGEST_STEMMED else _stemmed(word)


@lru_cache(maxsize=65_536)
def _stemmed(word: str) -> tuple[str, ...]:
    plain = word.replace("’", "'")
    if plain in STOP_EN:
        return ()
    plain = plain.removesuffix("'s").replace("'", "")
    if plain in STOP_EN:
        return ()
    return (_stemmer.stem(plain) if plain.isascii() else plain,)


def _spaced(normal: str) -> str:
    """The words one blank apart, two where CJK stands between them: a phrase is then found by its text."""
    words = (number or word for _, number, word in _TOKEN.findall(normal))
    return " ".join(["", *words, ""])


@lru_cache(maxsize=256)
def _sought(words: tuple[str, ...]) -> list[tuple[str, str, bool]]:
    """Each word that has something to look for, with that, and whether it is looked for among spaced words."""
    found = []
    for word in words:
        normal = normalise(word)
        latin = not has_cjk(normal)
        sought = _spaced(normal) if latin else normal
        if sought.strip():
            found.append((word, sought, latin))
    return found
