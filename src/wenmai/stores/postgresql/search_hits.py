"""The hits of a search from the rows of its statements."""

from collections.abc import Mapping, Sequence

from wenmai.stores.fusion import Candidates, best
from wenmai.stores.hit_fields import JsonFields
from wenmai.stores.postgresql.database import Row, unescape
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.word_scores import WordScores


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
