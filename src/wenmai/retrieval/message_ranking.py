"""Ranking of messages for a question: words, meaning, and what surrounds a message.

The score of a message is a weighted sum. Its lexical score and similarity are counted in standard deviations from the
pool's mean (z-scores), so that the weights hold for any embedder. Added to them are the similarity of the messages
before and after it, the speaker that the question names, the days that it names, a time expression if it asks when,
the length, and a part of the best score of the message's session. ``docs/explanation/recall.md`` has the measurements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import reduce
from math import exp, fsum, inf, log, sqrt
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from wenmai.retrieval.time_expressions import DaySpan, End
from wenmai.stores.fusion import descending

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.float64]
    Values = Sequence[float | None] | Column

SMALLEST_DEVIATION = 1e-6
"""A smaller deviation is the rounding of equal values."""

GOOD = 1.5
"""Messages are compared by their times if their scores without it are at most so much below the best one."""

LEAST_WORDS_NEARBY = -2.0
"""The z-score of the words of a message before or after that has none of them, in a pool of nearly equal messages."""

LEAST_LEXICAL_DEVIATION = 0.1
"""Of the best lexical score: in a small pool, nearly equal scores are no reason for an order."""


class Weights(NamedTuple):
    """The weights of the sum; see the module.

    Attributes:
        day: times the nearness of the message's day to those that the question names.
        day_scale: days after which that nearness is down to a third.
        resolved: of a message that names days within those of the question.
        when: of a message that names a time, if the question asks for one.
        end: of the earliest or the latest of the good messages, if the question asks for it; less for those after it.
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
    end: float = 1.0


WITH_VECTORS = Weights(
    words=0.3, meaning=0.7, meaning_before=0.2, meaning_after=0.3, words_before=0.1, words_after=0.1, when=1.5
)
WORDS_ALONE = Weights(
    words=0.5, meaning=0.0, meaning_before=0.0, meaning_after=0.0, words_before=0.1, words_after=0.4, when=1.0
)
"""An entry's text is the previous message and this one, so a word that the next entry has too is in this message."""


class Messages(NamedTuple):
    """The features of the messages in the pool: a column each, with a value for each message.

    Attributes:
        sessions: the session of each, whose best message raises the others.
        speakers: empty texts where they have no name.
        days, spans: of each message, and the days that it names; not needed if the question neither names days nor asks
            for a time.
        times: of each message; not needed if the question does not ask for the first or the last one.
        similarity: None, or NaN, while it has no vector.
        similarity_before, similarity_after: of the messages before and after it.
        words_before, words_after: their lexical scores, None or NaN where they are not known.
    """

    ids: Sequence[str]
    sessions: Sequence[str]
    speakers: Sequence[str]
    days: Sequence[date]
    spans: Sequence[Sequence[DaySpan]]
    times: Sequence[int]
    questions: Sequence[int]
    lengths: Sequence[int]
    lexical: Values
    similarity: Values
    similarity_before: Values
    similarity_after: Values
    words_before: Values
    words_after: Values


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
    end: End | None = None


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


class Ranking(NamedTuple):
    """Messages by their scores.

    Attributes:
        order: the places of the messages in the pool, best first.
        columns: the parts of their scores, in the order of :class:`Why`.
    """

    order: Sequence[int]
    columns: Sequence[Column]

    def why(self, place: int) -> Why:
        """The parts of the score of the message with this place in the pool."""
        return Why._make([float(column[place]) for column in self.columns])


