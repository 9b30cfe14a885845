"""A query over the inverted index and the vectors of one partition: BM25, cosine, and both fused."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import apsw

from wenmai.stores.fusion import is_fused, needs_ids, pool, undecided
from wenmai.stores.hits import Entry, best_scores, hits_of
from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.sqlite.matching_rows import MatchingRows
from wenmai.stores.sqlite.search_filters import Filter, entry_matches, filters_of, matching_entries, narrowest_first
from wenmai.stores.sqlite.search_partition import Partition, first_row, place_of
from wenmai.stores.sqlite.search_vectors import SnapshotVectors
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.word_scores import CachedPostings, CachedScores, Postings, Sums, WordScores, from_blocks
from wenmai.text.cjk import query_terms

COUNTED = 1_000
"""Entries of a filter that are counted to find the narrowest one; if that has more, the best are checked first."""

MORE = 4
"""Factor of the next try if too few of the best satisfy the filters."""

_BLOCKS = """
SELECT j.key, p.block, p.postings FROM json_each(?) j
CROSS JOIN search_postings p ON p.partition = ? AND p.term = j.value"""
_BY_ROWS = "FROM json_each(?) j CROSS JOIN search_entries e ON e.entry = j.value"

T = TypeVar("T")


class Reader:
    """Runs queries over one partition, within one snapshot.

    Args:
        connection: of the snapshot.
        partition: not empty.
        vectors: None if no query needs them.
        cached: scores of earlier queries.
        known: postings of their terms.
        matching: keeps what satisfies filters; None for a partition that changes often.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        partition: Partition,
        vectors: SnapshotVectors | None,
        cached: CachedScores,
        known: CachedPostings,
        matching: MatchingRows | None,
    ) -> None:
        self._connection = connection
        self._partition = partition
        self._vectors = vectors
        self._cached = cached
        self._known = known
        self._matching = matching

    def hits(self, query: SearchQuery) -> list[Hit]:
        """The best entries by text, by vector, or by both."""
        filters = filters_of(query.where)
        if not all(each.bindings for each in filters):
            return []  # SQLite scans a whole index for an empty list
        words = self._scores(query.text or "")
        entries: dict[int, Entry] = {}
        similarities: dict[int, float] = {}
        if query.ids is not None:
            entries = self._named(query, filters)
            rows = list(entries)
        else:
            chosen = Chosen(self._connection, self._partition.row, filters)
            similarities = self._best_vectors(query, chosen)
            rows = self._pool(query, self._best_words(words, chosen, _depth(query)), similarities)
            if needs_ids(query):
                entries = self._read(query, rows)
        if not rows:
            return []
        similarities |= self._similarities(query, [row for row in rows if row not in similarities])
        ids = [id_ for _, id_, _ in entries.values()]
        scores = best_scores(query, rows, words.at(list(map(place_of, rows))), similarities, ids)
        return hits_of(query, entries or self._read(query, scores.numbers), scores)

    def _scores(self, text: str) -> WordScores:
        """The scores of all entries by the words of the text."""
        partition = self._partition
        scores = self._cached.get(partition.row, partition.changes, text)
        if scores is None:
            sums, wanted = Sums(partition.entries, partition.length), query_terms(text)
            postings = self._postings(sums, wanted)
            scores = WordScores(sums, [postings[term] for term in wanted])
            self._cached.keep(partition.row, partition.changes, text, scores)
        return scores

    def _postings(self, sums: Sums, terms: Sequence[str]) -> dict[str, Postings]:
        """The postings of the terms."""
        state = self._partition.row, self._partition.changes
        _, known = self._known.get(*state, terms)
        missing = [term for term in terms if term not in known]
        if missing:
            blocks = fetch(self._connection, _BLOCKS, (json.dumps(missing), self._partition.row))
            read = dict(zip(missing, from_blocks(blocks, len(missing)), strict=True))
            self._known.keep(*state, sums, read)
            known |= read
        return known

    def _by_row(self, scores: Mapping[int, int]) -> dict[int, int]:
        first = first_row(self._partition.row)
        return {first + place: score for place, score in scores.items()}

    def _best_words(self, scores: WordScores, chosen: "Chosen", limit: int) -> dict[int, int]:
        """The best entries by words, with all that equal the last of them, in descending order."""
        if not len(scores):
            return {}
        narrow = None
        if self._matching is not None:
            narrow = self._matching.of(self._connection, self._partition, chosen.filters)
        if narrow is None:
            narrow = chosen.narrow(min(len(scores), COUNTED))
        if narrow is not None:
            return self._by_row(scores.best(limit, list(map(place_of, narrow))))
        return chosen.best(limit, lambda count: self._by_row(scores.best(count)))

    def _best_vectors(self, query: SearchQuery, chosen: "Chosen") -> dict[int, float]:
        """The nearest entries, with all that equal the last of them, in descending order."""
        vector, vectors = query.vector, self._vectors
        if vector is None or vectors is None:
            return {}
        narrow = chosen.narrow(COUNTED)
        if narrow is not None:
            return vectors.top(vector, _depth(query), narrow)
        return chosen.best(_depth(query), lambda count: vectors.top(vector, count, None))

    def _similarities(self, query: SearchQuery, rows: Collection[int]) -> dict[int, float]:
        if query.vector is None or self._vectors is None or not rows:
            return {}
        return self._vectors.similarities(query.vector, list(rows))

    def _pool(self, query: SearchQuery, words: Mapping[int, int], similarities: Mapping[int, float]) -> list[int]:
        """The rows of the candidates, ascending."""
        if not is_fused(query):
            return sorted(words or similarities)
        tied = undecided(query.pool, words, similarities)
        rows = fetch(self._connection, f"SELECT e.entry, e.id {_BY_ROWS}", (json.dumps(tied),)) if tied else ()
        return sorted(pool(query.pool, dict(rows), words, similarities))

    def _read(self, query: SearchQuery, rows: Sequence[int]) -> dict[int, Entry]:
        """The entries with these rows, in the order of the rows."""
        fields = "e.fields" if query.fields else "''"
        read = fetch(self._connection, f"SELECT e.entry, e.id, {fields} {_BY_ROWS}", (json.dumps(rows),))
        return {row[0]: row for row in read}

    def _named(self, query: SearchQuery, filters: Sequence[Filter]) -> dict[int, Entry]:
        """The entries with the ids of the query that satisfy the filters, by row."""
        matches = entry_matches(self._partition.row, filters, "e.entry")
        fields = "e.fields" if query.fields else "''"
        # One text for any number of ids, so that it is prepared once.
        sql = (
            f"SELECT e.entry, e.id, {fields} FROM json_each(?) j "
            f"CROSS JOIN search_entries e ON e.partition = ? AND e.id = j.value WHERE {matches.text}"
        )
        rows = fetch(self._connection, sql, (json.dumps(query.ids), self._partition.row, *matches.bindings))
        return {row[0]: row for row in rows}


