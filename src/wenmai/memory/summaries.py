"""Rolling summaries: per thread, one of everything before the window, as a derived function.

The record alone says how far a summary has come: it is extended batch by batch, each by compare-and-set, so a crash
loses at most one batch and a slower process never overwrites a newer summary. A summary of messages that are no longer
there begins again.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Literal, Protocol

import msgspec

from wenmai.errors import VersionConflict
from wenmai.memory.derived import Progress, ThreadChange
from wenmai.memory.derived_preferences import INCOGNITO
from wenmai.memory.extractive_summary import extract
from wenmai.memory.transcript import Transcript
from wenmai.memory.window import (
    MAX_UNSUMMARISED,
    MAX_UNSUMMARISED_TOKENS,
    Window,
    WindowLimits,
    beginning_after,
)
from wenmai.resilience.offload import run_by_size
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.records import ConversationSummary, Message
from wenmai.stores.structs import Stored
from wenmai.text.tokens import TokenCounter

MIN_MESSAGES = 10
"""Messages of a thread from which on it has a summary."""

SUMMARY_TOKENS = 450
"""Limit of a summary."""

READ_PAGE = 500
_LARGE = 2_000
"""From so many characters on, a batch is summarised in a worker thread."""


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The rolling summary of a thread; never a source of facts.

    Attributes:
        text: one point per line.
        version: 1, 2, 3 … with each update.
        covered_message_count: it covers the messages up to this ``seq``.
        covered_through: the last turn that it covers.
        created_at: when this version was made.
        written_by: what wrote it.
        degraded: a model should have written it and failed.
    """

    text: str
    version: int
    covered_message_count: int
    covered_through: int
    created_at: datetime
    written_by: Literal["rules", "model"] = "rules"
    degraded: bool = False


class Written(msgspec.Struct, frozen=True):
    """Lines of a summary, and what wrote them."""

    lines: list[str]
    by: Literal["rules", "model"] = "rules"
    degraded: bool = False


def beside_summary(
    summary: ThreadSummary | None, window: Window, count_tokens: TokenCounter
) -> tuple[ThreadSummary | None, Window]:
    """The summary and the messages to show with it: those after it, so that nothing is missing or shown twice.

    There is none if it is empty, or of messages that were removed meanwhile.
    """
    if summary is None or not summary.text:
        return None, window
    if window.messages and window.messages[-1].seq <= summary.covered_message_count:
        return None, window
    return summary, beginning_after(window, summary.covered_message_count, count_tokens)


class SummaryWriter(Protocol):
    """Merges a summary and the messages that follow it.

    Attributes:
        name: of the model, or ``rules``.
        batch_tokens: of the messages that it is given at once, at least one message.
    """

    name: str
    batch_tokens: int

    async def write(
        self, scope: Scope, thread: ThreadKey, previous: Sequence[str], messages: Sequence[Message]
    ) -> Written:
        """The lines of the summary of both, in at most :data:`SUMMARY_TOKENS`.

        Args:
            scope: the owner of the thread.
            thread: of the messages.
            previous: lines of the summary so far.
            messages: all that follow, ascending, of which every part is read.
        """
        ...


class ExtractiveWriter:
    """Writes summaries without a model; see :mod:`wenmai.memory.extractive_summary`."""

    name = "rules"
    batch_tokens = 50_000

    def __init__(self, count_tokens: TokenCounter) -> None:
        self._count_tokens = count_tokens

    async def write(
        self,
        scope: Scope,  # noqa: ARG002 — of the protocol
        thread: ThreadKey,  # noqa: ARG002
        previous: Sequence[str],
        messages: Sequence[Message],
    ) -> Written:
        """The most salient statements of both."""
        size = sum(len(message.content) for message in messages)
        lines = await run_by_size(size, _LARGE, extract, previous, messages, SUMMARY_TOKENS, self._count_tokens)
        return Written(lines)


