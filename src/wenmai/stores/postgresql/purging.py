"""Purging unreachable rows: messages of deleted threads, and records bound to deleted sessions.

Deleting a thread's or session's row makes everything bound to it absent; the rows are removed afterwards, in batches of
one transaction each, so that a long conversation does not block other statements. If a process dies in between, the
next purge of any process continues.
"""

import logging

from wenmai.errors import StoreUnavailable
from wenmai.stores.postgresql.database import Database
from wenmai.stores.records import bound_records

_log = logging.getLogger(__name__)

BATCH_ROWS = 1_000
"""Rows removed in one transaction; about 5 ms."""


async def purge(database: Database) -> None:
    """Remove all unreachable rows. It does not raise StoreUnavailable, as the delete itself is already done."""
    bound = [of.spec.collection for of in bound_records()]
    try:
        while (await database.fetch("SELECT purge_unreachable($1, $2::text[])", BATCH_ROWS, bound))[0][0]:
            pass
    except StoreUnavailable as problem:
        _log.warning("rows of deleted sessions are still stored, the next sweep removes them: %s", problem)
