"""Estimate of the tokens of a text, for models without a token counter of their own.

The weights are a least-squares fit to the mean of four public tokenizers over real Chinese and English conversations.
``docs/explanation/tokens.md`` gives the errors; ``python -m benchmarks.token_estimate`` measures them again.

A million characters take about 20 ms, so that no message blocks an event loop: characters are classified by
``bytes.translate`` and runs counted by ``bytes.count``; a regular expression would build an object for each run.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache

TokenCounter = Callable[[str], int]
"""Number of tokens of a text, as a model counts them."""

_CACHED_TEXTS, _CACHED_LENGTH = 4_096, 1_000
"""How many estimates are kept, and of texts up to which length: passages and messages come in turn after turn."""

_PER_MARKS = 0.76
_PER_HAN = 0.70
_PER_WIDE_MARKS = 1.32
_PER_ALPHABETIC = 0.35
_PER_SYLLABLE = 0.75
_PER_SYMBOL = 2.0

_WORD_PIECE = b"x" * 10
_DIGITS = b"x" * 2


def _table(members: Iterable[int]) -> bytes:
    """A translation table of these bytes to ``x`` and of all others to blanks."""
    chosen = frozenset(members)
    return bytes(ord("x") if byte in chosen else ord(" ") for byte in range(256))


def _span(*bounds: tuple[int, int]) -> frozenset[int]:
    """All numbers from each first to each last one."""
    return frozenset(number for first, last in bounds for number in range(first, last + 1))


_LETTER = _table(_span((0x41, 0x5A), (0x61, 0x7A)))
_DIGIT = _table(_span((0x30, 0x39)))
_LINE_BREAK = _table([0x0A])
_MARK = _table(_span((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)))
_TRAILING_BYTES = bytes(range(0x80, 0xC0))
"""Continuation bytes of UTF-8; without them each character is one byte."""

# Beyond ASCII a character is looked up by the two bytes of its UTF-16 code: the upper one names a block of 256. Most
# blocks are of one kind throughout. Of the others each kind has a bit: an upper byte has the bits of its block's
# kinds, a lower byte those of the kinds that have a character there, and the bit that both have is the kind.
_HAN_BLOCKS = _span((0x34, 0x4C), (0x4E, 0x9F), (0xF9, 0xFA))
_SYLLABLE_BLOCKS = _span((0x08, 0x1F), (0xAC, 0xD6))
_ALPHABETIC_BLOCKS = _span((0x01, 0x07))
_MIXED: tuple[tuple[int, int, frozenset[int]], ...] = (
    (1, 0x20, _span((0x10, 0x27))),  # dashes, quotation marks, ellipses
    (2, 0x30, _span((0x00, 0x04), (0x08, 0x20))),  # 、。《》「」
    (4, 0xFF, _span((0x01, 0x0F), (0x1A, 0x20), (0x3B, 0x40), (0x5B, 0x65))),  # ，！？
    (8, 0x30, frozenset({0x05, 0x07})),  # 々〇
    (16, 0x4D, _span((0x00, 0xBF))),  # Han
    (32, 0x30, _span((0x41, 0xFF))),  # kana
    (64, 0xD7, _span((0x00, 0xA3))),  # Hangul
    (128, 0x00, _span((0x80, 0xFF))),  # accented Latin
)
"""Bit, block, and the lower bytes of the characters of that kind."""
_WIDE_MARK_BITS, _HAN_BITS, _SYLLABLE_BITS, _ALPHABETIC_BITS = _span((1, 7)), {8, 16}, {32, 64}, {128}

_UPPER_BITS = bytes(sum(bit for bit, block, _ in _MIXED if block == upper) for upper in range(256))
_LOWER_BITS = bytes(sum(bit for bit, _, lowers in _MIXED if lower in lowers) for lower in range(256))
_WIDE_MARK = _table(_WIDE_MARK_BITS)


def _all_but(members: Iterable[int]) -> bytes:
    return bytes(set(range(256)) - set(members))


_NOT_ZERO = _all_but([0])
_NOT_HAN_BLOCKS, _NOT_HAN_BITS = _all_but(_HAN_BLOCKS), _all_but(_HAN_BITS)
_NOT_SYLLABLE_BLOCKS, _NOT_SYLLABLE_BITS = _all_but(_SYLLABLE_BLOCKS), _all_but(_SYLLABLE_BITS)
_NOT_ALPHABETIC_BLOCKS, _NOT_ALPHABETIC_BITS = _all_but(_ALPHABETIC_BLOCKS), _all_but(_ALPHABETIC_BITS)
_NOT_WIDE_MARK_BITS = _all_but(_WIDE_MARK_BITS)
# Of the rare Han characters, beyond U+FFFF, the first of their two codes.
_RARE_HAN_BLOCK = 0xD8
_RARE_HAN_UPPER, _RARE_HAN_LOWER = _table([_RARE_HAN_BLOCK]), _table(_span((0x40, 0x88)))


_BEYOND_ASCII = bytes(range(0x80, 0x100))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text by kinds of characters; 0 for an empty text, otherwise at least 1.

    A Latin word counts one token per ten letters, a number one per two digits, a run of marks 0.76, a Han
    character 0.70. The tokens that a chat template adds to each message are not included.
    """
    return _cached_estimate(text) if len(text) <= _CACHED_LENGTH else _estimate(text)


