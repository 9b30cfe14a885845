"""What a question asks: the type of its answer, and the words that a passage with the answer has."""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files

import msgspec
import yaml

from wenmai.grounding.types import AnswerType
from wenmai.text.cjk import has_cjk, normalise, query_terms
from wenmai.text.folding import fold

_MAX_TERMS = 64
"""Terms of a question that passages are compared with."""

_NOUN_AFTER = re.compile(r"[^\W\d_a-z]{1,2}")


class _Patterns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ask: list[str]
    answer: list[str]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed question.

    Attributes:
        text: normalised, with simplified characters.
        answer_type: the expected kind of answer; None if no pattern of a question occurs.
        terms: its content words as index terms, in order.
        soft: those of the noun that is asked about, such as *country* in *which country*: a sentence that answers
            need not have them.
    """

    text: str
    answer_type: AnswerType | None
    terms: tuple[str, ...]
    soft: frozenset[str]


@lru_cache(maxsize=256)
def parse_question(text: str) -> Question:
    """Parse a question, rewritten with context if need be."""
    normal = fold(normalise(text))
    answer_type, match = None, None
    for type_, pattern in _asking().items():
        match = pattern.search(normal)
        if match:
            answer_type = type_
            break
    rest = normal
    soft: list[str] = []
    for pattern in _asking().values():
        rest = pattern.sub(" ", rest)
    if match and has_cjk(match[0]):
        noun = _NOUN_AFTER.match(normal, match.end())
        soft = query_terms(noun[0]) if noun else []
        soft += list(noun[0]) if noun else []
    return Question(
        text=normal,
        answer_type=answer_type,
        terms=tuple(query_terms(rest)[:_MAX_TERMS]),
        soft=frozenset(soft),
    )


def answer_pattern(answer_type: AnswerType) -> re.Pattern[str] | None:
    """The pattern of a sentence that gives such an answer, in normalised text; None if any may."""
    return _answering()[answer_type]


@cache
def _patterns() -> Mapping[AnswerType, _Patterns]:
    raw = yaml.safe_load((files(__package__) / "data" / "question_patterns.yaml").read_text(encoding="utf-8"))
    return msgspec.convert(raw["types"], dict[AnswerType, _Patterns])


@cache
def _asking() -> Mapping[AnswerType, re.Pattern[str]]:
    return {type_: _joined(patterns.ask) for type_, patterns in _patterns().items()}


@cache
def _answering() -> Mapping[AnswerType, re.Pattern[str] | None]:
    return {
        type_: _joined(patterns.answer) if patterns.answer else None for type_, patterns in _patterns().items()
    }


def _joined(alternatives: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(alternatives))
