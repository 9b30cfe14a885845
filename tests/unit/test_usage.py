"""The ledger of what model calls use: nothing is lost, nobody's is mixed up, and reading it stays cheap."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import pytest

from wenmai.clock import MovableClock
from wenmai.errors import StoreUnavailable
from wenmai.memory.manager import Memory
from wenmai.memory.usage import KEPT, Spent, UsageLedger
from wenmai.scope import Scope
from wenmai.stores.base import Stored
from wenmai.stores.memory.documents import MemoryDocuments
from wenmai.stores.memory.logs import MemoryLogs
from wenmai.stores.records import Record, Usage

R = TypeVar("R", bound=Record)

ME = Scope("tenant", "site", "me")
TODAY = date(2026, 1, 5)
CALL = Spent(calls=1, prompt_tokens=100, completion_tokens=10, cost_usd=0.25)


class Watched(MemoryDocuments):
    """Documents that let others run before each access, as a server does, and that count."""

    puts = reads = 0
    broken = False

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """As in the store."""
        await asyncio.sleep(0)
        return await super().get(scope, of, key)

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """As in the store, counted, unless told to fail."""
        await asyncio.sleep(0)
        if self.broken:
            raise StoreUnavailable("memory", "the test says so")
        self.puts += isinstance(record, Usage)
        return await super().put(scope, record, expected=expected, keep_until=keep_until)

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """As in the store, counted."""
        self.reads += 1
        return await super().get_many(scope, of, keys)


class Place:
    """A store, a clock, and a memory over them."""

    def __init__(self) -> None:
        self.clock = MovableClock(datetime(2026, 1, 5, 23, 59, tzinfo=UTC))
        self.documents = Watched(self.clock)
        self.memory = Memory(self.documents, MemoryLogs(self.documents, self.clock), clock=self.clock)
        self.ledger = self.memory.usage

    def another_process(self) -> UsageLedger:
        """A ledger that shares nothing with the first but the store."""
        return UsageLedger(self.documents, self.memory.sessions, self.clock)

    async def today(self, scope: Scope = ME, ledger: UsageLedger | None = None) -> tuple[Spent, Spent]:
        """What the user and the tenant have used today."""
        (day,) = await (ledger or self.ledger).totals(scope, TODAY, TODAY)
        return day.user, day.tenant


@pytest.fixture
def place() -> Place:
    """At the last minute of a day."""
    return Place()


def times(count: int) -> Spent:
    """So many calls."""
    return Spent(calls=count, prompt_tokens=100 * count, completion_tokens=10 * count, cost_usd=0.25 * count)


async def test_a_call_counts_for_session_user_and_tenant(place: Place) -> None:
    """The session has the sum of its tokens and cost, the others also the calls and the kinds of tokens."""
    session_id = (await place.memory.sessions.open(ME)).session_id
    await place.ledger.add(ME, session_id, CALL)
    await place.ledger.add(ME, session_id, CALL)
    record = (await place.memory.sessions.get(ME, session_id)).record
    assert (record.total_tokens_used, record.total_cost_usd) == (220, 0.5)
    assert await place.today() == (times(2), times(2))
    assert place.ledger.spent == times(2)


async def test_a_session_that_is_gone_has_cost_its_user_all_the_same(place: Place) -> None:
    """It is not brought back either."""
    await place.ledger.add(ME, "session-gone", CALL)
    assert await place.today() == (CALL, CALL)
    assert (await place.memory.sessions.list(ME)).items == []


async def test_nothing_spent_asks_nothing_of_the_store(place: Place) -> None:
    """Turns without a model pay nothing for the ledger."""
    place.documents.broken = True
    await place.ledger.add(ME, "session-1", Spent())
    assert place.ledger.spent == Spent()


@pytest.mark.parametrize(
    "other",
    [
        Scope("tenant", "site", "you"),
        Scope("tenant", "elsewhere", "me"),
    ],
)
async def test_users_are_told_apart_and_summed_by_tenant(place: Place, other: Scope) -> None:
    """The same name on another site is another user."""
    await place.ledger.add(ME, "session-1", CALL)
    assert await place.today(other) == (Spent(), CALL)


async def test_a_name_with_a_slash_is_no_way_into_anothers_usage(place: Place) -> None:
    """Where a site ends and a user begins is not a matter of how they are written."""
    await place.ledger.add(Scope("tenant", "site/a", "b"), "session-1", CALL)
    assert await place.today(Scope("tenant", "site", "a/b")) == (Spent(), CALL)


async def test_tenants_see_nothing_of_each_other(place: Place) -> None:
    """Neither a tenant of the same user and site, nor one that is named like the records."""
    await place.ledger.add(ME, "session-1", CALL)
    for tenant in ("other", "*", "tenant/site", ""):
        assert await place.today(Scope(tenant, "site", "me")) == (Spent(), Spent())


async def test_a_day_ends_at_midnight_utc(place: Place) -> None:
    """What is spent after it belongs to the next; days without any are there with zeros."""
    await place.ledger.add(ME, "session-1", CALL)
    place.clock.advance(timedelta(minutes=1))
    await place.ledger.add(ME, "session-1", times(2))
    days = await place.ledger.totals(ME, TODAY - timedelta(days=1), TODAY + timedelta(days=1))
    assert [(day.day.day, day.user.calls, day.tenant.calls) for day in days] == [(4, 0, 0), (5, 1, 1), (6, 2, 2)]


async def test_a_day_is_forgotten_after_its_time(place: Place) -> None:
    """Usage does not pile up for ever."""
    await place.ledger.add(ME, "session-1", CALL)
    place.clock.advance(KEPT)
    assert await place.today() == (Spent(), Spent())


async def test_a_day_is_read_at_once_and_a_quarter_in_two_reads(place: Place) -> None:
    """Whatever the number of users and sessions."""
    for number in range(30):
        await place.ledger.add(Scope("tenant", "site", f"user-{number}"), f"session-{number}", CALL)
    place.documents.reads = 0
    assert (await place.today())[1] == times(30)
    assert place.documents.reads == 1
    await place.ledger.totals(ME, TODAY - timedelta(days=91), TODAY)
    assert place.documents.reads == 3


async def test_tasks_of_one_process_lose_nothing_and_write_together(place: Place) -> None:
    """What comes while a write is under way goes into the next one: there are far fewer writes than calls."""
    await asyncio.gather(*(place.ledger.add(ME, "session-gone", CALL) for _ in range(200)))
    assert await place.today() == (times(200), times(200))
    assert place.documents.puts < 20
    assert (len(place.ledger._gathering), len(place.ledger._writing)) == (0, 0)


async def test_processes_lose_nothing(place: Place) -> None:
    """Ledgers that know nothing of each other meet in the user's counter and in the tenant's shards."""
    processes = [place.ledger, *(place.another_process() for _ in range(7))]

    async def spend(ledger: UsageLedger, user: str) -> None:
        for _ in range(5):
            await ledger.add(Scope("tenant", "site", user), "session-gone", CALL)

    await asyncio.gather(*(spend(ledger, user) for ledger in processes for user in ("me", "you", "me")))
    assert await place.today() == (times(80), times(120))


async def test_a_store_that_fails_says_so_and_the_next_call_is_counted(place: Place) -> None:
    """Nothing is swallowed, and nothing hangs afterwards."""
    place.documents.broken = True
    with pytest.raises(StoreUnavailable):
        await asyncio.gather(*(place.ledger.add(ME, "session-gone", CALL) for _ in range(3)))
    place.documents.broken = False
    await place.ledger.add(ME, "session-gone", CALL)
    assert await place.today() == (CALL, CALL)


async def test_a_caller_that_is_cancelled_has_been_counted(place: Place) -> None:
    """The model was called, whoever waits for the answer; all three have it when the cancellation goes on."""
    session_id = (await place.memory.sessions.open(ME)).session_id
    task = asyncio.create_task(place.ledger.add(ME, session_id, CALL))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await place.today() == (CALL, CALL)
    assert (await place.memory.sessions.get(ME, session_id)).record.total_tokens_used == CALL.tokens


def test_sums_are_exact_in_every_field() -> None:
    """Calls, tokens of both kinds, and dollars."""
    fields: list[Any] = [CALL.calls, CALL.prompt_tokens, CALL.completion_tokens, CALL.cost_usd]
    total = CALL + CALL
    assert [total.calls, total.prompt_tokens, total.completion_tokens, total.cost_usd] == [2 * each for each in fields]
    assert CALL.tokens == 110
