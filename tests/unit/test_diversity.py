"""Maximal marginal relevance."""

from wenmai.retrieval.diversity import diversified

WORDS = [frozenset(words.split()) for words in ("red boat", "red boat old", "green boat", "blue train", "red boat new")]
SCORES = [5.0, 4.9, 4.0, 3.0, 2.9]


def test_what_repeats_an_earlier_choice_comes_later() -> None:
    """The order is that of the choices."""
    assert diversified(SCORES, WORDS, relevance=0.4, wanted=5) == [0, 3, 2, 1, 4]
    assert diversified(SCORES, WORDS, relevance=0.3, wanted=3) == [0, 3, 2]


def test_relevance_alone_keeps_the_order() -> None:
    """Whatever repeats; and a tie goes to the earlier one."""
    assert diversified(SCORES, WORDS, relevance=1.0, wanted=3) == [0, 1, 2]
    assert diversified([1.0, 1.0], [frozenset(), frozenset()], relevance=0.7, wanted=2) == [0, 1]


def test_nothing_gives_nothing() -> None:
    """An empty pool, and more wanted than there is."""
    assert diversified([], [], relevance=0.7, wanted=3) == []
    assert diversified([1.0], [frozenset("a")], relevance=0.7, wanted=3) == [0]
