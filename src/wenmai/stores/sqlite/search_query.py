"""A query over the inverted index and the vectors of one partition: BM25, cosine, and both fused."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import apsw
import msgspec

from wenmai.stores.bm25 import UNIT, idf, length_factor
from wenmai.stores.contracts import BM25_B, BM25_K1, Hit, SearchQuery
from wenmai.stores.fusion import Scores, best
from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.sqlite.search_filters import (
    Filter,
    Sql,
    entry_matches,
    filters_of,
    matching_entries,
    narrowest_first,
)
from wenmai.stores.sqlite.search_partition import Partition
from wenmai.stores.sqlite.search_vectors import SnapshotVectors
from wenmai.text.cjk import query_terms

TIES = 64
"""Entries read beyond the last, which usually shows where those that equal it end."""

COUNTED = 1_000
"""Entries of a filter that are counted to find the narrowest one."""

# The join order is fixed, because without statistics the planner scans every posting. A posting has the length of its
# entry, so that no entry is read before the best are known.
_SCORED = f"""
SELECT p.entry, sum(
    CAST(w.weight * {BM25_K1 + 1} * p.count / (p.count + {BM25_K1 * (1 - BM25_B)} + ? * p.length) AS INTEGER)
  ) AS score,
  sum(w.weight)
FROM {{source}}"""
_WANTED = "WITH wanted (term, weight) AS MATERIALIZED (SELECT key, value FROM json_each(?))"
_BY_WORDS = """wanted w CROSS JOIN search_postings p ON p.partition = ? AND p.term = w.term"""
_BY_ENTRIES = """wanted w CROSS JOIN chosen c
CROSS JOIN search_postings p ON p.partition = ? AND p.term = w.term AND p.entry = c.entry"""

_BY_NUMBERS = """
SELECT e.entry, e.id, e.fields, e.number FROM json_each(?) j
CROSS JOIN search_vectors v ON v.number = j.value CROSS JOIN search_entries e ON e.entry = v.entry"""
_BY_ROWS = """
SELECT e.entry, e.id, e.fields, e.number FROM json_each(?) j CROSS JOIN search_entries e ON e.entry = j.value"""

_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode


class Entry(NamedTuple):
    """A candidate; ``number`` is that of its vector."""

    row: int
    id: str
    fields: str
    number: int | None


class Words(NamedTuple):
    """The BM25 score of an entry, and the weight of the terms that it contains; both in units."""

    score: int
    covered: int


NO_WORDS = Words(0, 0)


class Reader:
    """Runs queries over one partition, within one snapshot.

    Args:
        connection: of the snapshot.
        partition: not empty.
        vectors: None if no query needs them.
    """

    def __init__(self, connection: apsw.Connection, partition: Partition, vectors: SnapshotVectors | None) -> None:
        self._connection = connection
        self._partition = partition
        self._vectors = vectors
        self._by_length = length_factor(partition.entries, partition.length)

    def hits(self, query: SearchQuery) -> list[Hit]:
        """The best entries by text, by vector, or by both."""
        filters = filters_of(query.where)
        if not all(each.bindings for each in filters):
            return []  # SQLite scans a whole index for an empty list
        frequencies = self._frequencies([] if query.text is None else query_terms(query.text))
        weights = {term: idf(self._partition.entries, frequency) for term, frequency in frequencies.items()}
        if query.ids is not None:
            entries = self._named(query.ids, filters)
            words = self._words_of(weights, list(entries))
            similarities = self._similarities(query, entries.values())
        else:
            words = self._best_words(weights, sum(frequencies.values()), filters, _depth(query))
            similarities = self._best_vectors(query, filters)
            entries = self._candidates(query, words, similarities)
            words |= self._words_of(weights, [row for row in entries if row not in words])
            missing = [entry for entry in entries.values() if entry.number not in similarities]
            similarities |= self._similarities(query, missing)
        return _hits(query, entries.values(), words, similarities, sum(weights.values()))

    def _frequencies(self, wanted: Sequence[str]) -> dict[str, int]:
        """The document frequency of each term in the partition."""
        sql = "SELECT count(*) FROM search_postings WHERE partition = ? AND term = ?"
        return {term: fetch(self._connection, sql, (self._partition.row, term))[0][0] for term in wanted}

    def _best_words(
        self, weights: Mapping[str, int], postings: int, filters: Sequence[Filter], limit: int
    ) -> dict[int, Words]:
        """The best entries by words, with all that equal the last of them, in descending order."""
        if not postings:
            return {}
        most = postings // len(weights)
        narrowest = narrowest_first(self._connection, self._partition.row, filters, most)
        # Whether looking up each term in the entries of a filter takes fewer steps than scanning the postings.
        if narrowest.matches < most:
            sql = self._scored(weights, matching_entries(self._partition.row, narrowest.filters), "")
        else:
            matches = entry_matches(self._partition.row, filters, "p.entry")
            sql = self._scored(weights, None, f"HAVING {matches.text}", matches.bindings)
        rows = fetch(self._connection, f"{sql.text} ORDER BY score DESC LIMIT ?", (*sql.bindings, limit + TIES))
        if len(rows) == limit + TIES and rows[-1][1] == rows[limit - 1][1]:
            rows = fetch(self._connection, f"{sql.text} ORDER BY score DESC", sql.bindings)
        return {row: Words(score, covered) for row, score, covered in rows if score >= rows[:limit][-1][1]}

    def _words_of(self, weights: Mapping[str, int], rows: Sequence[int]) -> dict[int, Words]:
        """The words of these entries, if they contain a term."""
        if not weights or not rows:
            return {}
        sql = self._scored(weights, Sql("SELECT value FROM json_each(?)", (json.dumps(sorted(rows)),)), "")
        return {row: Words(score, covered) for row, score, covered in fetch(self._connection, *sql)}

    def _scored(self, weights: Mapping[str, int], chosen: Sql | None, having: str, bindings: Any = ()) -> Sql:
        """A query for the entries, all or those chosen, that contain a term, with their :class:`Words`."""
        chosen_text = f", chosen (entry) AS MATERIALIZED ({chosen.text})" if chosen else ""
        scored = _SCORED.format(source=_BY_ENTRIES if chosen else _BY_WORDS)
        return Sql(
            f"{_WANTED}{chosen_text}{scored} GROUP BY p.entry {having}",
            (
                json.dumps(weights),
                *(chosen.bindings if chosen else ()),
                self._by_length,
                self._partition.row,
                *bindings,
            ),
        )

    def _best_vectors(self, query: SearchQuery, filters: Sequence[Filter]) -> dict[int, float]:
        """The best vectors by number, with all that equal the last of them, in descending order."""
        if query.vector is None or self._vectors is None:
            return {}
        allowed = None
        if filters:
            narrowest = narrowest_first(self._connection, self._partition.row, filters, COUNTED)
            matching = matching_entries(self._partition.row, narrowest.filters)
            sql = (
                f"SELECT e.number FROM ({matching.text}) c CROSS JOIN search_entries e ON e.entry = c.entry "
                "WHERE e.number IS NOT NULL"
            )
            allowed = [number for (number,) in fetch(self._connection, sql, matching.bindings)]
        return self._vectors.top(query.vector, _depth(query), allowed)

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
