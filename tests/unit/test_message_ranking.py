"""Ranking of messages: each ingredient raises the message that it is for, and the scores add up."""

from datetime import date
from typing import Any

import pytest

from wenmai.retrieval.message_ranking import Question, RankedMessage, asks_when, named_speakers, rank
from wenmai.retrieval.time_expressions import DaySpan

DAY = date(2023, 5, 8)
NOTHING = Question(frozenset(), (), asks_when=False)


def message(id_: str, **features: Any) -> RankedMessage:
    """A message like all others but for these features."""
    same: dict[str, Any] = {
        "session": id_,
        "speaker": "Ann",
        "day": DAY,
        "spans": (),
        "is_question": False,
        "length": 50,
        "lexical": 2.0,
        "similarity": 0.8,
    }
    return RankedMessage(id=id_, **same | features)


def first(question: Question, **features: Any) -> str:
    """The best of two messages, of which the one that would be second by its id has these features."""
    return next(iter(rank([message("a"), message("b", **features), message("c")], question)))


@pytest.mark.parametrize(
    ("features", "question"),
    [
        ({"lexical": 4.0}, NOTHING),
        ({"similarity": 0.85}, NOTHING),
        ({"similarity_before": 0.85}, NOTHING),
        ({"similarity_after": 0.85}, NOTHING),
        ({"words_before": 4.0}, NOTHING),
        ({"words_after": 4.0}, NOTHING),
        ({"length": 80}, NOTHING),
        ({"speaker": "Bob"}, Question(frozenset({"Bob"}), (), asks_when=False)),
        (
            {"day": date(2023, 5, 2)},
            Question(frozenset(), (DaySpan(date(2023, 5, 1), date(2023, 5, 1)),), asks_when=False),
        ),
        (
            {"spans": (DaySpan(date(2022, 1, 1), date(2022, 1, 2)),)},
            Question(frozenset(), (DaySpan(date(2022, 1, 1), date(2022, 1, 31)),), asks_when=False),
        ),
        ({"spans": (DaySpan(DAY, DAY),)}, Question(frozenset(), (), asks_when=True)),
    ],
    ids=[
        "words",
        "meaning",
        "meaning before",
        "meaning after",
        "words before",
        "words after",
        "length",
        "speaker",
        "day",
        "own dates",
        "when",
    ],
)
def test_each_ingredient_raises_its_message(features: dict[str, Any], question: Question) -> None:
    """All else being equal."""
    spread = [message("x", lexical=1.0, similarity=0.7)]
    assert next(iter(rank([message("a"), message("b", **features), message("c"), *spread], question))) == "b"


def test_questions_rank_below_statements() -> None:
    """A message that asks the same does not answer."""
    assert list(rank([message("a", is_question=True), message("b")], NOTHING)) == ["b", "a"]


def test_the_best_message_raises_its_session() -> None:
    """A message beside the best one comes before an equal one elsewhere."""
    messages = [message("a"), message("b", session="s"), message("c", session="s", lexical=9.0)]
    assert list(rank(messages, NOTHING)) == ["c", "b", "a"]


def test_scores_do_not_depend_on_the_scale_of_similarities() -> None:
    """Cosines of one embedder lie between 0.75 and 0.92, of another between 0 and 1: the order is the same."""
    values = [(3.0, 0.76), (1.0, 0.90), (2.0, 0.80), (0.0, 0.85)]
    messages = [message(str(n), lexical=words, similarity=near) for n, (words, near) in enumerate(values)]
    stretched = [each._replace(similarity=5 * (each.similarity or 0) - 3) for each in messages]
    assert list(rank(messages, NOTHING)) == list(rank(stretched, NOTHING))


def test_nearly_equal_words_are_no_reason_in_a_small_pool() -> None:
    """Of two messages of which one is a little shorter, the one of the day asked for is the best."""
    asked = Question(frozenset(), (DaySpan(DAY, DAY),), asks_when=False)
    messages = [message("a", lexical=2.05, day=date(2023, 5, 6), similarity=None), message("b", similarity=None)]
    assert next(iter(rank(messages, asked))) == "b"


def test_a_message_without_a_vector_counts_as_average() -> None:
    """So it is ranked by its words until its vector is there."""
    messages = [message("near", similarity=0.9), message("far", similarity=0.7), message("new", similarity=None)]
    assert list(rank(messages, NOTHING)) == ["near", "new", "far"]
    assert list(rank([each._replace(similarity=None) for each in messages], NOTHING)) == ["far", "near", "new"]


def test_parts_add_up_to_the_score() -> None:
    """And no message at all is no error."""
    ranked = rank([message("a"), message("b", lexical=5.0)], NOTHING)
    assert all(why.total == pytest.approx(sum(why)) for why in ranked.values())
    assert rank([], NOTHING) == {}


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When did she leave?", True),
        ("什么时候去的？", True),
        ("你哪天去的", True),
        ("Which year?", True),
        ("whenever", False),
    ],
)
def test_questions_for_a_time_are_recognised(question: str, expected: bool) -> None:  # noqa: FBT001 — a table
    """In Chinese and English."""
    assert asks_when(question) == expected


def test_speakers_are_named_by_whole_words() -> None:
    """By the first name too, whatever the case, and in Chinese within a sentence."""
    speakers = ["Ann Lee", "Joanna", "王峰", ""]
    assert named_speakers("What did ann buy?", speakers) == {"Ann Lee"}
    assert named_speakers("王峰喜欢什么？", speakers) == {"王峰"}
    assert named_speakers("annual plans", speakers) == set()
