"""Backends with the mistakes that real ones have made; the suite must find each."""

# ruff: noqa: D102  each class says what its method gets wrong

import asyncio
import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from msgspec.structs import replace

from wenmai.clock import Clock
from wenmai.errors import SessionExpired
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Appended, Hit, Page, Stored
from wenmai.stores.identity import bound, session_named_by
from wenmai.stores.memory.documents import MemoryDocuments
from wenmai.stores.memory.logs import MemoryLogs
from wenmai.stores.memory.rows import Row, decode, encode
from wenmai.stores.memory.search import MemorySearch
from wenmai.stores.records import Message, NewMessage, Record, Session

R = TypeVar("R", bound=Record)


class ForgetsTheUser(MemoryDocuments):
    """Finds a record by tenant, site and key alone."""

    def row(self, scope: Scope, of: type[Record], key: str) -> Row | None:
        return self._rows.get((of.spec.collection, scope.tenant_id, scope.site_id), {}).get(key)


class OverwritesStrangers(MemoryDocuments):
    """Creates a record in place of another user's."""

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        taken = self._rows.get((record.spec.collection, *scope[:2]), {}).get(record.key)
        if taken is not None and taken.user_id != scope.user_id:
            await self.delete(scope._replace(user_id=taken.user_id), type(record), record.key)
        return await super().put(scope, record, expected=expected, keep_until=keep_until)


class ComparesBeforeWaiting(MemoryDocuments):
    """Looks at the version, waits, and then writes over whatever is there by then."""

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        stored = await self.get(scope, type(record), record.key)
        if expected == (stored.version if stored else 0):
            expected = None
        await asyncio.sleep(0)
        return await super().put(scope, record, expected=expected, keep_until=keep_until)


