"""The checker of random histories: each rule detects its violation, and broken stores are detected."""

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest
from history_actor import Actor
from history_checker import RULES, violations
from history_events import Journal, Seen, SharedClock, Text, events_in
from history_example import A, B, Mutation, add, change, label, messages_of, valid_history
from history_model import HistoryModel
from history_session_rules import answers
from history_worker import engine_of
from msgspec.structs import replace

import broken_stores
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.inprocess.logs import InProcessLogs

OTHER_ANSWER = ("talk-1", "trace-2", 4, "别的")
NEW_SESSION = {"got": "session-x", "created": True}
EXPIRED, NOT_FOUND = (
    {"outcome": "refused", "error": error, "messages": ()} for error in ("SessionExpired", "SessionNotFound")
)

MUTATIONS: list[tuple[str, Mutation]] = [
    ("foreign_texts", change("its", messages=messages_of(9))),
    ("foreign_texts", change("its", messages=messages_of(1, incarnation=A))),
    ("foreign_texts", change("preferences", texts=(Text(A, label(9, B)),))),
    ("foreign_texts", add("list", "traces", user="c", texts=(Text("c" * 16, label(1)),))),
    ("mixed_up_sessions", change("taken", incarnation=A)),
    ("mixed_up_sessions", change("record", user="b", texts=(Text(A, ""),))),
    ("lost", change("history", messages=messages_of(1, 2, 3))),
    ("lost", change("history", messages=())),
    ("lost", change("latest", messages=messages_of(1, 2, 3, 4)[3:] * 0)),
    ("lost", change("history", messages=(*messages_of(1, 2, 3), *messages_of(1, 2, 3, 4, completed=False)[3:]))),
    ("lost_questions", change("whole", messages=messages_of(1, 2, 3, 4))),
    ("lost_questions", change("ask", answer=("talk-1", "trace-1", 2, ""))),
    ("duplicated", change("history", messages=messages_of(1, 2, 3, 4, 3))),
    ("gaps", change("history", messages=messages_of(1, 2, 3, 4)[1:])),
    ("gaps", change("history", messages=(*messages_of(1, 2), *messages_of(0, 0, 0, 3, 4)[3:]))),
    ("gaps", change("history", messages=(messages_of(1)[0], Seen("m", "", 2, 2, "assistant", completed=True)))),
    ("renumbered", change("history", messages=messages_of(2, 1, 3, 4))),
    ("resurrected", add("delete", "record", texts=(Text(A, ""),))),
    ("resurrected", add("delete", "traces", texts=(Text(A, label(1)),))),
    ("resurrected", add("delete", "preferences", texts=(Text(A, label(6)),))),
    ("resurrected", add("delete", "history", A, messages=messages_of(1, 2))),
    ("resurrected", add("delete", "append", A, messages=messages_of(1))),
    ("resurrected", add("delete", "complete", A, labels=(label(4),), created=True)),
    ("resurrected", add("taken", "prefer", A, labels=(label(11),))),
    ("resurrected", change("its", messages=(Seen("m", "axaskxk1", 1, 1, "user", completed=True),))),
    ("reappeared", change("cleared", messages=messages_of(7, 8))),
    ("concurrent_sessions", change("delete", created=False)),
    ("expired_early", add("turn", "append", A, **EXPIRED)),
    ("expired_early", add("turn", "open", "c" * 16, **NEW_SESSION)),
    ("expired_early", add("turn", "ask", labels=("axaskxn20",), answer=("session-x", "trace-3", 1, ""))),
    ("expired_early", change("list", ends={A: 130.0})),
    ("continued_after_expiry", change("turn", clock_began=900.0, clock_ended=901.0)),
    ("wrongly_rejected", add("turn", "append", A, **NOT_FOUND)),
    ("wrongly_rejected", change("complete", created=False, messages=())),
    ("answers", change("again", answer=OTHER_ANSWER)),
    (
        "answers",
        add("taken", "ask", key="key-1", labels=("axaskxk1",), answer=("talk-1", "trace-1", 3, "家训第一条……")),
    ),
    ("overwritten", change("record", texts=(Text(A, ""), Text(A, label(1))))),
    ("overwritten", change("preferences", process="end", texts=(Text(A, ""),))),
    ("unexpected_errors", change("record", outcome="unknown", error="unexpected: KeyError()")),
]


def test_a_valid_history_has_no_violations() -> None:
    """Otherwise the violations below would prove nothing."""
    assert violations(HistoryModel(list(valid_history().values()))) == []


@pytest.mark.parametrize(("rule", "mutate"), MUTATIONS)
def test_every_rule_detects_its_violation(rule: str, mutate: Mutation) -> None:
    """In the valid history with one mutation."""
    history = valid_history()
    mutate(history)
    model = HistoryModel(sorted(history.values(), key=lambda event: event.began))
    (broken,) = (each for each in RULES if each.__name__ == rule)
    assert list(broken(model))


