"""Text analysis for lexical search, the same for indexing and queries and on every backend.

Chinese, Japanese and Korean are written without reliable spaces. A run of their characters is indexed as unigrams and
overlapping bigrams; a query uses the bigrams, and unigrams only for words of one character. Traditional characters are
folded to simplified ones in both. Stop words are removed from Chinese queries, never from the index. Latin words are
lower-cased and stemmed (Snowball English), English stop words are removed from both, digits are kept as they are.

Everything here runs in time linear in the text.
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, lru_cache, wraps
from operator import add
from typing import TypeVar

from wenmai.text.folding import fold
from wenmai.text.stopwords import CONTENT_ZH, STOP_EN, STOP_ZH

T = TypeVar("T")

CJK = "々〇\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U000323af"
"""Han, Kana and Hangul, as the content of a character class."""

ANALYSIS = 2
"""Version of the index terms of a text; an index with those of another version must be built anew."""

_SLICE = 1024
_LONGEST_STEMMED = 100
"""Maximum length of a word that is stemmed and cached; a longer one is its own term."""

_SHORT, _RECENT = 200, 512
"""The longest text whose analysis is cached, and how many are."""

_INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_LATIN = re.compile("[A-Za-z]")
_LETTER = rf"[^\W\d_{CJK}]"


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


def _cached_if_short(analyse: Callable[[str], T]) -> Callable[[str], T]:
    """Cache the analyses of short texts: a turn analyses its question dozens of times."""
    cached = lru_cache(maxsize=_RECENT)(analyse)

    @wraps(analyse)
    def analysed(text: str) -> T:
        return cached(text) if len(text) <= _SHORT else analyse(text)

    return analysed


def normalise(text: str) -> str:
    """Normalise a text for comparison: NFKC (full width to half width), case folded, invisible characters removed.

    Python's NFKC is quadratic in a run of combining marks, so a long text is processed in slices.
    """
    if text.isascii():
        return text.lower()
    return _normal(text)


@_cached_if_short
def _normal(text: str) -> str:
    visible = _INVISIBLE.sub("", text)
    if len(visible) <= _SLICE:
        return unicodedata.normalize("NFKC", visible).casefold()
    slices = (visible[start : start + _SLICE] for start in range(0, len(visible), _SLICE))
    return "".join(unicodedata.normalize("NFKC", part) for part in slices).casefold()


def terms(text: str) -> list[str]:
    """All index terms of a text, with repeats, in no particular order."""
    found: list[str] = []
    for run, number, word in _token().findall(fold(normalise(text))):
        if run:
            found += run
            found += map(add, run, run[1:])
        elif number:
            found.append(number.replace(",", ""))
        else:
            found += _word_term(word)
    return found


def query_terms(text: str) -> list[str]:
    """The unique search terms of a question, in order; empty if all its words are stop words."""
    return [*_query_terms(text)]


@_cached_if_short
def _query_terms(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for word in content_words(fold(normalise(text))):
        if has_cjk(word[0]):
            found += map(add, word, word[1:]) if len(word) > 1 else word
        elif word[0].isdigit():
            found.append(word.replace(",", ""))
        else:
            found += _word_term(word)
    return tuple(dict.fromkeys(found))


def content_words(text: str) -> list[str]:
    """A question without stop words: runs of CJK, Latin words and numbers, normalised.

    A run of CJK is the text between two stop words; it may be a word or a phrase.
    """
    return [*_content_words(text)]


@_cached_if_short
def _content_words(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for run, number, word in _token().findall(normalise(text)):
        if run:
            found += _stopword_pattern().sub(r" \1 ", run).split()
        elif number or _word_term(word):
            found.append(number or word)
    return tuple(found)


def sentences(text: str) -> list[str]:
    """The sentences of a Chinese or English text, each with its closing marks, verbatim but for outer white space.

    A line break ends a sentence. A full stop ends one only before white space, and not after an initial, a number
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
        position: where the search for the marks starts.
    """
    for end in _SENTENCE_END.finditer(text, position):
        if end[0][0] != "." or not _is_abbreviation(text, start, end.start()):
            return end.span()
    return None


def find_words(text: str, words: Sequence[str]) -> list[str]:
    """Those of ``words`` that occur in ``text``, in the order of ``words``, case-insensitive.

    A word or phrase with Chinese, Japanese or Korean characters matches anywhere; any other matches whole words only,
    so ``hi`` does not match in ``history``; an adjacent Chinese character is a word boundary.
    """
    if not words:
        return []
    normal = normalise(text)
    texts = normal, _spaced(normal)
    return [word for word, form, latin in _search_forms(tuple(words)) if form in texts[latin]]


def load_dictionaries() -> None:
    """Load the stemmer and the characters to fold, which takes about 0.4 s; call it off the event loop."""
    terms("ready 备")


def has_cjk(text: str) -> bool:
    """Whether any character is Han, Kana or Hangul."""
    return _cjk().search(text) is not None


def has_latin(text: str) -> bool:
    """Whether any character is a letter of ASCII."""
    return _LATIN.search(text) is not None


def _is_abbreviation(text: str, start: int, stop: int) -> bool:
    word = text[max(start, stop - 8) : stop].rpartition(" ")[2].lower()
    return (
        word in _ABBREVIATIONS
        or (len(word) == 1 and word.isascii() and word.isalpha())
        or (word.isdigit() and not text[start : stop - len(word)].strip())
    )


# Compiled on first use: these large character classes take 10 ms, and `import wenmai` is light.
@cache
def _cjk() -> re.Pattern[str]:
    return re.compile(f"[{CJK}]")


@cache
def _token() -> re.Pattern[str]:
    return re.compile(rf"([{CJK}]+)|(\d{{1,3}}(?:,\d{{3}})+(?!\d)|\d+(?:\.\d+)?)|({_LETTER}+(?:['’]{_LETTER}+)*)")


@cache
def _stopword_pattern() -> re.Pattern[str]:
    return re.compile(f"({_longest_first(CONTENT_ZH)})|{_longest_first(STOP_ZH)}")


class _Stemmer(threading.local):
    """One per thread: a stemmer keeps the current word as state."""

    @cached_property
    def stem(self) -> Callable[[str], str]:
        # Imported late: it loads thirty languages, and `import wenmai` is light.
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


@_cached_if_short
def _spaced(normal: str) -> str:
    """Words separated by one blank, by two around CJK, so that a phrase is found as a substring."""
    words = (number or word for _, number, word in _token().findall(normal))
    return " ".join(["", *words, ""])


@lru_cache(maxsize=256)
def _search_forms(words: tuple[str, ...]) -> list[tuple[str, str, bool]]:
    """Each non-empty word with its search form, and whether that is matched against the spaced words."""
    found = []
    for word in words:
        normal = normalise(word)
        latin = not has_cjk(normal)
        form = _spaced(normal) if latin else normal
        if form.strip():
            found.append((word, form, latin))
    return found
