"""Rewrites a context-dependent question as a standalone one. Only the search uses the result."""

from collections.abc import Iterator, Sequence

import msgspec

from wenmai.chat.understanding import cues
from wenmai.chat.understanding.dialogue_acts import answer_type_of, is_about_conversation
from wenmai.chat.understanding.ordinals import find_ordinal, item_name, without_ordinals
from wenmai.grounding.lexicon import Lexicon
from wenmai.grounding.types import AnswerType
from wenmai.stores.records import Message
from wenmai.text.cjk import content_words, find_words, normalise, sentences

_MAX_ELLIPSIS = 80
_MAX_TEXT = 200
_MAX_NAME = 40
_MAX_CARRIED = 6
_MAX_CONTENT_WORDS = 3


class Rewrite(msgspec.Struct, frozen=True, kw_only=True):
    """The search text of a question.

    Attributes:
        text: the question itself, or the carried words followed by the question, at most 200 characters.
        carried: words taken from the conversation, the topic first; empty for a standalone question.
    """

    text: str
    carried: list[str]


class _Turn(msgspec.Struct, frozen=True, kw_only=True):
    question: str
    answer: str
    context_dependent: bool


def rewrite(question: str, window: Sequence[Message], lexicon: Lexicon) -> Rewrite:
    """Complete an elliptic question from the conversation.

    Carried are the topic words and quoted titles of the latest standalone question, or as a fallback its content
    words; from later questions, their topic words and the item that their latest ordinal (第一条, the first one) refers
    to in an answer. Instructions are not carried.

    Args:
        question: as the user wrote it.
        window: earlier completed turns of the thread, ascending.
        lexicon: the words of the field; its topics are carried.
    """
    if not is_context_dependent(question, lexicon):
        return Rewrite(text=question, carried=[])
    chain = _topic_chain(window, lexicon)
    found = [word for turn in chain for word in _topics(turn, lexicon)]
    found += _antecedent(question, chain, lexicon)
    found += _item(question, chain, lexicon)
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


def is_context_dependent(question: str, lexicon: Lexicon) -> bool:
    """Whether a question needs the conversation to be understood.

    That is a short question with an anaphor (它, this one, 第一条) without an antecedent in the question, or with
    generic words (a story, the reason, more) and no topic.
    """
    text = cues.LEADING_CONJUNCTION.sub("", normalise(question).strip())
    if len(text) > _MAX_ELLIPSIS or not any(map(str.isalnum, text)) or is_about_conversation(question):
        return False
    own = _named(text, lexicon)
    pronoun, ordinal = cues.PRONOUN.search(text), find_ordinal(text, lexicon)
    back = pronoun.start() if pronoun else ordinal.end if ordinal and ordinal.of_list else None
    if back is not None:
        return not find_words(text[:back], own)
    return not own and (cues.DEMONSTRATIVE.search(text) is not None or not _subject(text, lexicon))


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


def _topic_chain(window: Sequence[Message], lexicon: Lexicon) -> list[_Turn]:
    """The latest standalone turn and those after it, ascending; without preferences and greetings."""
    chain: list[_Turn] = []
    for turn in _newest_first(window, lexicon):
        chain.insert(0, turn)
        if not turn.context_dependent:
            break
    return chain


def _newest_first(window: Sequence[Message], lexicon: Lexicon) -> Iterator[_Turn]:
    questions = {message.turn_id: message.content for message in window if message.role == "user"}
    answers = {message.turn_id: message.content for message in window if message.role == "assistant"}
    for turn_id, question in reversed(questions.items()):
        if any(map(str.isalnum, question)) and not is_about_conversation(question):
            context_dependent = is_context_dependent(question, lexicon)
            yield _Turn(question=question, answer=answers.get(turn_id, ""), context_dependent=context_dependent)


def _topics(turn: _Turn, lexicon: Lexicon) -> list[str]:
    """Topics of a question: what it names, else its content words."""
    question = " ".join(part for part in sentences(turn.question) if not cues.INSTRUCTION.search(normalise(part)))
    named = [name for name in _named(question, lexicon) if len(name) <= _MAX_NAME]
    return named if named or turn.context_dependent else _subject(normalise(question), lexicon)[:_MAX_CONTENT_WORDS]


def _antecedent(question: str, chain: Sequence[_Turn], lexicon: Lexicon) -> list[str]:
    """Antecedent of a personal pronoun after a *who* question: the first known name in the answer."""
    if (
        not chain
        or not cues.PERSON.search(normalise(question))
        or answer_type_of(chain[-1].question) is not AnswerType.WHO
    ):
        return []
    named = _named(chain[-1].question, lexicon)
    outside_titles = cues.TITLE.sub(" ", chain[-1].answer)
    return [name for name in _named(outside_titles, lexicon) if name not in named][:1]


def _item(question: str, chain: Sequence[_Turn], lexicon: Lexicon) -> list[str]:
    """The item of the latest ordinal, as an answer names it; else the ordinal itself."""
    for text in (question, *(turn.question for turn in reversed(chain))):
        ordinal = find_ordinal(text, lexicon)
        if ordinal:
            names = (item_name(ordinal.number, turn.answer, lexicon) for turn in reversed(chain))
            return [next(filter(None, names), ordinal.text)]
    return []
