"""Removing what can no longer be reached: what hung on sessions that are gone, and erased threads.

The delete of a session's record makes all that hangs on its incarnation unreachable at once, and an erased thread is
moved to an incarnation that no session has; the rows are removed afterwards, a slice in a transaction, so that a long
conversation keeps no other writer waiting. A process that dies between leaves its incarnations in the table
``purges``, and the next purge of any process goes on there.
"""

from collections.abc import Sequence

import apsw

from wenmai.stores.identity import new_identity
from wenmai.stores.records import RECORDS
from wenmai.stores.sqlite.lanes import fetch

_BOUND = tuple(record.spec.collection for record in RECORDS if record.spec.bound_to)


def detach(connection: apsw.Connection, threads: Sequence[tuple[int]]) -> None:
    """Make the threads of these rows unreachable; :func:`purge` removes them."""
    for (thread,) in threads:
        nowhere = new_identity()
        connection.execute("UPDATE threads SET incarnation = ? WHERE thread = ?", (nowhere, thread))
        connection.execute("INSERT INTO purges (incarnation) VALUES (?)", (nowhere,))


def purge(connection: apsw.Connection, most: int) -> int:
    """Remove at most so many rows that cannot be reached; how many there were, fewer if none are left."""
    left = most
    while left and (doomed := fetch(connection, "SELECT incarnation FROM purges LIMIT 1")):
        left -= _purge_one(connection, doomed[0][0], left)
    return most - left


def _purge_one(connection: apsw.Connection, incarnation: str, most: int) -> int:
    left = most
    for (thread,) in fetch(connection, "SELECT thread FROM threads WHERE incarnation = ?", (incarnation,)):
        first = "SELECT min(seq) FROM messages WHERE thread = ?1"
        connection.execute(f"DELETE FROM messages WHERE thread = ?1 AND seq < ({first}) + ?2", (thread, left))
        left -= connection.changes()
        if not left:
            return most
        connection.execute("DELETE FROM threads WHERE thread = ?", (thread,))
        left -= 1
    for table in _BOUND:
        rows = f"SELECT row FROM {table} WHERE incarnation = ? LIMIT ?"
        connection.execute(f"DELETE FROM {table} WHERE row IN ({rows})", (incarnation, left))
        left -= connection.changes()
        if not left:
            return most
    connection.execute("DELETE FROM purges WHERE incarnation = ?", (incarnation,))
    return most - left + 1
