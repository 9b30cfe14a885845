"""The history of a session: pages of one thread, or of all threads merged; summaries; appends to several threads.

Merging takes messages from the ends of the threads, the latest timestamp first, so that each thread keeps its own order
whatever timestamps its messages have. The cursor holds the position reached in each thread, so new messages never
shift older pages.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from wenmai.errors import InvalidInput
from wenmai.memory.first_question import FirstQuestion
from wenmai.memory.preferences import PreferenceBook, SessionPreferences
from wenmai.memory.sessions import Sessions
from wenmai.memory.transcript import MessageInput, Transcript
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Message, Session
from wenmai.stores.validation import check_range
from wenmai.stores.values import READ_LIMIT

ASSISTANT = "assistant"
"""The default persona."""

PERSONA_VARIABLE = "npc_id"
"""The session variable that names the persona of messages without one."""

_TURN_MESSAGES = 2
"""Messages of most turns: a question and an answer."""

_POSITION = re.compile(r"([A-Za-z0-9_.:-]{1,128}):([1-9][0-9]{0,15})")
_MAX_SEQ = 2**53 - 1
_ALLOWED = "the `next` of an earlier page"


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """Messages, oldest first; `next` is the `before` of the page of older messages, null if there are none."""

    messages: Annotated[list[Message], Meta(description="The messages of this page, oldest first.")]
    next: Annotated[str | None, Meta(description="The `before` of the page of older messages; null if there are none.")]


class SessionOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A session, or the thread of one persona.

    Attributes:
        persona_id: None for all threads.
        recent_messages: the newest, ascending.
        first_message_at: None without messages, like ``last_message_at``.
    """

    session_id: str
    persona_id: str | None = msgspec.field(name="npc_id")
    title: str
    message_count: int
    recent_messages: list[Message]
    first_message_at: datetime | None
    last_message_at: datetime | None
    preference: SessionPreferences


def default_persona(session: Session) -> str:
    """The persona of messages that name none."""
    persona: str = session.context.get(PERSONA_VARIABLE, ASSISTANT)
    return persona


