"""The copies on Redis, told of changes in any order, late, and with keys that vanish in between."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from statistics import mean

import pytest
from msgspec.structs import replace
from redis import Redis

from redis_server import RedisServer
from wenmai.clock import system_clock
from wenmai.errors import SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Documents, Logs
from wenmai.stores.records import Message, NewMessage, Preferences, Session
from wenmai.stores.redis.address import parse_address
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import Link
from wenmai.stores.registry import open_store
from wenmai.stores.tiers.copies import Piece, SessionCopy, Tail
from wenmai.stores.tiers.hot import SessionCopies
from wenmai.stores.tiers.trust import moments

pytestmark = pytest.mark.xdist_group("redis")

HISTORIES, MANY_HISTORIES = 150, 10_000
STEPS = 24
LENGTHS = (1, 1, 1, 15_000)
"""Some messages are so long that a copy holds only a few of them."""

SESSION = "s-1"
PERSONAS = ("elder", "teacher")
USERS = (Scope("t", "s", "owner"), Scope("t", "s", "successor"))

Later = Callable[[], Awaitable[None]]


NOW = moments(system_clock)


class History:
    """A durable store's history, and what processes tell Redis of it, each in its own time.

    A session's beginning is told at once, because until then nobody else knows its id.
    """

    def __init__(self, seed: int, copies: SessionCopies, documents: Documents, logs: Logs, client: Redis) -> None:
        self._chance = random.Random(seed)  # noqa: S311 — the seed is printed by the test that fails
        self._copies = copies
        self._documents = documents
        self._logs = logs
        self._client = client
        self._pending: list[Later] = []
        self._owner = USERS[0]
        self._unfinished: list[tuple[ThreadKey, Message]] = []
        self._prompt = self._chance.choice((0.3, 0.6, 0.9))
        self._number = 0
        self.believed = 0

    async def run(self) -> None:
        """A random history; checked whenever everything is told, and at the end."""
        steps = [self._append, self._read, self._settle, self._prefer, self._rename, self._lose, self._remove]
        weights = [5, 5, 1, 2, 2, self._chance.choice((0, 1, 3)), self._chance.choice((0, 1))]
        await self._begin()
        for step in self._chance.choices(steps, weights, k=STEPS):
            await step()
            while self._pending and self._chance.random() < 0.5:
                await self._tell_one()
            if not self._pending:
                await self.check()
        while self._pending:
            await self._tell_one()
        await self.check()

    async def check(self) -> None:
        """Nothing that is believed is wrong, whoever asks."""
        for scope in USERS:
            for npc_id in PERSONAS:
                seen = (await self._copies.read(scope, SESSION, npc_id)).copy
                if seen is not None:
                    await self._check(scope, npc_id, seen)

    async def _check(self, scope: Scope, npc_id: str, seen: SessionCopy) -> None:
        if seen.session:
            stored = await self._documents.get(scope, Session, SESSION)
            assert stored is not None
            assert seen.session.value.record.title == stored.record.title
            self.believed += 1
        if seen.preferences:
            assert seen.preferences.value == await self._documents.get(scope, Preferences, SESSION)
            self.believed += 1
        if seen.threads:
            assert seen.threads.value == await self._logs.threads(scope, SESSION)
            self.believed += 1
        if npc_id in seen.tails:
            copied = seen.tails[npc_id].messages()
            newest = await self._logs.latest(scope, ThreadKey(SESSION, npc_id), 64)
            assert copied == newest[-len(copied) :]
            self.believed += 1

    async def _tell_one(self) -> None:
        await self._pending.pop(self._chance.randrange(len(self._pending)))()

    async def _soon(self, work: Later) -> None:
        """Do it at once, or after something else."""
        if self._chance.random() < self._prompt:
            await work()
        else:
            self._pending.append(work)

    def _thread(self) -> ThreadKey:
        return ThreadKey(SESSION, self._chance.choice(PERSONAS))

    async def _begin(self) -> None:
        end = datetime.now(UTC) + timedelta(hours=1)
        record = Session(session_id=SESSION, expires_at=end, lifetime_seconds=3600)
        await self._copies.put_session(self._owner, await self._documents.put(self._owner, record, expected=0))

    async def _append(self) -> None:
        owner, thread, size = self._owner, self._thread(), self._chance.choice((1, 2, 2, 3))
        self._number += 1
        said = [
            NewMessage(role="user", content=f"{self._number}.{index}" * self._chance.choice(LENGTHS))
            for index in range(size - 1)
        ]
        said.append(NewMessage(role="assistant", content="", completed=self._chance.random() < 0.5))
        done = await self._logs.append(owner, thread, said)
        appended, thread = done.messages, thread._replace(incarnation=done.incarnation)
        if not appended[-1].completed:
            self._unfinished.append((thread, appended[-1]))
        await self._soon(lambda: self._copies.append(owner, thread, appended, None))

    async def _settle(self) -> None:
        if not self._unfinished:
            return
        owner, (thread, message) = self._owner, self._unfinished.pop()
        settled = await self._logs.settle(owner, thread, message, content="filled")
        if settled is not None:
            await self._soon(lambda: self._copies.settle(owner, thread, settled))

    async def _prefer(self) -> None:
        owner = self._owner
        self._number += 1
        stored = await self._documents.put(owner, Preferences(session_id=SESSION, interest_tags=[str(self._number)]))
        await self._soon(lambda: self._copies.put_preferences(owner, stored))

    async def _rename(self) -> None:
        owner = self._owner
        self._number += 1
        known = await self._documents.get(owner, Session, SESSION)
        assert known is not None
        stored = await self._documents.put(owner, replace(known.record, title=str(self._number)))
        await self._soon(lambda: self._copies.put_session(owner, stored))

    async def _remove(self) -> None:
        """A thread, or the session, which then begins again, perhaps as another user's."""
        owner, thread = self._owner, self._thread()
        if self._chance.random() < 0.5:
            await self._logs.erase(owner, SESSION, thread.npc_id)
        else:
            await self._documents.delete(owner, Session, SESSION)
        self._unfinished.clear()
        await self._soon(lambda: self._copies.drop(owner, SESSION, PERSONAS))
        if await self._documents.get(owner, Session, SESSION) is None:
            self._owner = self._chance.choice(USERS)
            await self._begin()

    async def _read(self) -> None:
        """In three steps that others come between: the revision, the durable store, the copy."""
        owner, thread = self._owner, self._thread()
        revision = (await self._copies.read(owner, SESSION, thread.npc_id)).revision

        async def look() -> None:
            copy = SessionCopy(owner.user_id)
            if (session := await self._documents.get(owner, Session, SESSION)) is None:
                return
            copy.incarnation = session.record.incarnation
            part = self._chance.choice(("session", "preferences", "threads", "tail"))
            now = NOW()
            if part == "session":
                copy.session = Piece(session, now)
            elif part == "preferences":
                copy.preferences = Piece(await self._documents.get(owner, Preferences, SESSION), now)
            elif part == "threads":
                copy.threads = Piece(await self._logs.threads(owner, SESSION), now)
            elif newest := await self._logs.latest(owner, thread, self._chance.choice((3, 64))):
                copy.tails[thread.npc_id] = Tail(newest, now)
            if copy.may_be_kept:
                await self._soon(lambda: self._copies.fill(owner, SESSION, revision, copy))

        await self._soon(look)

    async def _lose(self) -> None:
        """The server needs room, or is told to forget everything."""
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
async def copies(redis_server: RedisServer) -> AsyncIterator[SessionCopies]:
    """Copies in that database."""
    link = Link(parse_address(f"redis://127.0.0.1:{redis_server.port}/{DATABASE}?command_timeout=10"))
    yield SessionCopies(link, Keys("wenmai"), NOW, origin=token_hex(4), store="durable")
    await link.close()


