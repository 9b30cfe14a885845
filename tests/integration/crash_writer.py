"""Writes to a store and reports every acknowledgement on standard output, until it is killed.

::

    python crash_writer.py ORDER_AS_JSON

A batch is determined by the writer's name and the batch's number, so a process restarted with the name of a dead one
repeats the same writes with the same ids. Half of the batches have two or three messages, or four with a tool's; half
are turns as a chat service writes them: the question with an unfinished answer, then the answer. Every content is
``batch|index|size``, so a partial batch can be detected without an acknowledgement.
"""

import asyncio
import os
import random
import sys
from collections.abc import Sequence
from itertools import count
from typing import Any, Literal, NamedTuple

import msgspec
from store_places import Place, opened

from wenmai.memory.library import Memory
from wenmai.memory.session_memory import SessionMemory
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Logs
from wenmai.stores.records import Message

LONGEST_PAUSE_SECONDS = 0.002
HOT_SHARE = 0.2
"""The share of batches written to the first session."""

REPEATED_SHARE = 0.1
"""The share of batches sent twice, as by a client that got no response."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a writer process.

    Attributes:
        sessions: the first one is the hot one.
        begin: the number of the first batch, per writer.
    """

    place: Place
    name: str
    sessions: list[str]
    begin: list[int]


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """An acknowledgement of the store, one line of output.

    Attributes:
        kind: ``opening`` before the store is opened; ``append``; ``complete`` for a completed answer.
    """

    kind: Literal["opening", "append", "complete"]
    session: str = ""
    ids: list[str] = []
    seqs: list[int] = []
    turns: list[int] = []
    contents: list[str] = []


class Batch(NamedTuple):
    """Messages written at once; a turn is completed later."""

    name: str
    session: str
    size: int
    is_turn: bool
    times: int

    def messages(self) -> list[dict[str, Any]]:
        """The messages as dictionaries."""
        roles = ("user", "assistant", "tool", "assistant") if self.size == 4 else ("user", "assistant", "assistant")
        messages: list[dict[str, Any]] = [
            {"role": role, "content": content, "id": f"{self.name}-{index}"}
            for index, (role, content) in enumerate(zip(roles, batch_contents(self.name, self.size), strict=False))
        ]
        if self.size == 4:
            messages[1]["tool_calls"] = [{"id": self.name, "name": "lookup", "arguments": "{}"}]
            messages[2]["tool_call_id"] = self.name
        if self.is_turn:
            messages[1]["completed"] = False
        return messages


def batch_of(writer: str, number: int, sessions: Sequence[str]) -> Batch:
    """The writer's batch of this number, always the same."""
    chance = random.Random(f"{writer}.{number}")  # noqa: S311 — for variety, not for secrecy
    session = sessions[0] if chance.random() < HOT_SHARE else chance.choice(sessions)
    is_turn = chance.random() < 0.5
    size = 2 if is_turn else chance.choice((2, 3, 4))
    return Batch(f"{writer}.{number}", session, size, is_turn, 2 if chance.random() < REPEATED_SHARE else 1)


def batch_contents(batch: str, size: int) -> list[str]:
    """The contents of a batch's messages."""
    return [f"{batch}|{index}|{size}" for index in range(size)]


def completed(content: str) -> str:
    """The content of a completed message."""
    return f"completed {content}"


def acknowledge(what: Acknowledged) -> None:
    """Write a line, unbuffered; short enough for an atomic pipe write."""
    os.write(sys.stdout.fileno(), msgspec.json.encode(what) + b"\n")


def _acknowledge_messages(kind: Literal["append", "complete"], session: str, stored: Sequence[Message]) -> None:
    acknowledge(
        Acknowledged(
            kind=kind,
            session=session,
            ids=[message.id for message in stored],
            seqs=[message.seq for message in stored],
            turns=[message.turn_id for message in stored],
            contents=[message.content for message in stored],
        )
    )


async def _write(logs: Logs, session: SessionMemory, batch: Batch, thinking: float) -> None:
    stored: list[Message] = []
    for _ in range(batch.times):
        stored = await session.append(batch.messages())
        _acknowledge_messages("append", session.session_id, stored)
    if not batch.is_turn or stored[1].completed:
        return
    await asyncio.sleep(thinking)
    thread = ThreadKey(session.session_id, "assistant")
    answer = completed(batch_contents(batch.name, 2)[1])
    filled = await logs.complete(Scope(), thread, stored[1], content=answer)
    assert filled is not None
    _acknowledge_messages("complete", session.session_id, [filled])


async def _write_for_ever(memory: Memory, logs: Logs, order: Order, writer: int) -> None:
    chance = random.Random()  # noqa: S311 — timing should differ from run to run
    for number in count(order.begin[writer]):
        batch = batch_of(f"{order.name}.{writer}", number, order.sessions)
        session = await memory.session(batch.session)
        await _write(logs, session, batch, chance.random() * LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(chance.random() * LONGEST_PAUSE_SECONDS)


async def main(order: Order) -> None:
    """Write until the process is killed."""
    acknowledge(Acknowledged(kind="opening"))
    async with opened(order.place) as (memory, logs), asyncio.TaskGroup() as writers:
        for writer in range(len(order.begin)):
            writers.create_task(_write_for_ever(memory, logs, order, writer))


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Order)))
