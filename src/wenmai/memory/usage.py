"""Token usage and cost of model calls: per session, and per user, persona and tenant per day.

Every turn of every process would write a tenant's counter, so the counter is sharded: a process adds to one shard, and
switches to another after a conflict. Within a process, additions wait for the write in progress and are then written
as one batch. A read takes a fixed number of records per day, however many sessions and users there are.
"""

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, timedelta
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from wenmai.clock import Clock
from wenmai.errors import SessionNotFound
from wenmai.memory.sessions import Sessions
from wenmai.resilience.shielded import run_to_completion
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import Session, TokenUsage, UsageRecord
from wenmai.stores.structs import Stored
from wenmai.stores.update import update
from wenmai.stores.validation import MAX_KEYS

TENANT_SHARDS = 8
RETENTION = timedelta(days=400)
"""How long a day's usage is kept."""


class DayUsage(msgspec.Struct, frozen=True):
    """Usage of a user, and of the user's whole tenant, on a UTC day."""

    day: Annotated[date, Meta(description="The day, UTC.")]
    user: Annotated[TokenUsage, Meta(description="Usage of the user.")]
    tenant: Annotated[TokenUsage, Meta(description="Usage of all users of the tenant.")]


class PersonaUsage(msgspec.Struct, frozen=True):
    """Usage of a persona of the site by all users, day by day."""

    persona_id: Annotated[str, Meta(description="The persona.")] = msgspec.field(name="npc_id")
    days: Annotated[list[TokenUsage], Meta(description="One for each of the requested days, in their order.")]


class _Counter(NamedTuple):
    """A day's counter of a user, persona or tenant, with the scope of its records and the number of its shards."""

    kind: Literal["user", "persona", "tenant"]
    scope: Scope
    of: str
    day: date
    shards: int

    def key(self, shard: int) -> str:
        """The key of a shard; ids are of any length, so the key has their digest."""
        digest = hashlib.sha256(self.of.encode()).hexdigest()[:32]
        return f"{self.kind}/{digest}/{self.day}/{shard}"

    @property
    def keys(self) -> list[str]:
        """The keys of all shards."""
        return [self.key(shard) for shard in range(self.shards)]


def _counters(scope: Scope, day: date) -> tuple[_Counter, _Counter]:
    """The user's and the tenant's; both are records of the tenant (no site is named ``*``), so one read gets both."""
    owner = Scope(scope.tenant_id, "*", "")
    # No id holds a NUL, so two users never share a counter.
    return (
        _Counter("user", owner, f"{scope.site_id}\0{scope.user_id}", day, 1),
        _Counter("tenant", owner, scope.tenant_id, day, TENANT_SHARDS),
    )


def _persona_counter(scope: Scope, persona_id: str, day: date) -> _Counter:
    owner = Scope(scope.tenant_id, "*", "")
    return _Counter("persona", owner, f"{scope.site_id}\0{persona_id}", day, TENANT_SHARDS)


