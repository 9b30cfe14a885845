"""Asks the questions of recall sets: an ordinary import, each set on a site of its own, then recall."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from wenmai.evaluation.recall_sets import RecallQuestion, RecallSet
from wenmai.interchange import Report, import_files
from wenmai.memory.library import Memory
from wenmai.memory.recalled_items import MAX_TOP
from wenmai.scope import Scope

_POLL_SECONDS = 0.2

OnIndexed = Callable[[int, int], None]
"""Called with the number of messages whose index is complete, and of all."""


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that was asked.

    Attributes:
        found: the ids of the messages of each item, in rank order.
        tokens: of each item.
        ms, cpu_ms: of a recall of ten items.
    """

    set_name: str
    question: RecallQuestion
    found: list[list[str]]
    tokens: list[int]
    ms: float
    cpu_ms: float


async def import_sets(
    memory: Memory, sets: Sequence[RecallSet], on_indexed: OnIndexed | None = None
) -> dict[str, Report]:
    """Import the conversations, each as those of a site named like the set, and wait until they are indexed.

    Returns the report of each set's import by its name.

    Raises:
        InvalidInput: a file cannot be read.
        StoreError: the store failed.
    """
    reports = {}
    with TemporaryDirectory() as folder:
        for number, each in enumerate(sets):
            file = each.file or Path(folder) / f"{number}.jsonl"
            if each.file is None:
                file.write_bytes(b"\n".join(map(msgspec.json.encode, each.lines)))
            reports[each.name] = await import_files(memory, scope_of(each), [file])
    indexing = asyncio.create_task(memory.derived.catch_up())
    while not indexing.done():
        await asyncio.wait([indexing], timeout=_POLL_SECONDS)
        sizes = [await memory.recalls.size(scope_of(each)) for each in sets]
        if on_indexed is not None:
            on_indexed(sum(size.vectors for size in sizes), sum(size.entries for size in sizes))
    await indexing
    return reports


async def ask_questions(
    memory: Memory, each: RecallSet, on_question: Callable[[], None] | None = None
) -> list[AskedQuestion]:
    """Ask the questions of an imported set, one after another.

    Raises:
        StoreError: the store failed.
    """
    asked = []
    for question in each.questions:
        began, cpu = time.perf_counter(), time.process_time()
        await memory.recall(question.question, scope=scope_of(each), unit=each.unit)
        ms, cpu_ms = (time.perf_counter() - began) * 1000, (time.process_time() - cpu) * 1000
        items = await memory.recall(question.question, scope=scope_of(each), unit=each.unit, top_k=MAX_TOP)
        asked.append(
            AskedQuestion(
                set_name=each.name,
                question=question,
                found=[item.message_ids for item in items],
                tokens=[item.tokens for item in items],
                ms=ms,
                cpu_ms=cpu_ms,
            )
        )
        if on_question is not None:
            on_question()
    return asked


def scope_of(each: RecallSet) -> Scope:
    """The owner of a set's conversations."""
    return Scope("eval", each.name, "recall")
