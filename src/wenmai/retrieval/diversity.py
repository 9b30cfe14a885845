"""Maximal marginal relevance (Carbonell and Goldstein, 1998): items that are relevant and unlike those before them."""

from collections.abc import Sequence

POOL_FACTOR = 3
"""Items considered for each one that is wanted."""


def diversified(
    scores: Sequence[float], features: Sequence[frozenset[str]], *, relevance: float, wanted: int
) -> list[int]:
    """The indexes of the items to keep, in the order in which they were chosen, which is their order of rank.

    Each choice has the highest ``relevance * score - (1 - relevance) * similarity``, with the score scaled to 0 to 1
    and the similarity to the most similar item chosen before (Jaccard index of the features).

    Args:
        scores: of the items, best first.
        features: of the same items, such as the terms of their texts.
        relevance: λ, 0 to 1; with 1 the order stays that of the scores.
        wanted: most items to choose.
    """
    if not scores:
        return []
    low, spread = min(scores), (max(scores) - min(scores)) or 1.0
    scaled = [(score - low) / spread for score in scores]
    similar = [0.0] * len(scores)
    chosen: list[int] = []
    left = list(range(len(scores)))
    while left and len(chosen) < wanted:
        best = max(left, key=lambda each: (relevance * scaled[each] - (1 - relevance) * similar[each], -each))
        left.remove(best)
        chosen.append(best)
        for each in left:
            similar[each] = max(similar[each], _jaccard(features[best], features[each]))
    return chosen


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0