class UsageLedger:
    """Records the usage of model calls.

    Attributes:
        process_total: usage of this process, all tenants, since the ledger was created.
        was_erased: whether the user was erased lately; the usage of a deleted session is then the tenant's alone.
    """

    def __init__(self, documents: Documents, sessions: Sessions, clock: Clock) -> None:
        self.process_total: TokenUsage = TokenUsage()
        self.was_erased: Callable[[Scope], Awaitable[bool]] | None = None
        self._documents = documents
        self._sessions = sessions
        self._clock = clock
        self._shard = random.randrange(TENANT_SHARDS)  # noqa: S311 — not a secret
        self._pending: dict[_Counter, tuple[TokenUsage, asyncio.Task[None]]] = {}
        self._writing: dict[_Counter, asyncio.Task[None]] = {}

    async def add(
        self,
        scope: Scope,
        session_id: str | None,
        usage: TokenUsage,
        *,
        incarnation: str | None = None,
        persona_id: str = "",
    ) -> None:
        """Add to the session (unless it was deleted, or None is given), the user, the persona and the tenant.

        ``incarnation`` names the session to charge; None means the one that has the id now. Without a persona, none
        is charged.

        Durable on return. A caller cancelled meanwhile waits until it is durable.

        Raises:
            StoreUnavailable, Conflict: some of the four may have been updated.
        """
        if not usage.calls:
            return
        self.process_total += usage
        await run_to_completion(self._add(scope, session_id, usage, incarnation, persona_id))

    async def totals(self, scope: Scope, first: date, last: date) -> list[DayUsage]:
        """Usage of the user and the tenant on each day from ``first`` to ``last``, inclusive, ascending.

        One store read per 55 days.
        """
        days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        counters = [_counters(scope, day) for day in days]
        found = await self._read(counters[0][0].scope, [key for pair in counters for each in pair for key in each.keys])
        return [
            DayUsage(day, _sum(found, user), _sum(found, tenant))
            for day, (user, tenant) in zip(days, counters, strict=True)
        ]

    async def of_personas(
        self, scope: Scope, persona_ids: Sequence[str], first: date, last: date
    ) -> list[PersonaUsage]:
        """Usage of these personas of the site on each day; one store read per 62 days of a persona."""
        days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        return [PersonaUsage(each, await self._of_persona(scope, each, days)) for each in persona_ids]

    async def _of_persona(self, scope: Scope, persona_id: str, days: Sequence[date]) -> list[TokenUsage]:
        counters = [_persona_counter(scope, persona_id, day) for day in days]
        found = await self._read(counters[0].scope, [key for counter in counters for key in counter.keys])
        return [_sum(found, counter) for counter in counters]

    async def keys_of_user(self, scope: Scope) -> list[str]:
        """The keys of the user's daily counters that are stored."""
        today = self._clock().date()
        days = [today - timedelta(days=back) for back in range(-1, RETENTION.days + 1)]
        keys = [key for day in days for key in _counters(scope, day)[0].keys]
        return list(await self._read(_counters(scope, today)[0].scope, keys))

    async def forget_user(self, scope: Scope) -> None:
        """Delete the user's daily counters; what they counted stays in those of the tenant."""
        owner = _counters(scope, self._clock().date())[0].scope
        for key in await self.keys_of_user(scope):
            await self._documents.delete(owner, UsageRecord, key)

    async def _add(
        self, scope: Scope, session_id: str | None, usage: TokenUsage, incarnation: str | None, persona_id: str
    ) -> None:
        today = self._clock().date()
        counters = [*_counters(scope, today), *([_persona_counter(scope, persona_id, today)] if persona_id else [])]
        found, *_ = await asyncio.gather(
            self._add_to_session(scope, session_id, usage, incarnation),
            *(asyncio.shield(self._enqueue(counter, usage)) for counter in counters),
        )
        if not found and self.was_erased is not None and await self.was_erased(scope):
            await self.forget_user(scope)

    async def _add_to_session(
        self, scope: Scope, session_id: str | None, usage: TokenUsage, incarnation: str | None
    ) -> bool:
        """False if the session was deleted."""
        if session_id is None:
            return True

        def added(session: Session) -> Session:
            return msgspec.structs.replace(
                session,
                total_tokens_used=session.total_tokens_used + usage.tokens,
                total_cost_usd=session.total_cost_usd + usage.cost_usd,
            )

        try:
            await self._sessions.change(scope, session_id, added, incarnation=incarnation)
        except SessionNotFound:
            return False
        return True

    def _enqueue(self, counter: _Counter, usage: TokenUsage) -> asyncio.Task[None]:
        """Add to the pending batch; returns the task that writes it."""
        if counter in self._pending:
            total, task = self._pending[counter]
        else:
            total, task = TokenUsage(), asyncio.create_task(self._write_next(counter))
        self._pending[counter] = total + usage, task
        return task

    async def _write_next(self, counter: _Counter) -> None:
        earlier = self._writing.get(counter)
        if earlier is not None:
            await asyncio.wait([earlier])
        total, task = self._pending.pop(counter)
        self._writing[counter] = task
        try:
            await self._write(counter, total)
        finally:
            # The next writer, if any, waits for exactly this task and registers only after it.
            del self._writing[counter]

    async def _write(self, counter: _Counter, usage: TokenUsage) -> None:
        key = ""

        def next_key() -> str:
            nonlocal key
            if key:
                self._shard = random.randrange(TENANT_SHARDS)  # noqa: S311 — not a secret
            key = counter.key(self._shard % counter.shards)
            return key

        def added(stored: Stored[UsageRecord] | None) -> UsageRecord:
            before = _usage_of(stored.record) if stored else TokenUsage()
            return UsageRecord(
                ref=key,
                day=str(counter.day),
                kind=counter.kind,
                of=counter.of.replace("\0", "/"),
                **msgspec.structs.asdict(before + usage),
            )

        end = self._clock() + RETENTION
        await update(self._documents, counter.scope, UsageRecord, next_key, added, keep_until=end)

    async def _read(self, scope: Scope, keys: Sequence[str]) -> dict[str, UsageRecord]:
        parts = [keys[start : start + MAX_KEYS] for start in range(0, len(keys), MAX_KEYS)]
        found = await asyncio.gather(*(self._documents.get_many(scope, UsageRecord, part) for part in parts))
        return {key: stored.record for part in found for key, stored in part.items()}


def _usage_of(record: UsageRecord) -> TokenUsage:
    return TokenUsage(
        calls=record.calls,
        prompt_tokens=record.prompt_tokens,
        completion_tokens=record.completion_tokens,
        cost_usd=record.cost_usd,
    )


def _sum(found: dict[str, UsageRecord], counter: _Counter) -> TokenUsage:
    return sum((_usage_of(found[key]) for key in counter.keys if key in found), TokenUsage())
