"""Rebuilds what was derived from many threads: their summaries, or the recall index."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from wenmai.clock import Clock
from wenmai.errors import InvalidInput, NotFound
from wenmai.memory.library import Memory
from wenmai.memory.watermarks import ThreadRef
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.records import Marker

PAGE = 100
"""Threads that are rebuilt together."""

WAIT_SECONDS = 0.1

RESUMED_WITHIN = timedelta(days=1)
"""A rebuild that was interrupted is resumed for so long; later, or with another embedder or model, it begins again."""

_POSITION = "rebuild/"
"""Before the name of the marker that says how far a rebuild has come."""


class Rebuilt(NamedTuple):
    """What a rebuild has done.

    Attributes:
        threads: whose records were made again, or given up.
        given_up: how often a thread was given up after repeated failures. A rebuild of all threads that is run again
            goes on from the page of the first of them.
    """

    threads: int
    given_up: int


async def rebuild_episodes(
    memory: Memory,
    documents: Documents,
    logs: Logs,
    *,
    session: tuple[Scope, str] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Rebuilt:
    """Index the messages of all threads of the store again, or of one session.

    Entries are replaced one by one, so recall goes on meanwhile; those that are unchanged keep their vectors. The
    position is stored after each page: a rebuild of all threads that was killed goes on from there.

    Raises:
        InvalidInput: the store has no search.
        SessionNotFound: the session is absent or foreign.
    """
    if memory.episodes is None:
        raise InvalidInput("store", "", "a store with a search index, such as sqlite or postgresql")

    names = [*memory.word_functions, *memory.vector_functions]

    async def index_again(scope: Scope, thread: ThreadKey) -> None:
        for name in names:
            await memory.derived.rebuild(name, scope, thread)

    position = _Position(documents, memory.clock, memory.episodes.version)
    return await _rebuild(memory, logs, names, index_again, session or position, on_progress)


async def _rebuild(
    memory: Memory,
    logs: Logs,
    functions: Collection[str],
    begin: Callable[[Scope, ThreadKey], Awaitable[None]],
    threads: "tuple[Scope, str] | _Position",
    on_progress: Callable[[int], None] | None,
) -> Rebuilt:
    """Begin each thread of a session, or all from a position on, and wait page by page until they are done."""
    given_up_before = memory.derived.given_up(functions)
    position = None
    if isinstance(threads, _Position):
        position, pages = threads, _all_threads(logs, await threads.read())
    else:
        pages = _threads_of(memory, *threads)
    done = given_up = 0
    async for page, cursor in pages:
        for scope, thread in page:
            with suppress(NotFound):  # deleted meanwhile
                await begin(scope, thread)
        await _finish(memory)
        given_up = memory.derived.given_up(functions) - given_up_before
        if position is not None and not given_up:
            await position.write(cursor)
        done += len(page)
        if on_progress is not None:
            on_progress(done)
    return Rebuilt(done, given_up)


class _Position:
    """The position of a rebuild in the list of all threads."""

    def __init__(self, documents: Documents, clock: Clock, name: str) -> None:
        self._documents = documents
        self._clock = clock
        self._name = _POSITION + name

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
    documents: Documents,
    logs: Logs,
    *,
    session: tuple[Scope, str] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Rebuilt:
    """Rebuild the summaries of all threads of the store, or of one session.

    Page by page: the summaries of a page are deleted and made again before the next. If the process ends meanwhile,
    the sweeper of any process makes those that are missing, and the next rebuild by the same writer goes on from there.

    Raises:
        SessionNotFound: the session is absent or foreign.
    """

    async def summarise_again(scope: Scope, thread: ThreadKey) -> None:
        name = memory.summaries.name
        # Before the summary is deleted, or a process that dies now leaves a thread that looks summarised.
        await memory.derived.watermarks.store(name, ThreadRef(scope, thread), 0)
        await memory.summaries.discard(scope, thread)
        await memory.derived.rebuild(name, scope, thread)

    position = _Position(documents, memory.clock, f"{memory.summaries.name}:{memory.summaries.writer.name}")
    return await _rebuild(memory, logs, [memory.summaries.name], summarise_again, session or position, on_progress)


async def _finish(memory: Memory) -> None:
    """Wait until all that is queued is derived."""
    await memory.derived.catch_up()
    while memory.derived.lag.threads:  # another process holds the lease, or a run is retried
        await asyncio.sleep(WAIT_SECONDS)
        await memory.derived.catch_up()


async def _all_threads(logs: Logs, cursor: str) -> AsyncIterator[tuple[Sequence[ThreadRef], str]]:
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
