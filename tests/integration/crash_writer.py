"""Writes to a store without end and reports every acknowledgement on standard output, until it is killed.

::

    python crash_writer.py STORE_FILE PROCESS_NAME SESSION…

Four writers write to any of the sessions. Half of their work is a batch of two or three messages, half is a
turn as a chat service writes it: the question with an unfinished answer, and a moment later the answer. Every
content says of itself ``batch|index|size``: a batch that is not whole can be told without an acknowledgement.
"""

import asyncio
import os
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Literal

import msgspec

from wenmai.memory.manager import Memory, SessionMemory, required
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Logs
from wenmai.stores.records import Message
from wenmai.stores.registry import open_store

WRITERS = 4
LONGEST_PAUSE_SECONDS = 0.002


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """What the store has confirmed, one line of output.

    Attributes:
        kind: ``opening`` before the store is opened; ``append``; ``settle`` for an answer that was filled in.
    """

    kind: Literal["opening", "append", "settle"]
    session: str = ""
    ids: list[str] = []
    seqs: list[int] = []
    turns: list[int] = []
    contents: list[str] = []


def batch_contents(batch: str, size: int) -> list[str]:
    """The contents of a batch's messages."""
    return [f"{batch}|{index}|{size}" for index in range(size)]


def settled(content: str) -> str:
    """The content of an unfinished message after it was filled in."""
    return f"settled {content}"


def acknowledge(what: Acknowledged) -> None:
    """Write a line at once, unbuffered; it is shorter than what a pipe takes in one piece."""
    os.write(sys.stdout.fileno(), msgspec.json.encode(what) + b"\n")


def _acknowledge_messages(kind: Literal["append", "settle"], session: str, stored: Sequence[Message]) -> None:
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


async def _write_batch(session: SessionMemory, batch: str, size: int) -> None:
    roles = ("user", "assistant", "assistant")
    stored = await session.append(
        [
            {"role": role, "content": content, "id": f"{batch}-{index}"}
            for index, (role, content) in enumerate(zip(roles, batch_contents(batch, size), strict=False))
        ]
    )
    _acknowledge_messages("append", session.session_id, stored)


async def _write_turn(logs: Logs, session: SessionMemory, batch: str, thinking: float) -> None:
    question, answer = batch_contents(batch, 2)
    stored = await session.append(
        [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer, "completed": False},
        ]
    )
    _acknowledge_messages("append", session.session_id, stored)
    await asyncio.sleep(thinking)
    thread = ThreadKey(session.session_id, "assistant")
    filled = await logs.settle(Scope(), thread, stored[1].seq, content=settled(answer))
    assert filled is not None
    _acknowledge_messages("settle", session.session_id, [filled])


async def _write_for_ever(logs: Logs, sessions: Sequence[SessionMemory], name: str, batches: Iterator[int]) -> None:
    chance = random.Random()  # noqa: S311 — which moment is hit should differ from run to run
    for number in batches:
        session, batch = chance.choice(sessions), f"{name}.{number}"
        if chance.random() < 0.5:
            await _write_batch(session, batch, chance.choice((2, 3)))
        else:
            await _write_turn(logs, session, batch, chance.random() * LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(chance.random() * LONGEST_PAUSE_SECONDS)


async def main(path: Path, name: str, session_ids: Sequence[str]) -> None:
    """Write until the process is killed."""
    acknowledge(Acknowledged(kind="opening"))
    url = f"sqlite:///{path}"
    async with open_store(url) as store, asyncio.TaskGroup() as writers:
        documents, logs = required(store, url)
        memory = Memory(documents, logs)
        sessions = [await memory.session(session_id) for session_id in session_ids]
        for writer in range(WRITERS):
            writers.create_task(_write_for_ever(logs, sessions, f"{name}.{writer}", count()))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
