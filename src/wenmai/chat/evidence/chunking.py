"""Long texts become passages of about 300 Chinese characters or 150 English words.

They are cut where the author pauses: a passage is a paragraph, a short one joins the next, a long one is cut
between sentences. Each cut depends on its own neighbourhood only, so that an edit changes the passages it
touches and no others. Nothing overlaps.
"""

import re
from collections.abc import Iterator

from wenmai.text.cjk import CJK, sentences

TARGET = 300
"""The size of a passage: a Chinese character counts 1, a Latin word or number 2."""

_LONGEST = TARGET * 4 // 3
_SHORTEST = TARGET // 4
_BLANK_LINES = re.compile(r"\n(?:[ \t\u3000]*\n)+")
_WORD = re.compile(rf"([{CJK}])|[^\W_{CJK}]+")
_WORD_SIZE = 2


def chunk(text: str) -> list[str]:
    """The passages of a text, in order, verbatim but for outer blanks; blank lines part paragraphs."""
    joined: list[list[str]] = []
    waiting: list[str] = []
    waiting_size = 0
    for paragraph in _paragraphs(text):
        for piece in _cut(paragraph):
            waiting.append(piece)
            waiting_size += size(piece)
            if waiting_size >= _SHORTEST:
                joined.append(waiting)
                waiting, waiting_size = [], 0
    if waiting and joined:
        joined[-1] += waiting
    elif waiting:
        joined.append(waiting)
    return ["\n\n".join(pieces) for pieces in joined]


def size(text: str) -> int:
    """How long a text is to a reader; see :data:`TARGET`."""
    return sum(1 if match[1] else _WORD_SIZE for match in _WORD.finditer(text))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in _BLANK_LINES.split(text):
        stripped = paragraph.strip()
        if stripped:
            yield stripped


def _cut(paragraph: str) -> Iterator[str]:
    """The paragraph whole, or in runs of sentences of about the same size, none far over the target."""
    whole = size(paragraph)
    if whole <= _LONGEST:
        yield paragraph
        return
    wanted = whole / -(-whole // TARGET)
    start = taken = 0
    for begin, end in _spans(paragraph):
        length = size(paragraph[begin:end])
        if taken and taken + length / 2 > wanted:
            yield paragraph[start:begin].strip()
            start, taken = begin, 0
        taken += length
    yield paragraph[start:].strip()


def _spans(paragraph: str) -> Iterator[tuple[int, int]]:
    """Where the sentences begin and end; one that is longer than a passage is cut between words."""
    position = 0
    for sentence in sentences(paragraph):
        begin = paragraph.index(sentence, position)
        position = begin + len(sentence)
        start = begin
        taken = 0
        for word in _WORD.finditer(sentence):
            if taken >= TARGET:
                yield start, begin + word.start()
                start, taken = begin + word.start(), 0
            taken += 1 if word[1] else _WORD_SIZE
        yield start, position
