"""An actor of a random history: opens, uses and deletes sessions at random."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from history_calls import Calls, Fields, Held
from history_events import CUT, NAMES, PLAIN, UNKNOWN, USERS, Journal, Kind, Label

from wenmai.engine import Engine
from wenmai.stores.records import TokenUsage

HELD = 5
"""Sessions that an actor continues to use, whatever has happened to them."""

DROPPED = 0.7
"""Probability of dropping a rejected session; not 1, because late calls are worth testing."""

PAUSE_SECONDS = 0.004
THINKING_SECONDS = 0.1
TOKENS = 7
"""Prompt tokens of each recorded call."""

KEYS_A_SECOND = 3.0
KEYS_AT_ONCE = 8
QUESTIONS = ("家训第一条是什么？", "祠堂是什么时候建的？", "你好！")


class Batch(NamedTuple):
    """Messages with ids, which may be sent again."""

    held: Held
    messages: list[Fields]
    labels: tuple[str, ...]


class Actor:
    """Makes one random call after the other.

    Args:
        engine: over the store.
        journal: of the process.
        chance: the source of all random choices.
        since: the seconds since the start of the history, in all processes; keys depend on them.
    """

    def __init__(self, engine: Engine, journal: Journal, chance: random.Random, since: Callable[[], float]) -> None:
        self._calls = Calls(engine, journal, chance)
        self._journal = journal
        self._chance = chance
        self._since = since
        self._held: deque[Held] = deque(maxlen=HELD)
        self._batches: deque[Batch] = deque(maxlen=HELD)
        self._steps: dict[Callable[[], Awaitable[None]], int] = {
            self._open: 6, self._append: 12, self._repeat: 4, self._turn: 8, self._ask: 3, self._ask_with_key: 5,
            self._rename: 3, self._rename_meanwhile: 3, self._prefer: 3, self._use: 3,
            self._clear: 1, self._truncate: 1, self._delete: 2, self._delete_by_name: 1,
            self._history: 6, self._latest: 8, self._look: 5, self._read_by_name: 2,
        }  # fmt: skip

    async def act(self) -> None:
        """Make a call, then pause."""
        (step,) = self._chance.choices(list(self._steps), list(self._steps.values()))
        await step()
        await asyncio.sleep(self._chance.random() * PAUSE_SECONDS)

    def _label(self, user: str, incarnation: str) -> str:
        return str(Label(user, incarnation, self._journal.number()))

    def _some(self) -> tuple[str, str]:
        return self._chance.choice(list(USERS)), self._chance.choice(NAMES)

    async def _any_held(self) -> Held | None:
        if not self._held:
            await self._open()
        if not self._held:
            return None
        return self._chance.choice(self._held).with_persona(self._chance.choice((PLAIN, PLAIN, CUT)))

    def _maybe_drop(self, held: Held) -> None:
        if self._chance.random() < DROPPED:
            gone = held.of["incarnation"]
            self._held = deque((one for one in self._held if one.of["incarnation"] != gone), HELD)
            self._batches = deque((one for one in self._batches if one.held.of["incarnation"] != gone), HELD)

    async def _open(self) -> None:
        held = await self._calls.open(*self._some())
        if held is not None:
            self._held.append(held)

    async def _append(self) -> None:
        held = await self._any_held()
        if held is None:
            return
        labels = [self._label(held.user, held.of["incarnation"]) for _ in range(self._chance.choice((1, 2, 2, 3)))]
        roles = ("user", "assistant", "assistant")
        messages: list[Fields] = [
            {"role": role, "content": f"{label} 说了一句。", "id": f"m-{label}"}
            for role, label in zip(roles, labels, strict=False)
        ]
        batch = Batch(held, messages, tuple(labels))
        self._batches.append(batch)
        await self._send(batch)

    async def _repeat(self) -> None:
        if self._batches:
            await self._send(self._chance.choice(self._batches))

    async def _send(self, batch: Batch) -> None:
        if not await self._calls.append(*batch):
            self._maybe_drop(batch.held)

    async def _turn(self) -> None:
        """A question with an unfinished answer, then the answer; the store makes the message ids."""
        held = await self._any_held()
        if held is None:
            return
        question, answer = (self._label(held.user, held.of["incarnation"]) for _ in range(2))
        messages: list[Fields] = [
            {"role": "user", "content": f"{question}？"},
            {"role": "assistant", "content": f"{answer} …", "completed": False},
        ]
        stored = await self._calls.append(held, messages, [question, answer])
        if not stored:
            self._maybe_drop(held)
            return
        await asyncio.sleep(self._chance.random() ** 3 * THINKING_SECONDS)
        await self._calls.complete(held, stored[1], answer)

    async def _ask(self) -> None:
        user, name = self._some()
        label, npc = self._label(user, UNKNOWN), self._chance.choice((PLAIN, CUT))
        await self._calls.ask(user, name, npc, label, self._chance.choice(QUESTIONS))

    async def _ask_with_key(self) -> None:
        """All processes ask the same question with a key at about the same time."""
        await ask_key(self._calls, max(0, int(self._since() * KEYS_A_SECOND) - self._chance.randrange(KEYS_AT_ONCE)))

    async def _change(self, kind: Kind, change: Callable[[Held, str], Awaitable[Fields]], npc: str = PLAIN) -> None:
        held = await self._any_held()
        if held is None:
            return
        held = held.with_persona(npc)
        label = self._label(held.user, held.of["incarnation"])
        if await self._calls.on(held, kind, lambda: change(held, label), label) is None:
            self._maybe_drop(held)

    async def _rename(self) -> None:
        async def change(held: Held, label: str) -> Fields:
            await held.session.rename(label)
            return {}

        await self._change("rename", change)

    async def _rename_meanwhile(self) -> None:
        """Rename and append concurrently."""
        await asyncio.gather(self._rename(), self._append())

    async def _prefer(self) -> None:
        async def change(held: Held, label: str) -> Fields:
            await held.session.prefer(interest_tags=[label])
            return {}

        await self._change("prefer", change)

    async def _use(self) -> None:
        async def change(held: Held, _label: str) -> Fields:
            scope, thread = USERS[held.user], held.thread
            usage = TokenUsage(calls=1, prompt_tokens=TOKENS)
            await self._calls.memory.usage.add(scope, thread.session_id, usage, incarnation=thread.incarnation)
            return {}

        await self._change("use", change)

    async def _clear(self) -> None:
        async def change(held: Held, _label: str) -> Fields:
            await held.session.clear()
            return {}

        await self._change("clear", change, CUT)

    async def _truncate(self) -> None:
        last_seq = self._chance.choice((0, 0, 1, 3, 8))

        async def change(held: Held, _label: str) -> Fields:
            await held.session.truncate(last_seq)
            return {"number": last_seq}

        await self._change("truncate", change, CUT)

    async def _delete(self) -> None:
        async def change(held: Held, _label: str) -> Fields:
            return {"created": await held.session.delete()}

        await self._change("delete", change)
        await self._look()

    async def _delete_by_name(self) -> None:
        await self._calls.delete_by_name(*self._some())

    async def _history(self) -> None:
        held = await self._any_held()
        if held is not None:
            await self._calls.read(held, "history")

    async def _latest(self) -> None:
        held = await self._any_held()
        if held is not None:
            await self._calls.read(held, "latest", self._chance.choice((1, 10, 50)))

    async def _look(self) -> None:
        await self._calls.look(*self._some(), self._chance.choice(("record", "preferences", "traces", "list")))

    async def _read_by_name(self) -> None:
        await self._calls.read_by_name(*self._some(), self._chance.choice((PLAIN, CUT)))


async def ask_key(calls: Calls, number: int) -> None:
    """Ask the question of that key, always the same."""
    user, name = list(USERS)[number % 3], NAMES[number // 3 % 3]
    label, question = str(Label(user, UNKNOWN, f"k{number}")), QUESTIONS[number % len(QUESTIONS)]
    await calls.ask(user, name, PLAIN, label, question, key=f"key-{number}")
