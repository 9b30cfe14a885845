"""The test harness of a case: an open store, a movable clock, and unique scopes."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any, Protocol, TypeVar, cast

from msgspec.structs import replace

from wenmai.clock import Clock, MovableClock
from wenmai.errors import InvalidInput
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs, Search, Store
from wenmai.stores.records import Message, NewMessage, Record, Session
from wenmai.stores.structs import Hit, Page, SearchEntry, SearchQuery, Stored

C = TypeVar("C")
R = TypeVar("R", bound=Record)

START = datetime(2001, 1, 1, 9, 30, 0, 123456, tzinfo=UTC)
"""In the past, so that a sweep by this clock removes only records of the suite."""

HOUR = timedelta(hours=1)


class OpenStore(Protocol):
    """:func:`wenmai.stores.opening.open_store`, or one like it."""

    def __call__(self, url: str, *, clock: Clock) -> AbstractAsyncContextManager[Store]:
        """Open the store at ``url`` for the duration of the context."""
        ...


class Harness:
    """The test harness of one case; its scopes are in a unique tenant, which is cleared afterwards.

    Args:
        store: open while the case runs.
        clock: the store's; only the case moves it.
        reopen: opens the same URL with the same clock, like another process.
    """

    def __init__(
        self,
        store: Store,
        clock: MovableClock,
        reopen: Callable[[], AbstractAsyncContextManager[Store]],
    ) -> None:
        self.store = store
        self.clock = clock
        self._reopen = reopen
        self._tenant = f"conformance-{token_hex(6)}"
        self._written: dict[tuple[Scope, type[Record]], None] = {}
        self._sessions: dict[tuple[Scope, str], Session] = {}
        self._indexed: dict[tuple[Scope, str, bool], set[str]] = {}

    @property
    def documents(self) -> Documents:
        """The documents contract; the runner has checked that it is implemented."""
        return cast("Documents", WrittenDocuments(offered(self.store.documents), self._written))

    @property
    def logs(self) -> Logs:
        """The logs contract; the runner has checked that it is implemented."""
        return offered(self.store.logs)

    @property
    def search(self) -> Search:
        """The search contract; the runner has checked that it is implemented."""
        return offered(self.store.search)

    def scope(self, user: str = "user", *, site: str = "site", tenant: str = "") -> Scope:
        """A scope of this case only; ``tenant`` is a suffix for cases with several tenants."""
        return Scope(self._tenant + tenant, site, user)

    def foreign_scopes(self) -> dict[str, Scope]:
        """Scopes for which data of :meth:`scope` must be absent, by how they differ."""
        return {
            "another user": self.scope("stranger"),
            "another site": self.scope(site="elsewhere"),
            "another tenant": self.scope(tenant="-other"),
        }

    def colliding_scopes(self, mark: str) -> list[tuple[Scope, Scope]]:
        """Pairs of different scopes whose parts, joined with ``mark``, are the same text."""
        return [
            (self.scope("c", site="b", tenant=f"{mark}a"), self.scope("c", site=f"a{mark}b")),
            (self.scope(f"b{mark}c", site="a"), self.scope("c", site=f"a{mark}b")),
            (self.scope("c", site=f"a{mark}"), self.scope(f"{mark}c", site="a")),
        ]

    async def open_session(self, scope: Scope, session_id: str = "session-1", *, lifetime: timedelta = HOUR) -> Session:
        """Store a session that expires one lifetime from now."""
        session = Session(
            session_id=session_id,
            expires_at=self.clock() + lifetime,
            lifetime_seconds=int(lifetime.total_seconds()),
        )
        stored = await self.documents.put(scope, session)
        self._sessions[scope, session_id] = stored.record
        return stored.record

    async def thread(
        self, scope: Scope, session_id: str = "session-1", persona_id: str = "elder", *, messages: int = 0
    ) -> ThreadKey:
        """Store a session; return the key of a thread with ``messages`` messages, alternately user and assistant."""
        await self.open_session(scope, session_id)
        key = ThreadKey(session_id, persona_id)
        if messages:
            await self.logs.append(scope, key, make_messages(messages))
        return key

    async def message(self, scope: Scope, key: ThreadKey, seq: int) -> Message:
        """The message with that number; if there is none, one that was never appended."""
        found = await self.logs.read(scope, key, start=seq, limit=1)
        absent = Message("absent", seq, 1, key.persona_id, "assistant", "", self.clock(), completed=False)
        return found[0] if found and found[0].seq == seq else absent

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """Index entries, and register them for the cleanup."""
        self._indexed.setdefault((scope, collection, shared), set()).update(entry.id for entry in entries)
        await self.search.index(scope, collection, entries, shared=shared)

    async def hits(self, scope: Scope, collection: str, *, shared: bool = False, **query: Any) -> list[Hit]:
        """The hits of one query; the keywords are the fields of :class:`SearchQuery`."""
        [hits] = await self.search.query(scope, collection, [SearchQuery(**query)], shared=shared)
        return hits

    async def count(self, scope: Scope, collection: str, *, shared: bool = False) -> int:
        """The number of the collection's entries."""
        return (await self.search.size(scope, collection, shared=shared)).entries

    @asynccontextmanager
    async def reopened(self) -> AsyncIterator["Harness"]:
        """The same tenant through a second open store on the URL; the first one stays open."""
        async with self._reopen() as store:
            view = Harness(store, self.clock, self._reopen)
            view._tenant, view._written = self._tenant, self._written
            view._sessions, view._indexed = self._sessions, self._indexed
            yield view

    async def clear(self) -> None:
        """Remove the data of the case, through the contracts."""
        if self.store.search is not None:
            for (scope, collection, shared), ids in self._indexed.items():
                await self.store.search.remove(scope, collection, sorted(ids), shared=shared)
        if self.store.documents is not None:
            deleted = [
                (scope, session)
                for (scope, _), session in self._sessions.items()
                if await self.store.documents.get(scope, Session, session.session_id) is None
            ]
            await self._clear_records(self.store.documents)
            # Messages that outlived their session are only reachable through a session with the same id.
            for scope, session in deleted:
                await self.store.documents.put(scope, replace(session, incarnation=""))
                await self.logs.erase(scope, session.session_id)
                await self.store.documents.delete(scope, Session, session.session_id)
            await self.store.documents.sweep()

    async def _clear_records(self, documents: Documents) -> None:
        for scope, of in self._written:
            for stored in (await documents.list(scope, of, limit=500)).items:
                if self.store.logs is not None and of is Session:
                    await self.store.logs.erase(scope, stored.record.key)
                await documents.delete(scope, of, stored.record.key)


