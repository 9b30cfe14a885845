"""Rewrites a context-dependent question as a standalone one. Only the search uses the result."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from wenmai.chat.understanding import cues
from wenmai.chat.understanding.clauses import asked_of, readable
from wenmai.chat.understanding.dialogue_acts import answer_type_of, is_about_conversation, is_challenge
from wenmai.chat.understanding.focus import CitedTurns
from wenmai.chat.understanding.ordinals import find_ordinal, item_name, without_ordinals
from wenmai.grounding.claims.claim import ClaimKind
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import Lexicon
from wenmai.grounding.types import AnswerType
from wenmai.stores.records import Message
from wenmai.text.cjk import content_words, find_words, normalise, sentences

_MAX_ELLIPSIS = 80
_MAX_TEXT = 200
_MAX_NAME = 40
_MAX_CARRIED = 6
_MAX_CONTENT_WORDS = 3
_BOUNDARY = re.compile(r"[,，;；:：.。!！?？]|\b(?:and|but|so|or)\b|[和跟与]")


class Rewrite(msgspec.Struct, frozen=True, kw_only=True):
    """The search text of a question.

    Attributes:
        text: the question itself, or the carried words followed by the question, at most 200 characters.
        carried: words taken from the conversation, the topic first; empty for a standalone question.
    """

    text: str
    carried: list[str]


class _Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A question, and the text that its answer cited."""

    question: str
    cited: str
    context_dependent: bool


def rewrite(question: str, window: Sequence[Message], lexicon: Lexicon, focus: CitedTurns) -> Rewrite:
    """Complete an elliptic question from the conversation; a standalone one is not changed."""
    if not is_context_dependent(question, lexicon):
        return Rewrite(text=question, carried=[])
    return with_context(question, window, lexicon, focus)


def with_context(question: str, window: Sequence[Message], lexicon: Lexicon, focus: CitedTurns) -> Rewrite:
    """A question with words of the conversation.

    Carried are the topic words and quoted titles of the latest standalone question, or as a fallback its content
    words; from later questions, their topic words; the person that a pronoun refers to and the item that the latest
    ordinal (第一条, the first one) refers to in the passages that answers cited. Instructions are not carried.

    Args:
        question: as the user wrote it.
        window: earlier completed turns of the thread, ascending.
        lexicon: the words of the field; its topics are carried.
        focus: the passages that the answers of these turns cited.
    """
    chain = _topic_chain(window, lexicon, focus)
    found = [word for turn in chain for word in _topics(turn, lexicon)]
    found += _antecedent(question, chain, lexicon)
    item = _item(question, chain, lexicon)
    found += item
    question = _with_item(question, item, lexicon)
    normal = normalise(question)
    carried: list[str] = []
    room = _MAX_TEXT - len(question) - 1
    for word in _drop_contained(found):
        room -= len(word) + 1
        if room < 0 or len(carried) == _MAX_CARRIED:
            break
        if normalise(word) not in normal:
            carried.append(word)
    return Rewrite(text=" ".join([*carried, question]), carried=carried)


def _with_item(question: str, item: Sequence[str], lexicon: Lexicon) -> str:
    """The question with the item's name in place of an ordinal from the end, which no passage counts."""
    ordinal = find_ordinal(question, lexicon)
    if ordinal is None or ordinal.number > 0 or item[0] == ordinal.text:
        return question
    return normalise(question).replace(ordinal.text, item[0], 1)


def is_context_dependent(question: str, lexicon: Lexicon) -> bool:
    """Whether a question needs the conversation to be understood.

    That is a short question with an anaphor (它, this one, 第一条) without an antecedent in the question, or with
    generic words (a story, the reason, more) and no topic.
    """
    text = cues.LEADING_CONJUNCTION.sub("", readable(question))
    if len(text) > _MAX_ELLIPSIS or not any(map(str.isalnum, text)) or is_about_conversation(question):
        return False
    own = _named(text, lexicon)
    pronoun, ordinal = cues.PRONOUN.search(text), find_ordinal(text, lexicon)
    back = pronoun.start() if pronoun else ordinal.end if ordinal and ordinal.of_list else None
    if back is not None:
        return not find_words(text[:back], own) and not (pronoun and _has_antecedent(text[:back], lexicon))
    return not own and (cues.DEMONSTRATIVE.search(text) is not None or not _subject(text, lexicon))


def _has_antecedent(before: str, lexicon: Lexicon) -> bool:
    """Whether a subject is named before a pronoun, in a clause or a part of its own: *the lamp blinks, what is it*."""
    ends = [boundary.start() for boundary in _BOUNDARY.finditer(before)]
    return bool(ends) and bool(_subject(before[: ends[-1]], lexicon))


