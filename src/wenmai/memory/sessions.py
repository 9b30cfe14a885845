"""Sessions: who is visiting, for how long, and whose they are (section 3 of the reference).

What is foreign is absent: another user's session is not found, and asking to create its id gives a fresh one.
"""

import asyncio
import logging
import re
import unicodedata
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from wenmai.clock import Clock
from wenmai.errors import InvalidInput, SessionNotFound, VersionConflict
from wenmai.memory.ids import checked_id, new_session_id
from wenmai.memory.turns import lease_key
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Documents, Logs, Page, Stored
from wenmai.stores.records import IdempotentTurn, Preferences, Record, Session, TraceRecord, TurnLease

_log = logging.getLogger(__name__)

REMOVED_AT_ONCE = 500
TITLE_LIMIT = 60
RULE_TITLE_LIMIT = 40
RULE_TITLE_LEAST = 20
"""A title without a model is cut at a space past so many characters, within a word otherwise."""
TITLING = "/title"
"""In the place of a persona: the thread whose lease those hold who settle the title. No persona's id has a slash."""

_JOINER = "\u200d"
_JOINED = {_JOINER, *map(chr, range(0x1F3FB, 0x1F400))}
"""The zero-width joiner and the five skin tones: they belong to the emoji before them."""
_FLAG_LETTERS = re.compile("[\U0001f1e6-\U0001f1ff]+$")
"""Two such letters are one flag."""


class OpenedSession(msgspec.Struct, frozen=True):
    """A session that can be continued.

    Attributes:
        created: True if it is new.
        instead_of: the id that was asked for, if the session has another one because that was expired or taken.
    """

    stored: Stored[Session]
    created: bool
    instead_of: str | None = None

    @property
    def session_id(self) -> str:
        """The id under which the talk goes on."""
        return self.stored.record.session_id