def _estimate(text: str) -> int:
    if not text:
        return 0
    if text.isascii():
        return max(1, round(_ascii_tokens(text.encode("ascii"))))
    characters = text.encode("utf-8", "surrogatepass").translate(None, _TRAILING_BYTES)
    ascii_tokens = _ascii_tokens(characters) if characters.translate(None, _BEYOND_ASCII) else 0.0
    return max(1, round(ascii_tokens + _wide_tokens(text)))


_cached_estimate = lru_cache(_CACHED_TEXTS)(_estimate)


def _ascii_tokens(characters: bytes) -> float:
    """The ASCII part of the estimate; a byte beyond ASCII is a character that ends a run."""
    letters = characters.translate(_LETTER)
    ends_of_words = letters.replace(_WORD_PIECE, b"")
    tokens = (len(letters) - len(ends_of_words)) // len(_WORD_PIECE) + _runs(ends_of_words)
    digits = characters.translate(_DIGIT)
    tokens += digits.count(b"x") - digits.count(_DIGITS)  # each pair is one
    if b"\n" in characters:
        tokens += _runs(characters.translate(_LINE_BREAK))
    return tokens + _PER_MARKS * _runs(characters.translate(_MARK))


def _runs(translated: bytes) -> int:
    """Number of runs of ``x``."""
    return translated.count(b" x") + translated.startswith(b"x")


def _wide_tokens(text: str) -> float:
    """The part of the estimate for characters beyond ASCII."""
    codes = text.encode("utf-16-be", "surrogatepass")
    upper, lower = codes[::2], codes[1::2]
    mixed = _bitwise_and(upper.translate(_UPPER_BITS), lower.translate(_LOWER_BITS))

    def number(not_blocks: bytes, not_bits: bytes) -> int:
        return len(upper.translate(None, not_blocks)) + len(mixed.translate(None, not_bits))

    han = number(_NOT_HAN_BLOCKS, _NOT_HAN_BITS)
    if _RARE_HAN_BLOCK in upper:
        han += _bitwise_and(upper.translate(_RARE_HAN_UPPER), lower.translate(_RARE_HAN_LOWER)).count(b"x")
    wide_marks = len(mixed.translate(None, _NOT_WIDE_MARK_BITS))
    tokens = _PER_HAN * han + _PER_WIDE_MARKS * _runs(mixed.translate(_WIDE_MARK))
    ascii_characters = len(upper.translate(None, _NOT_ZERO)) - len(mixed.translate(None, _NOT_ALPHABETIC_BITS))
    left = len(text) - ascii_characters - han - wide_marks
    if left:
        syllables = number(_NOT_SYLLABLE_BLOCKS, _NOT_SYLLABLE_BITS)
        alphabetic = number(_NOT_ALPHABETIC_BLOCKS, _NOT_ALPHABETIC_BITS)
        tokens += _PER_ALPHABETIC * alphabetic + _PER_SYLLABLE * syllables
        tokens += _PER_SYMBOL * (left - alphabetic - syllables)
    return tokens


def _bitwise_and(first: bytes, second: bytes) -> bytes:
    """Bitwise and, byte by byte."""
    return (int.from_bytes(first) & int.from_bytes(second)).to_bytes(len(first))
