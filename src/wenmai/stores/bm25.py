"""How a search ranks: BM25, coverage, cosine and rank fusion, as pure functions that backends share.

BM25 (Robertson and Zaragoza, *The Probabilistic Relevance Framework*, 2009) of an entry, summed over the
query's distinct terms ``t``::

    idf(t) · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average))
    idf(t) = ln(1 + (N - n + 0.5) / (n + 0.5))

``N`` is the number of entries of the scope in the collection, filtered out or not, ``n`` how many of them
hold the term, ``tf`` how often this one does, ``length`` its number of terms with repeats and ``average`` the
mean of that over the ``N``. The idf is never negative, so a term that every entry holds counts a little.

Coverage is the idf of those of the query's distinct terms that the entry holds, over the idf of all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import dist, hypot, log

from wenmai.stores.base import BM25_B, BM25_K1, RRF_CONSTANT


def idf(entries: int, holders: int) -> float:
    """The weight of a term that ``holders`` of the scope's ``entries`` hold."""
    return log(1 + (entries - holders + 0.5) / (holders + 0.5))


def term_score(weight: float, frequency: int, length: int, average: float) -> float:
    """What one term adds to an entry's BM25 score.

    Args:
        weight: the term's :func:`idf`.
        frequency: how often the entry holds it.
        length: the entry's number of terms, with repeats.
        average: the mean length over the scope's entries.
    """
    penalty = BM25_K1 * (1 - BM25_B + BM25_B * length / average)
    return weight * frequency * (BM25_K1 + 1) / (frequency + penalty)


def coverage(weights: Mapping[str, float], held: Iterable[str]) -> float:
    """The share, 0 to 1, of the query's idf weight that the terms ``held`` make up."""
    total = sum(weights.values())
    return min(1.0, sum(weights[term] for term in held) / total) if total else 0.0


def direction(vector: Sequence[float]) -> tuple[float, ...]:
    """The vector of length 1 that points where this one does; zeros if it points nowhere."""
    length = hypot(*vector)
    return tuple(x / length for x in vector) if length else (0.0,) * len(vector)


def cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The cosine of two directions of as many numbers, from their distance; 0 if either points nowhere."""
    return 1 - dist(a, b) ** 2 / 2 if any(a) and any(b) else 0.0


def fuse(rankings: Sequence[Sequence[str]]) -> list[str]:
    """The ids of all rankings by reciprocal rank fusion, best first, ties by id.

    An id scores ``1 / (60 + rank)`` in each ranking that has it, ranks from 1 (Cormack et al. 2009).
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(ranking, start=1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (RRF_CONSTANT + rank)
    return sorted(scores, key=lambda id_: (-scores[id_], id_))
