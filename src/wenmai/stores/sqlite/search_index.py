"""Writes of a search index: entries, late vectors, removals; the cost of each depends on its own entries only."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import apsw
import msgspec

from wenmai.stores.search_values import check_dimension, text_digest, values_of
from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.sqlite.search_filters import filters_of, matching_entries, narrowest_first
from wenmai.stores.sqlite.search_partition import (
    Owner,
    Partition,
    created_partition,
    first_row,
    forget_emptied,
    partition_of,
    place_of,
)
from wenmai.stores.sqlite.search_vectors import BYTE_ORDER
from wenmai.stores.structs import SearchEntry, Where
from wenmai.stores.vector_matrix import to_bytes
from wenmai.stores.word_scores import BLOCK_BITS, by_block, without_postings
from wenmai.text.cjk import terms as text_terms

# One statement a block, since the interpreter is locked and released for each; sorted, which is the table's order.
_PUT_POSTINGS = """
INSERT INTO search_postings (partition, term, block, postings)
SELECT ?, key, ?, unhex(value) FROM json_each(?) WHERE TRUE
ON CONFLICT (partition, term, block) DO UPDATE SET postings = {0}"""
_APPEND_POSTINGS = _PUT_POSTINGS.format("CAST(postings || excluded.postings AS BLOB)")
_REPLACE_POSTINGS = _PUT_POSTINGS.format("excluded.postings")
_READ_POSTINGS = """
SELECT p.term, p.postings FROM json_each(?) j
CROSS JOIN search_postings p ON p.partition = ? AND p.term = j.value AND p.block = ?"""
_DELETE_POSTINGS = """
DELETE FROM search_postings WHERE partition = ? AND term IN (SELECT value FROM json_each(?)) AND block = ?"""


class Analysed(NamedTuple):
    """An entry as it is stored; ``terms`` is a JSON list."""

    entry: SearchEntry
    counts: Mapping[str, int]
    length: int
    digest: bytes
    fields: str
    terms: str
    vector: bytes | None


def analysed(entries: Sequence[SearchEntry]) -> list[Analysed]:
    """The last entry of each id, as it is stored."""
    return [_analysed(entry) for entry in {entry.id: entry for entry in entries}.values()]


def index(
    connection: apsw.Connection, owner: Owner, entries: Sequence[SearchEntry], indexed: Sequence[Analysed]
) -> None:
    """Add or replace the entries, as they were analysed.

    Raises:
        InvalidInput: the vectors of the collection have another length.
    """
    found = partition_of(connection, owner)
    dimension = check_dimension(entries, found and found.dimension)
    partition = found or created_partition(connection, owner)
    put = [_put(connection, partition.row, each) for each in indexed]
    _drop_words(connection, partition.row, [each.replaced for each in put if each.replaced])
    words = [(place_of(each.row), new.counts, new.length) for each, new in zip(put, indexed, strict=True)]
    for block, postings in by_block(words).items():
        _put_postings(connection, _APPEND_POSTINGS, partition.row, block, postings)
    _add_sums(connection, partition, [each.sums for each in put], dimension)


def embed(connection: apsw.Connection, owner: Owner, entries: Sequence[SearchEntry]) -> int:
    """Store the vectors, of one length, of entries whose text is still the indexed one; returns their number.

    Raises:
        InvalidInput: the vectors of the collection have another length.
    """
    partition = partition_of(connection, owner)
    if partition is None:
        return 0
    dimension = check_dimension(entries, partition.dimension)
    sql = "SELECT entry, number FROM search_entries WHERE partition = ? AND id = ? AND digest = ?"
    sums = []
    for entry in {entry.id: entry for entry in entries}.values():
        for row, number in fetch(connection, sql, (partition.row, entry.id, text_digest(entry.text))):
            _drop_vector(connection, number)
            new = _put_vector(connection, partition.row, row, to_bytes(entry.vector or (), BYTE_ORDER))
            connection.execute("UPDATE search_entries SET number = ? WHERE entry = ?", (new, row))
            sums.append(Sums(0, 0, number is None))
    _add_sums(connection, partition, sums, dimension)
    return len(sums)


def remove(connection: apsw.Connection, owner: Owner, ids: Iterable[str]) -> int:
    """Remove the entries with these ids; return how many there were."""
    partition = partition_of(connection, owner)
    if partition is None:
        return 0
    sql = "SELECT entry FROM search_entries WHERE partition = ? AND id = ?"
    rows = [row for id_ in dict.fromkeys(ids) for (row,) in fetch(connection, sql, (partition.row, id_))]
    return _remove(connection, partition, rows)


def remove_matching(connection: apsw.Connection, owner: Owner, where: Where, limit: int) -> int:
    """Remove at most ``limit`` entries that match; return how many there were."""
    partition = partition_of(connection, owner)
    if partition is None:
        return 0
    narrowest = narrowest_first(connection, partition.row, filters_of(where), limit)
    matching = matching_entries(partition.row, narrowest.filters)
    rows = fetch(connection, f"{matching.text} LIMIT ?", (*matching.bindings, limit))
    return _remove(connection, partition, [row for (row,) in rows])


class Sums(NamedTuple):
    """Change of a partition's sums by a write."""

    entries: int
    length: int
    vectors: int


