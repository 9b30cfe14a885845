"""The candidates and the hits of a search, from the rows of its statements."""

from collections.abc import Collection, Mapping, Sequence

from wenmai.stores.fusion import Candidates, best, pool
from wenmai.stores.hit_fields import JsonFields
from wenmai.stores.postgresql.database import Row, escape, unescape
from wenmai.stores.postgresql.search_query import depth
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.word_scores import WordScores


def matching(
    queries: Sequence[SearchQuery],
    read: Sequence[Row],
    lists: Sequence[Mapping[int, float]],
    unchecked: Collection[int],
) -> list[dict[int, Row]]:
    """The rows of each query's entries, or of its ids, that satisfy its filters; by entry."""
    rows = {row["entry"]: row for row in read if row["id"] is not None}
    matched = {(row["query"], row["entry"]) for row in read if row["query"] is not None}
    found = []
    for n, (query, own) in enumerate(zip(queries, lists, strict=True)):
        wanted = frozenset(map(escape, query.ids or ()))
        entries = (
            own.keys() & rows.keys() if query.ids is None else [e for e, row in rows.items() if row["id"] in wanted]
        )
        found.append({entry: rows[entry] for entry in entries if n not in unchecked or (n, entry) in matched})
    return found


def pooled(
    queries: Sequence[SearchQuery],
    found: Sequence[Mapping[int, Row]],
    best: Sequence[Mapping[int, int]],
    nearest: Sequence[Mapping[int, float]],
) -> list[list[Row]]:
    """The rows that are candidates: the lists also have what equals the last of the best."""
    kept = []
    for query, rows, words, vectors in zip(queries, found, best, nearest, strict=True):
        ids = {entry: unescape(row["id"]) for entry, row in rows.items()}
        chosen = ids if query.ids is not None else pool(ids, depth(query), words, vectors)
        kept.append([rows[entry] for entry in chosen])
    return kept


def hits_of(query: SearchQuery, rows: Sequence[Row], words: WordScores, similarities: Mapping[int, float]) -> list[Hit]:
    """The hits of a query.

    Args:
        query: valid.
        rows: of its candidates.
        words: the scores of its text.
        similarities: of the entries that have a vector.
    """
    entries = [row["entry"] for row in rows]
    scored = words.at(entries)
    ids = [unescape(row["id"]) for row in rows]
    candidates = Candidates(ids, scored.lexical, list(map(similarities.get, entries)))
    return [
        Hit(
            id=candidates.ids[place],
            lexical=scored.lexical[place],
            coverage=scored.coverage[place],
            similarity=candidates.similarities[place],
            fields=JsonFields(unescape(rows[place]["fields"])) if query.fields else {},
        )
        for place in best(query, candidates)
    ]
