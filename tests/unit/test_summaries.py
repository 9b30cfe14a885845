"""Rolling summaries: what they cover, when they are made, and by which process."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from wenmai.clock import MovableClock
from wenmai.errors import VersionConflict
from wenmai.memory import summaries
from wenmai.memory.derived import ThreadChange
from wenmai.memory.derived_preferences import INCOGNITO
from wenmai.memory.library import Memory, MemoryPolicy, open_memory, required
from wenmai.memory.session_memory import SessionMemory
from wenmai.memory.summaries import SUMMARY_TOKENS, Written
from wenmai.memory.watermarks import ThreadRef
from wenmai.memory.window import WindowLimits
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.opening import open_store
from wenmai.stores.records import ConversationSummary, Message
from wenmai.text.tokens import estimate_tokens


@pytest.fixture(params=["memory", "sqlite"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Memory]:
    """A memory in the process, and one in a file."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/wenmai.db"
    async with open_memory(url) as opened:
        yield opened


def turn(number: int, **question: Any) -> list[dict[str, Any]]:
    """A question and its answer, each with a word of its own."""
    return [
        {"role": "user", "content": f"question{number} about the garden", **question},
        {"role": "assistant", "content": f"answer{number} about the garden"},
    ]


async def say(session: SessionMemory, first: int, last: int) -> None:
    """Append turns."""
    for number in range(first, last + 1):
        await session.append(turn(number))


class Recorder:
    """A writer that keeps every message by its number, so that a test sees what was read."""

    name = "recorder"
    batch_tokens = 10_000

    def __init__(self) -> None:
        self.read: list[int] = []
        self.batches: list[int] = []

    async def write(
        self,
        scope: Scope,  # noqa: ARG002 — of the protocol
        thread: ThreadKey,  # noqa: ARG002
        previous: Sequence[str],
        messages: Sequence[Message],
    ) -> Written:
        """One line per message."""
        self.read += [message.seq for message in messages]
        self.batches.append(len(messages))
        return Written([*previous, *(message.content for message in messages)])


async def test_summary_and_history_are_the_whole_conversation(memory: Memory) -> None:
    """At every length, whenever it was summarised: nothing is missing between the two, nothing is in both."""
    memory.summaries.writer = Recorder()
    session = await memory.session()
    summary = None
    for number in range(1, 31):
        await session.append(turn(number))
        if number % 3 == 0:
            await memory.derived.catch_up(10)
        context = await session.context("next")
        summary = await session.summary()
        covered = summary.text.splitlines() if summary else []
        shown = [message["content"] for message in context.messages[:-1]]
        everything = [message["content"] for each in range(1, number + 1) for message in turn(each)]
        assert covered + shown == everything if summary else shown == everything[-10:]
        assert len(shown) <= 10 + 4
    assert summary is not None
    assert summary.covered_message_count == 2 * summary.covered_through == 50


@pytest.mark.parametrize(
    ("window", "made"),
    [
        (4, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6]),
        (10, [0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3]),
    ],
)
async def test_a_thread_has_a_summary_once_messages_have_left_its_window(window: int, made: list[int]) -> None:
    """From 10 messages on, then one version per 5 or more that have left; however long the conversation grows."""
    async with open_memory("memory://", policy=MemoryPolicy(window=WindowLimits(messages=window))) as memory:
        session = await memory.session()
        versions = []
        for number in range(1, len(made) + 1):
            await session.append(turn(number))
            await memory.derived.catch_up(10)
            summary = await session.summary()
            versions.append(summary.version if summary else 0)
    assert versions == made


async def test_long_messages_that_left_the_window_are_summarised_at_once() -> None:
    """Else they would be in neither, because the prompt has no room for them beside the window."""
    async with open_memory("memory://") as memory:
        session = await memory.session()
        await say(session, 1, 6)
        await memory.derived.catch_up(10)
        long = "My code is zebra-99. " + "word " * 3000
        for question in (long, "question7"):
            await session.append([{"role": "user", "content": question}, {"role": "assistant", "content": "ok"}])
            await memory.derived.catch_up(10)
        context, summary = await session.context("next"), await session.summary()
    assert summary is not None
    assert "zebra-99" in summary.text
    assert summary.covered_message_count == 14
    assert context.tokens < 1_500


