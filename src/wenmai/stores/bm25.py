"""Scores of searches by words: BM25 and coverage, as pure functions shared by backends.

BM25 (Robertson and Zaragoza, *The Probabilistic Relevance Framework*, 2009) of an entry, summed over the
query's distinct terms ``t``::

    idf(t) · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average))
    idf(t) = ln(1 + (N - n + 0.5) / (n + 0.5))

``N`` is the number of entries of the scope in the collection, filtered out or not, ``n`` how many of them
contain the term, ``tf`` the term's frequency in this entry, ``length`` its number of terms with repeats and
``average`` the mean length over the ``N``. The idf is never negative, so a term that every entry contains counts a
little.

Coverage is the summed idf of the query's distinct terms that the entry contains, over that of all of them.

Weights and the scores of terms are whole numbers of :data:`UNIT`. Their sums are exact in whatever order they are
added, so entries with equal scores are equal to the last bit, on every backend.
"""

from collections.abc import Iterable, Mapping
from math import log

from wenmai.stores.contracts import BM25_B, BM25_K1

UNIT = 2**-32
"""The step of weights and scores."""


def idf(entries: int, document_frequency: int) -> int:
    """The inverse document frequency, in units, of a term that occurs in so many of the scope's ``entries``."""
    return round(log(1 + (entries - document_frequency + 0.5) / (document_frequency + 0.5)) / UNIT)


def length_factor(entries: int, length: int) -> float:
    """The penalty of a term in an entry; ``length`` is that of all the scope's entries together."""
    return BM25_K1 * BM25_B * entries / max(1, length)


def term_score(weight: int, frequency: int, length: int, by_length: float) -> int:
    """The contribution of one term to an entry's BM25 score, in units.

    Args:
        weight: the term's :func:`idf`.
        frequency: of the term in the entry.
        length: the entry's number of terms, with repeats.
        by_length: the scope's :func:`length_factor`.
    """
    # Backends write this in SQL, in the same order of operations.
    return int(weight * (BM25_K1 + 1) * frequency / (frequency + BM25_K1 * (1 - BM25_B) + by_length * length))


def coverage(weights: Mapping[str, int], matched: Iterable[str]) -> float:
    """The share, 0 to 1, of the query's idf weight covered by ``matched`` terms."""
    total = sum(weights.values())
    return sum(weights[term] for term in matched) / total if total else 0.0
