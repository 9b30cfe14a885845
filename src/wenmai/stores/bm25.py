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
"""

from collections.abc import Iterable, Mapping
from math import log

from wenmai.stores.contracts import BM25_B, BM25_K1


def idf(entries: int, document_frequency: int) -> float:
    """The inverse document frequency of a term that occurs in ``document_frequency`` of the scope's ``entries``."""
    return log(1 + (entries - document_frequency + 0.5) / (document_frequency + 0.5))


def term_score(weight: float, frequency: int, length: int, average: float) -> float:
    """The contribution of one term to an entry's BM25 score.

    Args:
        weight: the term's :func:`idf`.
        frequency: of the term in the entry.
        length: the entry's number of terms, with repeats.
        average: the mean length over the scope's entries.
    """
    penalty = BM25_K1 * (1 - BM25_B + BM25_B * length / average)
    return weight * frequency * (BM25_K1 + 1) / (frequency + penalty)


def coverage(weights: Mapping[str, float], matched: Iterable[str]) -> float:
    """The share, 0 to 1, of the query's idf weight covered by ``matched`` terms."""
    total = sum(weights.values())
    return min(1.0, sum(weights[term] for term in matched) / total) if total else 0.0
