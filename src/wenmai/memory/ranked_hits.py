"""The hits of a search for messages: their features, their order, and the units that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING

import msgspec

from wenmai.memory.episode_entries import decoded_span, message_numbers, parsed_id
from wenmai.memory.recalled_items import Unit
from wenmai.retrieval.message_ranking import Messages, Question, Ranking, Why, asks_when, named_speakers, rank
from wenmai.retrieval.time_expressions import DAY, DaySpan, asked_end
from wenmai.scope import ThreadKey
from wenmai.stores.hit_fields import typed_fields
from wenmai.stores.structs import Hit, Range, Where

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.intp]


class RankedHits:
    """Hits with the parts of their scores, best first; those of a hit are made when it is read."""

    def __init__(self, hits: Sequence[Hit], ranking: Ranking) -> None:
        self._hits = hits
        self._ranking = ranking

    def __len__(self) -> int:
        """Number of hits."""
        return len(self._hits)

    def __iter__(self) -> Iterator[tuple[Hit, Why]]:
        """From the best one on."""
        return ((self._hits[place], self._ranking.why(place)) for place in self._ranking.order)


class _Features(msgspec.Struct, gc=False):
    """The fields that a score is made of."""

    incarnation: str
    speaker: str
    question: int
    length: int


class _Dated(_Features, gc=False):
    """Those too that are read if the question names days, or asks for a time, the first or the last."""

    at: int
    day: str
    spans: list[str]


def merged(ranked: Sequence[RankedHits]) -> Iterable[tuple[Hit, Why]]:
    """The hits of several questions, each once, by their best rank; of equal ranks that of the earlier question."""
    if len(ranked) == 1:
        return ranked[0]
    lists = [list(hits) for hits in ranked]
    places = sorted((place, part) for part, hits in enumerate(lists) for place in range(len(hits)))
    found: dict[str, tuple[Hit, Why]] = {}
    for place, part in places:
        hit, why = lists[part][place]
        found.setdefault(hit.id, (hit, why))
    return [*found.values()]


def units(ranked: Iterable[tuple[Hit, Why]], unit: Unit) -> Iterator[tuple[Hit, Why]]:
    """The best hit of each message or turn."""
    seen: set[tuple[ThreadKey, int]] = set()
    for hit, why in ranked:
        thread, seq = parsed_id(hit.id)
        key = (thread, number(hit, "turn") if unit == "turn" else seq)
        if key not in seen:
            seen.add(key)
            yield hit, why


def ranked_hits(query: str, spans: Sequence[DaySpan], hits: Sequence[Hit], near: Sequence[Hit]) -> RankedHits:
    """The hits, best first.

    Args:
        query: the question.
        spans: the days that it names.
        hits: each once.
        near: neighbours that are not among them, without their fields.
    """
    import numpy as np  # noqa: PLC0415 — only searches need it

    if not hits:
        return RankedHits((), Ranking((), ()))
    when, end = asks_when(query), asked_end(query)
    dated = typed_fields(hits, _Dated) if spans or when or end else []
    fields: Sequence[_Features] = dated or typed_fields(hits, _Features)
    speakers = [each.speaker for each in fields]
    question = Question(named_speakers(query, set(speakers)), spans, when, end)
    lexical, similarities = (
        np.array([getattr(hit, score) for hit in (*hits, *near)], np.float64) for score in ("lexical", "similarity")
    )
    before, after = _neighbours(message_numbers([hit.id for hit in (*hits, *near)]), len(hits))
    messages = Messages(
        ids=[hit.id for hit in hits],
        sessions=[each.incarnation for each in fields],
        speakers=speakers,
        days=[date.fromisoformat(each.day) for each in dated],
        spans=[list(map(decoded_span, each.spans)) for each in dated],
        times=[each.at for each in dated],
        questions=[each.question for each in fields],
        lengths=[each.length for each in fields],
        lexical=lexical[: len(hits)],
        similarity=similarities[: len(hits)],
        similarity_before=np.append(similarities, np.nan)[before],
        similarity_after=np.append(similarities, np.nan)[after],
        words_before=np.append(lexical, np.nan)[before],
        # None is one without the words, or the last message is above the one before, whose words its entry has too.
        words_after=np.append(lexical, 0.0)[after],
    )
    return RankedHits(hits, rank(messages, question))


def _neighbours(numbers: NDArray[np.int64], count: int) -> tuple[Places, Places]:
    """The places of the messages before and after each of the first ``count``; that of an absent one is the end."""
    import numpy as np  # noqa: PLC0415

    order = np.argsort(numbers)
    places = []
    for wanted in (numbers[:count] - 1, numbers[:count] + 1):
        found = order[np.minimum(np.searchsorted(numbers, wanted, sorter=order), len(order) - 1)]
        places.append(np.where(numbers[found] == wanted, found, len(numbers)))
    return places[0], places[1]


def number(hit: Hit, field: str) -> int:
    """The value of a field that holds a number."""
    return int(hit.fields[field])  # type: ignore[arg-type]


def days(span: DaySpan) -> Where:
    """The filter for messages of these days."""
    if not span.yearly:
        return {"day": Range(low=span.first.isoformat(), high=(span.last + DAY).isoformat())}
    return {"month_day": [(span.first + step * DAY).isoformat()[5:] for step in range(span.days)]}