def rank(messages: Messages, question: Question, weights: Weights | None = None) -> Ranking:
    """The messages by their scores, best first, ties by id.

    Args:
        messages: the pool.
        question: what it asks for.
        weights: default: those for a pool with vectors, or without.
    """
    lexical, similarity = _array(messages.lexical), _array(messages.similarity)
    words = _ZScore(lexical, LEAST_LEXICAL_DEVIATION * float(lexical.max(initial=0.0)))
    meaning = _ZScore(similarity)
    if weights is None:
        weights = WITH_VECTORS if meaning.count else WORDS_ALONE
    neighbours = _sum(
        meaning.weighted(weights.meaning_before, messages.similarity_before),
        meaning.weighted(weights.meaning_after, messages.similarity_after),
        words.weighted(weights.words_before, messages.words_before, LEAST_WORDS_NEARBY),
        words.weighted(weights.words_after, messages.words_after, LEAST_WORDS_NEARBY),
    )
    columns = [
        words.weighted(weights.words, lexical),
        meaning.weighted(weights.meaning, similarity),
        _times(messages, question, weights),
        _speakers(messages.speakers, question, weights),
        neighbours,
        _form(messages, weights),
    ]
    if question.end is not None and messages.ids:
        said = _sum(*columns[:2], *columns[3:])
        columns[2] = columns[2] + _ends(messages.times, said.tolist(), weights.end, latest=question.end == "last")
    scores = _sum(*columns)
    best: dict[str, float] = {}
    for session, score in zip(messages.sessions, scores.tolist(), strict=True):
        if score > best.get(session, -inf):
            best[session] = score
    of_session = _array([weights.session * best[session] for session in messages.sessions])
    return Ranking(descending((scores + of_session).tolist(), messages.ids), [*columns, of_session])


def _array(values: Values) -> Column:
    """The values, NaN for None."""
    import numpy as np  # noqa: PLC0415 — only searches need it

    return np.asarray(values, np.float64)


def _sum(first: Column, *others: Column) -> Column:
    return reduce(add, others, first)


class _ZScore:
    """Distance from the mean of the values that are there, in their standard deviations; 0 for a missing value.

    Attributes:
        count: how many are there.
    """

    def __init__(self, values: Column, least: float = 0.0) -> None:
        there = values[values == values]  # noqa: PLR0124 — NaN is not
        self.count = len(there)
        self._mean = fsum(there.tolist()) / self.count if self.count else 0.0
        deviation = sqrt(fsum(((there - self._mean) ** 2).tolist()) / self.count) if self.count else 0.0
        self._deviation = max(deviation, least)

    def weighted(self, weight: float, values: Values, least: float = -inf) -> Column:
        """The distances of these values, at least ``least``, times the weight."""
        import numpy as np  # noqa: PLC0415

        if not weight or self._deviation < SMALLEST_DEVIATION:
            return np.zeros(len(values))
        scores = weight * np.maximum((_array(values) - self._mean) / self._deviation, least)
        scores[np.isnan(scores)] = 0.0
        return scores


def _form(messages: Messages, weights: Weights) -> Column:
    """By what the text is, whatever it says: a question, and its length."""
    return weights.question * _array(messages.questions) + weights.length * _array(
        [log(1 + length) for length in messages.lengths]
    )


def _speakers(speakers: Sequence[str], question: Question, weights: Weights) -> Column:
    named = question.speakers
    if not named:
        return _array([0.0] * len(speakers))
    return _array([weights.speaker if speaker in named else -weights.speaker for speaker in speakers])


def _times(messages: Messages, question: Question, weights: Weights) -> Column:
    if not question.spans and not question.asks_when:
        return _array([0.0] * len(messages.ids))
    dated = zip(messages.days, messages.spans, strict=True)
    return _array([_time(day, spans, question, weights) for day, spans in dated])


def _ends(times: Sequence[int], scores: Sequence[float], weight: float, *, latest: bool) -> Column:
    """The weight for the earliest or the latest of the good messages, and for the others the less, the later."""
    least = max(scores) - GOOD
    good = sorted((-time if latest else time, place) for place, time in enumerate(times) if scores[place] >= least)
    added = [0.0] * len(scores)
    for after, (_, place) in enumerate(good):
        added[place] = weight * (1 - after / len(good))
    return _array(added)


def _time(day: date, spans: Sequence[DaySpan], question: Question, weights: Weights) -> float:
    score = weights.when if question.asks_when and spans else 0.0
    if not question.spans:
        return score
    distance = min(span.distance(day) for span in question.spans)
    score += weights.day * exp(-distance / weights.day_scale)
    if any(_resolves(own, asked, day) for own in spans for asked in question.spans):
        score += weights.resolved
    return score


def _resolves(own: DaySpan, asked: DaySpan, day: date) -> bool:
    """Whether the days that a message names are within the days asked for."""
    asked = asked.near(own.first) if asked.yearly else asked
    own = own.near(day)
    return asked.first <= own.first and own.last <= asked.last
