"""Stores broken on purpose, with faults of real backends; the conformance suite must find each."""

# ruff: noqa: D102  each class docstring describes its fault

import asyncio
import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import inf, nextafter
from typing import TypeVar

from msgspec.structs import replace

from wenmai.clock import Clock
from wenmai.errors import SessionExpired
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.identity import bind_to, bound_session
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.inprocess.logs import InProcessLogs
from wenmai.stores.inprocess.rows import Row, decode, encode
from wenmai.stores.inprocess.search import InProcessSearch
from wenmai.stores.records import Message, NewMessage, Record, Session
from wenmai.stores.search_values import check_entries, check_removal, text_digest, values_of
from wenmai.stores.structs import (
    ActiveThreads,
    Appended,
    FieldValue,
    Hit,
    Page,
    Range,
    RankFusion,
    SearchEntry,
    SearchQuery,
    Stored,
    ThreadPart,
    Where,
)
from wenmai.stores.validation import cursor_number

R = TypeVar("R", bound=Record)


class IgnoresTheUser(InProcessDocuments):
    """Finds a record by tenant, site and key only."""

    def row(self, scope: Scope, of: type[Record], key: str) -> Row | None:
        return self._rows.get((of.spec.collection, scope.tenant_id, scope.site_id), {}).get(key)


class OverwritesForeignRecords(InProcessDocuments):
    """Replaces another user's record."""

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        stored = self._rows.get((record.spec.collection, *scope[:2]), {}).get(record.key)
        if stored is not None and stored.user_id != scope.user_id:
            await self.delete(scope._replace(user_id=stored.user_id), type(record), record.key)
        return await super().put(scope, record, expected=expected, keep_until=keep_until)


class ChecksVersionBeforeAwait(InProcessDocuments):
    """Checks the version, awaits, and then overwrites whatever is stored by then."""

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        stored = await self.get(scope, type(record), record.key)
        if expected == (stored.version if stored else 0):
            expected = None
        await asyncio.sleep(0)
        return await super().put(scope, record, expected=expected, keep_until=keep_until)


