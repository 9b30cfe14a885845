"""A query over the inverted index and the vectors of one partition: BM25, cosine, and both fused."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

from wenmai.stores.bm25 import UNIT
from wenmai.stores.fusion import Scores, best
from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.sqlite.search_filters import Filter, entry_matches, filters_of, matching_entries, narrowest_first
from wenmai.stores.sqlite.search_partition import Partition, first_row, place_of
from wenmai.stores.sqlite.search_vectors import SnapshotVectors
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.word_scores import NO_WORDS, CachedScores, Sums, Words, WordScores, from_blocks
from wenmai.text.cjk import query_terms

COUNTED = 1_000
"""Entries of a filter that are counted to find the narrowest one; if that has more, the best are checked first."""

MORE = 4
"""Factor of the next try if too few of the best satisfy the filters."""

_BLOCKS = """
SELECT p.term, p.block, p.postings FROM json_each(?) j
CROSS JOIN search_postings p ON p.partition = ? AND p.term = j.value"""
_BY_NUMBERS = """
SELECT e.entry, e.id, e.fields, e.number FROM json_each(?) j
CROSS JOIN search_vectors v ON v.number = j.value CROSS JOIN search_entries e ON e.entry = v.entry"""
_BY_ROWS = """
SELECT e.entry, e.id, e.fields, e.number FROM json_each(?) j CROSS JOIN search_entries e ON e.entry = j.value"""

T = TypeVar("T")

_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode


class Entry(NamedTuple):
    """A candidate; ``number`` is that of its vector."""

    row: int
    id: str
    fields: str
    number: int | None


class Reader:
    """Runs queries over one partition, within one snapshot.

    Args:
        connection: of the snapshot.
        partition: not empty.
        vectors: None if no query needs them.
        cached: scores of earlier queries.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        partition: Partition,
        vectors: SnapshotVectors | None,
        cached: CachedScores,
    ) -> None:
        self._connection = connection
        self._partition = partition
        self._vectors = vectors
        self._cached = cached

    def hits(self, query: SearchQuery) -> list[Hit]:
        """The best entries by text, by vector, or by both."""
        filters = filters_of(query.where)
        if not all(each.bindings for each in filters):
            return []  # SQLite scans a whole index for an empty list
        scores = self._scores(query.text or "")
        if query.ids is not None:
            entries = self._named(query.ids, filters)
            similarities = self._similarities(query, entries.values())
        else:
            chosen = Chosen(self._connection, self._partition.row, filters)
            words = self._best_words(scores, chosen, _depth(query))
            similarities = self._best_vectors(query, chosen)
            entries = self._candidates(query, words, similarities)
            missing = [entry for entry in entries.values() if entry.number not in similarities]
            similarities |= self._similarities(query, missing)
        found = scores.of([place_of(row) for row in entries])
        return _hits(query, entries.values(), self._by_row(found), similarities, scores.total)

    def _scores(self, text: str) -> WordScores:
        """The scores of all entries by the words of the text."""
        partition = self._partition
        scores = self._cached.get(partition.row, partition.changes, text)
        if scores is None:
            wanted = query_terms(text)
            blocks = fetch(self._connection, _BLOCKS, (json.dumps(wanted), partition.row)) if wanted else []
            sums = Sums(partition.entries, partition.length)
            scores = WordScores(sums, len(wanted), from_blocks(wanted, blocks))
            self._cached.keep(partition.row, partition.changes, text, scores)
        return scores

    def _by_row(self, words: Mapping[int, Words]) -> dict[int, Words]:
        first = first_row(self._partition.row)
        return {first + place: each for place, each in words.items()}

    def _best_words(self, scores: WordScores, chosen: "Chosen", limit: int) -> dict[int, Words]:
        """The best entries by words, with all that equal the last of them, in descending order."""
        if not len(scores):
            return {}
        narrow = chosen.narrow(min(len(scores), COUNTED))
        if narrow is not None:
            return self._by_row(scores.best(limit, list(map(place_of, narrow))))
        return _widened(
            limit,
            lambda count: self._by_row(scores.best(count)),
            lambda rows: chosen.of(rows, "j.value", "json_each(?) j"),
        )

    def _best_vectors(self, query: SearchQuery, chosen: "Chosen") -> dict[int, float]:
        """The best vectors by number, with all that equal the last of them, in descending order."""
        vector, vectors = query.vector, self._vectors
        if vector is None or vectors is None:
            return {}
        narrow = chosen.narrow(COUNTED)
        if narrow is not None:
            sql = "SELECT e.number FROM json_each(?) j CROSS JOIN search_entries e ON e.entry = j.value"
            rows = fetch(self._connection, sql, (json.dumps(narrow),))
            allowed = [number for (number,) in rows if number is not None]
            return vectors.top(vector, _depth(query), allowed)
        source = "json_each(?) j CROSS JOIN search_vectors v ON v.number = j.value"
        return _widened(
            _depth(query),
            lambda count: vectors.top(vector, count, None),
            lambda numbers: chosen.of(numbers, "v.entry", source),
        )

    def _similarities(self, query: SearchQuery, entries: Collection[Entry]) -> dict[int, float]:
        numbers = [entry.number for entry in entries if entry.number is not None]
        if query.vector is None or self._vectors is None or not numbers:
            return {}
        return self._vectors.similarities(query.vector, numbers)

    def _candidates(
        self, query: SearchQuery, words: Mapping[int, Words], similarities: Mapping[int, float]
    ) -> dict[int, Entry]:
        """The best entries by words and by vector, by row; of equal ones those with the smallest ids."""
        by_words = [Entry(*row) for row in fetch(self._connection, _BY_ROWS, (json.dumps(list(words)),))]
        by_words.sort(key=lambda entry: (-words[entry.row].score, entry.id))
        by_vector = [Entry(*row) for row in fetch(self._connection, _BY_NUMBERS, (json.dumps(list(similarities)),))]
        by_vector.sort(key=lambda entry: (-similarities[entry.number or 0], entry.id))
        return {entry.row: entry for ranking in (by_words, by_vector) for entry in ranking[: _depth(query)]}

    def _named(self, ids: Sequence[str], filters: Sequence[Filter]) -> dict[int, Entry]:
        """The entries with these ids that satisfy the filters, by row."""
        if not ids:
            return {}
        matches = entry_matches(self._partition.row, filters, "e.entry")
        sql = (
            f"SELECT e.entry, e.id, e.fields, e.number FROM search_entries e "
            f"WHERE e.partition = ? AND e.id IN ({', '.join('?' * len(ids))}) AND {matches.text}"
        )
        rows = fetch(self._connection, sql, (self._partition.row, *ids, *matches.bindings))
        return {row[0]: Entry(*row) for row in rows}


