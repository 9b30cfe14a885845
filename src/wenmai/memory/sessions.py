"""Sessions: owner, lifetime and title.

A foreign session reads as absent: another user's session is not found, and opening its id creates one with a new id.
"""

import asyncio
import logging
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any

import msgspec

from wenmai.clock import Clock
from wenmai.errors import InvalidInput, SessionNotFound, VersionConflict
from wenmai.memory.ids import checked_id
from wenmai.resilience.shielded import run_to_completion
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.identity import INCARNATION
from wenmai.stores.records import Record, Session, bound_records
from wenmai.stores.structs import Page, Stored
from wenmai.stores.update import update
from wenmai.text.id_template import SESSION_IDS, new_id
from wenmai.text.redact import redact

_log = logging.getLogger(__name__)

DELETE_BATCH = 500
TITLE_LIMIT = 60
RULE_TITLE_LIMIT = 40
RULE_TITLE_LEAST = 20
"""A rule-made title is cut at a space beyond so many characters, else within a word."""

_JOINER = "\u200d"
_JOINED = {_JOINER, *map(chr, range(0x1F3FB, 0x1F400))}
"""The zero-width joiner and the five skin tones; they combine with the preceding emoji."""
_FLAG_LETTERS = re.compile("[\U0001f1e6-\U0001f1ff]+$")
"""Two such letters make one flag."""


def _nothing(scope: Scope, thread: ThreadKey) -> AbstractAsyncContextManager[None]:  # noqa: ARG001
    return nullcontext()


class OpenedSession(msgspec.Struct, frozen=True):
    """A session that can be continued.

    Attributes:
        created: True if it is new.
        instead_of: the requested id, if that session was expired or another user's and this one has another id.
    """

    stored: Stored[Session]
    created: bool
    instead_of: str | None = None

    @property
    def session_id(self) -> str:
        """The id under which the conversation continues."""
        return self.stored.record.session_id

    def thread(self, persona_id: str) -> ThreadKey:
        """The persona's thread of exactly this session, even if its id is reused."""
        return self.stored.record.thread(persona_id)


class SessionTerms(msgspec.Struct, frozen=True):
    """How new sessions are made.

    Attributes:
        lifetime: without activity.
        id_template: of generated ids, see :func:`wenmai.text.id_template.new_id`.
    """

    lifetime: timedelta
    id_template: str = SESSION_IDS


