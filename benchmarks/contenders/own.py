"""Wenmai through its public front, in one step and in two calls."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import wenmai
from benchmarks.contenders import WINDOW, RoleAndContent
from benchmarks.contenders.floor import SYNCHRONOUS
from wenmai.stores.sqlite.schema import connect

LIMITS = wenmai.WindowLimits(messages=WINDOW, characters=None)
FILL = 1_000
"""Messages to a step of filling."""


class OwnBase:
    """What both ways share."""

    def __init__(self, memory: wenmai.Memory, durability: dict[str, str]) -> None:
        self._memory = memory
        self._durability = durability
        self._sessions: dict[str, wenmai.SessionMemory] = {}

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """See :class:`benchmarks.contenders.Contender`."""
        opened = self._sessions[session] = await self._memory.session(session)
        for start in range(0, len(messages), FILL):
            part = messages[start : start + FILL]
            await opened.append([{"role": role, "content": content} for role, content in part])

    async def count(self, session: str) -> int:
        """See :class:`benchmarks.contenders.Contender`."""
        return (await self._sessions[session].messages(1))[-1].seq

    async def durability(self) -> dict[str, str]:
        """See :class:`benchmarks.contenders.Contender`."""
        return self._durability


class OneStep(OwnBase):
    """Append and window in one step of the store."""

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""
        _, window = await self._sessions[session].append_and_window(_messages(question, answer), LIMITS)
        return [message.content for message in window.messages]


class TwoCalls(OwnBase):
    """Append, then window."""

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""
        opened = self._sessions[session]
        await opened.append(_messages(question, answer))
        window = await opened.window(LIMITS)
        return [message.content for message in window.messages]


def _messages(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


@asynccontextmanager
async def one_step(path: Path) -> AsyncIterator[OneStep]:
    """Wenmai in one step."""
    async with wenmai.open(f"sqlite:///{path}") as memory:
        yield OneStep(memory, _durability(path))


@asynccontextmanager
async def two_calls(path: Path) -> AsyncIterator[TwoCalls]:
    """Wenmai in two calls."""
    async with wenmai.open(f"sqlite:///{path}") as memory:
        yield TwoCalls(memory, _durability(path))


@asynccontextmanager
async def on_server(url: str) -> AsyncIterator[OneStep]:
    """Wenmai in one step, on the store of that URL."""
    async with wenmai.open(url) as memory:
        yield OneStep(memory, {})


def _durability(path: Path) -> dict[str, str]:
    """Of a connection made as the store makes its own."""
    connection = connect(path)
    synchronous = connection.pragma("synchronous")
    mode = connection.pragma("journal_mode")
    connection.close()
    return {"journal_mode": mode, "synchronous": SYNCHRONOUS[synchronous]}
