"""The hits of a search from the rows of its statement."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wenmai.stores.contracts import Hit, SearchQuery
from wenmai.stores.fusion import Scores, best, descending
from wenmai.stores.postgresql.database import Row, unescape
from wenmai.stores.postgresql.search_query import depth

_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode


def hits_of(query: SearchQuery, rows: Sequence[Row], similarities: Mapping[int, float]) -> list[Hit]:
    """The hits of a query.

    Args:
        query: valid.
        rows: those of :data:`QUERY` for this query.
        similarities: of the vectors, by their number.
    """
    found = {unescape(row["id"]): row for row in rows}
    scores = {id_: Scores(row["score"] or 0.0, similarities.get(row["number"])) for id_, row in found.items()}
    if query.ids is None:
        scores = _pooled(scores, depth(query))
    return [
        Hit(
            id=id_,
            lexical=scores[id_].lexical,
            coverage=min(1.0, found[id_]["coverage"] or 0.0),
            similarity=scores[id_].similarity,
            fields=_decode_fields(unescape(found[id_]["fields"])),
        )
        for id_ in best(query, scores)
    ]


def _pooled(scores: Mapping[str, Scores], count: int) -> dict[str, Scores]:
    """The best by words and by vector: the rows also have what equals the last of them."""
    words = descending({id_: score.lexical for id_, score in scores.items() if score.lexical > 0})
    vectors = descending({id_: score.similarity for id_, score in scores.items() if score.similarity is not None})
    return {id_: scores[id_] for ranked in (words, vectors) for id_ in ranked[:count]}
