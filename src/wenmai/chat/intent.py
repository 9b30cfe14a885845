"""What a question is after, by rules; a wrong guess is always in favour of asking the evidence."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from wenmai.chat import phrases
from wenmai.chat.ordinals import ORDINALS_EN, without_ordinals
from wenmai.chat.types import Intent
from wenmai.text.cjk import content_words, has_words, normalise


class Focus(StrEnum):
    """The kind of answer that a question wants."""

    WHEN = "when"
    HOW_MANY = "how_many"
    WHO = "who"
    WHERE = "where"


class Understanding(msgspec.Struct, frozen=True, kw_only=True):
    """What was understood of a question.

    Attributes:
        matched: the words that led to the intent: the profile's spelling, else the visitor's, normalised.
        focus: the first kind of answer that is asked for, if any.
    """

    intent: Intent
    matched: list[str]
    focus: Focus | None


_FOCUS = re.compile(
    "(?P<when>哪一?年|何年|何时|什么时候|几时|哪个?朝代|什么年代|哪个年代|哪一?天|几月|几号|哪个?月"
    r"|\bwhen\b|\b(?:what|which) (?:year|date|day|month|time|century|dynasty|period)\b)"
    "|(?P<how_many>多少|几(?!乎)|多大|多高|多长|多久|多远|多重"
    r"|\bhow (?:many|much|long|old|tall|big|large|far|often)\b)"
    r"|(?P<who>谁|哪一?位|何人|什么人|哪个人|哪些人|\b(?:who|whom|whose)\b)"
    "|(?P<where>哪里|哪儿|何处|何地|什么地方|哪个地方|在哪"
    r"|\bwhere\b|\b(?:what|which) (?:place|village|county|province)\b)"
)
_ASKING = re.compile(
    r"[?吗呢么]|什么|哪|几|多少|谁|怎|如何|为何|是否|有没有|是不是|能不能|介绍|告诉|讲讲|说说|讲一讲|说一说"
    r"|\b(?:who|what|when|where|why|how|which|is|are|was|were|do|does|did|tell|describe)\b"
)
_ORDINAL_WORDS = frozenset({*ORDINALS_EN, "one", "ones"})
_ADDRESS_WORDS = 2
_ADDRESS_LENGTH = 8


def classify(question: str, *, words: Mapping[str, Sequence[str]], in_talk: bool) -> Understanding:
    """Understand a question.

    Args:
        question: what the visitor wrote.
        words: the profile's words for each intent, keyed by the values of :class:`Intent`; Latin ones match
            whole words only.
        in_talk: whether completed turns precede it, so that an elliptic question can be understood.
    """
    text = normalise(question)
    found = {intent: has_words(text, words.get(intent, ())) for intent in Intent}
    intent, matched = _decide(text, found, in_talk=in_talk)
    return Understanding(intent=intent, matched=matched, focus=focus_of(question))


def focus_of(question: str) -> Focus | None:
    """The kind of answer that is asked for first, or None."""
    asked = _FOCUS.search(normalise(question))
    return Focus(str(asked.lastgroup)) if asked else None


def is_about_the_talk(question: str) -> bool:
    """Whether a message greets or wishes and asks for nothing else, by the built-in patterns alone."""
    return classify(question, words={}, in_talk=True).intent in (Intent.GREETING, Intent.CONTEXT_PREFERENCE)


def _decide(text: str, found: Mapping[Intent, list[str]], *, in_talk: bool) -> tuple[Intent, list[str]]:
    facts, foreign = found[Intent.FACT_SEEKING], found[Intent.OUT_OF_SCOPE]
    talk = _about_the_talk(text, found)
    intent, matched = Intent.FACT_SEEKING, facts
    unclear = found[Intent.CLARIFICATION]
    if not any(map(str.isalnum, text)):
        intent, matched = Intent.CLARIFICATION, []
    elif talk:
        intent, matched = talk
    elif foreign and not facts:
        intent, matched = Intent.OUT_OF_SCOPE, foreign
    elif (unclear or not in_talk) and not (facts or _names_anything(text, unclear)):
        intent, matched = Intent.CLARIFICATION, unclear
    return intent, matched


def _about_the_talk(text: str, found: Mapping[Intent, list[str]]) -> tuple[Intent, list[str]] | None:
    """Greeting or wish, if the text is that and no more, with the words that show it."""
    wishes = found[Intent.CONTEXT_PREFERENCE] + [match[0] for match in phrases.WISH.finditer(text)]
    greetings = found[Intent.GREETING] + [match[0] for match in phrases.GREETING.finditer(text)]
    rest = _without(text, [*wishes, *greetings])
    elsewhere = found[Intent.FACT_SEEKING] or found[Intent.OUT_OF_SCOPE] or _states_or_asks(text)
    if wishes and (not rest or not elsewhere):
        return Intent.CONTEXT_PREFERENCE, wishes
    if greetings and (not rest or (not elsewhere and _is_address(rest))):
        return Intent.GREETING, greetings
    return None


def _names_anything(text: str, unclear: Sequence[str]) -> bool:
    """Whether the text has a subject of its own, so that it can be understood outside of a talk."""
    named = " ".join(_without(text, unclear))
    rest = content_words(without_ordinals(phrases.CONTINUATION.sub(" ", named)))
    return any(word not in _ORDINAL_WORDS for word in rest)


def _without(text: str, words: Sequence[str]) -> list[str]:
    """The content words that are left when ``words`` and mere fillers are taken out of a normalised text."""
    for word in sorted({normalise(word) for word in words}, key=lambda word: (-len(word), word)):
        text = re.sub(rf"(?<![a-z]){re.escape(word)}(?![a-z])", " ", text)
    return content_words(phrases.FILLER.sub(" ", text))


def _is_address(rest: Sequence[str]) -> bool:
    """Whether what is left may name the one who is spoken to: 严爷爷, village elder."""
    return len(rest) <= _ADDRESS_WORDS and all(len(word) <= _ADDRESS_LENGTH for word in rest)


def _states_or_asks(text: str) -> bool:
    """Whether there is a question or a figure in it, which evidence should answer for."""
    return _ASKING.search(text) is not None or any(map(str.isdigit, text))
