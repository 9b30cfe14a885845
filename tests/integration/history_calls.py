"""The calls of a random history, made through the public API and recorded with their results."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from history_events import CUT, PLAIN, USERS, Journal, Kind, Seen, Text, labels_in

from wenmai.chat.turn import TurnRequest
from wenmai.clock import to_micros
from wenmai.engine import Engine
from wenmai.errors import SessionExpired, SessionNotFound, StoreUnavailable
from wenmai.memory.session_memory import SessionMemory
from wenmai.scope import ThreadKey
from wenmai.stores.records import Message, Session

CANCELLED = 0.08
LONGEST_SECONDS = 0.02
"""Maximum delay of a cancellation."""

Fields = dict[str, Any]


class Held(NamedTuple):
    """A session opened earlier."""

    user: str
    session: SessionMemory

    @property
    def thread(self) -> ThreadKey:
        """The thread of the object's persona."""
        return self.session._thread

    def with_persona(self, npc: str) -> "Held":
        """The same session with that persona."""
        return self._replace(session=self.session.with_persona(npc))

    @property
    def of(self) -> Fields:
        """Its fields in events."""
        return {"incarnation": self.thread.incarnation or "", "npc": self.thread.persona_id}


def seen(message: Message) -> Seen:
    """The recorded fields of a message."""
    label = next(iter(labels_in(message.content)), "")
    return Seen(message.id, label, message.seq, message.turn_id, message.role, message.completed)


def texts_of(incarnation: str, record: msgspec.Struct) -> list[Text]:
    """The labels in a record; "" records that the record was seen."""
    labels = dict.fromkeys(["", *labels_in(msgspec.json.encode(record).decode())])
    return [Text(incarnation, label) for label in labels]


def end_of(session: Session) -> tuple[str, float]:
    """Incarnation and expiry of a session."""
    return session.incarnation, to_micros(session.expires_at) / 1e6


