"""Partitions of the search index: the entries of a scope's collection, with their counts and their state."""

from collections.abc import Sequence
from typing import NamedTuple

from wenmai.stores.postgresql.database import Row, Run
from wenmai.stores.vector_matrices import State

PLACE_BITS = 32
"""The number of an entry is that of its partition and its place there. Before revision 13 it was smaller than these."""

Owner = tuple[str, str, str, bool, str]
"""Tenant, site, user (empty if shared), whether it is shared, and collection."""

OWNER = "tenant_id = $1 AND site_id = $2 AND user_id = $3 AND shared = $4 AND collection = $5"

STATE = (
    f"(part.partition << {PLACE_BITS}) + part.changes AS changes, part.vectors, "
    "CASE WHEN part.vectors > 0 THEN part.dimension ELSE 0 END AS dimension"
)
"""Begins the columns of a statement, for :func:`state_of`.

The number of the partition tells its changes from those of an earlier one of the same owner, which was emptied.
"""

_LOCK = f"""
SELECT partition, CASE WHEN vectors > 0 THEN dimension END, places FROM search_partitions WHERE {OWNER} FOR UPDATE"""
_CREATE = """
INSERT INTO search_partitions (tenant_id, site_id, user_id, shared, collection, entries, length)
VALUES ($1, $2, $3, $4, $5, 0, 0) ON CONFLICT DO NOTHING"""

_FORGET_EMPTIED = (
    "DELETE FROM search_partitions WHERE partition = $1 AND entries = 0 AND NOT shared AND user_id <> '' RETURNING 1"
)


def state_of(rows: Sequence[Row]) -> State:
    """The state of the partition, with which the rows of a statement begin; zeros if there is none."""
    return State(*rows[0][:3]) if rows else State(0, 0, 0)


class Partition(NamedTuple):
    """A locked partition; the dimension is None while it has no vector.

    Attributes:
        places: how many it has had; none is used twice.
    """

    number: int
    dimension: int | None
    places: int

    def entry(self, place: int) -> int:
        """The number of the entry at a place, counted from 1. Those of a partition are near to each other."""
        return (self.number << PLACE_BITS) + place


async def lock(run: Run, owner: Owner) -> Partition | None:
    """Lock the partition, if it exists, until the transaction ends."""
    rows = await run(_LOCK, *owner)
    return Partition(*rows[0]) if rows else None


async def lock_or_create(run: Run, owner: Owner) -> Partition:
    """Lock the partition, created if needed, until the transaction ends."""
    locked = await lock(run, owner)
    while locked is None:
        await run(_CREATE, *owner)
        locked = await lock(run, owner)
    return locked


async def forget_emptied(run: Run, partition: Partition) -> None:
    """Delete the row of a user's partition that has no entries left, which has the user's name."""
    await run(_FORGET_EMPTIED, partition.number)
