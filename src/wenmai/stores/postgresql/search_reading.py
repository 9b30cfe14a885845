"""Running searches, each on one snapshot.

A search reads the postings of its words, unless their scores are cached, and then the candidates. Vectors are compared
in this process. Each statement returns the partition's counter of changes, so that no transaction is needed as long as
it is the same for all of them, and that of the vectors in memory. If it is not, the search runs again in a transaction
that begins with reading what has changed. The entries that satisfy a filter are read first for vectors, and for words
if too few of the best satisfy it.
"""

import asyncio
from collections.abc import Collection, Sequence

from wenmai.resilience.offload import run_by_size
from wenmai.stores.postgresql.database import Database, Row, Run
from wenmai.stores.postgresql.search_candidates import Allowed, allowed_entries
from wenmai.stores.postgresql.search_hits import ScoredQueries, search_hits
from wenmai.stores.postgresql.search_partitions import Owner, state_of
from wenmai.stores.postgresql.search_query import POSTINGS, depth, terms_of
from wenmai.stores.postgresql.search_vectors import Nearest, SnapshotVectors, Vectors
from wenmai.stores.search_values import check_query_lengths, without_zeros
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.vector_matrices import State
from wenmai.stores.word_scores import (
    POSTING_BYTES,
    CachedPostings,
    CachedScores,
    Postings,
    Sums,
    WordScores,
    from_joined,
)

_MANY = 2**15
"""Postings that are scored without a worker thread."""

_LARGE = _MANY * POSTING_BYTES
"""Bytes of postings that are decoded without a worker thread."""


class Reader:
    """Runs the searches of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._vectors = Vectors()
        self._scores = CachedScores()
        self._postings = CachedPostings()

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
        allowed = await allowed_entries(run, owner, queries, filtered, vectors.state)
        if allowed is None:
            return None
        near, scoring = _nearest(run, queries, by_vector, vectors, allowed), self._scored(run, owner, queries, vectors)
        # A connection runs one statement at a time; vectors in memory need none.
        nearest, scored = (await near, await scoring) if vectors.matrix is None else await asyncio.gather(near, scoring)
        if scored is None:
            return None
        state, scores = scored
        asked = ScoredQueries(owner, queries, scores, nearest, vectors._replace(state=state))
        return await search_hits(run, asked, allowed)

    async def _scored(
        self, run: Run, owner: Owner, queries: Sequence[SearchQuery], vectors: SnapshotVectors
    ) -> tuple[State, list[WordScores]] | None:
        """The scores of each query's text, with their state; None if that is another than the vectors have."""
        partition, state = vectors.partition, vectors.state
        texts = {query.text or "": query for query in queries}
        known = {text: self._scores.get(partition, state.changes, text) for text in texts}
        scores = {text: each for text, each in known.items() if each is not None}
        terms = {text: terms_of(query) for text, query in texts.items() if text not in scores}
        asked = list(dict.fromkeys(term for each in terms.values() for term in each))
        sums, postings = self._postings.get(partition, state.changes, asked)
        missing = [term for term in asked if term not in postings]
        if missing:
            rows = await run(POSTINGS, *owner, missing)
            if state_of(rows) != state:
                if scores or any(query.vector is not None for query in queries):
                    return None
                if postings:
                    postings, missing = {}, asked
                    rows = await run(POSTINGS, *owner, missing)
                partition, state = rows[0]["partition"] if rows else 0, state_of(rows)
                self._vectors.note(owner, partition, state)
            sums = Sums(rows[0]["entries"], rows[0]["length"]) if rows else Sums(0, 0)
            size = sum(len(row["postings"] or b"") for row in rows)
            read = await run_by_size(size, _LARGE, _postings_of, rows, missing)
            if rows:
                self._postings.keep(partition, state.changes, sums, read)
            postings |= read
        for text, own in terms.items():
            found = [postings[term] for term in own]
            size = sum(len(each.places) for each in found)
            scores[text] = await run_by_size(size, _MANY, WordScores, sums, found)
            self._scores.keep(partition, state.changes, text, scores[text])
        return state, [scores[query.text or ""] for query in queries]


def _postings_of(rows: Sequence[Row], terms: Sequence[str]) -> dict[str, Postings]:
    """The postings of the terms, from rows of :data:`POSTINGS`."""
    found = [row for row in rows if row["postings"] is not None]
    numbers = [row["number"] - 1 for row in found for _ in row["blocks"]]
    blocks, sizes = ([each for row in found for each in row[column]] for column in ("blocks", "sizes"))
    joined = b"".join([row["postings"] for row in found])
    return dict(zip(terms, from_joined(numbers, blocks, sizes, joined, len(terms)), strict=True))


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
