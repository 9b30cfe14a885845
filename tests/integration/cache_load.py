"""Load on cached stores: turns through the engine, appends and reads through the store, and checks of the result.

Any failure in a task of the load fails the test: no request may fail.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.engine import Engine
from wenmai.memory.preferences import PreferenceBook, PreferenceChange
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.cache import CachedStore
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.private import PrivateStore
from wenmai.stores.records import Message, NewMessage, Preferences, Session

OWNER = Scope("default", "default", "user")
PERSONA = "ancestor_yan"
QUESTION = "严氏祠堂建于何时？"
SHARED = 4
"""The number of sessions that all appending tasks write to."""


class Durable(NamedTuple):
    """The durable store behind the cache."""

    documents: Documents
    logs: Logs


def durable_of(store: CachedStore) -> Durable:
    """The durable store behind the cache."""
    durable = store._durable
    assert durable.documents is not None
    assert durable.logs is not None
    return Durable(durable.documents, durable.logs)


def cached_store(engine: Engine) -> CachedStore:
    """The engine's store, which has a cache."""
    assert isinstance(engine.store, PrivateStore)
    assert isinstance(engine.store._store, CachedStore)
    return engine.store._store


async def until(true: Callable[[], object], seconds: float) -> None:
    """Wait until it is true.

    Raises:
        TimeoutError: it has not become true in time.
    """
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 — what servers and other processes do sets no event here
            await asyncio.sleep(0.01)


async def begin(store: CachedStore, session_id: str, scope: Scope = OWNER) -> None:
    """Begin a session."""
    end = datetime.now(UTC) + timedelta(hours=1)
    await store.documents.put(scope, Session(session_id=session_id, expires_at=end, lifetime_seconds=3600), expected=0)


def turn(text: str) -> list[NewMessage]:
    """A question and its answer."""
    return [NewMessage(role="user", content=text), NewMessage(role="assistant", content=f"on {text}")]


async def ask(engine: Engine, session_id: str | None = None) -> TurnAnswer:
    """One turn."""
    return await engine.chat.ask(TurnRequest(scope=OWNER, persona_id=PERSONA, query=QUESTION, session_id=session_id))


WRITES_IN_FLIGHT = 3
"""How often a record may be met between the durable store and the cache."""


