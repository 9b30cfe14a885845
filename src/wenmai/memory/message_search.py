"""The search for the messages that answer questions: a pool of the best, those of named days, and their neighbours."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from wenmai.memory.episode_entries import neighbour_ids
from wenmai.memory.episodes import EpisodeIndex
from wenmai.memory.ranked_hits import RankedHits, days, ranked_hits
from wenmai.resilience.offload import run_by_size
from wenmai.retrieval.message_ranking import asks_when
from wenmai.retrieval.query_embedding import Vector
from wenmai.retrieval.time_expressions import DaySpan
from wenmai.scope import Scope
from wenmai.stores.structs import Hit, SearchQuery, WeightedFusion, Where

POOL, WORDS_POOL = 400, 200
"""Messages ranked, and those of a question that is searched by words alone."""

DATED_POOL = 100
"""Messages of the days that the question names, in addition."""

MAX_SPANS = 3
"""Days or periods of a question that are searched."""

NEAR = 100
"""Messages, the best by words and meaning, whose neighbours count even if they are not in the pool."""

_MANY = 500
"""Messages that are ranked without a worker thread, if the question names no time."""


class AskedQuestion(NamedTuple):
    """A question as it is searched.

    Attributes:
        vector: None to search by words alone.
        spans: the days that it names.
    """

    text: str
    vector: Vector | None
    spans: Sequence[DaySpan]


async def search_messages(
    index: EpisodeIndex, scope: Scope, questions: Sequence[AskedQuestion], where: Where
) -> list[RankedHits]:
    """The ranked hits of each question, searched together in two round trips.

    Raises:
        StoreError: the store failed.
    """
    pools = await _query(index, scope, [_pool(question, where) for question in questions])
    hits = [{hit.id: hit for found in lists for hit in found} for lists in pools]
    near = await _query(
        index, scope, [_neighbours(question, own) for question, own in zip(questions, hits, strict=True)]
    )
    return [
        await run_by_size(
            len(own) * (1 + len(question.spans) + asks_when(question.text)),
            _MANY,
            ranked_hits,
            question.text,
            question.spans,
            list(own.values()),
            [hit for found in lists for hit in found],
        )
        for question, own, lists in zip(questions, hits, near, strict=True)
    ]


def _pool(question: AskedQuestion, where: Where) -> list[SearchQuery]:
    dated = [_search(question, {**where, **days(span)}, DATED_POOL) for span in question.spans[:MAX_SPANS]]
    return [_search(question, where, WORDS_POOL if question.vector is None else POOL), *dated]


def _neighbours(question: AskedQuestion, hits: dict[str, Hit]) -> list[SearchQuery]:
    ids = sorted({id_ for hit in islice(hits, NEAR) for id_ in neighbour_ids(hit)} - hits.keys())
    return [_search(question, {}, len(ids), ids)] if ids else []


def _search(question: AskedQuestion, where: Where, most: int, ids: Sequence[str] | None = None) -> SearchQuery:
    return SearchQuery(
        text=question.text,
        vector=question.vector,
        where=where,
        ids=ids,
        limit=most,
        pool=most,
        fusion=WeightedFusion(),
        fields=ids is None,
    )


async def _query(index: EpisodeIndex, scope: Scope, searches: Sequence[Sequence[SearchQuery]]) -> list[list[list[Hit]]]:
    """The hits of the searches of each question, in one round trip."""
    together = [search for own in searches for search in own]
    found = iter(await index.query(scope, together) if together else [])
    return [list(islice(found, len(own))) for own in searches]
