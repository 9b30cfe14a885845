"""What a question asks: the type of its answer, and the words that a passage with the answer has."""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice
from typing import Any

import msgspec
import yaml

from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.grounding.types import AnswerType
from wenmai.text.cjk import content_words, has_cjk, normalise, query_terms
from wenmai.text.folding import fold

_MAX_TERMS, _MAX_WORDS, _MAX_SYNONYMS = 64, 32, 16
"""Terms, words, and words with synonyms, of a question that passages are compared with."""

_UNIT_ZH = re.compile(r"(?:多少|几)(个?[^\W\d_a-z个]+|个)(?:[内前后]|之内|以内|以上)?$")
_INSIDE = re.compile(r"(?<=[一-鿿])[里中内](?=有|\s|$)")
_BESIDE = 4
_NOUN_FOLLOWS = frozenset({AnswerType.WHICH, AnswerType.LIST, AnswerType.HOW_MANY})
_NOUN_AFTER = re.compile(r"[^\W\d_a-z]{1,2}")


class _Patterns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ask: list[str]
    answer: list[str]


class Synonym(msgspec.Struct, frozen=True, kw_only=True):
    """A word of a question that has synonyms.

    Attributes:
        word: as the question has it.
        terms: its index terms.
        pattern: of the word and its synonyms, in normalised text.
        is_event: whether it is a deed or an event.
    """

    word: str
    is_event: bool
    terms: frozenset[str]
    pattern: re.Pattern[str]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed question.

    Attributes:
        text: normalised, with simplified characters.
        answer_type: the expected kind of answer; None if no pattern of a question occurs.
        unit: the measure word or noun that is counted; empty if it is not known.
        words: its content words; a run of Chinese may be a phrase.
        terms: the same as index terms.
        soft: those of the noun that is asked about, such as *country* in *which country*: a sentence that answers
            need not have them.
        focus: those beside the pattern of the question: what is asked of the subject.
        synonyms: its words that have synonyms.
        values: patterns of the values that are asked for, such as an amount of money: a sentence answers if all match.
    """

    text: str
    answer_type: AnswerType | None
    unit: str
    words: tuple[str, ...]
    terms: tuple[str, ...]
    soft: frozenset[str]
    focus: frozenset[str]
    synonyms: tuple[Synonym, ...]
    values: tuple[re.Pattern[str], ...] = ()


class _Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of value: patterns of questions that ask for it, of those that do not, and of sentences that hold it."""

    ask: str
    answer: str
    unless: str = r"\A(?!)"


@lru_cache(maxsize=256)
def parse_question(text: str, lexicon: Lexicon = EMPTY) -> Question:
    """Parse a question, rewritten with context if need be.

    Args:
        text: in Chinese, English or both.
        lexicon: its synonyms are added to those of the language.
    """
    normal = fold(normalise(text))
    answer_type, match = None, None
    for type_, pattern in _asking().items():
        match = pattern.search(normal)
        if match:
            answer_type = type_
            break
    soft: list[str] = []
    if match and answer_type in _NOUN_FOLLOWS and (noun := _NOUN_AFTER.match(normal, match.end())):
        soft = [*query_terms(noun[0]), *noun[0]]
    rest = normal
    for pattern in _asking().values():
        rest = pattern.sub(" ", rest)
    rest = _INSIDE.sub(" ", rest)
    soft += [term for noun in dict.fromkeys(_generic().findall(rest)) for term in _terms_of(noun)]
    rest = _apart(_generic(), rest)
    synonyms: list[Synonym] = []
    for pattern, is_event in [*_synonyms().items(), *lexicon.synonyms]:
        synonyms += [
            Synonym(word=word, terms=frozenset(_terms_of(word)), pattern=pattern, is_event=is_event)
            for word in dict.fromkeys(word[0] for word in pattern.finditer(rest))
        ]
        rest = _apart(pattern, rest)
    words = tuple(islice(dict.fromkeys(content_words(rest)), _MAX_WORDS))
    terms = tuple(dict.fromkeys(term for word in words for term in query_terms(word)))[:_MAX_TERMS]
    return Question(
        text=normal,
        answer_type=answer_type,
        unit=_unit(answer_type, normal, match),
        words=words,
        terms=terms,
        soft=frozenset(soft),
        focus=frozenset(_focus(normal, match, terms)),
        synonyms=tuple(synonyms[:_MAX_SYNONYMS]),
        values=tuple(answer for ask, unless, answer in _values() if ask.search(normal) and not unless.search(normal)),
    )