class Summaries:
    """Reads the summaries of threads, and keeps them up to date as a derived function.

    Args:
        window: limits of the window, which begins where a summary ends.

    Attributes:
        writer: the extractive one, until it is replaced by one with a model.
    """

    name = "summaries"
    concurrency = 4
    of_session = False
    newest = 1

    def __init__(
        self,
        documents: Documents,
        logs: Logs,
        transcript: Transcript,
        *,
        window: WindowLimits,
        count_tokens: TokenCounter,
    ) -> None:
        self.writer: SummaryWriter = ExtractiveWriter(count_tokens)
        self._documents = documents
        self._logs = logs
        self._transcript = transcript
        self._window = window

    async def get(self, scope: Scope, thread: ThreadKey) -> ThreadSummary | None:
        """The thread's summary; None while it is too short for one."""
        stored = await self._stored(scope, thread)
        if stored is None:
            return None
        record = stored.record
        return ThreadSummary(
            text=record.summary,
            version=record.summary_version,
            covered_message_count=record.covered_message_count,
            covered_through=record.covered_through,
            created_at=stored.updated_at,
            written_by=record.written_by,
            degraded=record.degraded,
        )

    async def discard(self, scope: Scope, thread: ThreadKey) -> None:
        """Delete the summary of a thread that lost messages; a run in progress does not keep its own."""
        await self._documents.delete(scope, ConversationSummary, _ref(thread))

    async def progress(self, change: ThreadChange) -> Progress:
        """Behind if enough messages have left the window since the last update, or messages were removed."""
        if change.last < MIN_MESSAGES:
            return Progress.CURRENT
        stored = await self._stored(change.scope, change.thread)
        covered = stored.record.covered_message_count if stored else 0
        if covered > change.last:
            return Progress.BEHIND
        allowed = MAX_UNSUMMARISED if stored else 0
        window = await self._transcript.window(change.scope, change.thread, self._window)
        waiting = sum(message.tokens for message in window.before if message.seq > covered)
        behind = _end(window, change) - covered > allowed or waiting > MAX_UNSUMMARISED_TOKENS
        return Progress.BEHIND if behind else Progress.CURRENT

    async def derive(self, change: ThreadChange) -> Progress:
        """Extend the summary up to the window, batch by batch."""
        scope, thread = change.scope, change.thread
        stored = await self._current(scope, thread)
        end = _end(await self._transcript.window(scope, thread, self._window), change)
        while (covered := stored.record.covered_message_count if stored else 0) < end:
            messages = await self._batch(scope, thread, covered, end)
            if not messages:
                break
            stored = await self._extend(scope, thread, stored, messages)
        if stored is not None and await self._current(scope, thread) is None:
            # The messages were removed during the run; what is left is summarised by the next one.
            raise VersionConflict(ConversationSummary.spec.collection, stored.record.ref, expected=stored.version)
        return Progress.CURRENT

    async def _stored(self, scope: Scope, thread: ThreadKey) -> Stored[ConversationSummary] | None:
        return await self._documents.get(scope, ConversationSummary, _ref(thread))

    async def _current(self, scope: Scope, thread: ThreadKey) -> Stored[ConversationSummary] | None:
        """The stored summary; one of messages that were removed is deleted."""
        stored = await self._stored(scope, thread)
        if stored is None:
            return None
        record = stored.record
        last = await self._logs.read(scope, thread, start=record.covered_message_count, limit=1)
        if last and last[0].id == record.covered_id:
            return stored
        await self._documents.delete(scope, ConversationSummary, record.ref, expected=stored.version)
        return None

    async def _batch(self, scope: Scope, thread: ThreadKey, covered: int, end: int) -> list[Message]:
        """The next whole turns, as many as the writer takes at once; a turn longer than a page comes in parts."""
        page = await self._logs.read(scope, thread, start=covered + 1, limit=min(READ_PAGE, end - covered))
        turns = [list(turn) for _, turn in groupby(page, key=attrgetter("turn_id"))]
        if len(turns) > 1 and page[-1].seq < end:
            del turns[-1]  # its rest may not have been read
        batch: list[Message] = []
        tokens = 0
        for turn in turns:
            tokens += sum(message.tokens for message in turn)
            if batch and tokens > self.writer.batch_tokens:
                break
            batch += turn
        return batch

    async def _extend(
        self, scope: Scope, thread: ThreadKey, stored: Stored[ConversationSummary] | None, messages: list[Message]
    ) -> Stored[ConversationSummary]:
        before = stored.record if stored else None
        previous = before.summary.splitlines() if before else []
        allowed = _may_be_summarised(messages)
        written = Written(previous, before.written_by, before.degraded) if before else Written([])
        if allowed:
            written = await self.writer.write(scope, thread, previous, allowed)
        session_id, persona_id, incarnation = thread
        record = ConversationSummary(
            ref=_ref(thread),
            session_id=session_id,
            incarnation=incarnation or "",
            persona_id=persona_id,
            summary="\n".join(written.lines),
            summary_version=before.summary_version + 1 if before else 1,
            covered_message_count=messages[-1].seq,
            covered_through=messages[-1].turn_id,
            covered_id=messages[-1].id,
            written_by=written.by,
            degraded=written.degraded,
        )
        return await self._documents.put(scope, record, expected=stored.version if stored else 0)


def _end(window: Window, change: ThreadChange) -> int:
    """The ``seq`` of the last message before the window."""
    return window.messages[0].seq - 1 if window.messages else change.last


def _may_be_summarised(messages: Sequence[Message]) -> list[Message]:
    """The messages of completed turns that are not incognito."""
    left_out = {message.turn_id for message in messages if not message.completed or message.metadata.get(INCOGNITO)}
    return [message for message in messages if message.turn_id not in left_out]


def _ref(thread: ThreadKey) -> str:
    return f"{thread.incarnation}/{thread.persona_id}"
