"""The threads of all users of a site, for administration."""

import asyncio
from collections import defaultdict
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from wenmai.errors import Undecipherable
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.records import Session
from wenmai.stores.structs import ActiveThread
from wenmai.text.cjk import normalise


class ListedThread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread, with its owner and the title of its session."""

    user_id: Annotated[str, Meta(description="The owner of the session.")]
    session_id: Annotated[str, Meta(description="The session's id.")]
    persona_id: Annotated[str, Meta(description="The persona.")] = msgspec.field(name="npc_id")
    title: Annotated[str, Meta(description="The session's title; empty if it cannot be decrypted.")]
    messages: Annotated[int, Meta(description="Number of messages.")]
    active_at: Annotated[datetime, Meta(description="Last activity in the session.")]


class ThreadPage(msgspec.Struct, frozen=True, kw_only=True):
    """Threads in no particular order, possibly none; `next` is null on the last page."""

    threads: Annotated[list[ListedThread], Meta(description="The threads of this page.")]
    next: Annotated[str | None, Meta(description="Cursor of the next page; null on the last page.")]


class ThreadListing:
    """Lists the threads of a site, page by page; a page costs the same however many sessions there are."""

    def __init__(self, documents: Documents, logs: Logs) -> None:
        self._documents = documents
        self._logs = logs

    async def page(
        self,
        scope: Scope,
        *,
        user_id: str = "",
        persona_id: str | None = None,
        since: datetime | None = None,
        title: str = "",
        limit: int = 100,
        cursor: str | None = None,
    ) -> ThreadPage:
        """The next threads of the scope's site.

        Args:
            scope: its user does not matter.
            user_id: only threads of this user.
            persona_id: only threads of this persona.
            since: only threads of sessions that were active after this time.
            title: only threads of sessions whose title contains it, in whatever case or width.
            limit: 1 to 500 sessions of the store to examine, of whatever site.
            cursor: ``next`` of the previous page.

        Raises:
            InvalidInput: the cursor is invalid.
        """
        found = await self._logs.active_threads(since=since, cursor=cursor, limit=limit)
        wanted = [
            each
            for each in found.items
            if (each.scope.tenant_id, each.scope.site_id) == (scope.tenant_id, scope.site_id)
            and user_id in ("", each.scope.user_id)
            and persona_id in (None, each.thread.persona_id)
        ]
        part, titles = normalise(title), await self._titles(wanted)
        threads = [
            ListedThread(
                user_id=each.scope.user_id,
                session_id=each.thread.session_id,
                persona_id=each.thread.persona_id,
                title=titles[each.thread.incarnation],
                messages=each.last_seq,
                active_at=each.active_at,
            )
            for each in wanted
            if each.thread.incarnation in titles and part in normalise(titles[each.thread.incarnation])
        ]
        return ThreadPage(threads=threads, next=found.next_cursor)

    async def _titles(self, threads: list[ActiveThread]) -> dict[str | None, str]:
        """By the incarnation of the session; one read for each user."""
        owned: dict[Scope, list[ActiveThread]] = defaultdict(list)
        for each in threads:
            owned[each.scope].append(each)
        titles: dict[str | None, str] = {}
        for found in await asyncio.gather(*(self._titles_of(scope, own) for scope, own in owned.items())):
            titles |= found
        return titles

    async def _titles_of(self, scope: Scope, threads: list[ActiveThread]) -> dict[str | None, str]:
        ids = sorted({each.thread.session_id for each in threads})
        try:
            sessions = [stored.record for stored in (await self._documents.get_many(scope, Session, ids)).values()]
        except Undecipherable:  # of one user: listed, so that it is found and erased, and does not hide the others
            return {each.thread.incarnation: "" for each in threads}
        return {session.incarnation: session.title or session.first_question for session in sessions}