class WrittenDocuments:
    """Documents that remember which records were put into which scopes.

    Args:
        documents: the contract, to which everything is passed on.
        written: gets a key for each scope and record type.
    """

    def __init__(self, documents: Documents, written: dict[tuple[Scope, type[Record]], None]) -> None:
        self._documents = documents
        self._written = written

    async def put(self, scope: Scope, record: R, **options: Any) -> Stored[R]:
        """Put the record; one that may have been written before an error is remembered too."""
        refused = False
        try:
            return await self._documents.put(scope, record, **options)
        except InvalidInput:
            refused = True
            raise
        finally:
            if not refused:
                self._written[scope, type(record)] = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._documents, name)


def offered(contract: C | None) -> C:
    """The contract; cases run only if it is implemented."""
    if contract is None:
        raise LookupError("the backend does not offer this contract")
    return contract


def make_messages(count: int, *, mark: str = "") -> list[NewMessage]:
    """``count`` messages, alternately user and assistant, with the texts ``{mark}1``, ``{mark}2`` and so on."""
    return [
        NewMessage(role="user" if number % 2 else "assistant", content=f"{mark}{number}")
        for number in range(1, count + 1)
    ]


def texts(messages: Sequence[Message]) -> list[str]:
    """The contents of messages, in order."""
    return [message.content for message in messages]


def keys(page: Page[R]) -> list[str]:
    """The keys of a page's records, in order."""
    return [stored.record.key for stored in page.items]
