"""Removing what can no longer be reached: messages of threads that are gone, and what hung on sessions that are.

With a thread's or a session's row all that hangs on it is absent; it is removed afterwards, a slice in a transaction,
so that a long conversation keeps no other statement waiting. What a process leaves undone, the next purge of any
process does.
"""

import logging

from wenmai.errors import StoreUnavailable
from wenmai.stores.postgresql.database import Database

_log = logging.getLogger(__name__)

SLICE = 1_000
"""Rows that are removed in one transaction; about 5 ms."""


async def purge(database: Database) -> None:
    """Remove all that cannot be reached. It does not raise: what it belonged to is deleted already."""
    try:
        while (await database.fetch("SELECT purge_unreachable($1)", SLICE))[0][0]:
            pass
    except StoreUnavailable as problem:
        _log.warning("parts of deleted sessions are still stored, the next sweep removes them: %s", problem)
