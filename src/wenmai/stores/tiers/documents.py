"""The documents contract over the tiers: sessions and preferences are copied, all else is the durable store's alone."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Documents, Logs, Page, Stored
from wenmai.stores.records import Preferences, Record, Session
from wenmai.stores.tiers.copies import Piece, SessionCopy
from wenmai.stores.tiers.reading import Believed, Reading, however_old
from wenmai.stores.tiers.trust import Moments
from wenmai.stores.tiers.writing import Writing

R = TypeVar("R", bound=Record)


class TieredDocuments:
    """See :class:`wenmai.stores.base.Documents`.

    A record has a version that the next change must name, so it is read from the copy that all processes share.
    """

    def __init__(self, durable: Documents, logs: Logs, reading: Reading, writing: Writing, now: Moments) -> None:
        self._durable = durable
        self._logs = logs
        self._reading = reading
        self._writing = writing
        self._now = now

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.base.Documents.get`."""
        if of is Session:
            return cast("Stored[R] | None", await self._session(scope, key))
        if of is Preferences:
            return cast("Stored[R] | None", await self._preferences(scope, key))
        return await self._durable.get(scope, of, key)

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.base.Documents.get_many`."""
        return await self._durable.get_many(scope, of, keys)

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.base.Documents.put`."""
        if type(record) not in (Session, Preferences):
            return await self._durable.put(scope, record, expected=expected, keep_until=keep_until)
        stored, load = await self._writing.storing(
            scope, record.key, self._durable.put(scope, record, expected=expected, keep_until=keep_until)
        )
        if type(record) is Session:
            await self._writing.put_session(scope, cast("Stored[Session]", stored), load)
        else:
            await self._writing.put_preferences(scope, cast("Stored[Preferences]", stored), load)
        return stored

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """See :meth:`wenmai.stores.base.Documents.delete`."""
        if of not in (Session, Preferences):
            return await self._durable.delete(scope, of, key, expected=expected, identity=identity)
        npc_ids = [] if of is Preferences else [info.npc_id for info in await self._logs.threads(scope, key)]
        deleted = await self._writing.removing(
            scope, key, npc_ids, self._durable.delete(scope, of, key, expected=expected, identity=identity)
        )
        await self._writing.drop(scope, key, npc_ids)
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
        """See :meth:`wenmai.stores.base.Documents.list`."""
        return await self._durable.list(scope, of, where=where, limit=limit, cursor=cursor)

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.base.Documents.sweep`; copies of what is swept go within the bound of the trust."""
        return await self._durable.sweep()

    async def _session(self, scope: Scope, session_id: str) -> Stored[Session] | None:
        def answer(copy: SessionCopy, believed: Believed) -> tuple[Stored[Session] | None] | None:
            piece = copy.session
            if piece is None or not believed(piece.checked_at):
                return None
            # Another process may have moved the end: while it answers, the durable store says that a session is over.
            over = piece.value.record.expires_at <= self._now().wall
            return None if over and believed is not however_old else (piece.value,)

        async def ask(fresh: SessionCopy) -> Stored[Session] | None:
            began = self._now()
            stored = await self._durable.get(scope, Session, session_id)
            fresh.incarnation = stored.record.incarnation if stored else None
            fresh.session = None if stored is None else Piece(stored, began)
            return stored

        return await self._reading.read(scope, ThreadKey(session_id, ""), answer, ask, at_once=True)

    async def _preferences(self, scope: Scope, session_id: str) -> Stored[Preferences] | None:
        def answer(copy: SessionCopy, believed: Believed) -> tuple[Stored[Preferences] | None] | None:
            piece = copy.preferences
            return (piece.value,) if piece is not None and believed(piece.checked_at) else None

        async def ask(fresh: SessionCopy) -> Any:
            began = self._now()
            stored = await self._durable.get(scope, Preferences, session_id)
            fresh.incarnation = stored.record.incarnation if stored else None
            fresh.preferences = Piece(stored, began)
            return stored

        return await self._reading.read(scope, ThreadKey(session_id, ""), answer, ask, at_once=True)
