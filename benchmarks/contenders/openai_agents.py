"""The OpenAI Agents SDK's ``SQLiteSession``: a row of JSON per item."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
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

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """See :class:`benchmarks.contenders.Contender`."""
        await self._session(session).add_items(_items(messages))

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""
        opened = self._session(session)
        await opened.add_items(_items([("user", question), ("assistant", answer)]))
        return [item["content"] for item in await opened.get_items(WINDOW)]

    async def count(self, session: str) -> int:
        """See :class:`benchmarks.contenders.Contender`."""
        return len(await self._session(session).get_items())

    async def durability(self) -> dict[str, str]:
        """See :class:`benchmarks.contenders.Contender`."""
        opened = self._session("durability")
        return await asyncio.to_thread(
            lambda: read_durability(opened._get_connection())  # noqa: SLF001 — nothing public shows it
        )

    def close(self) -> None:
        """Close what is open."""
        for session in self._open.values():
            session.close()

    def _session(self, session: str) -> Any:
        opened = self._open.get(session)
        if opened is None:
            opened = self._open[session] = self._make(session, self._path)
            if len(self._open) > OPEN_SESSIONS:
                self._open.pop(next(iter(self._open))).close()
        return opened


def _items(messages: Sequence[RoleAndContent]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in messages]


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[AgentsSession]:
    """The sessions of one file."""
    sessions = AgentsSession(path)
    yield sessions
    sessions.close()
