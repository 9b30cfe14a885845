"""A partition of the search tables: a scope's collection, with its statistics."""

from typing import NamedTuple

import apsw

from wenmai.scope import Scope
from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.vector_matrices import State

PLACE_BITS = 32
"""An entry's row is the partition and its place there, so that the entries of a partition lie together."""

Owner = tuple[str, str, str, int, str]
"""Tenant, site, user (empty if shared), whether it is shared, and collection."""


class Partition(NamedTuple):
    """The row of a partition.

    Attributes:
        row: its number.
        stored_dimension: the length of its last vectors.
        entries: how many it has.
        length: of all entries, in terms.
        vectors: how many entries have one.
        changes: incremented by every write.
    """

    row: int
    stored_dimension: int
    entries: int
    length: int
    vectors: int
    changes: int

    @property
    def dimension(self) -> int | None:
        """The length of its vectors; None if it has none."""
        return self.stored_dimension if self.vectors else None

    @property
    def state(self) -> State:
        """The state of its vectors."""
        return State(self.changes, self.vectors, self.stored_dimension)


def owner_of(scope: Scope, collection: str, shared: bool) -> Owner:  # noqa: FBT001 — of one contract
    """The owner of the partition."""
    return scope.tenant_id, scope.site_id, "" if shared else scope.user_id, int(shared), collection


def partition_of(connection: apsw.Connection, owner: Owner) -> Partition | None:
    """The owner's partition, if it has been written."""
    rows = fetch(
        connection,
        "SELECT partition, dimension, entries, length, vectors, changes FROM search_partitions "
        "WHERE tenant_id = ? AND site_id = ? AND user_id = ? AND shared = ? AND collection = ?",
        owner,
    )
    return Partition(*rows[0]) if rows else None


def created_partition(connection: apsw.Connection, owner: Owner) -> Partition:
    """The owner's partition, created if needed."""
    found = partition_of(connection, owner)
    if found is not None:
        return found
    connection.execute(
        "INSERT INTO search_partitions (tenant_id, site_id, user_id, shared, collection, dimension, entries, length, "
        "vectors, changes) VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, 0)",
        owner,
    )
    return Partition(connection.last_insert_rowid(), 0, 0, 0, 0, 0)


def forget_emptied(connection: apsw.Connection, partition: int) -> None:
    """Delete the row of a user's partition that has no entries left, which has the user's name.

    The row with the highest number stays without the name, since SQLite would give its number to the next partition.
    """
    emptied = "WHERE partition = ? AND entries = 0 AND shared = 0 AND user_id <> ''"
    connection.execute(
        f"DELETE FROM search_partitions {emptied} AND partition < (SELECT max(partition) FROM search_partitions)",
        (partition,),
    )
    connection.execute(
        f"UPDATE search_partitions SET user_id = 'emptied/' || hex(randomblob(16)) {emptied}",
        (partition,),
    )


def first_row(partition: int) -> int:
    """The rows of its entries are greater, and not greater than those of the partitions after it."""
    return partition << PLACE_BITS


def place_of(row: int) -> int:
    """The place of an entry in its partition."""
    return row & ((1 << PLACE_BITS) - 1)
