"""The Redis cache under changes in any order, late changes, and keys that vanish in between."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from statistics import mean
from typing import Any

import pytest
from declared_records import Note, declared
from msgspec.structs import replace
from redis import Redis

from redis_server import RedisServer
from wenmai.clock import system_clock
from wenmai.errors import SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.cache.entries import CachedSession, CachedValue, Tail
from wenmai.stores.cache.freshness import moment_clock
from wenmai.stores.cache.redis_cache import RedisSessionCache
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.opening import open_store
from wenmai.stores.records import Message, NewMessage, Preferences, Session
from wenmai.stores.redis.address import parse_address
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import Link
from wenmai.stores.structs import Stored

pytestmark = pytest.mark.xdist_group("redis")

HISTORIES, MANY_HISTORIES = 75, 10_000
STEPS = 24
LENGTHS = (1, 1, 1, 15_000)
"""Some messages are so long that an entry holds only a few of them."""

SESSION = "s-1"
PERSONAS = ("elder", "teacher")
USERS = (Scope("t", "s", "owner"), Scope("t", "s", "successor"))

Later = Callable[[], Awaitable[None]]


NOW = moment_clock(system_clock)


class History:
    """A durable store's history, and the changes that processes propagate to Redis, each with its own delay.

    The start of a session is propagated at once, because no other process knows its id before.
    """

    def __init__(self, seed: int, cache: RedisSessionCache, documents: Documents, logs: Logs, client: Redis) -> None:
        self._chance = random.Random(seed)  # noqa: S311 — the seed is printed by the test that fails
        self._cache = cache
        self._documents = documents
        self._logs = logs
        self._client = client
        self._pending: list[Later] = []
        self._owner = USERS[0]
        self._unfinished: list[tuple[ThreadKey, Message]] = []
        self._prompt = self._chance.choice((0.3, 0.6, 0.9))
        self._number = 0
        self.fresh_parts = 0

    async def run(self) -> None:
        """A random history; checked whenever no change is pending, and at the end."""
        steps = [self._append, self._read, self._complete, self._prefer, self._rename, self._lose, self._remove]
        weights = [5, 5, 1, 2, 2, self._chance.choice((0, 1, 3)), self._chance.choice((0, 1))]
        await self._begin()
        for step in self._chance.choices(steps, weights, k=STEPS):
            await step()
            while self._pending and self._chance.random() < 0.5:
                await self._propagate_one()
            if not self._pending:
                await self.check()
        while self._pending:
            await self._propagate_one()
        await self.check()

    async def check(self) -> None:
        """No fresh part is wrong, for any user."""
        for scope in USERS:
            for persona_id in PERSONAS:
                entry = (await self._cache.read(scope, SESSION, persona_id)).entry
                if entry is not None:
                    await self._check(scope, persona_id, entry)

    async def _check(self, scope: Scope, persona_id: str, entry: CachedSession) -> None:
        for of, part in entry.records.items():
            stored = await self._documents.get(scope, of, SESSION)
            if stored is not None and isinstance(stored.record, Session):
                assert part.value is not None
                assert part.value.record.title == stored.record.title
            else:
                assert part.value == stored
            self.fresh_parts += 1
        if entry.threads:
            assert entry.threads.value == await self._logs.threads(scope, SESSION)
            self.fresh_parts += 1
        if persona_id in entry.tails:
            cached = entry.tails[persona_id].messages()
            newest = await self._logs.latest(scope, ThreadKey(SESSION, persona_id), 64)
            assert cached == newest[-len(cached) :]
            self.fresh_parts += 1

    async def _propagate_one(self) -> None:
        await self._pending.pop(self._chance.randrange(len(self._pending)))()

    async def _soon(self, work: Later) -> None:
        """Do it at once, or after other work."""
        if self._chance.random() < self._prompt:
            await work()
        else:
            self._pending.append(work)

    def _thread(self) -> ThreadKey:
        return ThreadKey(SESSION, self._chance.choice(PERSONAS))

    async def _begin(self) -> None:
        end = datetime.now(UTC) + timedelta(hours=1)
        record = Session(session_id=SESSION, expires_at=end, lifetime_seconds=3600)
        await self._cache.put(self._owner, await self._documents.put(self._owner, record, expected=0))

    async def _append(self) -> None:
        owner, thread, size = self._owner, self._thread(), self._chance.choice((1, 2, 2, 3))
        self._number += 1
        sent = [
            NewMessage(role="user", content=f"{self._number}.{index}" * self._chance.choice(LENGTHS))
            for index in range(size - 1)
        ]
        sent.append(NewMessage(role="assistant", content="", completed=self._chance.random() < 0.5))
        done = await self._logs.append(owner, thread, sent)
        appended, thread = done.messages, thread._replace(incarnation=done.incarnation)
        if not appended[-1].completed:
            self._unfinished.append((thread, appended[-1]))
        await self._soon(lambda: self._cache.append(owner, thread, appended, None))

    async def _complete(self) -> None:
        if not self._unfinished:
            return
        owner, (thread, message) = self._owner, self._unfinished.pop()
        completed = await self._logs.complete(owner, thread, message, content="filled")
        if completed is not None:
            await self._soon(lambda: self._cache.complete(owner, thread, completed))

    async def _prefer(self) -> None:
        owner = self._owner
        self._number += 1
        records = (
            Preferences(session_id=SESSION, interest_tags=[str(self._number)]),
            Note(session_id=SESSION, text=str(self._number)),
        )
        stored: Stored[Any] = await self._documents.put(owner, self._chance.choice(records))
        await self._soon(lambda: self._cache.put(owner, stored))

    async def _rename(self) -> None:
        owner = self._owner
        self._number += 1
        known = await self._documents.get(owner, Session, SESSION)
        assert known is not None
        stored = await self._documents.put(owner, replace(known.record, title=str(self._number)))
        await self._soon(lambda: self._cache.put(owner, stored))

    async def _remove(self) -> None:
        """A thread, or the session, which then begins again, perhaps as another user's."""
        owner, thread = self._owner, self._thread()
        if self._chance.random() < 0.5:
            await self._logs.erase(owner, SESSION, thread.persona_id)
        else:
            await self._documents.delete(owner, Session, SESSION)
        self._unfinished.clear()
        await self._soon(lambda: self._cache.drop(owner, SESSION, PERSONAS))
        if await self._documents.get(owner, Session, SESSION) is None:
            self._owner = self._chance.choice(USERS)
            await self._begin()

    async def _read(self) -> None:
        """Three steps with others in between: reading the revision, reading the durable store, filling."""
        owner, thread = self._owner, self._thread()
        revision = (await self._cache.read(owner, SESSION, thread.persona_id)).revision

        async def read_durable() -> None:
            entry = CachedSession(owner.user_id)
            if (session := await self._documents.get(owner, Session, SESSION)) is None:
                return
            entry.incarnation = session.record.incarnation
            part = self._chance.choice((Session, Preferences, Note, "threads", "tail"))
            now = NOW()
            if isinstance(part, type):
                entry.records[part] = CachedValue(await self._documents.get(owner, part, SESSION), now)
            elif part == "threads":
                entry.threads = CachedValue(await self._logs.threads(owner, SESSION), now)
            elif newest := await self._logs.latest(owner, thread, self._chance.choice((3, 64))):
                entry.tails[thread.persona_id] = Tail(newest, now)
            if entry.cacheable:
                await self._soon(lambda: self._cache.fill(owner, SESSION, revision, entry))

        await self._soon(read_durable)

    async def _lose(self) -> None:
        """The server evicts a key, or is flushed."""
        keys = sorted(self._client.scan_iter("*"))
        if keys and self._chance.random() < 0.8:
            self._client.delete(self._chance.choice(keys))
        else:
            self._client.flushdb()


