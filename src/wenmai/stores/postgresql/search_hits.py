"""The candidates of a search, from the row of its statement."""

from collections.abc import Collection, Mapping, Sequence

from wenmai.stores.fusion import pool
from wenmai.stores.hits import Entry
from wenmai.stores.postgresql.database import Row, unescape
from wenmai.stores.postgresql.search_query import depth
from wenmai.stores.structs import SearchQuery


def matching(
    queries: Sequence[SearchQuery],
    read: Row,
    lists: Sequence[Mapping[int, float]],
    unchecked: Collection[int],
) -> list[dict[int, Entry]]:
    """Each query's entries, or those of its ids, that satisfy its filters; by number."""
    numbers, ids = read["entries"] or [], list(map(unescape, read["ids"] or ()))
    fields = map(unescape, read["fields"]) if read["fields"] else [""] * len(numbers)
    rows = {entry[0]: entry for entry in zip(numbers, ids, fields, strict=True)}
    matched = set(zip(read["queries"] or (), read["matched"] or (), strict=True))
    found = []
    for n, (query, own) in enumerate(zip(queries, lists, strict=True)):
        wanted = frozenset(query.ids or ())
        entries = (
            [entry for entry in own if entry in rows]
            if query.ids is None
            else [entry for entry, id_, _ in rows.values() if id_ in wanted]
        )
        found.append({entry: rows[entry] for entry in entries if n not in unchecked or (n, entry) in matched})
    return found


def pooled(
    queries: Sequence[SearchQuery],
    found: Sequence[Mapping[int, Entry]],
    best: Sequence[Mapping[int, int]],
    nearest: Sequence[Mapping[int, float]],
) -> list[list[Entry]]:
    """The entries that are candidates: the lists also have what equals the last of the best."""
    kept = []
    for query, entries, words, vectors in zip(queries, found, best, nearest, strict=True):
        ids = {entry: id_ for entry, id_, _ in entries.values()}
        chosen = ids if query.ids is not None else pool(ids, depth(query), words, vectors)
        kept.append([entries[entry] for entry in chosen])
    return kept
