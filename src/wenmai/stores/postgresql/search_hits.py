"""The hits of a search, from the scores of its candidates; the entries themselves are read last, and only the best."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wenmai.resilience.offload import run_by_size
from wenmai.stores.fusion import is_fused, needs_ids, pool, undecided
from wenmai.stores.hits import Entry, Scores, best_scores, hits_of
from wenmai.stores.postgresql.database import Run
from wenmai.stores.postgresql.search_candidates import Allowed, allowed_entries, entries_of, matching
from wenmai.stores.postgresql.search_partitions import Owner, state_of
from wenmai.stores.postgresql.search_query import ENTRIES, arguments, depth
from wenmai.stores.postgresql.search_vectors import SnapshotVectors
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.word_scores import WordScores

_MANY = 1_000
"""Entries of which hits are made without a worker thread."""


class ScoredQueries(NamedTuple):
    """The queries of a search, with the scores of all entries by words, and of the nearest ones by vector, for each."""

    owner: Owner
    queries: Sequence[SearchQuery]
    words: Sequence[WordScores]
    nearest: Sequence[Mapping[int, float]]
    vectors: SnapshotVectors


async def search_hits(run: Run, asked: ScoredQueries, allowed: Allowed) -> list[list[Hit]] | None:
    """The hits of each query; None if what is read is of another snapshot."""
    owner, queries, words, nearest, vectors = asked
    best: list[dict[int, int]] = [
        {} if query.ids is not None else words[n].best(depth(query), allowed.get(n)) for n, query in enumerate(queries)
    ]
    unchecked = [n for n, query in enumerate(queries) if query.where and n not in allowed]
    scores = await _early_scores(run, asked, best, unchecked)
    if scores is None:
        return None
    lists = [scores[n].numbers if n in scores else {**best[n], **nearest[n]} for n in range(len(queries))]
    read = await run(ENTRIES, *owner, *arguments(queries, lists, unchecked))
    if state_of(read) != vectors.state:
        return None
    if not read:
        return [[] for _ in queries]
    size = len(read[0]["entries"] or ())
    found = await run_by_size(size, _MANY, matching, queries, read[0], lists, unchecked)
    few = [n for n in unchecked if len(found[n]) < depth(queries[n]) <= len(best[n]) < len(words[n])]
    if few:
        more = await allowed_entries(run, owner, queries, few, vectors.state)
        return None if more is None else await search_hits(run, asked, {**allowed, **more})
    hits = []
    for n, query in enumerate(queries):
        own = scores.get(n) or await _late_scores(run, asked, n, best[n], found[n])
        hits.append(await run_by_size(len(own.numbers), _MANY, hits_of, query, found[n], own))
    return hits


async def _early_scores(
    run: Run, asked: ScoredQueries, best: Sequence[Mapping[int, int]], unchecked: Sequence[int]
) -> dict[int, Scores] | None:
    """The scores of the queries whose hits are known before an entry is read; None if of another snapshot.

    Ids are needed where entries are equal, and are then read.
    """
    owner, queries, _, nearest, vectors = asked
    early = [n for n, query in enumerate(queries) if query.ids is None and n not in unchecked and not needs_ids(query)]
    both = [n for n in early if is_fused(queries[n])]
    tied = [entry for n in both for entry in undecided(queries[n].pool, best[n], nearest[n])]
    ids = {}
    if tied:
        read = await run(ENTRIES, *owner, *arguments([SearchQuery(fields=False)], [tied], ()))
        if state_of(read) != vectors.state:
            return None
        ids = {entry: id_ for entry, id_, _ in entries_of(read[0]).values()}
    pools = {n: pool(queries[n].pool, ids, best[n], nearest[n]) for n in both}
    return {n: await _scores(run, asked, n, list(pools.get(n) or best[n] or nearest[n])) for n in early}


async def _late_scores(
    run: Run, asked: ScoredQueries, n: int, best: Mapping[int, int], found: Mapping[int, Entry]
) -> Scores:
    """The scores of a query's candidates among the entries found."""
    query, numbers = asked.queries[n], list(found)
    ids = {entry: id_ for entry, id_, _ in found.values()}
    if query.ids is None:
        lists = ({entry: score for entry, score in each.items() if entry in found} for each in (best, asked.nearest[n]))
        numbers = list(pool(depth(query), ids, *lists))
    return await _scores(run, asked, n, numbers, [ids[number] for number in numbers])


async def _scores(run: Run, asked: ScoredQueries, n: int, numbers: Sequence[int], ids: Sequence[str] = ()) -> Scores:
    query, similarities = asked.queries[n], asked.nearest[n]
    if query.vector is not None:
        others = [number for number in numbers if number not in similarities]
        similarities = {**similarities, **await asked.vectors.similarities(run, query.vector, others)}
    return best_scores(query, numbers, asked.words[n].at(numbers), similarities, ids)