DATABASE = 9
"""Of the Redis server; no other test uses it."""


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    """A client of the empty database."""
    with Redis(port=redis_server.port, db=DATABASE) as client:
        client.flushdb()
        yield client


@pytest.fixture
async def cache(redis_server: RedisServer) -> AsyncIterator[RedisSessionCache]:
    """The cache in that database, of a further declared record too."""
    link = Link(parse_address(f"redis://127.0.0.1:{redis_server.port}/{DATABASE}?command_timeout=10"))
    with declared():
        yield RedisSessionCache(link, Keys("wenmai"), NOW, origin=token_hex(4), store="durable")
    await link.close()


async def try_histories(seeds: Iterable[int], cache: RedisSessionCache, client: Redis) -> float:
    """Run these histories; returns the average number of fresh parts that a history has met."""
    fresh_parts: list[int] = []
    for seed in seeds:
        client.flushdb()
        async with open_store("memory://") as store:
            assert store.documents is not None
            assert store.logs is not None
            history = History(seed, cache, store.documents, store.logs, client)
            try:
                await history.run()
            except (AssertionError, SessionNotFound) as problem:
                problem.add_note(f"history {seed}")
                raise
            fresh_parts.append(history.fresh_parts)
    return mean(fresh_parts)


async def test_no_fresh_entry_is_wrong_in_any_order_of_changes(cache: RedisSessionCache, client: Redis) -> None:
    """Appends, fills, records, drops and slow readers of several processes, with keys lost in between."""
    assert await try_histories(range(HISTORIES), cache, client) > 5, "the cache is of use"


