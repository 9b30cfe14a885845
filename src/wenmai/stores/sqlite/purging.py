"""Purging unreachable rows: those bound to deleted sessions, and those of erased threads.

Deleting a session's record makes everything bound to its incarnation unreachable at once; an erased thread is moved to
an incarnation that no session has. The rows are removed afterwards, in batches of one transaction each, so that a long
conversation does not block other writers. If the process dies in between, the incarnations remain in the table
``purges``, and the next purge of any process continues.
"""

from collections.abc import Sequence

import apsw

from wenmai.stores.identity import new_identity
from wenmai.stores.records import bound_records
from wenmai.stores.sqlite.connection_threads import fetch


def detach(connection: apsw.Connection, threads: Sequence[tuple[int]]) -> None:
    """Make the threads with these rows unreachable; :func:`purge` removes them."""
    for (thread,) in threads:
        orphaned = new_identity()
        connection.execute("UPDATE threads SET incarnation = ? WHERE thread = ?", (orphaned, thread))
        connection.execute("INSERT INTO purges (incarnation) VALUES (?)", (orphaned,))


def purge(connection: apsw.Connection, limit: int) -> int:
    """Remove at limit ``limit`` unreachable rows; return how many, fewer if none are left."""
    left = limit
    while left and (pending := fetch(connection, "SELECT incarnation FROM purges LIMIT 1")):
        left -= _purge_one(connection, pending[0][0], left)
    return limit - left


def _purge_one(connection: apsw.Connection, incarnation: str, limit: int) -> int:
    left = limit
    for (thread,) in fetch(connection, "SELECT thread FROM threads WHERE incarnation = ?", (incarnation,)):
        first = "SELECT min(seq) FROM messages WHERE thread = ?1"
        connection.execute(f"DELETE FROM messages WHERE thread = ?1 AND seq < ({first}) + ?2", (thread, left))
        left -= connection.changes()
        if not left:
            return limit
        connection.execute("DELETE FROM threads WHERE thread = ?", (thread,))
        left -= 1
    for of in bound_records():
        table = of.spec.collection
        rows = f"SELECT row FROM {table} WHERE incarnation = ? LIMIT ?"
        connection.execute(f"DELETE FROM {table} WHERE row IN ({rows})", (incarnation, left))
        left -= connection.changes()
        if not left:
            return limit
    connection.execute("DELETE FROM purges WHERE incarnation = ?", (incarnation,))
    return limit - left + 1
