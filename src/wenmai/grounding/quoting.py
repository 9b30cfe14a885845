"""Quotes from passages, attributed to their source."""

import re
from collections.abc import Sequence

from wenmai.grounding.types import Passage
from wenmai.text.cjk import has_cjk

_BOOK = re.compile(r"《[^《》]{1,60}》")
_BOOK_EN = re.compile(r"[A-Z][A-Za-z'’ -]{3,80}(?=,|$)")
_NAMES_SOURCE = re.compile(r"据[^：]{2,20}[，,]|(?i:according to\b)")


def quote_sentences(passage: Passage, sentences: Sequence[str], language: str) -> str:
    """Sentences with their source, unless they name it themselves; hearsay is marked, and so is a replaced version."""
    quote = _attributed(passage, sentences, language)
    if not passage.supersedes:
        return quote
    if language.startswith("en"):
        return f"{quote} (In force since {passage.effective_date}; it supersedes “{passage.supersedes}”.)"
    return f"{quote}（自{passage.effective_date}起施行，取代“{passage.supersedes}”。）"


def _attributed(passage: Passage, sentences: Sequence[str], language: str) -> str:
    english = language.startswith("en")
    quote = (" " if not has_cjk(sentences[0]) else "").join(sentences)
    source = source_name(passage, english=english)
    if not passage.verified:
        return f"Reportedly ({source}, unverified): {quote}" if english else f"据传（{source}，未经核实）：{quote}"
    if _NAMES_SOURCE.match(quote):
        return quote
    return f"{source} says: {quote}" if english else f"据{source}：{quote}"


def source_name(passage: Passage, *, english: bool) -> str:
    """Name of a source for use in a sentence: the book in its reference, else the passage's title."""
    book = _BOOK.search(passage.source_ref) or _BOOK.search(passage.title)
    if book and passage.verified:
        return book[0]
    named = _BOOK_EN.match(passage.source_ref)
    if named and passage.verified and not has_cjk(passage.title):
        return f"“{named[0]}”"
    title = passage.title.strip('《》"“”')
    return f"“{title}”" if english else f"《{title}》"
