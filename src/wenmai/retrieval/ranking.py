"""Scoring and ranking of hits.

**Score.** Without vectors a passage's score is the coverage of the store's :class:`~wenmai.stores.structs.Hit`:
the share of the question's terms that it contains, weighted by their rarity. With vectors, its semantic nearness,
relative to the other hits, adds a part of what is not covered::

    score = coverage + SEMANTIC_WEIGHT · (1 - coverage) · nearness
    nearness = (similarity - lowest) / (1 - lowest)            lowest: of the hits of this question

Cosines have no zero: those of the bundled embedder lie between 0.75 and 0.92 for any question. So they are never
compared with a threshold; the farthest hit is 0, the same meaning is 1. Measured on the npc profile's sample, the best
passage had a nearness of 0.06 to 0.16 for ten unrelated questions, and of 0.15 to 0.50 for fourteen that it answers. A
passage that shares no word with the question scores below ``SEMANTIC_WEIGHT``, the default ``min_score``: a score of
0.3 means about the same with and without an embedder.

**Order.** Reciprocal rank fusion of lexical and semantic rank; a passage whose vector is still to come counts with its
lexical rank for both. Ties are broken by score.
"""

from collections.abc import Sequence

from wenmai.stores.structs import Hit, RankFusion

SEMANTIC_WEIGHT = 0.3


def scores(hits: Sequence[Hit]) -> dict[str, float]:
    """The score of each hit, by id; see the module."""
    near = nearness(hits)
    return {hit.id: hit.coverage + SEMANTIC_WEIGHT * (1 - hit.coverage) * near.get(hit.id, 0.0) for hit in hits}


def nearness(hits: Sequence[Hit]) -> dict[str, float]:
    """The semantic nearness of each hit that has a vector, by id; see the module."""
    similarities = {hit.id: hit.similarity for hit in hits if hit.similarity is not None}
    lowest = min(similarities.values(), default=1.0)
    return {
        id_: (similarity - lowest) / (1 - lowest) if lowest < 1 else 0.0 for id_, similarity in similarities.items()
    }


def fused_order(hits: Sequence[Hit], score: dict[str, float]) -> list[str]:
    """The ids of the hits by reciprocal rank fusion, best first; see the module."""
    by_words = sorted((hit for hit in hits if hit.lexical > 0), key=lambda hit: -hit.lexical)
    not_embedded = {hit.id for hit in hits if hit.similarity is None}
    near = [(hit.similarity, hit) for hit in hits if hit.similarity is not None]
    by_similarity = [hit for _, hit in sorted(near, key=lambda pair: -pair[0])]
    fused = {hit.id: 0.0 for hit in hits}
    for ranking in (by_words, by_similarity):
        for rank, hit in enumerate(ranking, start=1):
            fused[hit.id] += (2 if hit.id in not_embedded else 1) / (RankFusion().constant + rank)
    return sorted(fused, key=lambda id_: (-fused[id_], -score[id_], id_))


def best_hits(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """The first ``limit`` hits in fused order."""
    by_id = {hit.id: hit for hit in hits}
    return [by_id[id_] for id_ in fused_order(hits, scores(hits))[:limit]]


def best_score(hits: Sequence[Hit]) -> float:
    """The highest score, 0 without hits."""
    return max(scores(hits).values(), default=0.0)
