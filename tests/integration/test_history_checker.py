"""The checker of random histories: each rule finds what it is for, and mistakes of stores are found."""

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest
from history_actor import Actor
from history_by_hand import A, B, Spoil, add, change, said, sound, word
from history_checker import RULES, complaints
from history_events import Journal, Seen, SharedClock, Text, events_in
from history_past import Past
from history_session_rules import answers
from history_worker import engine_of
from msgspec.structs import replace

import mistakes
from wenmai.stores.memory.documents import MemoryDocuments
from wenmai.stores.memory.logs import MemoryLogs

OTHER_ANSWER = ("talk-1", "trace-2", 4, "别的")
FRESH = {"got": "session-x", "created": True}
EXPIRED, NOT_FOUND = (
    {"outcome": "refused", "error": error, "messages": ()} for error in ("SessionExpired", "SessionNotFound")
)

WRONG: list[tuple[str, Spoil]] = [
    ("foreign_words", change("its", messages=said(9))),
    ("foreign_words", change("its", messages=said(1, incarnation=A))),
    ("foreign_words", change("preferences", texts=(Text(A, word(9, B)),))),
    ("foreign_words", add("list", "traces", user="c", texts=(Text("c" * 16, word(1)),))),
    ("mistaken_sessions", change("taken", incarnation=A)),
    ("mistaken_sessions", change("record", user="b", texts=(Text(A, ""),))),
    ("lost", change("history", messages=said(1, 2, 3))),
    ("lost", change("history", messages=())),
    ("lost", change("latest", messages=said(1, 2, 3, 4)[3:] * 0)),
    ("lost", change("history", messages=(*said(1, 2, 3), *said(1, 2, 3, 4, completed=False)[3:]))),
    ("lost_questions", change("whole", messages=said(1, 2, 3, 4))),
    ("lost_questions", change("ask", answer=("talk-1", "trace-1", 2, ""))),
    ("doubled", change("history", messages=said(1, 2, 3, 4, 3))),
    ("gaps", change("history", messages=said(1, 2, 3, 4)[1:])),
    ("gaps", change("history", messages=(*said(1, 2), *said(0, 0, 0, 3, 4)[3:]))),
    ("gaps", change("history", messages=(said(1)[0], Seen("m", "", 2, 2, "assistant", completed=True)))),
    ("renumbered", change("history", messages=said(2, 1, 3, 4))),
    ("resurrected", add("delete", "record", texts=(Text(A, ""),))),
    ("resurrected", add("delete", "traces", texts=(Text(A, word(1)),))),
    ("resurrected", add("delete", "preferences", texts=(Text(A, word(6)),))),
    ("resurrected", add("delete", "history", A, messages=said(1, 2))),
    ("resurrected", add("delete", "append", A, messages=said(1))),
    ("resurrected", add("delete", "settle", A, labels=(word(4),), created=True)),
    ("resurrected", add("taken", "prefer", A, labels=(word(11),))),
    ("resurrected", change("its", messages=(Seen("m", "axaskxk1", 1, 1, "user", completed=True),))),
    ("came_back", change("cleared", messages=said(7, 8))),
    ("two_at_once", change("delete", created=False)),
    ("ended_in_use", add("turn", "append", A, **EXPIRED)),
    ("ended_in_use", add("turn", "open", "c" * 16, **FRESH)),
    ("ended_in_use", add("turn", "ask", labels=("axaskxn20",), answer=("session-x", "trace-3", 1, ""))),
    ("ended_in_use", change("list", ends={A: 130.0})),
    ("went_on", change("turn", clock_began=900.0, clock_ended=901.0)),
    ("refused", add("turn", "append", A, **NOT_FOUND)),
    ("refused", change("settle", created=False, messages=())),
    ("answers", change("again", answer=OTHER_ANSWER)),
    (
        "answers",
        add("taken", "ask", key="key-1", labels=("axaskxk1",), answer=("talk-1", "trace-1", 3, "家训第一条……")),
    ),
    ("overwritten", change("record", texts=(Text(A, ""), Text(A, word(1))))),
    ("overwritten", change("preferences", process="end", texts=(Text(A, ""),))),
    ("unexpected_errors", change("record", outcome="unknown", error="unexpected: KeyError()")),
]


def test_a_history_in_order_gives_no_complaint() -> None:
    """Otherwise the complaints below would prove nothing."""
    assert complaints(Past(list(sound().values()))) == []


