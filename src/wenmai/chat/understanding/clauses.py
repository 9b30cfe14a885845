"""Clauses of a message: courtesies, instructions to the model, challenges, and what is asked."""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache

import msgspec

from wenmai.chat.understanding import courtesies, cues
from wenmai.grounding.prompt_injection import looks_like_instruction
from wenmai.text.cjk import content_words, normalise
from wenmai.text.folding import fold

_END = re.compile(r"[，。！？!?；;…~～\n]+|,(?!\d)|(?<!\d)\.(?=\s|$)|(?<=\d)\.(?=\s|$)")
_ADDRESS_WORDS = 2
_ADDRESS_LENGTH = 8

INTERROGATIVE = re.compile(
    r"[?？吗呢]|么(?:$|[,，。])|什么|啥|哪|几(?!乎)|多少|多[大高长久远重宽深快]|谁|怎|如何|为何|何[时地处人]|是否|有没有|是不是"
    r"|能不能|可不可以|可否|能否|要不要|会不会"
    r"|\b(?:who|whom|whose|what|when|where|why|how|which)(?:'s)?\b"
    r"|^(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have|had|may|must)\b"
)
"""A question, in normalised text."""

REQUEST = re.compile(
    r"介绍|告诉我|讲讲|说说|讲一讲|说一说|讲一下|说一下|聊聊|谈谈|想知道|想了解|想问|请问|列出|解释|概括|总结"
    r"|\b(?:tell (?:me|us)|describe|explain|list|show me|give me|summari[sz]e)\b"
    r"|\bi(?:'d| would)? (?:like|want|need) to know\b"
)
"""A request for information, in normalised text."""

_TOPICAL = re.compile(
    r"介绍|讲讲|说说|讲一讲|说一说|讲一下|说一下|聊聊|谈谈|解释|概括"
    r"|\b(?:tell (?:me|us) about|describe|explain|summari[sz]e)\b"
)
"""A request that names a topic and states nothing."""

_OF_SPEAKERS = re.compile(r"[我咱你您俺]|\b(?:i|i'm|i've|my|me|we|our|you|your|you're|you've)\b")
_TROUBLE = re.compile(
    r"没(?!想到)|不|坏|丢|错|忘|失|打|想|要|需|听说|记得|书上|网上|\b(?:not|no|lost|broke\w*|error|problem|help|need|want|heard|read|"
    r"forgot|missing|stolen|can't|won't|cannot)\b|n't\b"
)

WH = re.compile(
    r"什么|啥|哪|几(?!乎)|多少|多[大高长久远重宽深快]|谁|怎|如何|为何|何[时地处人]"
    r"|\b(?:who|whom|whose|what|when|where|why|how|which)(?:'s)?\b"
)
"""A question that is not answered by yes or no."""


class ClauseKind(StrEnum):
    """The kinds of clauses."""

    GREETING = "greeting"
    COURTESY = "courtesy"
    INSTRUCTION = "instruction"
    CHALLENGE = "challenge"
    CONTENT = "content"


class Clause(msgspec.Struct, frozen=True):
    """A clause with its closing marks, verbatim, and its kind."""

    text: str
    kind: ClauseKind


def readable(text: str) -> str:
    """A text as the patterns read it: normalised, with simplified characters."""
    return fold(normalise(text)).strip()


@lru_cache(maxsize=256)
def clauses(message: str) -> tuple[Clause, ...]:
    """The clauses of a message, in order; joined they are the message."""
    found: list[Clause] = []
    instructed = False
    for text in _split(message):
        kind = _kind(readable(text), instructed=instructed)
        instructed = instructed or kind is ClauseKind.INSTRUCTION
        found.append(Clause(text, kind))
    return tuple(found)


def is_chat(text: str) -> bool:
    """Whether a clause beside a courtesy is small talk: of the speakers, without a question and without a trouble."""
    normal = readable(text).replace("呢", "")
    return _OF_SPEAKERS.search(normal) is not None and not asks(normal) and not tells_trouble(normal)


def tells_trouble(normal: str) -> bool:
    """Whether a normalised text denies, needs or misses something, so that it may want an answer."""
    return _TROUBLE.search(normal) is not None


def asked_of(message: str) -> str:
    """The message without its courtesies, greetings and instructions to the model; ``""`` if nothing remains."""
    dropped = {ClauseKind.GREETING, ClauseKind.COURTESY, ClauseKind.INSTRUCTION}
    kept = "".join(clause.text for clause in clauses(message) if clause.kind not in dropped)
    return kept.strip() if any(map(str.isalnum, kept)) else ""


def has_instruction(message: str) -> bool:
    """Whether a part of a message is an instruction to the model."""
    return any(clause.kind is ClauseKind.INSTRUCTION for clause in clauses(message))


def asks(text: str) -> bool:
    """Whether a text contains a question or a request."""
    normal = readable(text)
    return INTERROGATIVE.search(normal) is not None or REQUEST.search(normal) is not None


def rest_of(normal: str, pattern: re.Pattern[str]) -> list[str]:
    """The content words of a normalised text without the matches of a pattern and fillers."""
    return content_words(cues.FILLER.sub(" ", pattern.sub(" ", normal)))


def is_address(rest: Sequence[str]) -> bool:
    """Whether the remaining words may be a form of address: 王爷爷, old friend."""
    return len(rest) <= _ADDRESS_WORDS and all(len(word) <= _ADDRESS_LENGTH for word in rest)


def _split(message: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(message):
        yield message[start : end.end()]
        start = end.end()
    if message[start:].strip():
        yield message[start:]


def _kind(normal: str, *, instructed: bool) -> ClauseKind:
    if _is_instruction(normal) or (instructed and not (asks_strictly(normal) or _TOPICAL.search(normal))):
        return ClauseKind.INSTRUCTION
    if courtesies.CHALLENGE.search(normal) and not rest_of(normal, courtesies.CHALLENGE):
        return ClauseKind.CHALLENGE
    if cues.GREETING.search(normal) and _is_only(normal, cues.GREETING):
        return ClauseKind.GREETING
    if _is_courtesy(normal):
        return ClauseKind.COURTESY
    return ClauseKind.CONTENT


def _is_instruction(normal: str) -> bool:
    if cues.PROMPT.search(normal):
        return True
    return not asks_strictly(normal) and (cues.INSTRUCTION.search(normal) is not None or looks_like_instruction(normal))


def _is_courtesy(normal: str) -> bool:
    if courtesies.COURTESY.search(normal) and _is_only(normal, courtesies.COURTESY):
        return True
    if courtesies.ACKNOWLEDGEMENT.search(normal) and not asks_strictly(normal):
        return not rest_of(normal, courtesies.ACKNOWLEDGEMENT)
    return courtesies.THANKS_LEAD.search(normal) is not None and not asks_strictly(normal)


def asks_strictly(normal: str) -> bool:
    """Whether a normalised text contains a question."""
    return INTERROGATIVE.search(normal) is not None


def _is_only(normal: str, pattern: re.Pattern[str]) -> bool:
    rest = rest_of(normal, pattern)
    return not rest or (is_address(rest) and not asks(normal) and not any(map(str.isdigit, normal)))
