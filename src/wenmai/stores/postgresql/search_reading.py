"""Running searches, each on one snapshot.

A search reads the postings of its words, unless their scores are cached, and then the candidates. Vectors are compared
in this process. Each statement returns the partition's counter of changes, so that no transaction is needed as long as
it is the same for all of them, and that of the vectors in memory. If it is not, the search runs again in a transaction
that begins with reading what has changed. The entries that satisfy a filter are read first for vectors, and for words
if too few of the best satisfy it.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from wenmai.resilience.offload import run_by_size
from wenmai.stores.hits import Entry, hits_of
from wenmai.stores.postgresql.database import Database, Row, Run
from wenmai.stores.postgresql.search_filters import FILTERS, MATCHING, filters_json
from wenmai.stores.postgresql.search_hits import matching, pooled
from wenmai.stores.postgresql.search_partitions import OWNER, STATE, Owner, state_of
from wenmai.stores.postgresql.search_query import ENTRIES, POSTINGS, arguments, depth, terms_of
from wenmai.stores.postgresql.search_vectors import Nearest, SnapshotVectors, Vectors
from wenmai.stores.search_values import check_query_lengths, without_zeros
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.vector_matrices import State
from wenmai.stores.word_scores import CachedScores, Sums, WordScores, from_joined

_MANY = 1_000
"""Candidates of which hits are made without a worker thread."""

_LARGE = 2**18
"""Bytes of postings, of 32 768 entries, that are scored without a worker thread."""

# $6 filters, $7 the numbers of the queries.
_ALLOWED = f"""
WITH part AS MATERIALIZED (SELECT * FROM search_partitions WHERE {OWNER}),
filters AS MATERIALIZED ({FILTERS.format("$6")}
)
SELECT {STATE}, q.query, a.entries
FROM part CROSS JOIN unnest($7::integer[]) AS q (query) CROSS JOIN LATERAL (
  SELECT array_agg(m.entry) AS entries
  FROM ({MATCHING.format(partition="part.partition", query="q.query")}
  ) m
) a"""

Allowed = Mapping[int, Sequence[int]]
"""The entries that satisfy the filters of some queries, by the number of the query."""


class Reader:
    """Runs the searches of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._vectors = Vectors()
        self._scores = CachedScores()

    async def hits(self, owner: Owner, queries: Sequence[SearchQuery]) -> list[list[Hit]]:
        """The hits of each query.

        Raises:
            InvalidInput: a vector is not of the collection's length.
        """
        lengths = {len(query.vector) for query in queries if query.vector is not None}
        last = self._vectors.last(owner, with_matrix=bool(lengths))
        if last is None and not lengths:
            last = SnapshotVectors(0, State(0, 0, 0), None)
        if last is not None and (not lengths or lengths == {last.state.dimension} or not last.state.vectors):
            hits = await self._search(self._database.fetch, owner, list(map(without_zeros, queries)), last)
            if hits is not None:
                return hits
        async with self._database.transaction(one_snapshot=True) as run:
            current = await self._vectors.current(run, owner, with_matrix=bool(lengths))
            check_query_lengths(queries, current.state.dimension or None)
            hits = await self._search(run, owner, list(map(without_zeros, queries)), current)
        return hits or []

    async def _search(
        self, run: Run, owner: Owner, queries: Sequence[SearchQuery], vectors: SnapshotVectors
    ) -> list[list[Hit]] | None:
        """The hits of each query; None if what is in memory is of another snapshot."""
        by_vector = {n for n, query in enumerate(queries) if query.vector is not None and query.ids is None}
        filtered = [n for n in by_vector if queries[n].where and vectors.state.vectors]
        allowed = await _allowed(run, owner, queries, filtered, vectors.state)
        if allowed is None:
            return None
        near, scoring = _nearest(run, queries, by_vector, vectors, allowed), self._scored(run, owner, queries, vectors)
        # A connection runs one statement at a time; vectors in memory need none.
        nearest, scored = (await near, await scoring) if vectors.matrix is None else await asyncio.gather(near, scoring)
        if scored is None:
            return None
        state, scores = scored
        rows = await _candidates(run, owner, queries, scores, nearest, allowed, state)
        if rows is None:
            return None
        hits = []
        for query, found, words, known in zip(queries, rows, scores, nearest, strict=True):
            similarities = known
            if query.vector is not None:
                others = {entry for entry, _, _ in found}.difference(known)
                similarities = known | await vectors.similarities(run, query.vector, list(others))
            numbers = [entry for entry, _, _ in found]
            cosines = list(map(similarities.get, numbers))
            hits.append(await run_by_size(len(found), _MANY, hits_of, query, found, words.at(numbers), cosines))
        return hits

    async def _scored(
        self, run: Run, owner: Owner, queries: Sequence[SearchQuery], vectors: SnapshotVectors
    ) -> tuple[State, list[WordScores]] | None:
        """The scores of each query's text, with their state; None if that is another than the vectors have."""
        partition, state = vectors.partition, vectors.state
        texts = {query.text or "": query for query in queries}
        known = {text: self._scores.get(partition, state.changes, text) for text in texts}
        scores = {text: each for text, each in known.items() if each is not None}
        terms = {text: terms_of(query) for text, query in texts.items() if text not in scores}
        if terms:
            asked = list(dict.fromkeys(term for each in terms.values() for term in each))
            rows = await run(POSTINGS, *owner, asked) if asked else []
            if asked and state_of(rows) != state:
                if scores or any(query.vector is not None for query in queries):
                    return None
                partition, state = rows[0]["partition"] if rows else 0, state_of(rows)
                self._vectors.note(owner, partition, state)
            size = sum(len(row["postings"] or b"") for row in rows)
            read = await run_by_size(size, _LARGE, _scores_of, rows, asked, terms)
            for text, each in read.items():
                self._scores.keep(partition, state.changes, text, each)
            scores |= read
        return state, [scores[query.text or ""] for query in queries]