class CacheLoad:
    """Running tasks, and the writes that were acknowledged to them.

    Args:
        stores: over one durable store, each like another process; each appending task uses one of them.
        engine: takes turns too, if there is one.
    """

    def __init__(self, *stores: CachedStore, engine: Engine | None = None) -> None:
        self._stores = stores
        self._engine = engine
        self._number = 0
        self._done: Counter[int] = Counter()
        self.acknowledged: dict[ThreadKey, dict[int, str]] = defaultdict(dict)
        self.answers: list[TurnAnswer] = []

    @asynccontextmanager
    async def running(self, *, appending: int, asking: int = 0) -> AsyncIterator[None]:
        """Run so many tasks for as long as the context lasts; each has completed an iteration before it begins."""
        for number in range(SHARED):
            await begin(self._stores[0], f"shared-{number}")
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for number in range(appending):
                tasks.create_task(self._append(number, stop))
            for number in range(appending, appending + asking):
                tasks.create_task(self._ask(number, stop))
            self._done = Counter(dict.fromkeys(range(appending + asking), 0))
            try:
                await self.a_full_iteration()
                yield
            finally:
                stop.set()

    async def more_iterations(self, times: int) -> None:
        """Return after so many more iterations."""
        wanted = self._done.total() + times
        await until(lambda: self._done.total() >= wanted, 20)

    async def a_full_iteration(self) -> None:
        """Return when every task has begun and completed an iteration, so that none from before is in progress."""
        before = self._done.copy()
        await until(lambda: all(self._done[number] >= before[number] + 2 for number in before), 20)

    async def _append(self, number: int, stop: asyncio.Event) -> None:
        store = self._stores[number % len(self._stores)]
        chance = random.Random()  # noqa: S311 — interleavings should differ from run to run
        while not stop.is_set():
            session_id = f"shared-{chance.randrange(SHARED) if chance.random() < 0.5 else 0}"
            thread = ThreadKey(session_id, PERSONA)
            self._number += 1
            question, answer = turn(f"number {self._number}")
            unfinished = NewMessage(role="assistant", content="", completed=False)
            fill = chance.random() < 0.5
            appended = await store.logs.append(OWNER, thread, [question, unfinished if fill else answer])
            thread = thread._replace(incarnation=appended.incarnation)
            self._note(thread, appended.messages)
            if fill:
                completed = await store.logs.complete(OWNER, thread, appended.messages[1], content=answer.content)
                assert completed is not None
                self._note(thread, [completed])
            newest = await store.logs.latest(OWNER, thread, 40)
            seqs = [message.seq for message in newest]
            assert seqs == list(range(seqs[0], seqs[-1] + 1))
            assert seqs[-1] >= appended.messages[-1].seq, "a process reads its own writes"
            if chance.random() < 0.2:
                await _prefer(store, session_id, chance.choice(["甲", "乙", "丙"]))
            self._done[number] += 1
            await asyncio.sleep(0)

    async def _ask(self, number: int, stop: asyncio.Event) -> None:
        assert self._engine is not None
        answer = await ask(self._engine)
        while not stop.is_set():
            self.answers.append(answer)
            self._done[number] += 1
            answer = await ask(self._engine, answer.session_id)
        self.answers.append(answer)

    def _note(self, thread: ThreadKey, messages: list[Message]) -> None:
        self.acknowledged[thread].update({message.seq: message.content for message in messages})

    async def check(self) -> None:
        """All acknowledged writes are durable, and every store reads them, now or in a moment."""
        durable = durable_of(self._stores[0])
        for answer in self.answers:
            expected = {QUESTION, answer.answer_text}
            thread = ThreadKey(answer.session_id, PERSONA)
            found = await durable.logs.read(OWNER, thread, limit=10_000)
            assert {message.content for message in found if message.turn_id == answer.turn_id} == expected
        for thread, contents in self.acknowledged.items():
            found = await durable.logs.read(OWNER, thread, limit=10_000)
            stored = {message.seq: message.content for message in found}
            assert list(stored) == list(range(1, len(found) + 1))
            assert {seq: stored.get(seq) for seq in contents} == contents
        threads = [*self.acknowledged, *{ThreadKey(answer.session_id, PERSONA) for answer in self.answers}]
        for store in self._stores:
            for thread in threads:
                await same_as_durable(store, thread)


async def same_as_durable(
    store: CachedStore, thread: ThreadKey, *, within: float = 2.0, attempts: int = WRITES_IN_FLIGHT
) -> None:
    """Reads of a thread equal those of the durable store: records at once, messages within so many seconds.

    ``attempts`` are the readings, 10 ms apart, by which a record must be the same.
    """
    durable = durable_of(store)
    for of in (Session, Preferences):
        for attempt in range(attempts):
            before, seen, after = object(), object(), object()
            while before != after:  # derived memory may write the record at any time
                before = _without_end(await durable.documents.get(OWNER, of, thread.session_id))
                seen = _without_end(await store.documents.get(OWNER, of, thread.session_id))
                after = _without_end(await durable.documents.get(OWNER, of, thread.session_id))
            if seen == before:
                break
            assert attempt < attempts - 1, (seen, before)
            await asyncio.sleep(0.01)  # a write that is durable already, and not acknowledged yet
    readings: list[Callable[[Logs], Any]] = [
        lambda logs: logs.latest(OWNER, thread, 40),
        lambda logs: logs.latest(OWNER, thread, 12, whole_turns=True),
        lambda logs: logs.threads(OWNER, thread.session_id),
    ]
    for reading in readings:
        expected = await reading(durable.logs)
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while await reading(store.logs) != expected:  # noqa: ASYNC110 — as above
                    await asyncio.sleep(0.01)
        assert await reading(store.logs) == expected


def _without_end(stored: Any) -> Any:
    """A record without the fields that an append moves, which may lag by a second."""
    if stored is None or not isinstance(stored.record, Session):
        return stored
    record = stored.record
    return record.title, record.title_by, record.first_question, stored.version, stored.user_id


async def _prefer(store: CachedStore, session_id: str, tag: str) -> None:
    """Change the preferences as the memory does: by compare-and-set, retried on a conflict."""
    await PreferenceBook(store.documents).set(OWNER, session_id, PreferenceChange(add_interest_tags=[tag]))
