"""LangGraph's ``AsyncSqliteSaver``: a checkpoint per turn that holds the whole list of messages."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.contenders import WINDOW, RoleAndContent, library
from benchmarks.contenders.floor import SYNCHRONOUS


class Checkpoints:
    """A turn loads the thread's state, makes it longer, puts it, and takes the window from what it put."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self._empty = library("langgraph.checkpoint.base").empty_checkpoint
        messages = library("langchain_core.messages")
        self._message = {"user": messages.HumanMessage, "assistant": messages.AIMessage}

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """See :class:`benchmarks.contenders.Contender`."""
        await self._put(session, [], messages)

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""
        known = await self._known(session)
        state = await self._put(session, known, [("user", question), ("assistant", answer)])
        return [message.content for message in state[-WINDOW:]]

    async def count(self, session: str) -> int:
        """See :class:`benchmarks.contenders.Contender`."""
        return len(await self._known(session))

    async def durability(self) -> dict[str, str]:
        """See :class:`benchmarks.contenders.Contender`."""
        await self._saver.setup()
        mode = await (await self._saver.conn.execute("PRAGMA journal_mode")).fetchone()
        synchronous = await (await self._saver.conn.execute("PRAGMA synchronous")).fetchone()
        return {"journal_mode": mode[0], "synchronous": SYNCHRONOUS[synchronous[0]]}

    async def _known(self, session: str) -> list[Any]:
        found = await self._saver.aget_tuple({"configurable": {"thread_id": session, "checkpoint_ns": ""}})
        state: list[Any] = found.checkpoint["channel_values"]["messages"]
        return state

    async def _put(self, session: str, known: list[Any], fresh: Sequence[RoleAndContent]) -> list[Any]:
        first = len(known)
        added = [self._message[role](content, id=str(first + at)) for at, (role, content) in enumerate(fresh)]
        state = [*known, *added]
        checkpoint = self._empty()
        checkpoint["channel_values"] = {"messages": state}
        config = {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        await self._saver.aput(config, checkpoint, {"source": "loop", "step": first, "parents": {}}, {})
        return state


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Checkpoints]:
    """The checkpoints of one file."""
    savers = library("langgraph.checkpoint.sqlite.aio")
    async with savers.AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        yield Checkpoints(saver)
