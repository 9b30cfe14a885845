"""What users ask about: the passages that answers cited, over the threads of a site."""

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from wenmai.errors import Undecipherable
from wenmai.memory.thread_listing import ListedThread, ThreadListing
from wenmai.memory.transcript import Transcript
from wenmai.scope import Scope, ThreadKey

MESSAGES = 40
"""Newest messages of a thread that are examined."""


class CitedPassages(msgspec.Struct, frozen=True, kw_only=True):
    """Passages that answers cited.

    Attributes:
        answers: for each evidence id, how many answers cited it.
        threads: how many were examined.
        next_cursor: of the next page of threads; None on the last.
    """

    answers: Counter[str]
    threads: int
    next_cursor: str | None


async def cited_passages(threads: ThreadListing, transcript: Transcript, scope: Scope, **page: Any) -> CitedPassages:
    """Count what the newest answers of a page of threads cited.

    Args:
        threads: lists the threads of all users.
        transcript: has their messages.
        scope: the site; its user does not matter.
        page: filters, limit and cursor of :meth:`ThreadListing.page`.
    """
    found = await threads.page(scope, **page)
    since: datetime | None = page.get("since")

    async def cited(thread: ListedThread) -> Counter[str]:
        owner = Scope(scope.tenant_id, scope.site_id, thread.user_id)
        counted: Counter[str] = Counter()
        with suppress(Undecipherable):  # of a user whose key is lost
            key = ThreadKey(thread.session_id, thread.persona_id)
            for message in await transcript.latest(owner, key, MESSAGES):
                if message.role == "assistant" and (since is None or message.timestamp > since):
                    counted.update({*map(str, message.metadata.get("evidence_ids", ()))})
        return counted

    counted = await asyncio.gather(*map(cited, found.threads))
    return CitedPassages(answers=sum(counted, Counter()), threads=len(found.threads), next_cursor=found.next)
