"""The usage ledger: nothing is lost or mixed up between owners, and reads are cheap."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import pytest

from wenmai.clock import MovableClock
from wenmai.errors import StoreUnavailable
from wenmai.memory.library import Memory
from wenmai.memory.usage import RETENTION, UsageLedger
from wenmai.scope import Scope
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.inprocess.logs import InProcessLogs
from wenmai.stores.records import Record, TokenUsage, UsageRecord
from wenmai.stores.structs import Stored

R = TypeVar("R", bound=Record)

ME = Scope("tenant", "site", "me")
TODAY = date(2026, 1, 5)
CALL = TokenUsage(calls=1, prompt_tokens=100, completion_tokens=10, cost_usd=0.25)


class CountingDocuments(InProcessDocuments):
    """Counts accesses, and yields to other tasks before each, as a server does."""

    puts = reads = 0
    broken = False

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """As in the store."""
        await asyncio.sleep(0)
        return await super().get(scope, of, key)

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """As in the store, counted; fails on request."""
        await asyncio.sleep(0)
        if self.broken:
            raise StoreUnavailable("memory", "the test says so")
        self.puts += isinstance(record, UsageRecord)
        return await super().put(scope, record, expected=expected, keep_until=keep_until)

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """As in the store, counted."""
        self.reads += 1
        return await super().get_many(scope, of, keys)


class LedgerEnv:
    """A store, a clock, and a memory over them."""

    def __init__(self) -> None:
        self.clock = MovableClock(datetime(2026, 1, 5, 23, 59, tzinfo=UTC))
        self.documents = CountingDocuments(self.clock)
        self.memory = Memory(self.documents, InProcessLogs(self.documents, self.clock), clock=self.clock)
        self.ledger = self.memory.usage

    def another_process(self) -> UsageLedger:
        """A ledger that shares only the store with the first."""
        return UsageLedger(self.documents, self.memory.sessions, self.clock)

    async def today(self, scope: Scope = ME, ledger: UsageLedger | None = None) -> tuple[TokenUsage, TokenUsage]:
        """Today's usage of user and tenant."""
        (day,) = await (ledger or self.ledger).totals(scope, TODAY, TODAY)
        return day.user, day.tenant


@pytest.fixture
def env() -> LedgerEnv:
    """An environment at the last minute of a day."""
    return LedgerEnv()


def times(count: int) -> TokenUsage:
    """So many calls."""
    return TokenUsage(calls=count, prompt_tokens=100 * count, completion_tokens=10 * count, cost_usd=0.25 * count)


async def test_a_call_counts_for_session_user_and_tenant(env: LedgerEnv) -> None:
    """The session has the sums of tokens and cost, the others also calls and the kinds of tokens."""
    session_id = (await env.memory.sessions.open(ME)).session_id
    await env.ledger.add(ME, session_id, CALL)
    await env.ledger.add(ME, session_id, CALL)
    record = (await env.memory.sessions.get(ME, session_id)).record
    assert (record.total_tokens_used, record.total_cost_usd) == (220, 0.5)
    assert await env.today() == (times(2), times(2))
    assert env.ledger.process_total == times(2)


async def test_a_call_counts_for_its_persona_in_the_site_whoever_asked(env: LedgerEnv) -> None:
    """Day by day; not for another persona, site or tenant; a user's erasure leaves it."""
    for scope in (ME, ME._replace(user_id="you"), ME._replace(site_id="other"), ME._replace(tenant_id="other")):
        await env.ledger.add(scope, None, CALL, persona_id="elder")
    await env.ledger.add(ME, None, CALL, persona_id="doctor")
    await env.ledger.add(ME, None, CALL)
    await env.ledger.forget_user(ME)
    before, none = TODAY - timedelta(days=1), TokenUsage()
    found = await env.another_process().of_personas(ME, ["elder", "doctor", "absent"], before, TODAY)
    assert [(each.persona_id, each.days) for each in found] == [
        ("elder", [none, times(2)]),
        ("doctor", [none, CALL]),
        ("absent", [none, none]),
    ]


async def test_usage_of_a_deleted_session_counts_for_its_user(env: LedgerEnv) -> None:
    """The session is not recreated."""
    await env.ledger.add(ME, "session-gone", CALL)
    assert await env.today() == (CALL, CALL)
    assert (await env.memory.sessions.list(ME)).items == []


async def test_no_usage_makes_no_store_calls(env: LedgerEnv) -> None:
    """For turns without a model the ledger costs nothing."""
    env.documents.broken = True
    await env.ledger.add(ME, "session-1", TokenUsage())
    assert env.ledger.process_total == TokenUsage()