def _apart(pattern: re.Pattern[str], text: str) -> str:
    """The text with blanks around each Chinese word of a pattern that has more than one character."""
    return pattern.sub(lambda match: f" {match[0]} " if len(match[0]) > 1 and has_cjk(match[0]) else match[0], text)


def answer_pattern(answer_type: AnswerType) -> re.Pattern[str] | None:
    """The pattern of a sentence that gives such an answer, in normalised text; None if any may."""
    return _answering()[answer_type]


def any_event(text: str) -> bool:
    """Whether a normalised text has a word of any group of events."""
    return any(pattern.search(text) for pattern, is_event in _synonyms().items() if is_event)


def _terms_of(word: str) -> list[str]:
    return [*query_terms(word), *word] if has_cjk(word) else query_terms(word)


def _unit(answer_type: AnswerType | None, text: str, asked: re.Match[str] | None) -> str:
    if asked is None or answer_type not in {AnswerType.HOW_MANY, AnswerType.HOW_LONG}:
        return ""
    if has_cjk(asked[0]):
        unit = _UNIT_ZH.search(asked[0])
        noun = _NOUN_AFTER.match(text, asked.end())
        return unit[1] if unit else noun[0] if noun else ""
    following = re.match(r"\W*([a-z]+)", text[asked.end() :]) if asked[0].endswith(("many", "much")) else None
    return following[1] if following else ""


def _focus(text: str, asked: re.Match[str] | None, terms: Sequence[str]) -> list[str]:
    """The terms beside the pattern of the question: at most four characters or one Latin word on each side."""
    if asked is None:
        return []
    before, after = content_words(text[: asked.start()])[-1:], content_words(text[asked.end() :])[:1]
    beside = [word[-_BESIDE:] if has_cjk(word) else word for word in before]
    beside += [word[:_BESIDE] if has_cjk(word) else word for word in after]
    return [term for word in beside for term in _terms_of(word) if term in terms]


@cache
def _patterns() -> Mapping[AnswerType, _Patterns]:
    return msgspec.convert(_data("question_patterns")["types"], dict[AnswerType, _Patterns])


@cache
def _generic() -> re.Pattern[str]:
    return re.compile(_data("question_patterns")["generic"])


@cache
def _asking() -> Mapping[AnswerType, re.Pattern[str]]:
    return {type_: _joined(patterns.ask) for type_, patterns in _patterns().items()}


@cache
def _answering() -> Mapping[AnswerType, re.Pattern[str] | None]:
    return {type_: _joined(patterns.answer) if patterns.answer else None for type_, patterns in _patterns().items()}


@cache
def _values() -> Sequence[tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]]:
    kinds = msgspec.convert(_data("wanted_values"), dict[str, _Value])
    return [(re.compile(each.ask), re.compile(each.unless), re.compile(each.answer)) for each in kinds.values()]


@cache
def _synonyms() -> Mapping[re.Pattern[str], bool]:
    """Patterns of groups, each with whether it is of events."""
    groups = _data("synonyms")
    return {re.compile(pattern): kind == "events" for kind in groups for pattern in groups[kind].values()}


def _data(name: str) -> Any:
    return yaml.safe_load((files(__package__) / "data" / f"{name}.yaml").read_text(encoding="utf-8"))


def _joined(alternatives: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(alternatives))