class Calls:
    """Makes and records calls.

    Args:
        engine: over the store.
        journal: of the process.
        chance: decides which calls are cancelled, and when; None cancels none.
    """

    def __init__(self, engine: Engine, journal: Journal, chance: random.Random | None = None) -> None:
        self.memory = engine.memory
        self._engine = engine
        self._journal = journal
        self._chance = chance

    async def call(
        self, kind: Kind, user: str, name: str, work: Callable[[], Awaitable[Fields]], **fields: object
    ) -> Fields | None:
        """Do the work and record it; None unless it succeeded."""
        event = self._journal.begin(kind, user, name, **fields)
        try:
            result = await self._maybe_cancelled(work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None
        except (SessionNotFound, SessionExpired) as refusal:
            self._journal.end(event, outcome="refused", error=type(refusal).__name__)
            return None
        except StoreUnavailable as failure:
            self._journal.fail(event, type(failure).__name__)
            return None
        except Exception as unexpected:  # noqa: BLE001 — reported by the checker
            self._journal.fail(event, f"unexpected: {unexpected!r}")
            return None
        self._journal.end(event, outcome="ok", **result)
        return result

    async def _maybe_cancelled(self, work: Callable[[], Awaitable[Fields]]) -> Fields:
        task = asyncio.ensure_future(work())
        if self._chance is not None and self._chance.random() < CANCELLED:
            await asyncio.wait([task], timeout=self._chance.random() * LONGEST_SECONDS)
            task.cancel()
        return await task

    async def on(self, held: Held, kind: Kind, work: Callable[[], Awaitable[Fields]], *labels: str) -> Fields | None:
        """A call on an opened session, which writes these labels."""
        return await self.call(kind, held.user, held.session.session_id, work, labels=labels, **held.of)

    async def open(self, user: str, name: str) -> Held | None:
        """Continue the session of that name, or create one."""
        opened: list[Held] = []

        async def work() -> Fields:
            session = await self.memory.session(name, scope=USERS[user], persona_id=PLAIN)
            opened.append(Held(user, session))
            incarnation = session._thread.incarnation or ""
            return {"incarnation": incarnation, "created": session.created, "got": session.session_id}

        await self.call("open", user, name, work)
        return opened[0] if opened else None

    async def append(self, held: Held, messages: Sequence[Fields], labels: Sequence[str]) -> list[Message]:
        """The stored messages; empty on failure."""
        stored: list[Message] = []

        async def work() -> Fields:
            stored.extend(await held.session.append(messages))
            return {"messages": tuple(map(seen, stored))}

        return stored if await self.on(held, "append", work, *labels) is not None else []

    async def complete(self, held: Held, message: Message, label: str) -> None:
        """Complete an answer."""

        async def work() -> Fields:
            filled = await self.memory.transcript.complete(
                USERS[held.user], held.thread, message, content=f"{label} 答完了。"
            )
            return {"created": filled is not None, "messages": () if filled is None else (seen(filled),)}

        await self.on(held, "complete", work, label)

    async def delete_by_name(self, user: str, name: str) -> None:
        """Delete whatever session the user has under that name."""

        async def work() -> Fields:
            return {"created": await self.memory.sessions.delete(USERS[user], name)}

        await self.call("delete by name", user, name, work)

    async def ask(self, user: str, name: str, npc: str, label: str, question: str, *, key: str = "") -> None:
        """A whole turn."""

        async def work() -> Fields:
            query = f"{question} {label}"
            request = TurnRequest(
                scope=USERS[user], persona_id=npc, query=query, session_id=name, idempotency_key=key or None
            )
            given = await self._engine.chat.ask(request)
            answer = (given.session_id, given.trace_id, given.turn_id, given.answer_text)
            return {"answer": answer, "texts": tuple(Text("", each) for each in labels_in(given.answer_text))}

        await self.call("ask", user, name, work, npc=npc, labels=(label,), key=key)

    async def read(self, held: Held, kind: Kind, limit: int = 50) -> None:
        """The messages of the thread, all or the newest."""

        async def work() -> Fields:
            if kind == "history":
                found: Sequence[Message] = [message async for message in held.session.history()]
            else:
                found = await held.session.messages(limit)
            return {"messages": tuple(map(seen, found))}

        await self.on(held, kind, work)

    async def look(self, user: str, name: str, kind: Kind) -> None:
        """Read one kind of data by session name."""
        scope = USERS[user]

        async def work() -> Fields:
            if kind == "preferences":
                values = (await self.memory.preferences.get(scope, name)).values
                return {"texts": tuple(texts_of(values.incarnation, values))}
            if kind == "traces":
                traces = await self._engine.traces.list(scope, where={"session_id": name}, limit=50)
                found = [(trace.record.incarnation, trace.record) for trace in traces.items]
                return {"texts": tuple(text for each in found for text in texts_of(*each))}
            if kind == "list":
                sessions = (await self.memory.sessions.list(scope, limit=50)).items
                listed = [text for one in sessions for text in texts_of(one.record.incarnation, one.record)]
                return {"texts": tuple(listed), "ends": dict(map(end_of, (one.record for one in sessions)))}
            record = (await self.memory.sessions.get(scope, name)).record
            return {"texts": tuple(texts_of(record.incarnation, record)), "ends": dict([end_of(record)])}

        await self.call(kind, user, name, work)

    async def read_by_name(self, user: str, name: str, npc: str) -> None:
        """Read a thread without an incarnation."""

        async def work() -> Fields:
            thread = ThreadKey(name, npc)
            found = [message async for message in self.memory.transcript.read_all(USERS[user], thread)]
            return {"messages": tuple(map(seen, found))}

        await self.call("history", user, name, work)

    async def read_everything(self, user: str, name: str) -> None:
        """Read all data of the name, one kind after the other."""
        session = await self.memory.find(name, scope=USERS[user])
        for kind in ("record", "preferences", "traces", "list"):
            await self.look(user, name, kind)
        if session is not None:
            for npc in (PLAIN, CUT):
                await self.read(Held(user, session).with_persona(npc), "history")
                await self.read(Held(user, session).with_persona(npc), "latest")
