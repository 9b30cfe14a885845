"""What model calls have used: on the session's record, and by user and by tenant, a day at a time.

A tenant's counter would be written by every turn of every process. So it is divided into shards: a process adds to one
of them, and leaves it for another when it meets somebody else there. Within a process additions wait for the write
under way and then go together in one. What is read is a fixed number of records for each day, however many sessions
and users there are.
"""

import asyncio
import hashlib
import random
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Literal, NamedTuple

import msgspec

from wenmai.clock import Clock
from wenmai.errors import SessionNotFound, VersionConflict
from wenmai.memory.finishing import to_the_end
from wenmai.memory.sessions import Sessions
from wenmai.scope import Scope
from wenmai.stores.base import Documents
from wenmai.stores.fields import MANY
from wenmai.stores.records import Session, Usage

TENANT_SHARDS = 8
KEPT = timedelta(days=400)
"""How long a day's usage can be read."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What model calls have used; of several it can be summed."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """Those of prompts and those of answers."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )


class DayUsage(msgspec.Struct, frozen=True):
    """What a user and all of the user's tenant have used on a day, UTC."""

    day: date
    user: Spent
    tenant: Spent


class _Counter(NamedTuple):
    """A sum of one day: of whom, where its records are, and into how many it is divided."""

    kind: Literal["user", "tenant"]
    scope: Scope
    of: str
    day: date
    shards: int

    def key(self, shard: int) -> str:
        """The key of one of its records; owners' ids are of any length, so their digest stands for them."""
        digest = hashlib.sha256(self.of.encode()).hexdigest()[:32]
        return f"{self.kind}/{digest}/{self.day}/{shard}"

    @property
    def keys(self) -> list[str]:
        """The keys of all its records."""
        return [self.key(shard) for shard in range(self.shards)]


def _counters(scope: Scope, day: date) -> tuple[_Counter, _Counter]:
    """The user's and the tenant's; both are the tenant's records (no site is named ``*``), to be read together."""
    owner = Scope(scope.tenant_id, "*", "")
    # No id holds a NUL, so two users never share a counter.
    return (
        _Counter("user", owner, f"{scope.site_id}\0{scope.user_id}", day, 1),
        _Counter("tenant", owner, scope.tenant_id, day, TENANT_SHARDS),
    )


class UsageLedger:
    """Adds up what model calls use.

    Attributes:
        spent: by this process, of all tenants, since the ledger was made.
    """

    def __init__(self, documents: Documents, sessions: Sessions, clock: Clock) -> None:
        self.spent = Spent()
        self._documents = documents
        self._sessions = sessions
        self._clock = clock
        self._shard = random.randrange(TENANT_SHARDS)  # noqa: S311 — not a secret
        self._gathering: dict[_Counter, tuple[Spent, asyncio.Task[None]]] = {}
        self._writing: dict[_Counter, asyncio.Task[None]] = {}

    async def add(self, scope: Scope, session_id: str, spent: Spent, *, incarnation: str | None = None) -> None:
        """Add to the session, the user and the tenant; to the first nothing if it is gone.

        ``incarnation`` names the session that spent it; None means the one that has the id now.

        Durable when it returns. A caller that is cancelled meanwhile is held until it is.

        Raises:
            StoreUnavailable: it may have been added to some of the three.
        """
        if not spent.calls:
            return
        self.spent += spent
        await to_the_end(self._add(scope, session_id, spent, incarnation))

    async def totals(self, scope: Scope, first: date, last: date) -> list[DayUsage]:
        """What the user and the tenant have used on each day from ``first`` to ``last``, both included, ascending.

        One read of the store for every 55 days.
        """
        days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        counters = [_counters(scope, day) for day in days]
        found = await self._read(counters[0][0].scope, [key for pair in counters for each in pair for key in each.keys])
        return [
            DayUsage(day, _sum(found, user), _sum(found, tenant))
            for day, (user, tenant) in zip(days, counters, strict=True)
        ]

    async def _add(self, scope: Scope, session_id: str, spent: Spent, incarnation: str | None) -> None:
        user, tenant = _counters(scope, self._clock().date())
        await asyncio.gather(
            self._add_to_session(scope, session_id, spent, incarnation),
            asyncio.shield(self._gather(user, spent)),
            asyncio.shield(self._gather(tenant, spent)),
        )

    async def _add_to_session(self, scope: Scope, session_id: str, spent: Spent, incarnation: str | None) -> None:
        def added(session: Session) -> Session:
            return msgspec.structs.replace(
                session,
                total_tokens_used=session.total_tokens_used + spent.tokens,
                total_cost_usd=session.total_cost_usd + spent.cost_usd,
            )

        try:
            await self._sessions.change(scope, session_id, added, incarnation=incarnation)
        except SessionNotFound:
            return

    def _gather(self, counter: _Counter, spent: Spent) -> asyncio.Task[None]:
        """Put it to what is written next; the task that writes that."""
        if counter in self._gathering:
            gathered, task = self._gathering[counter]
        else:
            gathered, task = Spent(), asyncio.create_task(self._write_next(counter))
        self._gathering[counter] = gathered + spent, task
        return task

    async def _write_next(self, counter: _Counter) -> None:
        earlier = self._writing.get(counter)
        if earlier is not None:
            await asyncio.wait([earlier])
        gathered, task = self._gathering.pop(counter)
        self._writing[counter] = task
        try:
            await self._write(counter, gathered)
        finally:
            # The next one, if there is one, has waited for exactly this task and takes the place only after it.
            del self._writing[counter]

    async def _write(self, counter: _Counter, spent: Spent) -> None:
        while True:
            key = counter.key(self._shard % counter.shards)
            stored = await self._documents.get(counter.scope, Usage, key)
            before = _spent(stored.record) if stored else Spent()
            usage = Usage(
                ref=key,
                day=str(counter.day),
                kind=counter.kind,
                of=counter.of.replace("\0", "/"),
                **msgspec.structs.asdict(before + spent),
            )
            try:
                await self._documents.put(
                    counter.scope,
                    usage,
                    expected=stored.version if stored else 0,
                    keep_until=self._clock() + KEPT,
                )
            except VersionConflict:
                self._shard = random.randrange(TENANT_SHARDS)  # noqa: S311 — not a secret
                continue
            return

    async def _read(self, scope: Scope, keys: Sequence[str]) -> dict[str, Usage]:
        parts = [keys[start : start + MANY] for start in range(0, len(keys), MANY)]
        found = await asyncio.gather(*(self._documents.get_many(scope, Usage, part) for part in parts))
        return {key: stored.record for part in found for key, stored in part.items()}


def _spent(usage: Usage) -> Spent:
    return Spent(
        calls=usage.calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=usage.cost_usd,
    )


def _sum(found: dict[str, Usage], counter: _Counter) -> Spent:
    return sum((_spent(found[key]) for key in counter.keys if key in found), Spent())
