"""Rebuilds the summaries of many threads from their transcripts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from wenmai.errors import NotFound
from wenmai.memory.library import Memory
from wenmai.memory.watermarks import ThreadRef
from wenmai.scope import Scope
from wenmai.stores.contracts import Logs

PAGE = 100
"""Threads that are rebuilt together."""

WAIT_SECONDS = 0.1


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
    async for page in pages:
        for scope, thread in page:
            await memory.summaries.discard(scope, thread)
            with suppress(NotFound):  # deleted meanwhile
                await memory.derived.rebuild(memory.summaries.name, scope, thread)
        await memory.derived.catch_up()
        while memory.derived.lag.threads:  # another process holds the lease, or a run is retried
            await asyncio.sleep(WAIT_SECONDS)
            await memory.derived.catch_up()
        done += len(page)
        if on_progress is not None:
            on_progress(done)
    return done


async def _all_threads(logs: Logs) -> AsyncIterator[list[ThreadRef]]:
    cursor, more = None, True
    while more:
        page = await logs.active_threads(cursor=cursor, limit=PAGE)
        yield [ThreadRef(one.scope, one.thread) for one in page.items]
        cursor, more = page.next_cursor, page.next_cursor is not None


async def _threads_of(memory: Memory, scope: Scope, session_id: str) -> AsyncIterator[list[ThreadRef]]:
    session = (await memory.sessions.get(scope, session_id)).record
    threads = await memory.transcript.threads(scope, session_id, incarnation=session.incarnation)
    yield [ThreadRef(scope, session.thread(info.persona_id)) for info in threads]