@pytest.mark.parametrize(("rule", "spoil"), WRONG)
def test_every_rule_finds_what_it_is_for(rule: str, spoil: Spoil) -> None:
    """In the same history with one thing wrong."""
    story = sound()
    spoil(story)
    past = Past(sorted(story.values(), key=lambda event: event.began))
    (broken,) = (each for each in RULES if each.__name__ == rule)
    assert list(broken(past))


def test_every_rule_has_a_wrong_history() -> None:
    """No rule is without its proof."""
    assert {rule.__name__ for rule in RULES} == {rule for rule, _ in WRONG}


def test_a_cache_may_lag_behind_other_processes_for_as_long_as_it_is_trusted() -> None:
    """And no longer, and not behind its own process."""
    story = sound()
    add("delete", "preferences", texts=(Text(A, word(6)),), process="p1")(story)
    events = sorted(story.values(), key=lambda event: event.began)
    assert complaints(Past(events, lag=5.0)) == []
    assert complaints(Past(events, lag=0.1))
    add("delete", "preferences", texts=(Text(A, word(6)),))(story)
    assert complaints(Past(sorted(story.values(), key=lambda event: event.began), lag=5.0))


def test_a_read_that_began_before_a_delete_may_end_after_the_next_answer() -> None:
    """A slow reader was given the answer of the session as it began; one that began later was not."""
    story = sound()
    asked = story["again"]
    late: dict[str, Any] = {"labels": asked.labels, "key": asked.key}
    add("taken", "ask", **late, answer=OTHER_ANSWER)(story)
    story["new"] = story.pop("more")
    add("list", "ask", **late, answer=asked.answer, ended=story["new"].ended + 1)(story)
    events = sorted(story.values(), key=lambda event: event.began)
    assert list(answers(Past(events))) == []
    story["more"] = replace(story["more"], began=story["new"].began - 0.1)
    assert list(answers(Past(sorted(story.values(), key=lambda event: event.began))))


STEPS, ACTORS, HISTORIES = 60, 8, 12
LONGEST_SECONDS = 5.0

Part = type[MemoryDocuments] | type[MemoryLogs]


def interrupted(part: Part) -> Part:
    """The same store, in which others come between any two calls."""
    chance = random.Random(1)  # noqa: S311 — for variety
    methods = {"get", "put", "delete", "list", "append", "read", "latest", "settle", "erase", "truncate"}

    def yielding(name: str) -> Any:
        async def call(*arguments: Any, **named: Any) -> Any:
            await asyncio.sleep(chance.random() ** 4 * 0.003)
            return await getattr(part, name)(*arguments, **named)

        return call

    return type(part.__name__, (part,), {name: yielding(name) for name in methods if hasattr(part, name)})


async def history_in_process(folder: Path, seed: int) -> Past:
    """Eight actors in this process over ``memory://``, while the clock runs fast."""
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
        # Over a store with mistakes a call may never end.
        await asyncio.wait(acting, timeout=LONGEST_SECONDS)
        for task in acting:
            task.cancel()
        await asyncio.wait(acting)
        moving.cancel()
    return Past(events_in([events]))


def use(monkeypatch: pytest.MonkeyPatch, *parts: Part) -> None:
    """Let ``memory://`` consist of these parts, interrupted."""
    for part in parts:
        of = "MemoryLogs" if issubclass(part, MemoryLogs) else "MemoryDocuments"
        monkeypatch.setattr(f"wenmai.stores.memory.{of}", interrupted(part))


async def test_the_store_in_the_process_keeps_every_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With others between any two calls."""
    use(monkeypatch, MemoryDocuments, MemoryLogs)
    assert complaints(await history_in_process(tmp_path, random.randrange(10**6))) == []  # noqa: S311


@pytest.mark.parametrize(
    "mistake", [mistakes.KnowsSessionsByName, mistakes.LeavesWhatHangsOnASession, mistakes.MovesEndsBack]
)
async def test_mistakes_of_stores_are_found(mistake: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a dozen histories, mostly in the first."""
    use(monkeypatch, MemoryDocuments, MemoryLogs, mistake)
    for seed in range(HISTORIES):
        if complaints(await history_in_process(tmp_path, seed)):
            return
    pytest.fail(f"{mistake.__name__} was not found")