@pytest.mark.parametrize(
    "other",
    [
        Scope("tenant", "site", "you"),
        Scope("tenant", "elsewhere", "me"),
    ],
)
async def test_users_are_separate_and_summed_by_tenant(env: LedgerEnv, other: Scope) -> None:
    """The same name on another site is another user."""
    await env.ledger.add(ME, "session-1", CALL)
    assert await env.today(other) == (TokenUsage(), CALL)


async def test_a_name_with_a_slash_does_not_collide_with_another_user(env: LedgerEnv) -> None:
    """The boundary of site and user id is unambiguous."""
    await env.ledger.add(Scope("tenant", "site/a", "b"), "session-1", CALL)
    assert await env.today(Scope("tenant", "site", "a/b")) == (TokenUsage(), CALL)


async def test_tenants_are_isolated(env: LedgerEnv) -> None:
    """Even with the same site and user ids, or a name like a record key."""
    await env.ledger.add(ME, "session-1", CALL)
    for tenant in ("other", "*", "tenant/site", ""):
        assert await env.today(Scope(tenant, "site", "me")) == (TokenUsage(), TokenUsage())


async def test_a_day_ends_at_midnight_utc(env: LedgerEnv) -> None:
    """Later usage belongs to the next day; days without usage have zeros."""
    await env.ledger.add(ME, "session-1", CALL)
    env.clock.advance(timedelta(minutes=1))
    await env.ledger.add(ME, "session-1", times(2))
    days = await env.ledger.totals(ME, TODAY - timedelta(days=1), TODAY + timedelta(days=1))
    assert [(day.day.day, day.user.calls, day.tenant.calls) for day in days] == [(4, 0, 0), (5, 1, 1), (6, 2, 2)]


async def test_a_day_is_deleted_after_its_retention(env: LedgerEnv) -> None:
    """Usage records do not accumulate for ever."""
    await env.ledger.add(ME, "session-1", CALL)
    env.clock.advance(RETENTION)
    assert await env.today() == (TokenUsage(), TokenUsage())


async def test_a_day_takes_one_read_and_a_quarter_two(env: LedgerEnv) -> None:
    """However many users and sessions there are."""
    for number in range(30):
        await env.ledger.add(Scope("tenant", "site", f"user-{number}"), f"session-{number}", CALL)
    env.documents.reads = 0
    assert (await env.today())[1] == times(30)
    assert env.documents.reads == 1
    await env.ledger.totals(ME, TODAY - timedelta(days=91), TODAY)
    assert env.documents.reads == 3


async def test_tasks_of_one_process_lose_nothing_and_batch_their_writes(env: LedgerEnv) -> None:
    """Additions during a write are batched into the next one: there are far fewer writes than calls."""
    await asyncio.gather(*(env.ledger.add(ME, "session-gone", CALL) for _ in range(200)))
    assert await env.today() == (times(200), times(200))
    assert env.documents.puts < 20
    assert (len(env.ledger._pending), len(env.ledger._writing)) == (0, 0)


async def test_processes_lose_nothing(env: LedgerEnv) -> None:
    """Independent ledgers write the same user counter and tenant shards."""
    processes = [env.ledger, *(env.another_process() for _ in range(7))]

    async def spend(ledger: UsageLedger, user: str) -> None:
        for _ in range(5):
            await ledger.add(Scope("tenant", "site", user), "session-gone", CALL)

    await asyncio.gather(*(spend(ledger, user) for ledger in processes for user in ("me", "you", "me")))
    assert await env.today() == (times(80), times(120))


async def test_a_store_error_is_raised_and_the_next_call_is_counted(env: LedgerEnv) -> None:
    """No error is swallowed, and nothing hangs afterwards."""
    env.documents.broken = True
    with pytest.raises(StoreUnavailable):
        await asyncio.gather(*(env.ledger.add(ME, "session-gone", CALL) for _ in range(3)))
    env.documents.broken = False
    await env.ledger.add(ME, "session-gone", CALL)
    assert await env.today() == (CALL, CALL)


async def test_the_usage_of_a_cancelled_caller_is_counted(env: LedgerEnv) -> None:
    """The model was called, so all three counters are updated before the cancellation propagates."""
    session_id = (await env.memory.sessions.open(ME)).session_id
    task = asyncio.create_task(env.ledger.add(ME, session_id, CALL))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await env.today() == (CALL, CALL)
    assert (await env.memory.sessions.get(ME, session_id)).record.total_tokens_used == CALL.tokens


def test_sums_are_exact_in_every_field() -> None:
    """Calls, tokens of both kinds, and dollars."""
    fields: list[Any] = [CALL.calls, CALL.prompt_tokens, CALL.completion_tokens, CALL.cost_usd]
    total = CALL + CALL
    assert [total.calls, total.prompt_tokens, total.completion_tokens, total.cost_usd] == [2 * each for each in fields]
    assert CALL.tokens == 110