def _analysed(entry: SearchEntry) -> Analysed:
    counts = Counter(text_terms(entry.text))
    return Analysed(
        entry,
        counts,
        counts.total(),
        text_digest(entry.text),
        msgspec.json.encode(entry.fields).decode(),
        msgspec.json.encode(list(counts)).decode(),
        None if entry.vector is None else to_bytes(entry.vector, BYTE_ORDER),
    )


class Words(NamedTuple):
    """The terms of an entry, as they are stored."""

    row: int
    terms: str


class Put(NamedTuple):
    """An entry that was added, or that replaced one with these words, which have yet to go."""

    row: int
    replaced: Words | None
    sums: Sums


def _put(connection: apsw.Connection, partition: int, new: Analysed) -> Put:
    """Add or replace an entry, without its words; a replaced one keeps its row, and with the same text its vector."""
    found = fetch(
        connection,
        "SELECT entry, length, terms, number, digest = ? FROM search_entries WHERE partition = ? AND id = ?",
        (new.digest, partition, new.entry.id),
    )
    row, length, terms, number, same_text = (
        found[0] if found else (_next_row(connection, partition), 0, "[]", None, False)
    )
    had_vector = number is not None
    if found:
        _drop_fields(connection, row)
    if new.vector is not None or not same_text:
        _drop_vector(connection, number)
        number = None if new.vector is None else _put_vector(connection, partition, row, new.vector)
    connection.execute(
        "INSERT OR REPLACE INTO search_entries (entry, partition, id, length, digest, number, fields, terms) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (row, partition, new.entry.id, new.length, new.digest, number, new.fields, new.terms),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO search_fields (partition, field, value, entry) VALUES (?, ?, ?, ?)",
        [(partition, field, value, row) for field, values in new.entry.fields.items() for value in values_of(values)],
    )
    sums = Sums(not found, new.length - length, (number is not None) - had_vector)
    return Put(row, Words(row, terms) if found else None, sums)


def _next_row(connection: apsw.Connection, partition: int) -> int:
    sql = "SELECT coalesce(max(entry), ?) + 1 FROM search_entries WHERE entry > ? AND entry < ?"
    first = first_row(partition)
    row: int = fetch(connection, sql, (first, first, first_row(partition + 1)))[0][0]
    return row


def _put_vector(connection: apsw.Connection, partition: int, row: int, vector: bytes) -> int:
    connection.execute(
        "INSERT INTO search_vectors (partition, entry, vector) VALUES (?, ?, ?)", (partition, row, vector)
    )
    return connection.last_insert_rowid()


def _drop_vector(connection: apsw.Connection, number: int | None) -> None:
    if number is not None:
        connection.execute("DELETE FROM search_vectors WHERE number = ?", (number,))


def _put_postings(
    connection: apsw.Connection, sql: str, partition: int, block: int, postings: Mapping[str, bytes]
) -> None:
    values = {term: postings[term].hex() for term in sorted(postings)}
    connection.execute(sql, (partition, block, msgspec.json.encode(values).decode()))


def _drop_words(connection: apsw.Connection, partition: int, gone: Sequence[Words]) -> None:
    """Remove the postings of entries; those of a block are read and written once."""
    gone_of: dict[int, dict[str, list[int]]] = {}
    for row, terms in gone:
        block = gone_of.setdefault(place_of(row) >> BLOCK_BITS, {})
        for term in json.loads(terms):
            block.setdefault(term, []).append(place_of(row))
    for number, places in gone_of.items():
        read = fetch(connection, _READ_POSTINGS, (json.dumps(list(places)), partition, number))
        left = {term: without_postings(postings, places[term]) for term, postings in read}
        kept = {term: postings for term, postings in left.items() if postings}
        _put_postings(connection, _REPLACE_POSTINGS, partition, number, kept)
        empty = [term for term in left if term not in kept]
        connection.execute(_DELETE_POSTINGS, (partition, json.dumps(empty), number))


def _drop_fields(connection: apsw.Connection, row: int) -> None:
    connection.execute("DELETE FROM search_fields WHERE entry = ?", (row,))


def _remove(connection: apsw.Connection, partition: Partition, rows: Sequence[int]) -> int:
    sums, gone = [], []
    for row in rows:
        sql = "DELETE FROM search_entries WHERE entry = ? RETURNING length, terms, number"
        [(length, terms, number)] = fetch(connection, sql, (row,))
        gone.append(Words(row, terms))
        _drop_fields(connection, row)
        _drop_vector(connection, number)
        sums.append(Sums(-1, -length, -(number is not None)))
    _drop_words(connection, partition.row, gone)
    _add_sums(connection, partition, sums, None)
    forget_emptied(connection, partition.row)
    return len(rows)


def _add_sums(connection: apsw.Connection, partition: Partition, sums: Sequence[Sums], dimension: int | None) -> None:
    if sums:
        added = [sum(column) for column in zip(*sums, strict=True)]
        connection.execute(
            "UPDATE search_partitions SET changes = changes + 1, dimension = coalesce(?, dimension), "
            "entries = entries + ?, length = length + ?, vectors = vectors + ? WHERE partition = ?",
            (dimension, *added, partition.row),
        )
