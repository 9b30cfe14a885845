"""What to search for when a question leans on the talk before it. Nothing but the search sees the result."""

from collections.abc import Iterator, Sequence

import msgspec

from wenmai.chat import phrases
from wenmai.chat.intent import Focus, focus_of, is_about_the_talk
from wenmai.chat.ordinals import find_ordinal, item_name, without_ordinals
from wenmai.stores.records import Message
from wenmai.text.cjk import content_words, has_words, normalise, sentences

_LONGEST_ELLIPSIS = 80
_LONGEST_TEXT = 200
_LONGEST_NAME = 40
_MOST_CARRIED = 6
_MOST_PIECES = 3


class Rewrite(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched for.

    Attributes:
        text: the question itself, or what was carried followed by the question, at most 200 characters.
        carried: what was taken from the talk, the topic first; empty if the question stands on its own.
    """

    text: str
    carried: list[str]


class _Turn(msgspec.Struct, frozen=True, kw_only=True):
    question: str
    answer: str
    leans: bool


def rewrite(question: str, window: Sequence[Message], topic_words: Sequence[str]) -> Rewrite:
    """Complete an elliptic question from the talk before it.

    What is carried are topic words, quoted titles and, failing these, the content words of the latest
    question that stood on its own; of the questions since then, their topic words and the item that an
    ordinal among them (第一条, the first one) turned out to be in an answer. Instructions are not carried.

    Args:
        question: what the visitor wrote.
        window: earlier completed turns of the thread, ascending.
        topic_words: words that name what the evidence is about.
    """
    if not leans_on_talk(question, topic_words):
        return Rewrite(text=question, carried=[])
    chain = _chain(window, topic_words)
    found = [word for turn in chain for word in _topics(turn, topic_words)]
    found += _antecedent(question, chain, topic_words)
    found += _item(question, chain)
    normal = normalise(question)
    carried: list[str] = []
    room = _LONGEST_TEXT - len(question) - 1
    for word in _longest_only(found):
        room -= len(word) + 1
        if room < 0 or len(carried) == _MOST_CARRIED:
            break
        if normalise(word) not in normal:
            carried.append(word)
    return Rewrite(text=" ".join([*carried, question]), carried=carried)


def leans_on_talk(question: str, topic_words: Sequence[str]) -> bool:
    """Whether a question cannot be understood without the talk before it.

    It leans if it is short and points back (它, this one, 第一条) at what it has not named before, or asks
    for what may be asked of anything (a story, the reason, more) without saying of what.
    """
    text = phrases.LEADING_THEN.sub("", normalise(question).strip())
    if len(text) > _LONGEST_ELLIPSIS or not any(map(str.isalnum, text)) or is_about_the_talk(question):
        return False
    own = _named(text, topic_words)
    pronoun, ordinal = phrases.PRONOUN.search(text), find_ordinal(text)
    back = pronoun.start() if pronoun else ordinal.end if ordinal and ordinal.of_list else None
    if back is not None:
        return not has_words(text[:back], own)
    return not own and (phrases.POINTING.search(text) is not None or not _subject(text))


def _longest_only(words: Sequence[str]) -> list[str]:
    """The words, each once, without those that are part of another."""
    unique = list(dict.fromkeys(words))
    return [word for word in unique if not any(word != other and word in other for other in unique)]


def _named(text: str, topic_words: Sequence[str]) -> list[str]:
    """Topic words and quoted titles of a text, in the order of the text."""
    titles = [title for pair in phrases.TITLE.findall(text) for title in pair if title]
    words = [word for word in has_words(text, topic_words) if phrases.GENERIC.fullmatch(normalise(word)) is None]
    normal = normalise(text)
    return sorted(dict.fromkeys([*words, *titles]), key=lambda word: normal.find(normalise(word)))


def _subject(normal: str) -> list[str]:
    """The content words that are more than what may be asked of anything."""
    words = content_words(without_ordinals(normal))
    return [word for word in words if len(word) > 1 and not word.isdigit() and not _is_generic(word)]


def _is_generic(word: str) -> bool:
    for pattern in (phrases.CONTINUATION, phrases.GENERIC, phrases.FILLER):
        word = pattern.sub("", word)
    return not word


def _chain(window: Sequence[Message], topic_words: Sequence[str]) -> list[_Turn]:
    """The latest turn that stood on its own and those after it, ascending; without wishes and greetings."""
    chain: list[_Turn] = []
    for turn in _newest_first(window, topic_words):
        chain.insert(0, turn)
        if not turn.leans:
            break
    return chain


def _newest_first(window: Sequence[Message], topic_words: Sequence[str]) -> Iterator[_Turn]:
    questions = {message.turn_id: message.content for message in window if message.role == "user"}
    answers = {message.turn_id: message.content for message in window if message.role == "assistant"}
    for turn_id, question in reversed(questions.items()):
        if any(map(str.isalnum, question)) and not is_about_the_talk(question):
            leans = leans_on_talk(question, topic_words)
            yield _Turn(question=question, answer=answers.get(turn_id, ""), leans=leans)


def _topics(turn: _Turn, topic_words: Sequence[str]) -> list[str]:
    """What a question was about: what it names, else its content words."""
    asked = " ".join(part for part in sentences(turn.question) if not phrases.INSTRUCTION.search(normalise(part)))
    named = [name for name in _named(asked, topic_words) if len(name) <= _LONGEST_NAME]
    return named if named or turn.leans else _subject(normalise(asked))[:_MOST_PIECES]


def _antecedent(question: str, chain: Sequence[_Turn], topic_words: Sequence[str]) -> list[str]:
    """Whom a personal pronoun means after a question for a person: the first known name in the answer."""
    if not chain or not phrases.PERSON.search(normalise(question)) or focus_of(chain[-1].question) is not Focus.WHO:
        return []
    asked = _named(chain[-1].question, topic_words)
    outside_titles = phrases.TITLE.sub(" ", chain[-1].answer)
    return [name for name in _named(outside_titles, topic_words) if name not in asked][:1]


def _item(question: str, chain: Sequence[_Turn]) -> list[str]:
    """The item that the latest ordinal means, as an answer names it; else the ordinal itself."""
    for text in (question, *(turn.question for turn in reversed(chain))):
        ordinal = find_ordinal(text)
        if ordinal:
            names = (item_name(ordinal.number, turn.answer) for turn in reversed(chain))
            return [next(filter(None, names), ordinal.text)]
    return []
