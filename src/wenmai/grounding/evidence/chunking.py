"""Chunking of long texts into passages of about 300 Chinese characters or 150 English words.

A passage is a paragraph; a short one joins the next, a long one is cut between sentences. Each cut depends on its
neighbourhood only, so an edit changes only the passages it touches. Chunks do not overlap.
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
    """The passages of a text, in order, verbatim but for outer white space; blank lines separate paragraphs."""
    chunks: list[list[str]] = []
    pending: list[str] = []
    pending_size = 0
    for paragraph in _paragraphs(text):
        for part in _cut(paragraph):
            pending.append(part)
            pending_size += size(part)
            if pending_size >= _SHORTEST:
                chunks.append(pending)
                pending, pending_size = [], 0
    if pending and chunks:
        chunks[-1] += pending
    elif pending:
        chunks.append(pending)
    return ["\n\n".join(parts) for parts in chunks]


def size(text: str) -> int:
    """Reading length of a text; see :data:`TARGET`."""
    return sum(1 if match[1] else _WORD_SIZE for match in _WORD.finditer(text))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in _BLANK_LINES.split(text):
        stripped = paragraph.strip()
        if stripped:
            yield stripped


def _cut(paragraph: str) -> Iterator[str]:
    """The paragraph whole, or in groups of sentences of about equal size, none far over the target."""
    whole = size(paragraph)
    if whole <= _LONGEST:
        yield paragraph
        return
    target_size = whole / -(-whole // TARGET)
    start = size_so_far = 0
    for begin, end in _spans(paragraph):
        length = size(paragraph[begin:end])
        if size_so_far and size_so_far + length / 2 > target_size:
            yield paragraph[start:begin].strip()
            start, size_so_far = begin, 0
        size_so_far += length
    yield paragraph[start:].strip()


def _spans(paragraph: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence; one longer than a passage is cut between words."""
    position = 0
    for sentence in sentences(paragraph):
        begin = paragraph.index(sentence, position)
        position = begin + len(sentence)
        start = begin
        size_so_far = 0
        for word in _WORD.finditer(sentence):
            if size_so_far >= TARGET:
                yield start, begin + word.start()
                start, size_so_far = begin + word.start(), 0
            size_so_far += 1 if word[1] else _WORD_SIZE
        yield start, position