@pytest.mark.soak
async def test_no_fresh_entry_is_wrong_in_very_many_histories(cache: RedisSessionCache, client: Redis) -> None:
    """The same for long, with other histories in each run."""
    first = random.randrange(10**9)  # noqa: S311 — should differ from run to run
    assert await try_histories(range(first, first + MANY_HISTORIES), cache, client) > 5


async def test_changes_that_arrive_after_a_later_drop_restore_nothing(cache: RedisSessionCache, client: Redis) -> None:
    """A slow process propagates its changes when the session is gone, and cached as having no threads."""
    owner, thread = USERS[0], ThreadKey(SESSION, PERSONAS[0])
    async with open_store("memory://") as store:
        assert store.documents is not None
        assert store.logs is not None
        record = Session(session_id=SESSION, expires_at=datetime.now(UTC) + timedelta(hours=1), lifetime_seconds=3600)
        begun = await store.documents.put(owner, record, expected=0)
        await cache.put(owner, begun)
        renamed = await store.documents.put(owner, replace(record, title="canary"), expected=1)
        preferred = await store.documents.put(owner, Preferences(session_id=SESSION, interest_tags=["canary"]))
        sent = [
            NewMessage(role="user", content="canary"),
            NewMessage(role="assistant", content="", completed=False),
        ]
        done = await store.logs.append(owner, thread, sent)
        appended, thread = done.messages, thread._replace(incarnation=done.incarnation)
        completed = await store.logs.complete(owner, thread, appended[1], content="canary")
        assert completed is not None
    await cache.drop(owner, SESSION, [thread.persona_id])
    late: list[Later] = [
        lambda: cache.append(owner, thread, appended, None),
        lambda: cache.complete(owner, thread, completed),
        lambda: cache.put(owner, renamed),
        lambda: cache.put(owner, preferred),
    ]
    for propagate in late:
        known = CachedSession(owner.user_id)
        known.threads, known.records[Preferences] = CachedValue([], NOW()), CachedValue(None, NOW())
        await cache.fill(owner, SESSION, (await cache.read(owner, SESSION)).revision, known)
        await propagate()
        assert sorted(client.scan_iter("*")) == [b"wenmai:session:copy:t:s:s-1"]
        entry = (await cache.read(owner, SESSION, thread.persona_id)).entry
        assert entry is not None
        assert (entry.records, entry.threads, entry.tails) == ({}, None, {})
