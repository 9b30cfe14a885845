"""A query over the inverted index and the vectors of one partition: BM25, cosine, and both fused."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from wenmai.errors import InvalidInput
from wenmai.stores.bm25 import fuse, idf
from wenmai.stores.contracts import BM25_B, BM25_K1, Hit
from wenmai.stores.sqlite.connection_threads import fetch


class Partition(NamedTuple):
    """A scope's collection, with its number of entries and their total length in terms."""

    row: int
    dimension: int | None
    entries: int
    length: int


def values_of(values: str | Sequence[str]) -> Sequence[str]:
    """The values of a field or filter as a sequence."""
    return [values] if isinstance(values, str) else values


def to_blob(vector: Sequence[float]) -> bytes:
    """A vector in sqlite-vec's format: 32-bit floats."""
    return struct.pack(f"{len(vector)}f", *vector)


_BY_WORDS = """
FROM wanted w
CROSS JOIN search_postings p ON p.partition = ? AND p.term = w.term
CROSS JOIN search_entries e ON e.entry = p.entry"""
_BY_ENTRIES = """
FROM search_entries e
CROSS JOIN wanted w
CROSS JOIN search_postings p ON p.partition = ? AND p.term = w.term AND p.entry = e.entry"""
"""The join order is fixed, because without statistics the planner scans every entry and every posting."""


class Query:
    """One query over one partition, within one snapshot."""

    def __init__(
        self, connection: apsw.Connection, partition: Partition, where: Mapping[str, str | Sequence[str]]
    ) -> None:
        self._connection = connection
        self._partition = partition
        self._filters = [(field, *values_of(values)) for field, values in where.items()]

    def hits(self, wanted: list[str] | None, vector: Sequence[float] | None, limit: int) -> list[Hit]:
        """The best entries by text, by vector, or by both."""
        blob = None
        if vector is not None:
            if self._partition.dimension is not None and len(vector) != self._partition.dimension:
                raise InvalidInput("vector", len(vector), f"of the collection's length, {self._partition.dimension}")
            blob = to_blob(vector)
        if any(not allowed for _, *allowed in self._filters):
            return []  # SQLite scans a whole index for an empty list
        frequencies = self._frequencies(wanted or [])
        weights = {term: idf(self._partition.entries, frequency) for term, frequency in frequencies.items()}
        joined = _BY_ENTRIES if self._is_filter_selective(sum(frequencies.values()), len(weights)) else _BY_WORDS
        by_words = self._lexical(weights, limit, joined)
        by_vector = self._similar(blob, limit)
        ids = fuse([list(by_words), list(by_vector)])[:limit]
        missing = [key for key in ids if key not in by_words]
        lexical = by_words | self._lexical(weights, limit, _BY_ENTRIES, missing)
        similar = by_vector | self._similar(blob, limit, [key for key in ids if key not in by_vector])
        total = sum(weights.values())
        return [
            Hit(
                id=key,
                lexical=lexical.get(key, (0.0, 0.0))[0],
                coverage=min(1.0, lexical.get(key, (0.0, 0.0))[1] / total) if total else 0.0,
                similarity=similar.get(key),
            )
            for key in ids
        ]

    def _frequencies(self, wanted: list[str]) -> dict[str, int]:
        """The document frequency of each term in the partition."""
        sql = "SELECT count(*) FROM search_postings WHERE partition = ? AND term = ?"
        return {term: fetch(self._connection, sql, (self._partition.row, term))[0][0] for term in wanted}

    def _is_filter_selective(self, postings: int, terms: int) -> bool:
        """Whether looking up each term in the entries of a filter takes fewer steps than scanning the postings."""
        most = postings // max(1, terms)
        for field, *allowed in self._filters:
            sql = f"SELECT count(*) FROM (SELECT 1 {_field_entries(allowed)} LIMIT ?)"
            if fetch(self._connection, sql, (self._partition.row, field, *allowed, most))[0][0] < most:
                return True
        return False

    def _lexical(
        self, weights: Mapping[str, float], limit: int, joined: str, ids: Sequence[str] | None = None
    ) -> dict[str, tuple[float, float]]:
        """BM25 score and covered weight by id, best first; restricted to ``ids`` if given."""
        if not weights or ids == []:
            return {}
        average = self._partition.length / self._partition.entries
        condition, bindings = self._condition(ids, "p.entry" if joined == _BY_WORDS else None)
        sql = f"""
WITH wanted (term, weight) AS (VALUES {", ".join(["(?, ?)"] * len(weights))})
SELECT e.id,
  sum(w.weight * p.count * {BM25_K1 + 1}
      / (p.count + {BM25_K1} * ({1 - BM25_B} + {BM25_B} * e.length / ?))) AS score,
  sum(w.weight)
{joined}
WHERE {condition}
GROUP BY e.entry ORDER BY score DESC, e.id LIMIT ?"""
        rows = fetch(
            self._connection,
            sql,
            (
                *(value for pair in weights.items() for value in pair),
                average,
                self._partition.row,
                *bindings,
                limit,
            ),
        )
        return {key: (score, covered) for key, score, covered in rows}

    def _similar(self, blob: bytes | None, limit: int, ids: Sequence[str] | None = None) -> dict[str, float]:
        """Cosine by id, best first; restricted to ``ids`` if given."""
        if blob is None or ids == []:
            return {}
        condition, bindings = self._condition(ids, None)
        rows = fetch(
            self._connection,
            f"SELECT e.id, 1 - vec_distance_cosine(e.vector, ?) AS similarity FROM search_entries e "
            f"WHERE {condition} AND e.vector IS NOT NULL ORDER BY similarity DESC, e.id LIMIT ?",
            (blob, *bindings, limit),
        )
        return dict(rows)

    def _condition(self, ids: Sequence[str] | None, candidate: str | None) -> tuple[str, list[Any]]:
        """The SQL condition for candidate entries, with its bindings.

        Args:
            ids: restricts the candidates to these entries.
            candidate: the column with the entry whose fields are looked up; None to start from the entries of the
                filters. (A ``+`` prevents the planner from using an index on that column.)
        """
        row = self._partition.row
        bindings: list[Any] = [row]
        if ids is not None:
            conditions, candidate = [f"e.partition = ? AND e.id IN ({_marks(ids)})"], "e.entry"
            bindings += ids
        else:
            conditions = ["+e.partition = ?" if self._filters else "e.partition = ?"]
        for field, *allowed in self._filters:
            if candidate is None:
                conditions.append(f"e.entry IN (SELECT entry {_field_entries(allowed)})")
            else:
                conditions.append(
                    f"EXISTS (SELECT 1 FROM search_fields f WHERE f.entry = {candidate} "
                    f"AND f.partition = ? AND f.field = ? AND +f.value IN ({_marks(allowed)}))"
                )
            bindings += (row, field, *allowed)
        return " AND ".join(conditions), bindings


def _field_entries(allowed: Sequence[str]) -> str:
    return f"FROM search_fields WHERE partition = ? AND field = ? AND value IN ({_marks(allowed)})"


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