async def test_the_cursor_only_passes_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread far longer than a page and a batch is read whole, in order, once."""
    monkeypatch.setattr(summaries, "READ_PAGE", 7)
    async with open_memory("memory://") as memory:
        memory.summaries.writer = recorder = Recorder()
        recorder.batch_tokens = 40
        session = await memory.session()
        await say(session, 1, 40)
        await memory.derived.catch_up(10)
        summary = await session.summary()
    assert recorder.read == list(range(1, 71))
    assert len(recorder.batches) > 10
    assert summary is not None
    assert (summary.covered_message_count, summary.version) == (70, len(recorder.batches))


async def test_incognito_and_abandoned_turns_are_not_summarised(memory: Memory) -> None:
    """The cursor passes them, so that later turns are; a batch never separates a question from its answer."""
    memory.summaries.writer = recorder = Recorder()
    recorder.batch_tokens = 1
    session = await memory.session()
    await session.append(turn(1, metadata={INCOGNITO: True}))
    await session.append(
        [{"role": "user", "content": "lost"}, {"role": "assistant", "content": "", "completed": False}]
    )
    await say(session, 3, 12)
    await memory.derived.catch_up(10)
    summary = await session.summary()
    assert summary is not None
    assert recorder.read == list(range(5, 15))
    assert summary.covered_message_count == 14


async def test_a_truncated_thread_is_summarised_from_its_start(memory: Memory) -> None:
    """The old summary is gone at once; the new one has none of the removed messages, and all of the new ones."""
    session = await memory.session()
    await say(session, 1, 20)
    await memory.derived.catch_up(10)
    await session.truncate(8)
    assert await session.summary() is None
    await say(session, 101, 120)
    await memory.derived.catch_up(10)
    summary = await session.summary()
    assert summary is not None
    assert "question4 " in summary.text
    assert "question5 " not in summary.text
    assert "question101 " in summary.text


async def test_a_cut_that_a_crash_hid_is_noticed(memory: Memory) -> None:
    """If the process died after it removed messages, a summary of others that took their numbers begins again."""
    session = await memory.session()
    await say(session, 1, 20)
    await memory.derived.catch_up(10)
    await memory.summaries._logs.truncate(Scope(), session._thread, 8)
    await say(session, 101, 125)
    await memory.derived.catch_up(10)
    summary = await session.summary()
    assert summary is not None
    assert "question5 " not in summary.text
    assert "question101 " in summary.text


async def test_a_cleared_thread_and_a_deleted_session_have_no_summary(memory: Memory) -> None:
    """The record is gone, and nothing that runs later brings it back."""
    for remove in (SessionMemory.clear, SessionMemory.delete):
        session = await memory.session("s")
        await say(session, 1, 10)
        await memory.derived.catch_up(10)
        assert await session.summary() is not None
        await remove(session)
        assert await session.summary() is None
        await memory.derived.sweep()
        await memory.derived.catch_up(10)
        assert await session.summary() is None


class Held(Recorder):
    """A writer that waits."""

    def __init__(self) -> None:
        super().__init__()
        self.began = asyncio.Event()
        self.go = asyncio.Event()

    async def write(
        self, scope: Scope, thread: ThreadKey, previous: Sequence[str], messages: Sequence[Message]
    ) -> Written:
        """Say that it has begun, then wait."""
        self.began.set()
        await self.go.wait()
        return await super().write(scope, thread, previous, messages)


@pytest.mark.parametrize("remove", [SessionMemory.clear, SessionMemory.delete, lambda session: session.truncate(0)])
async def test_what_is_removed_during_a_run_stays_removed(remove: Any) -> None:
    """A summary that was being written when its messages were removed is not kept."""
    async with open_memory("memory://") as memory:
        memory.summaries.writer = held = Held()
        session = await memory.session("s")
        await say(session, 1, 10)
        memory.derived.schedule_soon(Scope(), session._thread)
        await held.began.wait()
        await remove(session)
        held.go.set()
        await memory.derived.catch_up(10)
        assert (await memory.summaries._documents.list(Scope(), ConversationSummary)).items == []


async def test_a_slower_process_does_not_overwrite_a_newer_summary() -> None:
    """It lost its lease while it wrote; the thread converges on the newer one."""
    clock = MovableClock()
    async with open_store("memory://", clock=clock) as store:
        documents, logs = required(store, "memory://")
        slow, fast = (Memory(documents, logs, clock=clock) for _ in range(2))
        slow.summaries.writer = held = Held()
        session = await fast.session("s")
        await say(session, 1, 10)
        change = ThreadChange(Scope(), session._thread, 0, 20)
        writing = asyncio.create_task(slow.summaries.derive(change))
        await held.began.wait()
        await say(session, 11, 20)
        await fast.summaries.derive(ThreadChange(Scope(), session._thread, 0, 40))
        held.go.set()
        with pytest.raises(VersionConflict):
            await writing
        summary = await session.summary()
    assert summary is not None
    assert (summary.covered_message_count, summary.version) == (30, 1)


async def test_a_lost_watermark_costs_nothing(memory: Memory) -> None:
    """The record says how far it is, so a crash before the watermark is stored repeats no work."""
    memory.summaries.writer = recorder = Recorder()
    session = await memory.session()
    await say(session, 1, 10)
    await memory.derived.catch_up(10)
    before, read = await session.summary(), [*recorder.read]
    await memory.derived.watermarks.reset(ThreadRef(Scope(), session._thread), ["summaries"])
    assert await memory.derived.sweep() == 1
    await memory.derived.catch_up(10)
    assert (await session.summary(), recorder.read) == (before, read)


async def test_what_was_said_first_is_known_after_a_thousand_turns() -> None:
    """The summary stays within its limit, and keeps names, numbers, dates and wishes of the first turns."""
    async with open_memory("memory://") as memory:
        session = await memory.session()
        facts = ["我叫沈知远，住在梧桐巷18号。", "我对花生过敏，千万别放。", "我们决定6月3日出发去大理。"]
        for fact in facts:
            await session.append(
                [{"role": "user", "content": fact}, {"role": "assistant", "content": "好的，我知道了。"}]
            )
        for number in range(100):
            messages = [message for each in range(10) for message in turn(number * 10 + each)]
            await session.append(messages)
        await memory.derived.catch_up(10)
        summary = await session.summary()
    assert summary is not None
    assert summary.covered_message_count == 2 * 1003 - 10
    assert estimate_tokens(summary.text) <= SUMMARY_TOKENS
    assert all(fact in summary.text for fact in facts)