class Sessions:
    """Creates, finds, lists, renames and deletes sessions.

    Args:
        terms: of new sessions, unless others are named.
        rule_titles_final: whether a title made by the rule is final; False if a model will make another.
        on_cut: awaited with a thread that was deleted.
        on_delete: entered before a thread is deleted, or a session, which has an empty persona; left afterwards.
    """

    def __init__(
        self,
        documents: Documents,
        logs: Logs,
        clock: Clock,
        *,
        terms: SessionTerms,
        rule_titles_final: bool = True,
        on_cut: Callable[[Scope, ThreadKey], Awaitable[None]] | None = None,
        on_delete: Callable[[Scope, ThreadKey], AbstractAsyncContextManager[None]] = _nothing,
    ) -> None:
        self._documents = documents
        self._logs = logs
        self._clock = clock
        self._terms = terms
        self.rule_titles_final = rule_titles_final
        self._on_cut = on_cut
        self._on_delete = on_delete

    async def open(
        self,
        scope: Scope,
        session_id: str | None = None,
        *,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        context: dict[str, Any] | None = None,
        fallback_ids: Callable[[], str] | None = None,
        terms: SessionTerms | None = None,
    ) -> OpenedSession:
        """Continue the session of that id, or create one.

        An unknown id becomes the new session's. If its session is expired or foreign, the next of ``fallback_ids``
        that can be continued or created is used; by default these are new ids. Title, metadata, context and terms are
        those of a new session.

        Raises:
            InvalidInput: the id or the title is not allowed.
        """
        if title is not None:
            title = checked_title(title)
        named = {} if title is None else {"title": title, "title_by": "user"}
        terms = terms or self._terms
        fields = {"metadata": metadata or {}, "context": context or {}, **named, **self._times(terms)}
        if session_id is not None:
            checked_id("session_id", session_id)
        if session_id is not None and (opened := await self._continue_or_create(scope, session_id, fields)):
            return opened
        while True:
            if fallback_ids is not None:
                opened = await self._continue_or_create(scope, fallback_ids(), fields)
            else:
                opened = await self.insert(scope, self._made_id(scope, terms), **fields)
                # An id that was made for another session of the same second is not continued.
                opened = opened if opened is not None and opened.created else None
            if opened is not None:
                return msgspec.structs.replace(opened, instead_of=session_id)

    def _made_id(self, scope: Scope, terms: SessionTerms) -> str:
        return new_id(terms.id_template, scope.user_id, self._clock())

    def _times(self, terms: SessionTerms) -> dict[str, Any]:
        """The fields of a new session that follow from its lifetime."""
        seconds = int(terms.lifetime.total_seconds())
        return {"expires_at": self._clock() + terms.lifetime, "lifetime_seconds": seconds}

    async def unused_id(self, scope: Scope, terms: SessionTerms | None = None) -> str:
        """An id that no session of the user has yet."""
        while True:
            session_id = self._made_id(scope, terms or self._terms)
            if await self._documents.get(scope, Session, session_id) is None:
                return session_id

    async def _continue_or_create(self, scope: Scope, session_id: str, fields: dict[str, Any]) -> OpenedSession | None:
        """The session of that id; None if it is expired or foreign."""
        stored = await self._documents.get(scope, Session, session_id)
        if stored is None:
            opened = await self.insert(scope, session_id, **fields)
            if opened is not None and opened.created:
                return opened
            stored = opened.stored if opened else None
        if stored is None:
            _log.warning(
                "session id %s belongs to another user; user %s of %s/%s gets a new one",
                session_id, scope.user_id, scope.tenant_id, scope.site_id,
            )  # fmt: skip
            return None
        return OpenedSession(stored, created=False) if stored.record.expires_at > self._clock() else None

    async def insert(self, scope: Scope, session_id: str, **fields: Any) -> OpenedSession | None:
        """Create a session with these fields; an existing session of the same owner is not changed.

        Returns:
            The session, or None if the id belongs to another user.
        """
        fields = self._times(self._terms) | fields
        session = Session(session_id=checked_id("session_id", session_id), **fields)
        try:
            return OpenedSession(await self._documents.put(scope, session, expected=0), created=True)
        except VersionConflict:
            stored = await self._documents.get(scope, Session, session_id)
            return None if stored is None else OpenedSession(stored, created=False)

    async def get(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> Stored[Session]:
        """The session, expired or not.

        Raises:
            SessionNotFound: absent, foreign, or another incarnation than the one named.
        """
        stored = await self._documents.get(scope, Session, checked_id("session_id", session_id))
        if stored is None or incarnation not in (None, stored.record.incarnation):
            raise SessionNotFound(session_id)
        return stored

    async def of_thread(self, scope: Scope, thread: ThreadKey) -> Session:
        """The record of the thread's session, of exactly the incarnation that the key names, if it names one.

        Raises:
            SessionNotFound: absent, foreign, or another incarnation.
        """
        return (await self.get(scope, thread.session_id, incarnation=thread.incarnation)).record

    async def list(self, scope: Scope, *, limit: int = 20, cursor: str | None = None) -> Page[Session]:
        """The user's sessions, newest first, including expired ones."""
        return await self._documents.list(scope, Session, limit=limit, cursor=cursor)

    async def rename(
        self, scope: Scope, session_id: str, title: str, *, incarnation: str | None = None
    ) -> Stored[Session]:
        """Set the title; only another rename changes it.

        Raises:
            SessionNotFound: absent, foreign, or another incarnation than the one named.
            InvalidInput: the title is empty or longer than 60 characters.
        """
        title = checked_title(title)
        return await self.change(
            scope,
            session_id,
            lambda session: msgspec.structs.replace(session, title=title, title_by="user"),
            incarnation=incarnation,
        )

    async def change(
        self, scope: Scope, session_id: str, edit: Callable[[Session], Session], *, incarnation: str | None = None
    ) -> Stored[Session]:
        """Apply ``edit`` to the record by compare-and-set (see :func:`wenmai.stores.update.update`).

        Args:
            scope: the owner.
            session_id: of the session.
            edit: returns the new record; may be called several times.
            incarnation: the session to change; None means the one that has the id now.

        Raises:
            SessionNotFound: absent, foreign, or another incarnation.
            Conflict: other writers change it all the time.
        """

        def edited(stored: Stored[Session] | None) -> Session:
            if stored is None or incarnation not in (None, stored.record.incarnation):
                raise SessionNotFound(session_id)
            return edit(stored.record)

        return await update(self._documents, scope, Session, checked_id("session_id", session_id), edited)

    async def delete_thread(
        self, scope: Scope, session_id: str, persona_id: str, *, incarnation: str | None = None
    ) -> int:
        """Delete one persona's thread and the records bound to it; returns the number of messages.

        Raises:
            SessionNotFound: the session is absent, foreign, or another incarnation than the one named.
        """
        incarnation = (await self.get(scope, session_id, incarnation=incarnation)).record.incarnation
        thread = ThreadKey(session_id, checked_id("persona_id", persona_id), incarnation)
        erased = await run_to_completion(self._erase(scope, thread))
        where = {"session_id": session_id, "npc_id": persona_id}
        for of in bound_records("thread"):
            await self._delete_records(scope, of, where, incarnation)
        return erased

    async def _erase(self, scope: Scope, thread: ThreadKey) -> int:
        async with self._on_delete(scope, thread):
            erased = await self._logs.erase(scope, thread.session_id, thread.persona_id, incarnation=thread.incarnation)
            if self._on_cut is not None:
                await self._on_cut(scope, thread)
        return erased

    async def _delete_records(self, scope: Scope, of: type[Record], where: Mapping[str, str], incarnation: str) -> None:
        """Delete the records bound to that incarnation that a listing has."""
        while items := (await self._documents.list(scope, of, where=where, limit=DELETE_BATCH)).items:
            mine = [stored.record.key for stored in items if getattr(stored.record, INCARNATION) == incarnation]
            if not mine:
                break
            await asyncio.gather(*(self._documents.delete(scope, of, key) for key in mine))

    async def delete(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> bool:
        """Delete the session with its threads and bound records; True if it existed.

        With an ``incarnation``, only that one, not another session that has the id now.
        """
        stored = await self._documents.get(scope, Session, checked_id("session_id", session_id))
        if stored is None or incarnation not in (None, stored.record.incarnation):
            return await self._documents.delete(scope, Session, session_id, identity=incarnation)
        return await run_to_completion(self._delete(scope, stored.record))

    async def _delete(self, scope: Scope, session: Session) -> bool:
        async with self._on_delete(scope, session.thread("")):
            return await self._documents.delete(scope, Session, session.session_id, identity=session.incarnation)


def began_at(stored: Stored[Session]) -> datetime:
    """When the session began, also if it was imported later."""
    return stored.record.began_at or stored.created_at


def checked_title(title: object) -> str:
    """The title without surrounding white space.

    Raises:
        InvalidInput: it is empty, longer than 60 characters, or has a line break or NUL.
    """
    kept = title.strip() if isinstance(title, str) else ""
    if len(kept) > TITLE_LIMIT or len(kept.splitlines()) != 1 or "\0" in kept:
        raise InvalidInput("title", title, f"one line of 1 to {TITLE_LIMIT} characters without NUL")
    return kept


def title_from_question(question: str) -> str:
    """A rule-made title: the first line, at most 40 code points, cut at a space if there is one beyond 20.

    A grapheme of several code points, such as an emoji or an accented letter, is not split. A line that is cut has its
    private values replaced.
    """
    lines = question.strip().splitlines()
    line = lines[0].strip() if lines else ""
    if len(line) <= RULE_TITLE_LIMIT:
        return line
    line = redact(line)  # a part of a private value would not be recognized when the title is stored
    if len(line) <= RULE_TITLE_LIMIT:
        return line
    cut = line[:RULE_TITLE_LIMIT]
    space = cut.rfind(" ")
    if space > RULE_TITLE_LEAST:
        return cut[:space].rstrip() + "…"
    whole = next((end for end in range(RULE_TITLE_LIMIT, RULE_TITLE_LEAST, -1) if not _within_one(line, end)), 0)
    return line[: whole or RULE_TITLE_LIMIT].rstrip() + "…"


def _within_one(text: str, at: int) -> bool:
    """Whether a cut before ``text[at]`` would split a grapheme."""
    before, after = text[at - 1], text[at]
    if before == _JOINER or after in _JOINED or unicodedata.category(after).startswith("M"):
        return True
    flags = _FLAG_LETTERS.search(text[:at])
    return flags is not None and len(flags[0]) % 2 == 1 and _FLAG_LETTERS.match(after) is not None
