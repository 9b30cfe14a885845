"""How many tokens a text is, where the model's own counter is not at hand.

The weights are a least-squares fit to the mean of four public tokenizers over real Chinese and English talk.
``docs/explanation/tokens.md`` states the errors; ``python -m benchmarks.token_estimate`` measures them again.
"""

import re

# The look-ahead changes no match; it lets the engine skip other characters three times as fast.
_WORD_PIECE = re.compile(r"(?=[A-Za-z0-9\n])(?:[A-Za-z]{1,10}|[0-9]{1,2}|\n+)")
_MARKS = re.compile(r"[!-/:-@\[-`{-~]+")
_HAN = re.compile("[々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+")
_WIDE_MARKS = re.compile(
    "[\u2010-\u2027\u3000-\u3004\u3008-\u3020\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]+"
)
_ALPHABETS = re.compile("[\u0080-\u07ff]+")
_SYLLABLES = re.compile("[\u0800-\u1fff\u3041-\u30ff\uac00-\ud7a3]+")

_PER_MARKS = 0.76
_PER_HAN = 0.70
_PER_WIDE_MARKS = 1.32
_PER_ALPHABETIC = 0.35
_PER_SYLLABLE = 0.75
_PER_SYMBOL = 2.0


def estimate_tokens(text: str) -> int:
    """The tokens of a text, estimated by kinds of characters; 0 for an empty text, otherwise at least 1.

    A Latin word counts one token per ten letters, a number one per two digits, a run of marks 0.76, a Han
    character 0.70. What a chat template adds to each message is not included.
    """
    if not text:
        return 0
    ascii_length = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    tokens = 0.0
    if ascii_length:
        tokens += len(_WORD_PIECE.findall(text)) + _PER_MARKS * len(_MARKS.findall(text))
    if ascii_length < len(text):
        tokens += _wide_tokens(text, len(text) - ascii_length)
    return max(1, round(tokens))


def _wide_tokens(text: str, left: int) -> float:
    """The part of the estimate that stems from the ``left`` characters beyond ASCII."""
    han = _length(_HAN, text)
    wide_marks = _WIDE_MARKS.findall(text)
    tokens = _PER_HAN * han + _PER_WIDE_MARKS * len(wide_marks)
    left -= han + sum(map(len, wide_marks))
    if left:
        alphabetic, syllables = _length(_ALPHABETS, text), _length(_SYLLABLES, text)
        tokens += _PER_ALPHABETIC * alphabetic + _PER_SYLLABLE * syllables
        tokens += _PER_SYMBOL * (left - alphabetic - syllables)
    return tokens


def _length(characters: re.Pattern[str], text: str) -> int:
    return sum(map(len, characters.findall(text)))
