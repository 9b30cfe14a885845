"""A history in which everything is in order, written by hand, and the ways in which a test spoils it."""

from collections.abc import Callable, Sequence
from typing import Any

from history_events import CUT, PLAIN, Event, Label, Seen, Text
from msgspec.structs import replace

A, B = "a" * 16, "b" * 16
"""The incarnations: the first one is deleted, the second one is another user's."""

Story = dict[str, Event]
"""Events by a name."""


def word(number: int, incarnation: str = A) -> str:
    """A label; ``ask`` for a question of a turn."""
    return str(Label("b" if incarnation == B else "a", incarnation, f"n{number}"))


def said(*numbers: int, incarnation: str = A, turns: Sequence[int] = (), completed: bool = True) -> tuple[Seen, ...]:
    """Messages as they are read: a question and its answer in turn, numbered from 1."""
    labels = [word(number, incarnation) for number in numbers]
    return tuple(
        Seen(f"m-{label}", label, seq, (seq + 1) // 2, "user" if seq % 2 else "assistant", completed)
        for seq, label in enumerate(labels, 1)
    )


class Teller:
    """Tells events one after the other, two seconds each, one of which it takes."""

    def __init__(self) -> None:
        self.story: Story = {}

    def tell(self, event: str, kind: str, incarnation: str = "", **fields: Any) -> None:
        """Add what happened next."""
        now = 100.0 + 2 * len(self.story)
        known: dict[str, Any] = {
            "id": event, "process": "p0", "kind": kind, "name": "talk-1", "outcome": "ok", "incarnation": incarnation,
            "user": "b" if incarnation == B else "a",
            "began": now, "clock_began": now, "ended": now + 1, "clock_ended": now + 1,
        }  # fmt: skip
        self.story[event] = Event(**known | fields)


def sound() -> Story:
    """A session is opened, used in every way, and deleted; another user takes its id."""
    teller = Teller()
    tell = teller.tell
    plain = {"npc": PLAIN}
    question = str(Label("a", "ask", "k1"))
    answer = ("talk-1", "trace-1", 3, "家训第一条……")
    asked: dict[str, Any] = {"labels": (question,), "key": "key-1", "answer": answer, **plain}
    more = (Seen("m-5", question, 5, 3, "user", completed=True), Seen("m-6", "", 6, 3, "assistant", completed=True))
    tell("open", "open", A, got="talk-1", created=True)
    tell("append", "append", A, labels=(word(1), word(2)), messages=said(1, 2), **plain)
    begun = (*said(1, 2, 3), replace(said(1, 2, 3, 4)[3], completed=False))
    tell("turn", "append", A, labels=(word(3), word(4)), messages=begun[2:], **plain)
    tell("settle", "settle", A, labels=(word(4),), messages=said(1, 2, 3, 4)[3:], created=True, **plain)
    tell("history", "history", A, messages=said(1, 2, 3, 4), **plain)
    tell("rename", "rename", A, labels=(word(5),), **plain)
    tell("prefer", "prefer", A, labels=(word(6),), **plain)
    tell("ask", "ask", **asked)
    tell("again", "ask", **asked)
    tell("latest", "latest", A, messages=(*said(1, 2, 3, 4)[2:], *more), **plain)
    tell("whole", "history", A, messages=(*said(1, 2, 3, 4), *more), **plain)
    tell("aside", "append", A, labels=(word(7), word(8)), messages=said(7, 8), npc=CUT)
    tell("clear", "clear", A, npc=CUT)
    tell("cleared", "history", A, npc=CUT)
    tell("record", "record", texts=(Text(A, ""), Text(A, word(5))), process="end")
    tell("preferences", "preferences", texts=(Text(A, ""), Text(A, word(6))))
    tell("list", "list", texts=(Text(A, word(5)),), ends={A: 200.0})
    tell("delete", "delete by name", created=True)
    tell("taken", "open", B, got="talk-1", created=True)
    tell("other", "append", B, labels=(word(9, B),), messages=said(9, incarnation=B), **plain)
    tell("its", "history", B, messages=said(9, incarnation=B), **plain)
    return teller.story


Spoil = Callable[[Story], None]


def change(key: str, **fields: Any) -> Spoil:
    """One event was otherwise."""

    def spoil(story: Story) -> None:
        story[key] = replace(story[key], **fields)

    return spoil


def add(after: str, kind: str, incarnation: str = "", **fields: Any) -> Spoil:
    """Something more happened, right after that event."""

    def spoil(story: Story) -> None:
        teller = Teller()
        teller.tell("more", kind, incarnation, npc=PLAIN)
        ended = story[after].ended
        times = {"began": ended + 0.2, "clock_began": ended + 0.2, "ended": ended + 0.5, "clock_ended": ended + 0.5}
        story["more"] = replace(teller.story["more"], **times | fields)

    return spoil