async def try_histories(seeds: Iterable[int], copies: SessionCopies, client: Redis) -> float:
    """Run these histories; how many believed copies one has met on average."""
    believed: list[int] = []
    for seed in seeds:
        client.flushdb()
        async with open_store("memory://") as store:
            assert store.documents is not None
            assert store.logs is not None
            history = History(seed, copies, store.documents, store.logs, client)
            try:
                await history.run()
            except (AssertionError, SessionNotFound) as problem:
                problem.add_note(f"history {seed}")
                raise
            believed.append(history.believed)
    return mean(believed)


async def test_whatever_the_order_in_which_changes_are_told_no_copy_that_is_believed_is_wrong(
    copies: SessionCopies, client: Redis
) -> None:
    """Appends, fills, records, removals and slow readers of several processes, with keys lost in between."""
    assert await try_histories(range(HISTORIES), copies, client) > 5, "the copies are of use"


@pytest.mark.soak
async def test_in_very_many_histories_no_copy_that_is_believed_is_wrong(copies: SessionCopies, client: Redis) -> None:
    """The same for long, with other histories in each run."""
    first = random.randrange(10**9)  # noqa: S311 — should differ from run to run
    assert await try_histories(range(first, first + MANY_HISTORIES), copies, client) > 5


async def test_what_is_told_after_the_removal_that_came_later_brings_nothing_back(
    copies: SessionCopies, client: Redis
) -> None:
    """A process that was slow to tell of its changes tells when the session is gone, and known to have no threads."""
    owner, thread = USERS[0], ThreadKey(SESSION, PERSONAS[0])
    async with open_store("memory://") as store:
        assert store.documents is not None
        assert store.logs is not None
        record = Session(session_id=SESSION, expires_at=datetime.now(UTC) + timedelta(hours=1), lifetime_seconds=3600)
        begun = await store.documents.put(owner, record, expected=0)
        await copies.put_session(owner, begun)
        renamed = await store.documents.put(owner, replace(record, title="canary"), expected=1)
        preferred = await store.documents.put(owner, Preferences(session_id=SESSION, interest_tags=["canary"]))
        said = [NewMessage(role="user", content="canary"), NewMessage(role="assistant", content="", completed=False)]
        done = await store.logs.append(owner, thread, said)
        appended, thread = done.messages, thread._replace(incarnation=done.incarnation)
        settled = await store.logs.settle(owner, thread, appended[1], content="canary")
        assert settled is not None
    await copies.drop(owner, SESSION, [thread.npc_id])
    late: list[Later] = [
        lambda: copies.append(owner, thread, appended, None),
        lambda: copies.settle(owner, thread, settled),
        lambda: copies.put_session(owner, renamed),
        lambda: copies.put_preferences(owner, preferred),
    ]
    for tell in late:
        known = SessionCopy(owner.user_id)
        known.threads, known.preferences = Piece([], NOW()), Piece(None, NOW())
        await copies.fill(owner, SESSION, (await copies.read(owner, SESSION)).revision, known)
        await tell()
        assert sorted(client.scan_iter("*")) == [b"wenmai:session:copy:t:s:s-1"]
        seen = (await copies.read(owner, SESSION, thread.npc_id)).copy
        assert seen is not None
        assert (seen.session, seen.preferences, seen.threads, seen.tails) == (None, None, None, {})
