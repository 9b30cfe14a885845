"""The compare-and-set loop: read a record, change it, write it unless another writer was faster, else try again."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from wenmai.errors import Conflict, SessionNotFound, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import Record
from wenmai.stores.structs import Stored

R = TypeVar("R", bound=Record)

ATTEMPTS = 50
FIRST_DELAY, LONGEST_DELAY = 0.001, 0.3
"""Bounds in seconds of the random delay before another attempt, which doubles with each: longer than it takes some
hundred writers to try once, as otherwise they keep each other from writing."""


async def update(
    documents: Documents,
    scope: Scope,
    of: type[R],
    key: str | Callable[[], str],
    change: Callable[[Stored[R] | None], R],
    *,
    keep_until: datetime | None = None,
    check: Callable[[], Awaitable[object]] | None = None,
    rewrite: bool = False,
    known: Stored[R] | None = None,
) -> Stored[R]:
    """Change a record by compare-and-set; returns it as stored.

    Args:
        documents: the store.
        scope: the owner.
        of: the record type.
        key: of the record; a function gives the key of each attempt.
        change: the new record, made from what is stored (None if absent); raises to refuse. Called for each attempt,
            so it is a pure function.
        keep_until: see :meth:`Documents.put`.
        check: awaited after the read and before ``change``; raises to refuse.
        rewrite: write the record even if it is unchanged, so that concurrent updates of others conflict.
        known: the record as this process stored it last; it saves the first read, and if it is stale the write fails.

    Raises:
        Conflict: other writers were faster in each of ``ATTEMPTS`` attempts.
        SessionNotFound: the session that a new record names is absent, foreign, or another incarnation.
    """
    named = ""
    for attempt in range(ATTEMPTS):
        if attempt > 1:
            await asyncio.sleep(random.uniform(0, min(LONGEST_DELAY, FIRST_DELAY * 2**attempt)))  # noqa: S311 — no secret
        named = key if isinstance(key, str) else key()
        guessed = known if attempt == 0 else None
        stored = guessed or await documents.get(scope, of, named)
        if check is not None:
            await check()
        changed = change(stored)
        if stored is not None and changed == stored.record and not rewrite:
            if guessed is None:
                return stored
            continue
        try:
            return await documents.put(scope, changed, expected=stored.version if stored else 0, keep_until=keep_until)
        except VersionConflict:
            continue
        except SessionNotFound:
            # What was read may have belonged to a deleted session whose id another has now.
            if stored is None:
                raise
    raise Conflict(f"{of.spec.collection} {named} is being changed by too many writers at once; try again")
