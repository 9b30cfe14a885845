"""Ranking of messages: each ingredient raises the message that it is for, and the scores add up."""

from collections.abc import Sequence
from datetime import date, timedelta
from math import exp, inf, log
from random import Random
from statistics import fmean, pstdev
from typing import Any

import pytest

from wenmai.retrieval.message_ranking import (
    WITH_VECTORS,
    WORDS_ALONE,
    Messages,
    Question,
    Weights,
    Why,
    asks_when,
    named_speakers,
    rank,
)
from wenmai.retrieval.time_expressions import DaySpan, End

DAY = date(2023, 5, 8)
NOTHING = Question(frozenset(), (), asks_when=False)


Row = dict[str, Any]
"""The features of a message."""


def message(id_: str, **features: Any) -> Row:
    """A message like all others but for these features."""
    same: dict[str, Any] = {
        "session": id_,
        "speaker": "Ann",
        "day": DAY,
        "spans": (),
        "time": 0,
        "question": False,
        "length": 50,
        "lexical": 2.0,
        "similarity": 0.8,
        "similarity_before": None,
        "similarity_after": None,
        "words_before": None,
        "words_after": None,
    }
    return {"id": id_} | same | features


def ranked(rows: Sequence[Row], question: Question) -> dict[str, Why]:
    """The ids of the messages, best first, with the parts of their scores."""
    plural = {"id": "ids", "session": "sessions", "speaker": "speakers", "day": "days", "time": "times"}
    plural |= {"question": "questions", "length": "lengths"}
    messages = Messages(**{plural.get(name, name): [row[name] for row in rows] for name in message("")})
    ranking = rank(messages, question)
    return {messages.ids[place]: ranking.why(place) for place in ranking.order}


def by_definition(row: Row, rows: Sequence[Row], question: Question, weights: Weights) -> Why:
    """The score of a message, without the part of its session, as the page about recall defines it."""
    words = [each["lexical"] for each in rows]
    near = [each["similarity"] for each in rows if each["similarity"] is not None]

    def part(
        weight: float, value: float | None, values: Sequence[float], least: float = 0.0, lowest: float = -inf
    ) -> float:
        deviation = max(pstdev(values), least) if values else 0.0
        if value is None or deviation < 1e-6:
            return 0.0
        return weight * max((value - fmean(values)) / deviation, lowest)

    least = 0.1 * max(words)
    time = weights.when if question.asks_when and row["spans"] else 0.0
    if question.spans:
        distance = min(span.distance(row["day"]) for span in question.spans)
        named = [(own, asked) for own in row["spans"] for asked in question.spans]
        within = any(asked.first <= own.first and own.last <= asked.last for own, asked in named)
        time += weights.day * exp(-distance / weights.day_scale) + weights.resolved * within
    return Why(
        words=part(weights.words, row["lexical"], words, least),
        meaning=part(weights.meaning, row["similarity"], near),
        time=time,
        speaker=weights.speaker * (1 if row["speaker"] in question.speakers else -1) if question.speakers else 0.0,
        neighbours=part(weights.meaning_before, row["similarity_before"], near)
        + part(weights.meaning_after, row["similarity_after"], near)
        + part(weights.words_before, row["words_before"], words, least, -2.0)
        + part(weights.words_after, row["words_after"], words, least, -2.0),
        form=weights.question * row["question"] + weights.length * log(1 + row["length"]),
    )


def any_message(number: int, chance: Random, *, vectors: bool) -> Row:
    """One of few kinds in each feature, so that some messages are equal."""

    def sometimes(value: float) -> float | None:
        return value if chance.random() < 0.7 else None

    day = DAY + timedelta(days=chance.randrange(20))
    return message(
        f"{number * 7919 % 1000:04}",
        session=f"s{chance.randrange(9)}",
        speaker=chance.choice(["Ann", "Bob", ""]),
        day=day,
        spans=[DaySpan(day - timedelta(days=9), day - timedelta(days=chance.randrange(9)))] * chance.randrange(2),
        question=chance.random() < 0.2,
        length=chance.randrange(3),
        lexical=float(chance.randrange(6)),
        similarity=sometimes(chance.randrange(5) / 5) if vectors else None,
        similarity_before=sometimes(chance.random()) if vectors else None,
        similarity_after=sometimes(chance.random()) if vectors else None,
        words_before=sometimes(chance.random()),
        words_after=sometimes(chance.random()),
    )


