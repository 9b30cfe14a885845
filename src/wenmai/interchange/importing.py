"""Writes imported items in batches, in order, without duplicates.

A message whose id exists in its thread changes nothing, and messages without an id get a deterministic one; so an
interrupted import is resumed by running it again.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from wenmai.errors import Conflict, InvalidInput, SessionNotFound
from wenmai.interchange.items import BadLine, BadValueError, MessageItem, Note, RecordItem, SessionItem, StateItem
from wenmai.interchange.reading import FORMATS, read_items
from wenmai.memory.first_question import FirstQuestion, first_question_of, rule_title
from wenmai.memory.history import ASSISTANT
from wenmai.memory.ids import checked_id
from wenmai.memory.library import Memory
from wenmai.scope import Scope
from wenmai.stores.records import BusinessState, Preferences, Session

BATCH = 500
"""Messages per append."""

BUFFER, BUFFER_CHARACTERS = 4_000, 4_000_000
"""Items and characters buffered before a write: enough for whole batches if sessions are interleaved."""

MAX_REPORTED_BAD_LINES = 1_000
_KNOWN_SESSIONS = 10_000

Entry = SessionItem | StateItem | RecordItem | MessageItem

_INDEX = re.compile(r"messages\[(\d+)\]\.?")


class Report(msgspec.Struct):
    """Progress and result of an import.

    Attributes:
        sessions: usable sessions in the input.
        created: how many of them are new.
        messages: messages appended.
        repeated: messages that existed already.
        skipped: the first 1 000 unusable items.
        skipped_count: all unusable items.
        notes: further remarks.
    """

    sessions: int = 0
    created: int = 0
    messages: int = 0
    repeated: int = 0
    skipped: list[BadLine] = []
    skipped_count: int = 0
    notes: list[str] = []

    def skip(self, bad: BadLine) -> None:
        """Count an unusable item, and list it unless the list is full."""
        self.skipped_count += 1
        if len(self.skipped) < MAX_REPORTED_BAD_LINES:
            self.skipped.append(bad)


OnProgress = Callable[[int, Report], None]
"""Called with the number of bytes read from all files, and the report so far."""


async def import_files(
    memory: Memory,
    scope: Scope,
    paths: Sequence[Path],
    *,
    format_name: str | None = None,
    persona_id: str = ASSISTANT,
    on_progress: OnProgress | None = None,
) -> Report:
    """Import conversations into sessions of the scope.

    Existing sessions keep their record, expired ones remain expired, and expiry times are not extended.

    Args:
        memory: the target.
        scope: the owner of the sessions.
        paths: files in any of :data:`~wenmai.interchange.reading.FORMATS`.
        format_name: of all files; None detects it from their content.
        persona_id: the persona of messages without one.
        on_progress: see :data:`OnProgress`.

    Raises:
        InvalidInput: a file cannot be opened, or an argument is not allowed.
        Conflict: the user is erased meanwhile.
        SessionNotFound: a session is deleted meanwhile.
        StoreError: the store failed; what is written so far is kept, and another import resumes.
    """
    check_choices(format_name, persona_id)
    report = Report()
    writer = _Writer(memory, scope, report)
    done = 0
    for path in paths:
        writer.file = path.name
        position = 0
        for item, position in read_items(path, persona_id=persona_id, format_name=format_name):
            if isinstance(item, BadLine):
                report.skip(item)
            elif isinstance(item, Note):
                report.notes.append(item.text)
            else:
                await writer.add(item)
            if on_progress is not None:
                on_progress(done + position, report)
        await writer.flush()
        done += position
    return report


def check_choices(format_name: str | None, persona_id: str) -> None:
    """Validate the options of an import before a store is opened.

    Raises:
        InvalidInput: the format is unknown, or the persona id is invalid.
    """
    checked_id("persona_id", persona_id)
    if format_name is not None and format_name not in FORMATS:
        raise InvalidInput("format", format_name, f"one of {', '.join(FORMATS)}")


class _Writer:
    """Buffers items and writes them in batches.

    Attributes:
        file: name of the current file.
    """

    def __init__(self, memory: Memory, scope: Scope, report: Report) -> None:
        self.file = ""
        self._memory = memory
        self._scope = scope
        self._report = report
        self._began_at = memory.clock()
        self._buffer: list[Entry] = []
        self._characters = 0
        self._known: dict[str, str] = {}
        """Session id → why it cannot be used; empty if it can."""
        self._first_questions: dict[str, FirstQuestion] = {}
        """Of the known sessions whose first question is not in the file's record."""

    async def add(self, item: Entry) -> None:
        if isinstance(item, SessionItem) and len(self._buffer) > BUFFER // 2:
            await self.flush()  # so that a session is written together with its first question
        self._buffer.append(item)
        if isinstance(item, MessageItem):
            self._characters += len(item.message.content)
        if len(self._buffer) >= BUFFER or self._characters >= BUFFER_CHARACTERS:
            await self.flush()

    async def flush(self) -> None:
        collected, self._buffer, self._characters = self._buffer, [], 0
        sessions: dict[str, list[Entry]] = {}
        for item in collected:
            session_id = item.thread.session_id if isinstance(item, MessageItem) else item.session_id
            sessions.setdefault(session_id, []).append(item)
        for session_id, items in sessions.items():
            await self._prepare(session_id, items)
        # Concurrently, so that the store can group commits; within a session, one thread after the other.
        await asyncio.gather(*(self._write(session_id, items) for session_id, items in sessions.items()))

    async def _prepare(self, session_id: str, items: Sequence[Entry]) -> None:
        if session_id in self._known:
            return
        if len(self._known) >= _KNOWN_SESSIONS:
            self._known.clear()
            self._first_questions.clear()
        try:
            created = await self._open(session_id, items)
        except BadValueError as problem:
            self._known[session_id] = str(problem)
            return
        self._known[session_id] = ""
        self._report.sessions += 1
        self._report.created += created

    async def _open(self, session_id: str, items: Sequence[Entry]) -> bool:
        """Create the session unless it exists; True if it is new."""
        sessions = self._memory.sessions
        try:
            stored = await sessions.get(self._scope, session_id)
            self._first_questions[session_id] = FirstQuestion(sessions, self._scope, stored.record)
        except SessionNotFound:
            fields = _record_fields(items, final=sessions.rule_titles_final)
            opened = await sessions.insert(self._scope, session_id, **fields)
            if opened is None:
                reason = f"session_id: {session_id!r} is not available to user {self._scope.user_id}"
                raise BadValueError(reason) from None
            if opened.created:
                await self._refuse_erased(opened.stored.record)
            if "first_question" not in fields:
                self._first_questions[session_id] = FirstQuestion(sessions, self._scope, opened.stored.record)
            return opened.created
        return False

    async def _refuse_erased(self, session: Session) -> None:
        """Refuse to go on if the user is erased; either the erasure sees the new session, or this sees the erasure."""
        if await self._memory.erasures.was_erased(self._scope, self._began_at):
            await self._memory.sessions.delete(self._scope, session.session_id, incarnation=session.incarnation)
            raise Conflict(f"user {self._scope.user_id} was erased; the import ends")

    async def _write(self, session_id: str, items: Sequence[Entry]) -> None:
        if reason := self._known[session_id]:
            for item in items:
                self._skip(item.line, reason)
            return
        # Before the messages, from which preferences would be inferred otherwise.
        for item in items:
            if isinstance(item, StateItem | RecordItem):
                await self._restore(item)
        threads: dict[str, list[MessageItem]] = {}
        for item in items:
            if isinstance(item, MessageItem):
                threads.setdefault(item.thread.persona_id, []).append(item)
        for messages in threads.values():
            for start in range(0, len(messages), BATCH):
                await self._append(messages[start : start + BATCH])

    async def _restore(self, item: StateItem | RecordItem) -> None:
        """Store a record of the session, unless it has one."""
        session = (await self._memory.sessions.get(self._scope, item.session_id)).record
        given = item.state if isinstance(item, StateItem) else item.record
        record = msgspec.structs.replace(given, incarnation=session.incarnation)
        try:
            if isinstance(record, BusinessState):
                await self._memory.states.restore(self._scope, record)
            elif isinstance(record, Preferences):
                await self._memory.preferences.restore(self._scope, record)
            else:
                await self._memory.traces.restore(self._scope, record)
        except InvalidInput as problem:
            self._skip(item.line, str(problem))

    async def _append(self, items: list[MessageItem]) -> None:
        """Append the messages except those that the transcript rejects."""
        while items:
            messages = [item.message for item in items]
            try:
                appended, _ = await self._memory.transcript.append(self._scope, items[0].thread, messages, slide=False)
            except InvalidInput as problem:
                found = _INDEX.match(problem.field)
                if found is None:
                    raise
                rejected = items.pop(int(found[1]))
                self._skip(rejected.line, rejected.where + str(problem).removeprefix(found[0]))
                continue
            if first := self._first_questions.get(items[0].thread.session_id):
                await first.record(appended.messages)
            self._report.messages += len(items) - appended.repeated
            self._report.repeated += appended.repeated
            return

    def _skip(self, line: int, reason: str) -> None:
        self._report.skip(BadLine(self.file, line, reason))


def _record_fields(items: Sequence[Entry], *, final: bool) -> dict[str, Any]:
    """Fields of the new session's record: from the file, else first question and title from its messages."""
    fields: dict[str, Any] = {}
    if question := first_question_of([item.message for item in items if isinstance(item, MessageItem)]):
        fields |= {"first_question": question, **rule_title(question, final=final)}
    given = next((item.fields for item in items if isinstance(item, SessionItem)), {})
    return fields | given