def _scores_of(rows: Sequence[Row], asked: Sequence[str], terms: Mapping[str, Sequence[str]]) -> dict[str, WordScores]:
    """The scores of texts by their terms, from the postings of all terms."""
    sums = Sums(rows[0]["entries"], rows[0]["length"]) if rows else Sums(0, 0)
    postings = {
        asked[row["number"] - 1]: from_joined(row["blocks"], row["sizes"], row["postings"])
        for row in rows
        if row["postings"] is not None
    }
    return {
        text: WordScores(sums, len(own), [postings[term] for term in own if term in postings])
        for text, own in terms.items()
    }


async def _allowed(
    run: Run, owner: Owner, queries: Sequence[SearchQuery], filtered: Sequence[int], state: State
) -> Allowed | None:
    """What the filters of these queries allow; None if it is of another snapshot."""
    if not filtered:
        return {}
    rows = await run(_ALLOWED, *owner, filters_json([query.where for query in queries]), filtered)
    if state_of(rows) != state:
        return None
    return {row["query"]: row["entries"] or [] for row in rows}


async def _nearest(
    run: Run,
    queries: Sequence[SearchQuery],
    by_vector: Collection[int],
    vectors: SnapshotVectors,
    allowed: Allowed,
) -> list[dict[int, float]]:
    """The cosines of the nearest vectors of each query, by entry."""
    wanted = {
        n: Nearest(query.vector or (), depth(query), allowed.get(n))
        for n, query in enumerate(queries)
        if n in by_vector
    }
    found = dict(zip(wanted, await vectors.nearest(run, list(wanted.values())), strict=True)) if wanted else {}
    return [found.get(n, {}) for n in range(len(queries))]


async def _candidates(
    run: Run,
    owner: Owner,
    queries: Sequence[SearchQuery],
    scores: Sequence[WordScores],
    nearest: Sequence[Mapping[int, float]],
    allowed: Allowed,
    state: State,
) -> list[list[Entry]] | None:
    """Each query's candidates; None if they are of another snapshot."""
    best: list[dict[int, int]] = [
        {} if query.ids is not None else words.best(depth(query), allowed.get(n))
        for n, (query, words) in enumerate(zip(queries, scores, strict=True))
    ]
    lists = [{**words, **vectors} for words, vectors in zip(best, nearest, strict=True)]
    unchecked = [n for n, query in enumerate(queries) if query.where and n not in allowed]
    read = await run(ENTRIES, *owner, *arguments(queries, lists, unchecked))
    if state_of(read) != state:
        return None
    if not read:
        return [[] for _ in queries]
    size = len(read[0]["entries"] or ())
    found = await run_by_size(size, _MANY, matching, queries, read[0], lists, unchecked)
    few = [n for n in unchecked if len(found[n]) < depth(queries[n]) <= len(best[n]) < len(scores[n])]
    if few:
        more = await _allowed(run, owner, queries, few, state)
        if more is None:
            return None
        return await _candidates(run, owner, queries, scores, nearest, {**allowed, **more}, state)
    return await run_by_size(size, _MANY, pooled, queries, found, best, nearest)
