"""The documents contract with a cache: records declared as cached are, all else goes to the durable store."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from wenmai.scope import Scope, ThreadKey
from wenmai.stores.cache.entries import CachedSession, CachedValue
from wenmai.stores.cache.freshness import MomentClock
from wenmai.stores.cache.read_through import IsFresh, ReadThrough, any_age
from wenmai.stores.cache.write_through import WriteThrough
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.identity import INCARNATION
from wenmai.stores.records import Record, Session
from wenmai.stores.structs import Page, Stored

R = TypeVar("R", bound=Record)


class CachedDocuments:
    """See :class:`wenmai.stores.contracts.Documents`.

    The next change of a record must name its version, so records are read from Redis, which all processes share, and
    not from the local cache.
    """

    def __init__(
        self, durable: Documents, logs: Logs, read_through: ReadThrough, write_through: WriteThrough, now: MomentClock
    ) -> None:
        self._durable = durable
        self._logs = logs
        self._read_through = read_through
        self._write_through = write_through
        self._now = now

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.contracts.Documents.get`."""
        if not of.spec.cached:
            return await self._durable.get(scope, of, key)

        def answer(entry: CachedSession, is_fresh: IsFresh) -> tuple[Stored[R] | None] | None:
            cached = entry.records.get(of)
            if cached is None or not is_fresh(cached.validated_at):
                return None
            stored: Stored[Any] | None = cached.value
            # Another process may have moved the end, so only the durable store, while available, says "expired".
            session = entry.records.get(Session)
            ended = session is not None and session.value and session.value.record.expires_at <= self._now().wall
            return None if ended and is_fresh is not any_age else (stored,)

        async def fetch(entry: CachedSession) -> Stored[R] | None:
            began = self._now()
            stored = await self._durable.get(scope, of, key)
            entry.incarnation = getattr(stored.record, INCARNATION) if stored else None
            if stored is not None or of.spec.bound_to:
                entry.records[of] = CachedValue(stored, began)
            return stored

        return await self._read_through.read(scope, ThreadKey(key, ""), answer, fetch, skip_local=True)

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.contracts.Documents.get_many`."""
        return await self._durable.get_many(scope, of, keys)

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.contracts.Documents.put`."""
        putting = self._durable.put(scope, record, expected=expected, keep_until=keep_until)
        if not record.spec.cached:
            return await putting
        stored, load = await self._write_through.store(scope, record.key, putting)
        await self._write_through.put(scope, stored, load)
        return stored

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """See :meth:`wenmai.stores.contracts.Documents.delete`."""
        if not of.spec.cached:
            return await self._durable.delete(scope, of, key, expected=expected, identity=identity)
        persona_ids = [] if of.spec.bound_to else [info.persona_id for info in await self._logs.threads(scope, key)]
        deleting = self._durable.delete(scope, of, key, expected=expected, identity=identity)
        deleted = await self._write_through.remove(scope, key, persona_ids, deleting)
        await self._write_through.drop(scope, key, persona_ids)
        return deleted

    async def list(
        self,
        scope: Scope,
        of: type[R],
        *,
        where: Mapping[str, str] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[R]:
        """See :meth:`wenmai.stores.contracts.Documents.list`."""
        return await self._durable.list(scope, of, where=where, limit=limit, cursor=cursor)

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.contracts.Documents.sweep`; entries of swept records age out."""
        return await self._durable.sweep()