class Chosen:
    """The entries of a partition that satisfy filters.

    Attributes:
        filters: as given.
    """

    def __init__(self, connection: apsw.Connection, partition: int, filters: Sequence[Filter]) -> None:
        self._connection = connection
        self._partition = partition
        self.filters = filters

    def narrow(self, most: int) -> list[int] | None:
        """Their rows; None if there is no filter that fewer than ``most`` satisfy."""
        narrowest = narrowest_first(self._connection, self._partition, self.filters, most)
        if narrowest.matches >= most:
            return None
        matching = matching_entries(self._partition, narrowest.filters)
        return [row for (row,) in fetch(self._connection, *matching)]

    def best(self, limit: int, best_of: Callable[[int], dict[int, T]]) -> dict[int, T]:
        """The best that satisfy the filters, at least ``limit`` if there are, with all that equal the last, descending.

        Args:
            limit: at least so many.
            best_of: the best rows of all: at least so many, with all that equal the last of them.
        """
        if not self.filters:
            return best_of(limit)
        count, checked = limit, 0
        found: dict[int, T] = {}
        while True:
            tried = best_of(count)
            new = list(tried)[checked:]
            matched = self._matching(new)
            found |= {row: tried[row] for row in new if row in matched}
            if len(found) >= limit or len(tried) < count:
                return found
            count, checked = MORE * len(tried), len(tried)

    def _matching(self, rows: Sequence[int]) -> set[int]:
        """Those of the rows that satisfy the filters."""
        matches = entry_matches(self._partition, self.filters, "j.value")
        sql = f"SELECT j.value FROM json_each(?) j WHERE {matches.text}"
        return {row for (row,) in fetch(self._connection, sql, (json.dumps(rows), *matches.bindings))}


def _depth(query: SearchQuery) -> int:
    """How many entries each list of candidates has."""
    return query.pool if is_fused(query) else query.limit