def subject_words(question: str, lexicon: Lexicon) -> list[str]:
    """The content words of a question that are not generic."""
    return _subject(cues.LEADING_CONJUNCTION.sub("", readable(question)), lexicon)


def _drop_contained(words: Sequence[str]) -> list[str]:
    """The unique words, without those that are part of another."""
    unique = list(dict.fromkeys(words))
    return [word for word in unique if not any(word != other and word in other for other in unique)]


def _named(text: str, lexicon: Lexicon) -> list[str]:
    """Topic words and quoted titles, in the order of the text."""
    titles = [title for pair in cues.TITLE.findall(text) for title in pair if title]
    words = [word for word in find_words(text, lexicon.topics) if cues.GENERIC.fullmatch(normalise(word)) is None]
    normal = normalise(text)
    return sorted(dict.fromkeys([*words, *titles]), key=lambda word: normal.find(normalise(word)))


def _subject(normal: str, lexicon: Lexicon) -> list[str]:
    """The content words that are not generic."""
    words = content_words(without_ordinals(normal, lexicon))
    return [word for word in words if len(word) > 1 and not word.isdigit() and not _is_generic(word)]


def _is_generic(word: str) -> bool:
    for pattern in (cues.CONTINUATION, cues.GENERIC, cues.FILLER):
        word = pattern.sub("", word)
    return not word


def _topic_chain(window: Sequence[Message], lexicon: Lexicon, focus: CitedTurns) -> list[_Turn]:
    """The latest standalone turn and those after it, ascending; without preferences, courtesies and challenges."""
    chain: list[_Turn] = []
    for turn in _newest_first(window, lexicon, focus):
        chain.insert(0, turn)
        if not turn.context_dependent:
            break
    return chain


def _newest_first(window: Sequence[Message], lexicon: Lexicon, focus: CitedTurns) -> Iterator[_Turn]:
    for turn_id, question in asked_before(window):
        context_dependent = is_context_dependent(question, lexicon)
        yield _Turn(question=question, cited=focus.text_of(turn_id), context_dependent=context_dependent)


def asked_before(window: Sequence[Message]) -> Iterator[tuple[int, str]]:
    """The earlier questions with their turns, newest first, without preferences, courtesies and challenges."""
    asked = [(message.turn_id, asked_of(message.content)) for message in window if message.role == "user"]
    for turn_id, question in reversed(asked):
        challenged = turn_id != asked[0][0] and is_challenge(question)
        if question and not challenged and not is_about_conversation(question):
            yield turn_id, question


def _topics(turn: _Turn, lexicon: Lexicon) -> list[str]:
    """Topics of a question: what it names, else its content words."""
    question = " ".join(part for part in sentences(turn.question) if not cues.INSTRUCTION.search(normalise(part)))
    named = [name for name in _named(question, lexicon) if len(name) <= _MAX_NAME]
    return named if named or turn.context_dependent else _subject(normalise(question), lexicon)[:_MAX_CONTENT_WORDS]


def _antecedent(question: str, chain: Sequence[_Turn], lexicon: Lexicon) -> list[str]:
    """Antecedent of a personal pronoun: the first person in the cited text, unless the question named one."""
    if not chain or not cues.PERSON.search(readable(question)):
        return []
    latest = chain[-1]
    named = _named(latest.question, lexicon)
    asked_who = answer_type_of(latest.question) is AnswerType.WHO
    if _persons(latest.question, lexicon) and not asked_who:
        return []
    outside_titles = cues.TITLE.sub(" ", latest.cited)
    known = [name for name in _named(outside_titles, lexicon) if name not in named] if asked_who else []
    found = [name for name in _persons(outside_titles, lexicon) if name not in named]
    return (found or known)[:1]


def _persons(text: str, lexicon: Lexicon) -> list[str]:
    return [claim.text for claim in find_claims(text, lexicon) if claim.kind is ClaimKind.PERSON]


def _item(question: str, chain: Sequence[_Turn], lexicon: Lexicon) -> list[str]:
    """The item of the latest ordinal, as a cited passage names it; else the ordinal itself."""
    for text in (question, *(turn.question for turn in reversed(chain))):
        ordinal = find_ordinal(text, lexicon)
        if ordinal:
            names = (item_name(ordinal.number, turn.cited, lexicon) for turn in reversed(chain) if turn.cited)
            return [next(filter(None, names), ordinal.text)]
    return []
