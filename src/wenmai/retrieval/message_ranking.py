"""Ranking of messages for a question: words, meaning, and what surrounds a message.

The score of a message is a weighted sum. Its lexical score and similarity are counted in standard deviations from the
pool's mean (z-scores), so that the weights hold for any embedder. Added to them are the similarity of the messages
before and after it, the speaker that the question names, the days that it names, a time expression if it asks when,
the length, and a part of the best score of the message's session. ``docs/explanation/recall.md`` has the measurements.
"""

import re
from collections.abc import Sequence
from datetime import date
from math import exp, fsum, log, sqrt
from typing import NamedTuple

from wenmai.retrieval.time_expressions import DaySpan

SMALLEST_DEVIATION = 1e-6


class Weights(NamedTuple):
    """The weights of the sum; see the module."""

    words: float = 0.3
    meaning: float = 0.7
    words_alone: float = 1.0
    neighbour: float = 0.3
    neighbour_words: float = 0.2
    speaker: float = 0.4
    day: float = 3.0
    day_scale: float = 3.0
    resolved: float = 1.0
    when: float = 1.5
    question: float = -0.5
    length: float = 0.3
    session: float = 0.3


WEIGHTS = Weights()


class RankedMessage(NamedTuple):
    """The features of a message in the pool.

    Attributes:
        session: the session, whose best message raises the others.
        spans: the days that the message names.
        similarity: None while it has no vector.
        neighbours: the similarities of the messages before and after it, as far as they have one.
    """

    id: str
    session: str
    speaker: str
    day: date
    spans: Sequence[DaySpan]
    is_question: bool
    length: int
    lexical: float
    similarity: float | None
    neighbours: Sequence[float] = ()
    neighbour_words: Sequence[float] = ()


class Why(NamedTuple):
    """The parts of a score."""

    words: float
    meaning: float
    time: float
    speaker: float
    neighbours: float
    form: float
    session: float = 0.0

    @property
    def total(self) -> float:
        """The score."""
        return fsum(self)


class Question(NamedTuple):
    """What a question asks for, beside its words."""

    speakers: frozenset[str]
    spans: Sequence[DaySpan]
    asks_when: bool


_WHEN = re.compile(
    r"^\W*when\b|\b(?:what|which) (?:day|date|year|month|week|time)\b|\bhow long ago\b|\bsince when\b"
    r"|什么时候|何时|哪[一]?[天年月日周]|几[号月]|什么日子|什么时间"
)


def asks_when(question: str) -> bool:
    """Whether the question asks for a time."""
    return _WHEN.search(question.lower()) is not None


def named_speakers(question: str, speakers: Sequence[str]) -> frozenset[str]:
    """The speakers whose name, or first name, the question contains."""
    words = set(re.findall(r"\w+", question.lower()))
    found = set()
    for speaker in speakers:
        name = speaker.lower()
        first = name.split()[0] if name.split() else ""
        if first and (first in words or (not name.isascii() and name in question.lower())):
            found.add(speaker)
    return frozenset(found)


def rank(messages: Sequence[RankedMessage], question: Question, weights: Weights = WEIGHTS) -> dict[str, Why]:
    """The score of each message by its parts, best first, ties by id."""
    has_meaning = any(message.similarity is not None for message in messages)
    words = _ZScore([message.lexical for message in messages])
    meaning = _ZScore([message.similarity for message in messages if message.similarity is not None])
    near_words = _ZScore([each for message in messages for each in message.neighbour_words])
    words_weight = weights.words if has_meaning else weights.words_alone
    parts: dict[str, Why] = {}
    for message in messages:
        similarity = 0.0 if message.similarity is None else meaning.of(message.similarity)
        parts[message.id] = Why(
            words=words_weight * words.of(message.lexical),
            meaning=weights.meaning * similarity,
            time=_time(message, question, weights),
            speaker=_speaker(message, question, weights),
            neighbours=weights.neighbour * fsum(map(meaning.of, message.neighbours))
            + weights.neighbour_words * fsum(map(near_words.of, message.neighbour_words)),
            form=weights.question * message.is_question + weights.length * log(1 + message.length),
        )
    best: dict[str, float] = {}
    for message in messages:
        best[message.session] = max(best.get(message.session, float("-inf")), parts[message.id].total)
    for message in messages:
        parts[message.id] = parts[message.id]._replace(session=weights.session * best[message.session])
    order = sorted(sorted(parts), key=lambda id_: parts[id_].total, reverse=True)
    return {id_: parts[id_] for id_ in order}


class _ZScore:
    """Distance from the mean of some values, in their standard deviations."""

    def __init__(self, values: Sequence[float]) -> None:
        self._mean = fsum(values) / len(values) if values else 0.0
        self._deviation = sqrt(fsum((value - self._mean) ** 2 for value in values) / len(values)) if values else 0.0

    def of(self, value: float) -> float:
        return 0.0 if self._deviation < SMALLEST_DEVIATION else (value - self._mean) / self._deviation


def _speaker(message: RankedMessage, question: Question, weights: Weights) -> float:
    if not question.speakers:
        return 0.0
    return weights.speaker if message.speaker in question.speakers else -weights.speaker


def _time(message: RankedMessage, question: Question, weights: Weights) -> float:
    score = weights.when if question.asks_when and message.spans else 0.0
    if not question.spans:
        return score
    distance = min(span.distance(message.day) for span in question.spans)
    score += weights.day * exp(-distance / weights.day_scale)
    if any(_resolves(own, asked, message.day) for own in message.spans for asked in question.spans):
        score += weights.resolved
    return score


def _resolves(own: DaySpan, asked: DaySpan, day: date) -> bool:
    """Whether the days that a message names are within the days asked for."""
    asked = asked.near(own.first) if asked.yearly else asked
    own = own.near(day)
    return asked.first <= own.first and own.last <= asked.last
