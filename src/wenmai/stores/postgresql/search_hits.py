"""The hits of a search from the rows of its statements."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wenmai.stores.bm25 import UNIT
from wenmai.stores.fusion import Scores, best, descending
from wenmai.stores.postgresql.database import Row, unescape
from wenmai.stores.postgresql.search_query import depth
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.word_scores import NO_WORDS, WordScores

_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode


def hits_of(query: SearchQuery, rows: Sequence[Row], words: WordScores, similarities: Mapping[int, float]) -> list[Hit]:
    """The hits of a query.

    Args:
        query: valid.
        rows: of its candidates.
        words: the scores of its text.
        similarities: of the vectors, by their number.
    """
    found = {unescape(row["id"]): row for row in rows}
    scored = words.of([row["entry"] for row in rows])
    of = {id_: scored.get(row["entry"], NO_WORDS) for id_, row in found.items()}
    scores = {id_: Scores(UNIT * of[id_].score, similarities.get(row["number"])) for id_, row in found.items()}
    if query.ids is None:
        scores = _pooled(scores, depth(query))
    return [
        Hit(
            id=id_,
            lexical=scores[id_].lexical,
            coverage=of[id_].covered / words.total if words.total else 0.0,
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
