"""The order of a search's hits: by words, by vector, or by both, fused; pure functions shared by backends.

Each function reads the scores of all candidates. A backend gives those of the query's ``ids``, or else the union of the
best ``pool`` entries by words and the best ``pool`` by vector, each with both of its scores. So the order depends on
the pool, and never on how many hits are wanted.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from math import fsum, inf, sqrt
from typing import NamedTuple

from wenmai.stores.structs import RankFusion, SearchQuery, WeightedFusion

SMALLEST_DEVIATION = 1e-6
"""A smaller deviation is the rounding of equal scores, and tells no entry from another."""


class Candidates(NamedTuple):
    """The ids of candidates and their scores, in any order: see :class:`wenmai.stores.structs.Hit`."""

    ids: Sequence[str]
    lexical: Sequence[float]
    similarities: Sequence[float | None]


def best(query: SearchQuery, candidates: Candidates) -> list[int]:
    """The places of the query's hits among the candidates, best first, at most ``query.limit``, ties by id.

    Args:
        query: valid, as checked by :mod:`wenmai.stores.search_values`.
        candidates: every one. With text or vector alone, the best ``limit`` entries are enough.
    """
    return descending(fused(query, candidates), candidates.ids)[: query.limit]


def fused(query: SearchQuery, candidates: Candidates) -> Sequence[float]:
    """The scores by which the candidates of a query are ordered; their ids are read only if :func:`needs_ids`."""
    if query.vector is None:
        return candidates.lexical
    if query.text is None:
        return [-inf if similarity is None else similarity for similarity in candidates.similarities]
    if isinstance(query.fusion, RankFusion):
        count = query.pool if query.ids is None else len(candidates.ids)
        return _by_ranks(candidates, query.fusion, count)
    return _by_weights(candidates, query.fusion)


def is_fused(query: SearchQuery) -> bool:
    """Whether there are two lists, of each of which the best ``pool`` are candidates."""
    return query.text is not None and query.vector is not None


def needs_ids(query: SearchQuery) -> bool:
    """Whether the scores depend on ids: ranks do, where entries are equal."""
    return is_fused(query) and isinstance(query.fusion, RankFusion)


def leading(scores: Sequence[float], count: int) -> Sequence[int]:
    """The places of the best ``count``, with all that equal the last of them."""
    if count >= len(scores):
        return range(len(scores))
    least = sorted(scores, reverse=True)[count - 1]
    return [place for place, score in enumerate(scores) if score >= least]


def pool(count: int, ids: Mapping[int, str], *lists: Mapping[int, float]) -> dict[int, None]:
    """The entries among the best ``count`` of a list; of equal ones those with the smallest ids.

    Args:
        count: of each list.
        ids: of the entries that are :func:`undecided`, at least.
        lists: scores, in descending order.
    """
    chosen: dict[int, None] = {}
    for scores in lists:
        equal = sorted(undecided(count, scores), key=ids.__getitem__)
        certain = [entry for entry in islice(scores, count) if not equal or scores[entry] > scores[equal[0]]]
        chosen |= dict.fromkeys([*certain, *equal[: count - len(certain)]])
    return chosen


def undecided(count: int, *lists: Mapping[int, float]) -> list[int]:
    """The entries of which ids tell which are among the best ``count``: they are equal to the last of them."""
    found: list[int] = []
    for scores in lists:
        if len(scores) > count:
            least = scores[next(islice(scores, count - 1, None))]
            found += [entry for entry, score in scores.items() if score == least]
    return found


def _by_ranks(candidates: Candidates, fusion: RankFusion, count: int) -> list[float]:
    """Reciprocal rank fusion of the best ``count`` by words and by vector.

    An entry that matches no word, or has no vector, is in no such list.
    """
    words = {place: score for place, score in enumerate(candidates.lexical) if score > 0}
    vectors = {place: score for place, score in enumerate(candidates.similarities) if score is not None}
    scores = [0.0] * len(candidates.ids)
    for ranked in (words, vectors):
        listed = list(ranked)
        order = descending(list(ranked.values()), [candidates.ids[place] for place in listed])
        for rank, place in enumerate(order[:count], start=1):
            scores[listed[place]] += 1 / (fusion.constant + rank)
    return scores


def _by_weights(candidates: Candidates, fusion: WeightedFusion) -> list[float]:
    """The weighted sum of the z-scores; a missing similarity counts as the mean, 0."""
    words = _standardised(candidates.lexical, fusion.words)
    vectors = _standardised(candidates.similarities, fusion.vector)
    return [word + vector for word, vector in zip(words, vectors, strict=True)]


def _standardised(scores: Sequence[float | None], weight: float) -> list[float]:
    """The weighted distances from the mean in standard deviations (of the whole population); 0 without a score."""
    values = [score for score in scores if score is not None]
    if not values:
        return [0.0] * len(scores)
    mean = fsum(values) / len(values)
    deviation = sqrt(fsum([(value - mean) ** 2 for value in values]) / len(values))
    if deviation < SMALLEST_DEVIATION:
        return [0.0] * len(scores)
    return [0.0 if score is None else weight * ((score - mean) / deviation) for score in scores]


def descending(scores: Sequence[float], ids: Sequence[str]) -> list[int]:
    """The places by descending score, ties by id."""
    places: Sequence[int] = range(len(scores))
    if len(set(scores)) < len(places):
        places = sorted(places, key=ids.__getitem__)
    return sorted(places, key=scores.__getitem__, reverse=True)  # equal ones stay in order when reversed too