class PagesByOffset(InProcessDocuments):
    """Uses an offset as cursor."""

    async def list(
        self,
        scope: Scope,
        of: type[R],
        *,
        where: Mapping[str, str] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[R]:
        offset = int(base64.b64decode(cursor)) if cursor else 0
        items = (await super().list(scope, of, where=where, limit=500)).items
        following = base64.b64encode(str(offset + limit).encode()).decode()
        return Page(items[offset : offset + limit], following if len(items) > offset + limit else None)


class AcceptsInvalidKeys(InProcessDocuments):
    """Does not validate keys of reads."""

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        row = self.row(scope, of, key)
        return None if row is None else await super().get(scope, of, row.key)


class RepairsRecords(InProcessDocuments):
    """Replaces invalid characters of a title instead of refusing it."""

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        if isinstance(record, Session) and isinstance(record.title, str):
            record = replace(record, title=record.title.encode("utf-8", "replace").decode())
        return await super().put(scope, record, expected=expected, keep_until=keep_until)


class ExpiresTooLate(InProcessDocuments):
    """Keeps a record one microsecond too long."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(lambda: clock() - timedelta(microseconds=1))


class NumbersBeforeAwait(InProcessLogs):
    """Takes the highest number plus one, awaits, and overwrites concurrent appends."""

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


class AppendsOneByOne(InProcessLogs):
    """Appends a batch as single messages."""

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


class RepairsMessages(InProcessLogs):
    """Replaces invalid characters of a content instead of refusing it."""

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


class RoundsTimestamps(InProcessLogs):
    """Stores timestamps as float seconds."""

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


class NeverSlides(InProcessLogs):
    """Expires sessions a fixed time after creation."""

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


class ReturnsTheOldest(InProcessLogs):
    """Returns the first messages instead of the latest."""

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


class ErasesByPrefix(InProcessLogs):
    """Erases all sessions with the same prefix."""

    async def erase(
        self, scope: Scope, session_id: str, persona_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        sessions = (await self._documents.list(scope, Session, limit=500)).items
        names = [one.record.key for one in sessions if one.record.key.startswith(session_id)]
        return sum(
            [await InProcessLogs.erase(self, scope, name, persona_id, incarnation=incarnation) for name in names]
        )


class ReadsPartsOnce(InProcessLogs):
    """Reads a part that is named again only the first time."""

    async def read_parts(self, scope: Scope, parts: Sequence[ThreadPart]) -> list[list[Message]]:
        found = await super().read_parts(scope, parts)
        return [[] if part in parts[:place] else found[place] for place, part in enumerate(parts)]


class CompletesTwice(InProcessLogs):
    """Completes a message again."""

    async def complete(
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
        return await super().complete(
            scope, thread, message, content=content, completed=completed, tokens=tokens, metadata=metadata
        )


class CompletesByNumber(InProcessLogs):
    """Completes whatever message has the number now."""

    async def complete(
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
        return await super().complete(
            scope,
            thread,
            found[0] if found else message,
            content=content,
            completed=completed,
            tokens=tokens,
            metadata=metadata,
        )


class FindsSessionsById(InProcessLogs):
    """Ignores the incarnation of a thread key."""

    def _session(self, scope: Scope, session_id: str, incarnation: str | None) -> Row | None:  # noqa: ARG002
        return super()._session(scope, session_id, None)


class EnumeratesByOffset(InProcessLogs):
    """Uses an offset as cursor of an enumeration."""

    async def active_threads(
        self, *, since: datetime | None = None, cursor: str | None = None, limit: int = 500
    ) -> ActiveThreads:
        offset = cursor_number(cursor)
        sessions = self._documents.sessions_after(0, (0, 0), 500)
        whole = (await super().active_threads(since=since)).items
        shown = {row.key for _, _, _, row in sessions[offset : offset + limit]}
        following = str(offset + limit) if len(sessions) > offset + limit else None
        return ActiveThreads([one for one in whole if one.thread.session_id in shown], following)


class BindsBySessionId(InProcessDocuments):
    """Binds records to whatever session has the id now."""

    def _session_row(self, scope: Scope, record: Record) -> Row | None:
        return super()._session_row(scope, bind_to(record, "") if bound_session(record) else record)


class KeepsBoundRecords(InProcessDocuments):
    """Deletes sessions without their bound records."""

    def _session_row(self, scope: Scope, record: Record) -> Row | None:
        super()._session_row(scope, record)
        return None


class DeletesBySessionId(InProcessDocuments):
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


class MovesExpiryBack(InProcessDocuments):
    """Overwrites ``expires_at`` with an older value."""

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        row = self.row(scope, type(record), record.key)
        if row is not None and isinstance(record, Session):
            row.raw = encode(replace(decode(row.raw, Session), expires_at=record.expires_at))
        return await super().put(scope, record, expected=expected, keep_until=keep_until)


class CountsAllScopes(InProcessSearch):
    """Scores by the number of entries of all scopes."""

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        all_entries = sum(len(partition.entries) for partition in self._partitions.values())
        found = await super().query(scope, collection, queries, shared=shared)
        return [[replace(hit, lexical=hit.lexical * (1 + all_entries)) for hit in hits] for hits in found]


class ChangesQueries(InProcessSearch):
    """Base of stores that run another query than the given one."""

    def changed(self, query: SearchQuery) -> SearchQuery:
        raise NotImplementedError

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        await super().query(scope, collection, queries, shared=shared)
        return await super().query(scope, collection, [self.changed(query) for query in queries], shared=shared)


class FiltersAfterLimit(InProcessSearch):
    """Applies the limit first, then the filters."""

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        passing = await super().query(
            scope, collection, [replace(query, limit=500, pool=1_000) for query in queries], shared=shared
        )
        await super().query(scope, collection, queries, shared=shared)
        best = await super().query(scope, collection, [replace(query, where={}) for query in queries], shared=shared)
        allowed = [{hit.id for hit in hits} for hits in passing]
        return [[hit for hit in hits if hit.id in ids] for hits, ids in zip(best, allowed, strict=True)]


class FusesTheLimit(ChangesQueries):
    """Fuses the best ``limit`` of each list."""

    def changed(self, query: SearchQuery) -> SearchQuery:
        return replace(query, pool=query.limit)


class FusesByRankAlone(ChangesQueries):
    """Has no weighted fusion."""

    def changed(self, query: SearchQuery) -> SearchQuery:
        return replace(query, fusion=RankFusion())


class IncludesTheHighBound(ChangesQueries):
    """Selects the high bound of a range too."""

    def changed(self, query: SearchQuery) -> SearchQuery:
        return replace(query, where={name: self._widened(wanted) for name, wanted in query.where.items()})

    @staticmethod
    def _widened(wanted: FieldValue | Sequence[FieldValue] | Range) -> FieldValue | Sequence[FieldValue] | Range:
        if not isinstance(wanted, Range) or wanted.high is None:
            return wanted
        high = wanted.high
        return replace(wanted, high=f"{high}\0" if isinstance(high, str) else nextafter(high, inf))


class DropsUnmatchedIds(InProcessSearch):
    """Returns of the given ids only those that match."""

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        found = await super().query(scope, collection, queries, shared=shared)
        return [[hit for hit in hits if hit.lexical or hit.similarity is not None] for hits in found]


class RepeatsTheFirstQuery(InProcessSearch):
    """Answers every query with the hits of the first."""

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        found = await super().query(scope, collection, queries, shared=shared)
        return found[:1] * len(found)


class StoresNumbersAsText(InProcessSearch):
    """Stores and compares all values as texts."""

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        check_entries(entries, None)
        written = [
            replace(
                entry, fields={name: [str(value) for value in values_of(those)] for name, those in entry.fields.items()}
            )
            for entry in entries
        ]
        await super().index(scope, collection, written, shared=shared)


class EmbedsWhateverText(InProcessSearch):
    """Gives an entry its vector, whatever text it has now."""

    async def embed(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> int:
        embedded = await super().embed(scope, collection, entries, shared=shared)
        partition = self._partition(scope, collection, shared=shared)
        for entry in entries:
            if entry.id in partition.entries and entry.vector is not None:
                partition.vectors.put(entry.id, entry.vector)
        return embedded


class ForgetsVectors(InProcessSearch):
    """Drops the vector of an entry that is indexed again without one."""

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        await super().index(scope, collection, entries, shared=shared)
        for entry in entries:
            if entry.vector is None:
                self._partition(scope, collection, shared=shared).drop(entry.id)
        await super().index(scope, collection, entries, shared=shared)


class KeepsOldVectors(InProcessSearch):
    """Keeps the vector of an entry whose text has changed."""

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        stored = self._partition(scope, collection, shared=shared).entries
        for entry in entries:
            if entry.id in stored:
                stored[entry.id].digest = text_digest(entry.text)
        await super().index(scope, collection, entries, shared=shared)


class RemovesTheFirstMatch(InProcessSearch):
    """Removes one entry at most by a filter."""

    async def remove(
        self,
        scope: Scope,
        collection: str,
        ids: Sequence[str] | None = None,
        *,
        where: Where | None = None,
        shared: bool = False,
    ) -> int:
        if ids is None and where:
            check_removal(ids, where)
            ids, where = sorted(self._partition(scope, collection, shared=shared).matching(where))[:1], None
        return await super().remove(scope, collection, ids, where=where, shared=shared)


class ListsInOrderOfIndexing(InProcessSearch):
    """Lists the ids without a vector in the order of indexing."""

    async def without_vector(
        self, scope: Scope, collection: str, *, after: str = "", limit: int = 500, shared: bool = False
    ) -> list[str]:
        found = set(await super().without_vector(scope, collection, after=after, limit=limit, shared=shared))
        return [id_ for id_ in reversed(self._partition(scope, collection, shared=shared).entries) if id_ in found]


class ChecksNothing(InProcessSearch):
    """Searches with whatever it is given."""

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        partition = self._partition(scope, collection, shared=shared)
        return [partition.hits(query) for query in queries]