@pytest.mark.parametrize("vectors", [False, True], ids=["words alone", "with vectors"])
@pytest.mark.parametrize(
    "question",
    [
        NOTHING,
        Question(frozenset({"Ann"}), (), asks_when=True),
        Question(frozenset({"Bob"}), (DaySpan(DAY, DAY + timedelta(days=4)),), asks_when=False),
    ],
    ids=["nothing", "speaker and when", "speaker and days"],
)
def test_the_order_is_that_of_the_definition(question: Question, vectors: bool) -> None:  # noqa: FBT001 — a table
    """The scores of a whole pool, computed by columns, are those of each message computed alone; ties by id."""
    chance, weights = Random(7), WITH_VECTORS if vectors else WORDS_ALONE  # noqa: S311 — the same each time
    rows = [any_message(number, chance, vectors=vectors) for number in range(300)]
    alone = {row["id"]: by_definition(row, rows, question, weights) for row in rows}
    best: dict[str, float] = {}
    for row in rows:
        best[row["session"]] = max(best.get(row["session"], -99.0), alone[row["id"]].total)
    expected = {row["id"]: alone[row["id"]]._replace(session=0.3 * best[row["session"]]) for row in rows}
    found = ranked(rows, question)
    assert list(found) == sorted(found, key=lambda id_: (-round(found[id_].total, 9), id_))
    assert found.keys() == expected.keys()
    for id_, why in found.items():
        assert why == pytest.approx(expected[id_])


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
    assert next(iter(ranked([message("a"), message("b", **features), message("c"), *spread], question))) == "b"


@pytest.mark.parametrize(("end", "expected"), [("first", "bca"), ("last", "acb")])
def test_the_earliest_or_the_latest_of_the_good_messages_comes_first(end: End, expected: str) -> None:
    """And a message that is earlier or later, but says something else, gains nothing."""
    rows = [message("a", time=30), message("b", time=10), message("c", time=20)]
    others = [message(id_, time=time, lexical=0.0, similarity=0.1) for id_, time in (("x", 1), ("y", 99))]
    found = ranked([*rows, *others], NOTHING._replace(end=end))
    assert "".join(found) == f"{expected}xy"
    assert [found[id_].time for id_ in "xy"] == [0.0, 0.0]


def test_questions_rank_below_statements() -> None:
    """A message that asks the same does not answer."""
    assert list(ranked([message("a", question=True), message("b")], NOTHING)) == ["b", "a"]


def test_the_best_message_raises_its_session() -> None:
    """A message beside the best one comes before an equal one elsewhere."""
    messages = [message("a"), message("b", session="s"), message("c", session="s", lexical=9.0)]
    assert list(ranked(messages, NOTHING)) == ["c", "b", "a"]


def test_scores_do_not_depend_on_the_scale_of_similarities() -> None:
    """Cosines of one embedder lie between 0.75 and 0.92, of another between 0 and 1: the order is the same."""
    values = [(3.0, 0.76), (1.0, 0.90), (2.0, 0.80), (0.0, 0.85)]
    messages = [message(str(n), lexical=words, similarity=near) for n, (words, near) in enumerate(values)]
    stretched = [each | {"similarity": 5 * each["similarity"] - 3} for each in messages]
    assert list(ranked(messages, NOTHING)) == list(ranked(stretched, NOTHING))


def test_nearly_equal_words_are_no_reason_in_a_small_pool() -> None:
    """Of two messages of which one is a little shorter, the one of the day asked for is the best."""
    asked = Question(frozenset(), (DaySpan(DAY, DAY),), asks_when=False)
    messages = [message("a", lexical=2.05, day=date(2023, 5, 6), similarity=None), message("b", similarity=None)]
    assert next(iter(ranked(messages, asked))) == "b"


def test_a_neighbour_without_the_words_costs_little_in_a_small_pool() -> None:
    """However alike the messages are: less than what they say themselves."""
    rows = [message("a", lexical=2.0, words_before=0.0, words_after=0.0), message("b", lexical=2.01)]
    found = ranked(rows, NOTHING)
    assert found["a"].neighbours == pytest.approx(-2.0 * (WITH_VECTORS.words_before + WITH_VECTORS.words_after))


def test_a_message_without_a_vector_counts_as_average() -> None:
    """So it is ranked by its words until its vector is there."""
    messages = [message("near", similarity=0.9), message("far", similarity=0.7), message("new", similarity=None)]
    assert list(ranked(messages, NOTHING)) == ["near", "new", "far"]
    assert list(ranked([each | {"similarity": None} for each in messages], NOTHING)) == ["far", "near", "new"]


def test_parts_add_up_to_the_score() -> None:
    """And no message at all is no error."""
    scores = ranked([message("a"), message("b", lexical=5.0)], NOTHING)
    assert all(why.total == pytest.approx(sum(why)) for why in scores.values())
    assert ranked([], NOTHING) == {}


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
