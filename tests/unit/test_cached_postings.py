"""The cache of postings: by state of a partition, and bounded."""

import numpy as np
import pytest

from wenmai.stores import word_scores
from wenmai.stores.word_scores import CachedPostings, Postings, Sums

SUMS = Sums(10, 100)


def postings(count: int) -> Postings:
    """Of so many entries."""
    return Postings(np.arange(count), np.ones(count, np.uint32), np.ones(count, np.uint32))


def test_postings_are_of_one_state() -> None:
    """A later state replaces an earlier one, and not the other way round, when a slow search keeps what it read."""
    cached = CachedPostings()
    cached.keep(1, 5, SUMS, {"a": postings(3)})
    cached.keep(1, 6, SUMS, {"b": postings(4)})
    cached.keep(1, 5, SUMS, {"c": postings(3)})
    assert cached.get(1, 5, "abc") == (Sums(0, 0), {})
    sums, found = cached.get(1, 6, "abc")
    assert sums == SUMS
    assert {term: len(each.places) for term, each in found.items()} == {"b": 4}
    assert cached.get(2, 6, "abc")[1] == {}


def kept(cached: CachedPostings, partition: int, terms: str = "ab") -> str:
    """Which of the terms are kept."""
    return "".join(cached.get(partition, 1, terms)[1])


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used partition loses its terms first, and of a large one the term least recently used."""
    monkeypatch.setattr(word_scores, "CACHED_POSTINGS", 1_000)
    cached = CachedPostings()
    for partition in (1, 2, 3, 4):
        cached.keep(partition, 1, SUMS, {"a": postings(200)})
        assert kept(cached, 1) == "a"
    cached.keep(5, 1, SUMS, {"a": postings(200)})
    assert [kept(cached, partition) for partition in (2, 3, 4, 1, 5)] == ["", "a", "a", "a", "a"]
    cached.keep(5, 1, SUMS, {"b": postings(700)})
    assert [kept(cached, partition) for partition in (3, 4, 1)] == ["", "", ""]
    assert kept(cached, 5, "a") == "a"
    cached.keep(5, 1, SUMS, {"c": postings(600)})
    assert kept(cached, 5, "abc") == "ac"
    cached.keep(6, 1, SUMS, {"a": postings(1_000)})
    assert len(cached) == 0
    assert kept(cached, 6) == ""


def test_a_kept_term_does_not_keep_the_others_that_were_read_with_it() -> None:
    """Its arrays are copies, so that what goes frees memory."""
    cached = CachedPostings()
    cached.keep(1, 1, SUMS, {"a": Postings._make([column[:2] for column in postings(5_000)])})
    assert [column.base for column in cached.get(1, 1, "a")[1]["a"]] == [None, None, None]


def test_many_rare_words_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word without postings takes memory as well."""
    monkeypatch.setattr(word_scores, "CACHED_POSTINGS", 1_000)
    cached = CachedPostings()
    for number in range(500):
        cached.keep(1, 1, SUMS, {f"{number}": postings(0)})
        assert len(cached) <= 1_000
    assert len(cached.get(1, 1, map(str, range(500)))[1]) <= 40