class Sessions:
    """Creates, finds, lists, renames and deletes sessions.

    Args:
        lifetime: how long a session lives without activity.
        make_id: gives an id nobody has yet.
    """

    def __init__(
        self,
        documents: Documents,
        logs: Logs,
        clock: Clock,
        *,
        lifetime: timedelta,
        make_id: Callable[[], str] = new_session_id,
    ) -> None:
        self._documents = documents
        self._logs = logs
        self._clock = clock
        self._lifetime = lifetime
        self._make_id = make_id

    async def open(
        self,
        scope: Scope,
        session_id: str | None = None,
        *,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        instead: str | None = None,
    ) -> OpenedSession:
        """Continue the session of that id, or begin one.

        An unknown id is taken as the new session's; one that is expired or somebody else's gives ``instead``, which
        by default is a fresh id.

        Raises:
            InvalidInput: the id or the title is not allowed.
        """
        if title is not None:
            title = checked_title(title)
        if session_id is None:
            return await self._begin(scope, self._make_id(), title=title, metadata=metadata)
        checked_id("session_id", session_id)
        stored = await self._documents.get(scope, Session, session_id)
        if stored is not None and stored.record.expires_at > self._clock():
            return OpenedSession(stored, created=False)
        if stored is None:
            return await self._begin(scope, session_id, title=title, metadata=metadata, instead=instead)
        opened = await self._begin(scope, instead or self._make_id(), title=title, metadata=metadata)
        return msgspec.structs.replace(opened, instead_of=session_id)

    async def get(self, scope: Scope, session_id: str) -> Stored[Session]:
        """The session, expired or not.

        Raises:
            SessionNotFound: absent or foreign.
        """
        stored = await self._documents.get(scope, Session, checked_id("session_id", session_id))
        if stored is None:
            raise SessionNotFound(session_id)
        return stored

    async def list(self, scope: Scope, *, limit: int = 20, cursor: str | None = None) -> Page[Session]:
        """The user's sessions, newest first, expired ones too."""
        return await self._documents.list(scope, Session, limit=limit, cursor=cursor)

    async def rename(self, scope: Scope, session_id: str, title: str) -> Stored[Session]:
        """Give the session a title that nothing changes any more but another renaming.

        Raises:
            SessionNotFound: absent or foreign.
            InvalidInput: the title is empty or longer than 60 characters.
        """
        title = checked_title(title)
        return await self.change(
            scope, session_id, lambda session: msgspec.structs.replace(session, title=title, title_by="user")
        )

    async def change(self, scope: Scope, session_id: str, edit: Callable[[Session], Session]) -> Stored[Session]:
        """Apply ``edit`` to the record by compare-and-set, again if somebody else was faster.

        Raises:
            SessionNotFound: absent or foreign.
        """
        while True:
            stored = await self.get(scope, session_id)
            edited = edit(stored.record)
            if edited == stored.record:
                return stored
            try:
                return await self._documents.put(scope, edited, expected=stored.version)
            except VersionConflict:
                continue

    async def forget_persona(self, scope: Scope, session_id: str, npc_id: str) -> int:
        """Remove one persona's thread and its traces; how many messages there were.

        Raises:
            SessionNotFound: the session is absent or foreign.
        """
        await self.get(scope, session_id)
        erased = await self._logs.erase(scope, session_id, checked_id("npc_id", npc_id))
        await self._remove_all(scope, TraceRecord, {"session_id": session_id, "npc_id": npc_id})
        return erased

    async def delete(self, scope: Scope, session_id: str) -> bool:
        """Remove the session with its threads, preferences, traces and stored answers; True if there was one."""
        checked_id("session_id", session_id)
        # Messages first, so that a crash leaves a session that can be deleted again, not messages that nothing names;
        # again at the end, for what was appended in between.
        talking = [thread.npc_id for thread in await self._logs.threads(scope, session_id)]
        await self._logs.erase(scope, session_id)
        existed = await self._documents.delete(scope, Session, session_id)
        await self._documents.delete(scope, Preferences, session_id)
        await self._remove_all(scope, TraceRecord, {"session_id": session_id})
        await self._remove_all(scope, IdempotentTurn, {"session_id": session_id})
        for npc_id in [*talking, TITLING]:
            await self._documents.delete(scope, TurnLease, lease_key(scope, ThreadKey(session_id, npc_id)))
        await self._logs.erase(scope, session_id)
        return existed

    async def _remove_all(self, scope: Scope, of: type[Record], where: dict[str, str]) -> None:
        while items := (await self._documents.list(scope, of, where=where, limit=REMOVED_AT_ONCE)).items:
            await asyncio.gather(*(self._documents.delete(scope, of, stored.record.key) for stored in items))

    async def _begin(
        self,
        scope: Scope,
        session_id: str,
        *,
        title: str | None,
        metadata: dict[str, Any] | None,
        instead: str | None = None,
    ) -> OpenedSession:
        session = Session(
            session_id=session_id,
            expires_at=self._clock() + self._lifetime,
            lifetime_seconds=int(self._lifetime.total_seconds()),
            title=title or "",
            title_by="" if title is None else "user",
            metadata=metadata or {},
        )
        try:
            return OpenedSession(await self._documents.put(scope, session, expected=0), created=True)
        except VersionConflict:
            mine = await self._documents.get(scope, Session, session_id)
            if mine is not None:
                return OpenedSession(mine, created=False)
        _log.warning(
            "session id %s belongs to somebody else; user %s of %s/%s gets a fresh one",
            session_id, scope.user_id, scope.tenant_id, scope.site_id,
        )  # fmt: skip
        fresh = await self._begin(scope, instead or self._make_id(), title=title, metadata=metadata)
        return msgspec.structs.replace(fresh, instead_of=session_id)


def checked_title(title: str) -> str:
    """The title without surrounding white space.

    Raises:
        InvalidInput: it is empty, longer than 60 characters, or has a line break or NUL.
    """
    title = title.strip()
    if len(title) > TITLE_LIMIT or len(title.splitlines()) != 1 or "\0" in title:
        raise InvalidInput("title", title, f"one line of 1 to {TITLE_LIMIT} characters without NUL")
    return title


def title_from_question(question: str) -> str:
    """A title without a model: the first line, 40 code points at most, cut at a space if one lies past 20.

    A character made of several code points, such as an emoji or a letter with its accents, is not cut in two.
    """
    lines = question.strip().splitlines()
    line = lines[0].strip() if lines else ""
    if len(line) <= RULE_TITLE_LIMIT:
        return line
    cut = line[:RULE_TITLE_LIMIT]
    space = cut.rfind(" ")
    if space > RULE_TITLE_LEAST:
        return cut[:space].rstrip() + "…"
    whole = next((end for end in range(RULE_TITLE_LIMIT, RULE_TITLE_LEAST, -1) if not _within_one(line, end)), 0)
    return line[: whole or RULE_TITLE_LIMIT].rstrip() + "…"


def _within_one(text: str, at: int) -> bool:
    """Whether a cut before ``text[at]`` would divide what is seen as one character."""
    before, after = text[at - 1], text[at]
    if before == _JOINER or after in _JOINED or unicodedata.category(after).startswith("M"):
        return True
    flags = _FLAG_LETTERS.search(text[:at])
    return flags is not None and len(flags[0]) % 2 == 1 and _FLAG_LETTERS.match(after) is not None