class Chosen:
    """The entries of a partition that satisfy filters."""

    def __init__(self, connection: apsw.Connection, partition: int, filters: Sequence[Filter]) -> None:
        self._connection = connection
        self._partition = partition
        self._filters = filters

    def narrow(self, most: int) -> list[int] | None:
        """Their rows; None if there is no filter that fewer than ``most`` satisfy."""
        narrowest = narrowest_first(self._connection, self._partition, self._filters, most)
        if narrowest.matches >= most:
            return None
        matching = matching_entries(self._partition, narrowest.filters)
        return [row for (row,) in fetch(self._connection, *matching)]

    def of(self, values: Collection[int], entry: str, source: str) -> set[int]:
        """Those of the values whose entry, an expression over the source of values ``j``, satisfies the filters."""
        if not self._filters:
            return set(values)
        matches = entry_matches(self._partition, self._filters, entry)
        sql = f"SELECT j.value FROM {source} WHERE {matches.text}"
        rows = fetch(self._connection, sql, (json.dumps(list(values)), *matches.bindings))
        return {value for (value,) in rows}


def _widened(
    limit: int, best_of: Callable[[int], dict[int, T]], matching: Callable[[Collection[int]], set[int]]
) -> dict[int, T]:
    """The best that match, at least ``limit`` if there are, with all that equal the last of them, in descending order.

    Args:
        limit: at least so many.
        best_of: the best, matching or not: at least so many, with all that equal the last of them.
        matching: those that match.
    """
    count, checked = limit, 0
    found: dict[int, T] = {}
    while True:
        tried = best_of(count)
        new = list(tried)[checked:]
        matched = matching(new)
        found |= {key: tried[key] for key in new if key in matched}
        if len(found) >= limit or len(tried) < count:
            return found
        count, checked = MORE * len(tried), len(tried)


def _depth(query: SearchQuery) -> int:
    """How many entries each list of candidates has."""
    return query.limit if query.text is None or query.vector is None else query.pool


def _hits(
    query: SearchQuery,
    entries: Collection[Entry],
    words: Mapping[int, Words],
    similarities: Mapping[int, float],
    total: int,
) -> list[Hit]:
    """The hits among the candidates; ``total`` is the weight of all the query's terms."""
    by_id = {entry.id: entry for entry in entries}
    scores = {
        entry.id: Scores(UNIT * words.get(entry.row, NO_WORDS).score, similarities.get(entry.number or 0))
        for entry in entries
    }
    return [
        Hit(
            id=id_,
            lexical=scores[id_].lexical,
            coverage=words.get(by_id[id_].row, NO_WORDS).covered / total if total else 0.0,
            similarity=scores[id_].similarity,
            fields=_decode_fields(by_id[id_].fields),
        )
        for id_ in best(query, scores)
    ]