class History:
    """Reads and appends over all threads of a session.

    All methods raise SessionNotFound if it is absent, foreign, or another incarnation than the one named.
    """

    def __init__(self, sessions: Sessions, transcript: Transcript, preferences: PreferenceBook) -> None:
        self._sessions = sessions
        self._transcript = transcript
        self._preferences = preferences

    async def page(
        self,
        scope: Scope,
        session_id: str,
        limit: int = 50,
        *,
        persona_id: str | None = None,
        before: str | None = None,
        incarnation: str | None = None,
    ) -> MessagePage:
        """The newest ``limit`` messages before the cursor, of one persona, or of all merged by time.

        Raises:
            InvalidInput: ``before`` is not the ``next`` of an earlier page.
            SessionNotFound: the session is absent or foreign, or not the given incarnation of its id.
        """
        session = (await self._sessions.get(scope, session_id, incarnation=incarnation)).record
        if persona_id is None:
            return await self._merged(scope, session, limit, before)
        position = _parse_seq(before) if before else None
        messages = await self._transcript.latest(scope, session.thread(persona_id), limit, before=position)
        more = bool(messages) and messages[0].seq > 1
        return MessagePage(messages=messages, next=str(messages[0].seq) if more else None)

    async def latest_turns(self, scope: Scope, thread: ThreadKey, limit: int) -> list[Message]:
        """The messages of the newest ``limit`` turns of a thread, ascending, including unfinished answers."""
        found: list[Message] = []
        while True:
            page = await self._transcript.latest(
                scope, thread, _TURN_MESSAGES * limit + 1, before=found[0].seq if found else None
            )
            found = page + found
            first = found[-1].turn_id - limit + 1 if found else 1
            if not page or page[0].turn_id < first or page[0].seq == 1:
                return [message for message in found if message.turn_id >= first]

    async def overview(
        self,
        scope: Scope,
        session_id: str,
        limit: int = 10,
        *,
        persona_id: str | None = None,
        incarnation: str | None = None,
    ) -> SessionOverview:
        """The session, or one persona's thread, with the newest ``limit`` messages."""
        session = (await self._sessions.get(scope, session_id, incarnation=incarnation)).record
        threads = await self._transcript.threads(scope, session_id, incarnation=session.incarnation)
        if persona_id is None:
            recent = (await self._merged(scope, session, limit, None)).messages
        else:
            threads = [info for info in threads if info.persona_id == persona_id]
            recent = await self._transcript.latest(scope, session.thread(persona_id), limit)
        return SessionOverview(
            session_id=session_id,
            persona_id=persona_id,
            title=session.title,
            message_count=sum(info.message_count for info in threads),
            recent_messages=recent,
            first_message_at=min((info.first_at for info in threads), default=None),
            last_message_at=max((info.last_at for info in threads), default=None),
            preference=await self._preferences.get(scope, session_id, incarnation=session.incarnation),
        )

    async def append(
        self, scope: Scope, session_id: str, messages: Sequence[tuple[str | None, MessageInput]]
    ) -> list[Message]:
        """Append messages to the threads of their personas, all or none per thread; returned in the given order.

        None means the session's default persona. Threads are written one after another: ids make retries idempotent.

        Raises:
            InvalidInput: a message is not allowed; nothing is written.
            SessionExpired: the session is past its lifetime.
        """
        session = (await self._sessions.get(scope, session_id)).record
        prepared = await self._transcript.prepare([message for _, message in messages])
        threads: dict[ThreadKey, list[int]] = {}
        for index, (persona_id, _) in enumerate(messages):
            threads.setdefault(session.thread(persona_id or default_persona(session)), []).append(index)
        stored: dict[int, Message] = {}
        for thread, indexes in threads.items():
            appended, _ = await self._transcript.append(scope, thread, [prepared[index] for index in indexes])
            stored.update(zip(indexes, appended.messages, strict=True))
        ordered = [stored[index] for index in range(len(messages))]
        await FirstQuestion(self._sessions, scope, session).record(ordered)
        return ordered

    async def _merged(self, scope: Scope, session: Session, limit: int, before: str | None) -> MessagePage:
        check_range("limit", limit, 1, READ_LIMIT)
        positions: Mapping[str, int | None]
        if before is None:
            threads = await self._transcript.threads(scope, session.session_id, incarnation=session.incarnation)
            positions = {info.persona_id: None for info in threads}
        else:
            positions = _parse_cursor(before)
        ends = await asyncio.gather(
            *(
                self._transcript.latest(scope, session.thread(persona_id), limit, before=position)
                for persona_id, position in positions.items()
            )
        )
        return _merge({persona_id: end for persona_id, end in zip(positions, ends, strict=True) if end}, limit)


def _merge(tails: Mapping[str, list[Message]], limit: int) -> MessagePage:
    """The newest messages of the ends of several threads; takes them from the lists."""
    oldest_read = {persona_id: end[-1].seq + 1 for persona_id, end in tails.items()}
    page: list[Message] = []
    while len(page) < limit and any(tails.values()):
        _, newest = max((end[-1].timestamp, persona_id) for persona_id, end in tails.items() if end)
        message = tails[newest].pop()
        oldest_read[newest] = message.seq
        page.append(message)
    cursor = ",".join(f"{persona_id}:{seq}" for persona_id, seq in oldest_read.items() if seq > 1)
    return MessagePage(messages=page[::-1], next=cursor or None)


def _parse_cursor(before: str) -> dict[str, int]:
    """Persona id → ``seq`` of the oldest message read so far in its thread."""
    if not isinstance(before, str):
        raise InvalidInput("before", before, _ALLOWED)
    positions = {}
    for part in before.split(","):
        matched = _POSITION.fullmatch(part)
        if matched is None:
            raise InvalidInput("before", before, _ALLOWED)
        positions[matched[1]] = _parse_seq(matched[2])
    return positions


def _parse_seq(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:20]) <= _MAX_SEQ):
        raise InvalidInput("before", text, _ALLOWED)
    return int(text)
