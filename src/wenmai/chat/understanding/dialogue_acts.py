"""Rule-based classification of dialogue acts; by default a message is ``FACT_SEEKING``, so evidence is searched."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from wenmai.chat.understanding import courtesies, cues
from wenmai.chat.understanding.clauses import WH, ClauseKind, clauses, is_address, is_chat, readable, tells_trouble
from wenmai.chat.understanding.ordinals import ORDINALS_EN, without_ordinals
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.grounding.types import AnswerType, DialogueAct
from wenmai.text.cjk import content_words, find_words, normalise


class Understanding(msgspec.Struct, frozen=True, kw_only=True):
    """Classification of a question.

    Attributes:
        matched: the words that decided the dialogue act: in the profile's spelling, else the user's, normalised.
        answer_type: the first expected kind of answer, if any.
    """

    dialogue_act: DialogueAct
    matched: list[str]
    answer_type: AnswerType | None


_ANSWER_TYPE = re.compile(
    "(?P<when>哪一?年|何年|何时|什么时候|几时|哪个?朝代|什么年代|哪个年代|哪一?天|几月|几号|哪个?月"
    r"|\bwhen(?: exactly| precisely)? (?:is|are|was|were|do|does|did|will|would|can|could|should|shall"
    r"|must|has|have|had|to)\b"
    r"|\bwhen\W*$"
    r"|\b(?:know|tell \w+|say|says|wonder|show|idea|sure|ask|remember|explain)(?: exactly)? when\b"
    r"|\b(?:what|which) (?:year|date|day|month|time|century|dynasty|period)\b)"
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
_CHALLENGING = re.compile(f"{courtesies.CHALLENGE.pattern}|{courtesies.HEARSAY.pattern}")
_INTERJECTION = re.compile(
    r"(?:no|wait|well|hey|oh|um+|er+|actually|sorry|but|可是|但是?|不过|[哎诶唉欸啊]+|等等|慢着|等一下)[,，.。!！…\s]*"
)
_OPENING_CHALLENGE = re.compile(rf"(?:那|可|但|but|hm+|well|wait)?[,，\s]*(?:{_CHALLENGING.pattern})")
_ORDINAL_WORDS = frozenset({*ORDINALS_EN, "one", "ones"})


def classify(
    question: str, *, words: Mapping[str, Sequence[str]], in_conversation: bool, lexicon: Lexicon = EMPTY
) -> Understanding:
    """Classify a question.

    Args:
        question: as the user wrote it.
        words: the profile's words for each dialogue act, keyed by the values of :class:`DialogueAct`; Latin ones match
            whole words only.
        in_conversation: whether completed turns precede it, so that an elliptic question can be resolved.
        lexicon: the words of the field.
    """
    text = readable(question)
    found = {dialogue_act: find_words(text, words.get(dialogue_act, ())) for dialogue_act in DialogueAct}
    dialogue_act, matched = _decide(text, found, lexicon, in_conversation=in_conversation)
    return Understanding(dialogue_act=dialogue_act, matched=matched, answer_type=answer_type_of(question))


def answer_type_of(question: str) -> AnswerType | None:
    """The first expected kind of answer, or None."""
    match = _ANSWER_TYPE.search(readable(question))
    return AnswerType(str(match.lastgroup)) if match else None


@lru_cache(maxsize=1_024)
def is_about_conversation(question: str) -> bool:
    """Whether a message is only a greeting, a courtesy or a preference, by the built-in patterns alone."""
    return classify(question, words={}, in_conversation=True).dialogue_act in (
        DialogueAct.GREETING,
        DialogueAct.COURTESY,
        DialogueAct.CONTEXT_PREFERENCE,
    )


def is_challenge(question: str) -> bool:
    """Whether a message, in a conversation, challenges an answer: 你确定吗, *really? I read it was 1950*."""
    parts = [
        clause
        for clause in clauses(question)
        if clause.kind in (ClauseKind.CHALLENGE, ClauseKind.CONTENT)
        and _INTERJECTION.fullmatch(readable(clause.text)) is None
    ]
    if not parts:
        return False
    first = readable(parts[0].text)
    challenged = parts[0].kind is ClauseKind.CHALLENGE or _OPENING_CHALLENGE.match(first) is not None
    asked = any(
        WH.search(_without_challenge(readable(clause.text))) for clause in parts if clause.kind is ClauseKind.CONTENT
    )
    return challenged and not asked


def _decide(
    text: str, found: Mapping[DialogueAct, list[str]], lexicon: Lexicon, *, in_conversation: bool
) -> tuple[DialogueAct, list[str]]:
    facts, out_of_scope = found[DialogueAct.FACT_SEEKING], found[DialogueAct.OUT_OF_SCOPE]
    conversational = _about_conversation(text, found)
    dialogue_act, matched = DialogueAct.FACT_SEEKING, facts
    unclear = found[DialogueAct.CLARIFICATION]
    if not any(map(str.isalnum, text)):
        dialogue_act, matched = DialogueAct.CLARIFICATION, []
    elif conversational:
        dialogue_act, matched = conversational
    elif in_conversation and is_challenge(text):
        dialogue_act, matched = DialogueAct.CHALLENGE, [match[0] for match in _CHALLENGING.finditer(text)]
    elif out_of_scope and not facts:
        dialogue_act, matched = DialogueAct.OUT_OF_SCOPE, out_of_scope
    elif (unclear or not in_conversation) and not (facts or _names_anything(text, unclear, lexicon)):
        dialogue_act, matched = DialogueAct.CLARIFICATION, unclear
    return dialogue_act, matched


def _about_conversation(text: str, found: Mapping[DialogueAct, list[str]]) -> tuple[DialogueAct, list[str]] | None:
    """Greeting, courtesy or preference, if the text is only that, with the matched words."""
    preferences = found[DialogueAct.CONTEXT_PREFERENCE] + [match[0] for match in cues.PREFERENCE.finditer(text)]
    greetings = found[DialogueAct.GREETING] + [match[0] for match in cues.GREETING.finditer(text)]
    polite_words = found[DialogueAct.COURTESY] + [match[0] for match in courtesies.COURTESY.finditer(text)]
    rest = _without(text, [*preferences, *greetings, *polite_words])
    other = found[DialogueAct.FACT_SEEKING] or found[DialogueAct.OUT_OF_SCOPE] or _states_or_asks(text)
    if preferences and (not rest or not other):
        return DialogueAct.CONTEXT_PREFERENCE, preferences
    polite = not rest or (not other and is_address(rest) and not tells_trouble(text))
    if greetings and polite and not (polite_words and _position(text, polite_words) < _position(text, greetings)):
        return DialogueAct.GREETING, greetings
    if (polite_words and polite) or _is_courteous(text):
        return DialogueAct.COURTESY, polite_words
    return None


def _is_courteous(text: str) -> bool:
    """Whether there is a courtesy or a greeting, and nothing else but small talk."""
    found = [clause for clause in clauses(text) if any(map(str.isalnum, clause.text))]
    polite = [clause.kind in (ClauseKind.COURTESY, ClauseKind.GREETING) for clause in found]
    return any(polite) and all(
        kind or (clause.kind is ClauseKind.CONTENT and is_chat(clause.text))
        for kind, clause in zip(polite, found, strict=True)
    )


def _position(text: str, words: Sequence[str]) -> int:
    return min(text.find(normalise(word)) for word in words)


def _without_challenge(normal: str) -> str:
    return courtesies.CHALLENGE.sub(" ", normal)


def _names_anything(text: str, unclear: Sequence[str], lexicon: Lexicon) -> bool:
    """Whether the text names a topic, so that it needs no context."""
    named = " ".join(_without(text, unclear))
    rest = content_words(without_ordinals(cues.CONTINUATION.sub(" ", named), lexicon))
    return any(word not in _ORDINAL_WORDS for word in rest)


def _without(text: str, words: Sequence[str]) -> list[str]:
    """The content words of a normalised text without ``words`` and fillers."""
    for word in sorted({normalise(word) for word in words}, key=lambda word: (-len(word), word)):
        text = re.sub(rf"(?<![a-z]){re.escape(word)}(?![a-z])", " ", text)
    return content_words(cues.FILLER.sub(" ", text))


def _states_or_asks(text: str) -> bool:
    """Whether the text contains a question or a figure, which needs evidence."""
    return _ASKING.search(text) is not None or any(map(str.isdigit, text))
