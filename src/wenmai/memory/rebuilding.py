"""Rebuilds what was derived from many threads: their summaries, or the recall index."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from wenmai.clock import Clock
from wenmai.errors import InvalidInput, NotFound
from wenmai.memory.library import Memory
from wenmai.memory.watermarks import ThreadRef
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.records import Marker

PAGE = 100
"""Threads that are rebuilt together."""

WAIT_SECONDS = 0.1

RESUMED_WITHIN = timedelta(days=1)
"""A rebuild that was interrupted is resumed for so long; later, or with another embedder, it begins again."""

_POSITION = "rebuild/"
"""Before the name of the marker that says how far the rebuild of an index has come."""


async def rebuild_episodes(
    memory: Memory,
    documents: Documents,
    logs: Logs,
    clock: Clock,
    *,
    session: tuple[Scope, str] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Index the messages of all threads of the store again, or of one session; returns the number of threads done.

    Entries are replaced one by one, so recall goes on meanwhile; those that are unchanged keep their vectors. The
    position is stored after each page: a rebuild of all threads that was killed goes on from there.

    Raises:
        InvalidInput: the store has no search.
        SessionNotFound: the session is absent or foreign.
    """
    if memory.episodes is None:
        raise InvalidInput("store", "", "a store with a search index, such as sqlite or postgresql")
    position = _Position(documents, clock, memory.episodes.version) if session is None else None
    done = 0
    pages = _threads_of(memory, *session) if session else _all_threads(logs, await position.read() if position else "")
    async for page, cursor in pages:
        for scope, thread in page:
            for name in (*memory.word_functions, *memory.vector_functions):
                with suppress(NotFound):  # deleted meanwhile
                    await memory.derived.rebuild(name, scope, thread)
        await _finish(memory)
        if position is not None:
            await position.write(cursor)
        done += len(page)
        if on_progress is not None:
            on_progress(done)
    return done


class _Position:
    """The position of a rebuild of an index in the list of all threads."""

    def __init__(self, documents: Documents, clock: Clock, version: str) -> None:
        self._documents = documents
        self._clock = clock
        self._name = _POSITION + version

    async def read(self) -> str:
        """The cursor of the next page; empty for the first."""
        stored = await self._documents.get(Scope(), Marker, self._name)
        if stored is None or self._clock() - stored.updated_at > RESUMED_WITHIN:
            return ""
        return stored.record.value

    async def write(self, cursor: str) -> None:
        """Store the cursor; the empty one of a complete rebuild removes it."""
        if cursor:
            await self._documents.put(Scope(), Marker(name=self._name, value=cursor))
        else:
            await self._documents.delete(Scope(), Marker, self._name)


async def rebuild_summaries(
    memory: Memory,
    logs: Logs,
    *,
    session: tuple[Scope, str] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Rebuild the summaries of all threads of the store, or of one session; returns the number of threads.

    Page by page: the summaries of a page are deleted and made again before the next. If the process ends meanwhile,
    the sweeper of any process makes those that are missing.

    Raises:
        SessionNotFound: the session is absent or foreign.
    """
    done = 0
    pages = _all_threads(logs) if session is None else _threads_of(memory, *session)
    async for page, _ in pages:
        for scope, thread in page:
            await memory.summaries.discard(scope, thread)
            with suppress(NotFound):  # deleted meanwhile
                await memory.derived.rebuild(memory.summaries.name, scope, thread)
        await _finish(memory)
        done += len(page)
        if on_progress is not None:
            on_progress(done)
    return done


async def _finish(memory: Memory) -> None:
    """Wait until all that is queued is derived."""
    await memory.derived.catch_up()
    while memory.derived.lag.threads:  # another process holds the lease, or a run is retried
        await asyncio.sleep(WAIT_SECONDS)
        await memory.derived.catch_up()


async def _all_threads(logs: Logs, cursor: str = "") -> AsyncIterator[tuple[Sequence[ThreadRef], str]]:
    """Pages of threads from the cursor on, each with the cursor of the next; that of the last one is empty."""
    more = True
    while more:
        page = await logs.active_threads(cursor=cursor or None, limit=PAGE)
        cursor = page.next_cursor or ""
        yield [ThreadRef(one.scope, one.thread) for one in page.items], cursor
        more = bool(cursor)


async def _threads_of(memory: Memory, scope: Scope, session_id: str) -> AsyncIterator[tuple[Sequence[ThreadRef], str]]:
    session = (await memory.sessions.get(scope, session_id)).record
    threads = await memory.transcript.threads(scope, session_id, incarnation=session.incarnation)
    yield [ThreadRef(scope, session.thread(info.persona_id)) for info in threads], ""
