"""The OpenAI Agents SDK's ``SQLiteSession``: a row of JSON per item."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contenders import WINDOW, RoleAndContent, library
from benchmarks.contenders.floor import read_durability

OPEN_SESSIONS = 64
"""Each has connections of its own, one for each thread: a service cannot keep a thousand open."""


class AgentsSession:
    """A session object per session, the last ones kept open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._make = library("agents").SQLiteSession
        self._open: dict[str, Any] = {}
        self._users: Counter[str] = Counter()

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """See :class:`benchmarks.contenders.Contender`."""
        with self._session(session) as opened:
            await opened.add_items(items_of(messages))

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""
        with self._session(session) as opened:
            await opened.add_items(items_of([("user", question), ("assistant", answer)]))
            return [item["content"] for item in await opened.get_items(WINDOW)]

    async def count(self, session: str) -> int:
        """See :class:`benchmarks.contenders.Contender`."""
        with self._session(session) as opened:
            return len(await opened.get_items())

    async def durability(self) -> dict[str, str]:
        """See :class:`benchmarks.contenders.Contender`."""
        with self._session("durability") as opened:
            return await asyncio.to_thread(
                lambda: read_durability(opened._get_connection())  # noqa: SLF001 — nothing public shows it
            )

    def close(self) -> None:
        """Close what is open."""
        for session in self._open.values():
            session.close()

    @contextmanager
    def _session(self, session: str) -> Iterator[Any]:
        if session not in self._open:
            self._open[session] = self._make(session, self._path)
        self._users[session] += 1
        try:
            yield self._open[session]
        finally:
            self._users[session] -= 1
            if len(self._open) > OPEN_SESSIONS:
                self._close_one()

    def _close_one(self) -> None:
        idle = next((session for session in self._open if not self._users[session]), None)
        if idle is not None:
            self._open.pop(idle).close()


def items_of(messages: Sequence[RoleAndContent]) -> list[dict[str, str]]:
    """The messages as the SDK's items."""
    return [{"role": role, "content": content} for role, content in messages]


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[AgentsSession]:
    """The sessions of one file."""
    sessions = AgentsSession(path)
    yield sessions
    sessions.close()