class PagesByOffset(MemoryDocuments):
    """Has a cursor that counts the records seen."""

    async def list(
        self,
        scope: Scope,
        of: type[R],
        *,
        where: Mapping[str, str] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[R]:
        seen = int(base64.b64decode(cursor)) if cursor else 0
        items = (await super().list(scope, of, where=where, limit=500)).items
        following = base64.b64encode(str(seen + limit).encode()).decode()
        return Page(items[seen : seen + limit], following if len(items) > seen + limit else None)


class KeepsAnyText(MemoryDocuments):
    """Looks for a record by whatever it is asked for."""

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        row = self.row(scope, of, key)
        return None if row is None else await super().get(scope, of, row.key)


class RepairsRecords(MemoryDocuments):
    """Stores another title than it was given where that is no valid text."""

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        if isinstance(record, Session) and isinstance(record.title, str):
            record = replace(record, title=record.title.encode("utf-8", "replace").decode())
        return await super().put(scope, record, expected=expected, keep_until=keep_until)


class EndsTooLate(MemoryDocuments):
    """Still has a record at the moment of its end."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(lambda: clock() - timedelta(microseconds=1))


class NumbersBeforeWaiting(MemoryLogs):
    """Takes the highest number plus one, waits, and overwrites what came meanwhile."""

    async def append(
        self,
        scope: Scope,
        thread: ThreadKey,
        messages: Sequence[NewMessage],
        *,
        tail: int = 0,
        slide: bool = True,
    ) -> Appended:
        count = len(self._thread(scope, thread).entries)
        await asyncio.sleep(0)
        del self._thread(scope, thread).entries[count:]
        return await super().append(scope, thread, messages, tail=tail, slide=slide)


class AppendsOneByOne(MemoryLogs):
    """Makes a batch of single appends."""

    async def append(
        self,
        scope: Scope,
        thread: ThreadKey,
        messages: Sequence[NewMessage],
        *,
        tail: int = 0,
        slide: bool = True,
    ) -> Appended:
        done: list[Appended] = []
        for message in messages:
            done.append(await super().append(scope, thread, [message], tail=tail, slide=slide))
            await asyncio.sleep(0)
        repeated = sum(one.repeated for one in done)
        stored = [one.messages[0] for one in done]
        return Appended(stored, repeated, done[-1].tail, done[-1].incarnation)


class RepairsMessages(MemoryLogs):
    """Stores other words than it was given where those are no valid text."""

    async def append(
        self,
        scope: Scope,
        thread: ThreadKey,
        messages: Sequence[NewMessage],
        *,
        tail: int = 0,
        slide: bool = True,
    ) -> Appended:
        repaired = [
            replace(message, content=str(message.content).encode("utf-8", "replace").decode()) for message in messages
        ]
        return await super().append(scope, thread, repaired, tail=tail, slide=slide)


class RoundsMoments(MemoryLogs):
    """Keeps moments as seconds in a float."""

    async def append(
        self,
        scope: Scope,
        thread: ThreadKey,
        messages: Sequence[NewMessage],
        *,
        tail: int = 0,
        slide: bool = True,
    ) -> Appended:
        rounded = [
            message
            if message.timestamp is None
            else replace(message, timestamp=datetime.fromtimestamp(message.timestamp.timestamp(), UTC))
            for message in messages
        ]
        return await super().append(scope, thread, rounded, tail=tail, slide=slide)


class NeverSlides(MemoryLogs):
    """Ends sessions a fixed time after they were made."""

    async def append(
        self,
        scope: Scope,
        thread: ThreadKey,
        messages: Sequence[NewMessage],
        *,
        tail: int = 0,
        slide: bool = True,
    ) -> Appended:
        session = await self._documents.get(scope, Session, thread.session_id)
        if slide and session is not None and session.record.expires_at <= self._clock():
            raise SessionExpired(thread.session_id)
        return await super().append(scope, thread, messages, tail=tail, slide=False)


class ShowsTheOldest(MemoryLogs):
    """Gives the first messages where the latest are asked for."""

    async def latest(
        self,
        scope: Scope,
        thread: ThreadKey,
        limit: int,
        *,
        before: int | None = None,
        whole_turns: bool = False,
    ) -> list[Message]:
        return (await super().latest(scope, thread, 10_000, before=before, whole_turns=whole_turns))[:limit]


class ErasesByPrefix(MemoryLogs):
    """Erases the sessions that begin like the one that is meant."""

    async def erase(
        self, scope: Scope, session_id: str, npc_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        sessions = (await self._documents.list(scope, Session, limit=500)).items
        names = [one.record.key for one in sessions if one.record.key.startswith(session_id)]
        return sum([await MemoryLogs.erase(self, scope, name, npc_id, incarnation=incarnation) for name in names])


class SettlesAgain(MemoryLogs):
    """Lets a completed message be changed."""

    async def settle(
        self,
        scope: Scope,
        thread: ThreadKey,
        message: Message,
        *,
        content: str,
        completed: bool = True,
        tokens: int = 0,
        metadata: Mapping[str, object] | None = None,
    ) -> Message | None:
        log = self._thread(scope, thread)
        for entry in log.entries[message.seq - 1 : message.seq]:
            entry.completed = False
            log.open_messages[entry.turn_id] = 1
        return await super().settle(
            scope, thread, message, content=content, completed=completed, tokens=tokens, metadata=metadata
        )


class FillsByNumber(MemoryLogs):
    """Fills whatever message has the number now."""

    async def settle(
        self,
        scope: Scope,
        thread: ThreadKey,
        message: Message,
        *,
        content: str,
        completed: bool = True,
        tokens: int = 0,
        metadata: Mapping[str, object] | None = None,
    ) -> Message | None:
        found = await self.read(scope, thread, start=message.seq, limit=1)
        return await super().settle(
            scope,
            thread,
            found[0] if found else message,
            content=content,
            completed=completed,
            tokens=tokens,
            metadata=metadata,
        )


class KnowsSessionsByName(MemoryLogs):
    """Takes any session of the name for the one that is meant."""

    def _session(self, scope: Scope, session_id: str, incarnation: str | None) -> Row | None:  # noqa: ARG002
        return super()._session(scope, session_id, None)


class BindsByName(MemoryDocuments):
    """Hangs records on whatever session has the id now."""

    def _session_of(self, scope: Scope, record: Record) -> Row | None:
        return super()._session_of(scope, bound(record, "") if session_named_by(record) else record)


class LeavesWhatHangsOnASession(MemoryDocuments):
    """Deletes sessions alone."""

    def _session_of(self, scope: Scope, record: Record) -> Row | None:
        super()._session_of(scope, record)
        return None


class DeletesByName(MemoryDocuments):
    """Deletes whatever session has the id now."""

    async def delete(
        self,
        scope: Scope,
        of: type[R],
        key: str,
        *,
        expected: int | None = None,
        identity: str | None = None,  # noqa: ARG002
    ) -> bool:
        return await super().delete(scope, of, key, expected=expected)


class MovesEndsBack(MemoryDocuments):
    """Writes the end of a session as it was read."""

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        row = self.row(scope, type(record), record.key)
        if row is not None and isinstance(record, Session):
            row.raw = encode(replace(decode(row.raw, Session), expires_at=record.expires_at))
        return await super().put(scope, record, expected=expected, keep_until=keep_until)


class CountsEverybody(MemorySearch):
    """Scores by the number of entries of all scopes together."""

    async def query(
        self,
        scope: Scope,
        collection: str,
        *,
        text: str | None = None,
        vector: Sequence[float] | None = None,
        where: Mapping[str, str | Sequence[str]] | None = None,
        limit: int = 10,
        shared: bool = False,
    ) -> list[Hit]:
        everybody = sum(len(shelf.entries) for shelf in self._shelves.values())
        hits = await super().query(scope, collection, text=text, vector=vector, where=where, limit=limit, shared=shared)
        return [replace(hit, lexical=hit.lexical * (1 + everybody)) for hit in hits]


class FiltersAfterwards(MemorySearch):
    """Cuts to the limit first, and filters what is left."""

    async def query(
        self,
        scope: Scope,
        collection: str,
        *,
        text: str | None = None,
        vector: Sequence[float] | None = None,
        where: Mapping[str, str | Sequence[str]] | None = None,
        limit: int = 10,
        shared: bool = False,
    ) -> list[Hit]:
        best = await super().query(scope, collection, text=text, vector=vector, limit=limit, shared=shared)
        passing = await super().query(
            scope, collection, text=text, vector=vector, where=where, limit=500, shared=shared
        )
        return [hit for hit in best if hit.id in {one.id for one in passing}]