def test_every_rule_has_a_mutation() -> None:
    """Every rule is tested."""
    assert {rule.__name__ for rule in RULES} == {rule for rule, _ in MUTATIONS}


def test_a_cache_may_lag_behind_other_processes_while_it_is_fresh() -> None:
    """No longer, and never behind its own process."""
    history = valid_history()
    add("delete", "preferences", texts=(Text(A, label(6)),), process="p1")(history)
    events = sorted(history.values(), key=lambda event: event.began)
    assert violations(HistoryModel(events, lag=5.0)) == []
    assert violations(HistoryModel(events, lag=0.1))
    add("delete", "preferences", texts=(Text(A, label(6)),))(history)
    assert violations(HistoryModel(sorted(history.values(), key=lambda event: event.began), lag=5.0))


def test_a_read_that_began_before_a_delete_may_end_after_the_next_answer() -> None:
    """A slow reader was given the answer of the session as it began; one that began later was not."""
    history = valid_history()
    asked = history["again"]
    late: dict[str, Any] = {"labels": asked.labels, "key": asked.key}
    add("taken", "ask", **late, answer=OTHER_ANSWER)(history)
    history["new"] = history.pop("more")
    add("list", "ask", **late, answer=asked.answer, ended=history["new"].ended + 1)(history)
    events = sorted(history.values(), key=lambda event: event.began)
    assert list(answers(HistoryModel(events))) == []
    history["more"] = replace(history["more"], began=history["new"].began - 0.1)
    assert list(answers(HistoryModel(sorted(history.values(), key=lambda event: event.began))))


STEPS, ACTORS, HISTORIES = 60, 8, 12
LONGEST_SECONDS = 5.0

Part = type[InProcessDocuments] | type[InProcessLogs]


def interrupted(part: Part) -> Part:
    """The same store, yielding to other tasks before each call."""
    chance = random.Random(1)  # noqa: S311 — for variety
    methods = {"get", "put", "delete", "list", "append", "read", "latest", "complete", "erase", "truncate"}

    def yielding(name: str) -> Any:
        async def call(*arguments: Any, **named: Any) -> Any:
            await asyncio.sleep(chance.random() ** 4 * 0.003)
            return await getattr(part, name)(*arguments, **named)

        return call

    return type(part.__name__, (part,), {name: yielding(name) for name in methods if hasattr(part, name)})


async def history_in_process(folder: Path, seed: int) -> HistoryModel:
    """Eight actors in this process over ``memory://``, with a fast clock."""
    chance, began = random.Random(seed), time.monotonic()  # noqa: S311
    clock = SharedClock(folder / f"{seed}.clock")
    events = folder / f"{seed}.jsonl"
    journal = Journal(events, "p0", clock)

    async def move() -> None:
        while True:
            await asyncio.sleep(0.02)
            clock.advance(chance.random() * 6)

    async def act(actor: Actor) -> None:
        for _ in range(STEPS):
            await actor.act()

    async with engine_of({"store": "memory://"}, clock) as engine:
        moving = asyncio.create_task(move())
        chances = [random.Random(chance.random()) for _ in range(ACTORS)]  # noqa: S311
        actors = [Actor(engine, journal, each, lambda: time.monotonic() - began) for each in chances]
        acting = [asyncio.create_task(act(actor)) for actor in actors]
        # On a broken store a call may never end.
        await asyncio.wait(acting, timeout=LONGEST_SECONDS)
        for task in acting:
            task.cancel()
        await asyncio.wait(acting)
        moving.cancel()
    return HistoryModel(events_in([events]))


def use(monkeypatch: pytest.MonkeyPatch, *parts: Part) -> None:
    """Make ``memory://`` use these parts, interrupted."""
    for part in parts:
        of = "InProcessLogs" if issubclass(part, InProcessLogs) else "InProcessDocuments"
        monkeypatch.setattr(f"wenmai.stores.inprocess.{of}", interrupted(part))


async def test_the_in_process_store_has_no_violations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With other tasks between any two calls."""
    use(monkeypatch, InProcessDocuments, InProcessLogs)
    assert violations(await history_in_process(tmp_path, random.randrange(10**6))) == []  # noqa: S311


@pytest.mark.parametrize(
    "broken_store", [broken_stores.FindsSessionsById, broken_stores.KeepsBoundRecords, broken_stores.MovesExpiryBack]
)
async def test_broken_stores_are_detected(broken_store: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a dozen histories, usually in the first."""
    use(monkeypatch, InProcessDocuments, InProcessLogs, broken_store)
    for seed in range(HISTORIES):
        if violations(await history_in_process(tmp_path, seed)):
            return
    pytest.fail(f"{broken_store.__name__} was not found")
