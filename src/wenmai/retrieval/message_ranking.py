"""Ranking of messages for a question: words, meaning, and what surrounds a message.

The score of a message is a weighted sum. Its lexical score and similarity are counted in standard deviations from the
pool's mean (z-scores), so that the weights hold for any embedder. Added to them are the similarity of the messages
before and after it, the speaker that the question names, the days that it names, a time expression if it asks when,
the length, and a part of the best score of the message's session. ``docs/explanation/recall.md`` has the measurements.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date
from math import exp, fsum, inf, log, sqrt
from typing import NamedTuple

from wenmai.retrieval.time_expressions import DaySpan

SMALLEST_DEVIATION = 1e-6
"""A smaller deviation is the rounding of equal values."""

LEAST_LEXICAL_DEVIATION = 0.1
"""Of the best lexical score: in a small pool, nearly equal scores are no reason for an order."""


class Weights(NamedTuple):
    """The weights of the sum; see the module.

    Attributes:
        day: times the nearness of the message's day to those that the question names.
        day_scale: days after which that nearness is down to a third.
        resolved: of a message that names days within those of the question.
        when: of a message that names a time, if the question asks for one.
    """

    words: float
    meaning: float
    meaning_before: float
    meaning_after: float
    words_before: float
    words_after: float
    when: float
    speaker: float = 0.6
    day: float = 3.0
    day_scale: float = 3.0
    resolved: float = 1.0
    question: float = -0.5
    length: float = 0.15
    session: float = 0.3


WITH_VECTORS = Weights(
    words=0.3, meaning=0.7, meaning_before=0.2, meaning_after=0.3, words_before=0.1, words_after=0.1, when=1.5
)
WORDS_ALONE = Weights(
    words=0.5, meaning=0.0, meaning_before=0.0, meaning_after=0.0, words_before=0.1, words_after=0.4, when=1.0
)
"""An entry's text is the previous message and this one, so a word that the next entry has too is in this message."""


class RankedMessage(NamedTuple):
    """The features of a message in the pool.

    Attributes:
        session: the session, whose best message raises the others.
        spans: the days that the message names.
        similarity: None while it has no vector.
        similarity_before, similarity_after: of the messages before and after it.
        words_before, words_after: their lexical scores, None where there is no message.
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
    similarity_before: float | None = None
    similarity_after: float | None = None
    words_before: float | None = None
    words_after: float | None = None


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


NOT_RANKED = Why(words=0.0, meaning=0.0, time=0.0, speaker=0.0, neighbours=0.0, form=0.0)
"""Of a message that was not searched for."""


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


def named_speakers(question: str, speakers: Iterable[str]) -> frozenset[str]:
    """The speakers whose name, or first name, the question contains."""
    words = set(re.findall(r"\w+", question.lower()))
    found = set()
    for speaker in speakers:
        name = speaker.lower()
        first = name.split()[0] if name.split() else ""
        if first and (first in words or (not name.isascii() and name in question.lower())):
            found.add(speaker)
    return frozenset(found)


def rank(messages: Sequence[RankedMessage], question: Question, weights: Weights | None = None) -> dict[str, Why]:
    """The score of each message by its parts, best first, ties by id.

    Args:
        messages: the pool.
        question: what it asks for.
        weights: default: those for a pool with vectors, or without.
    """
    if weights is None:
        weights = WITH_VECTORS if any(message.similarity is not None for message in messages) else WORDS_ALONE
    lexical = [message.lexical for message in messages]
    words = _ZScore(lexical, LEAST_LEXICAL_DEVIATION * max(lexical, default=0.0))
    meaning = _ZScore([message.similarity for message in messages if message.similarity is not None])
    columns = (
        words.weighted(weights.words, lexical),
        meaning.weighted(weights.meaning, [message.similarity for message in messages]),
        [_time(message, question, weights) for message in messages],
        [_speaker(message, question, weights) for message in messages],
        map(
            sum,
            zip(
                meaning.weighted(weights.meaning_before, [message.similarity_before for message in messages]),
                meaning.weighted(weights.meaning_after, [message.similarity_after for message in messages]),
                words.weighted(weights.words_before, [message.words_before for message in messages]),
                words.weighted(weights.words_after, [message.words_after for message in messages]),
                strict=True,
            ),
        ),
        [weights.question * message.is_question + weights.length * log(1 + message.length) for message in messages],
    )
    parts = list(zip(*columns, strict=True))
    scores = list(map(sum, parts))
    best: dict[str, float] = {}
    for message, score in zip(messages, scores, strict=True):
        if score > best.get(message.session, -inf):
            best[message.session] = score
    of_session = [weights.session * best[message.session] for message in messages]
    order = sorted(
        (-score - session, message.id, place)
        for place, (message, score, session) in enumerate(zip(messages, scores, of_session, strict=True))
    )
    return {id_: Why._make((*parts[place], of_session[place])) for _, id_, place in order}


class _ZScore:
    """Distance from the mean of some values, in their standard deviations; 0 for a missing value."""

    def __init__(self, values: Sequence[float], least: float = 0.0) -> None:
        self._mean = fsum(values) / len(values) if values else 0.0
        deviation = sqrt(fsum((value - self._mean) ** 2 for value in values) / len(values)) if values else 0.0
        self._deviation = max(deviation, least)

    def weighted(self, weight: float, values: Sequence[float | None]) -> list[float]:
        mean, deviation = self._mean, self._deviation
        if not weight or deviation < SMALLEST_DEVIATION:
            return [0.0] * len(values)
        return [0.0 if value is None else weight * ((value - mean) / deviation) for value in values]


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
