"""The vectors of partitions, in memory as of a snapshot; see :mod:`wenmai.stores.vector_matrices`."""

import asyncio
from collections import OrderedDict
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from wenmai.stores.postgresql.database import Run
from wenmai.stores.postgresql.search_partitions import OWNER, STATE, Owner, state_of
from wenmai.stores.vector_matrices import Missing, Read, State, VectorMatrices
from wenmai.stores.vector_matrix import ByteOrder, VectorMatrix, merged

BYTE_ORDER: ByteOrder = ">"
KNOWN_STATES = 1_000
"""Partitions whose last state is cached; a vector search of another one reads its state first."""

_STATE = f"SELECT {STATE}, part.partition FROM search_partitions part WHERE {OWNER}"
_AFTER = (
    "SELECT number, entry, vector FROM search_vectors WHERE partition = $1 AND number > $2 ORDER BY number LIMIT $3"
)
_NUMBERS = "SELECT number FROM search_vectors WHERE partition = $1 ORDER BY number"
_CHOSEN = """
SELECT v.number, v.entry, v.vector FROM unnest($1::bigint[]) AS u (entry) CROSS JOIN LATERAL (
  SELECT v.* FROM search_vectors v WHERE v.entry = u.entry OFFSET 0
) v ORDER BY v.number"""


class Nearest(NamedTuple):
    """The vectors nearest to this one: how many, and among which entries (None for all)."""

    vector: Sequence[float]
    limit: int
    allowed: Sequence[int] | None


class SnapshotVectors(NamedTuple):
    """The vectors of a partition as of a snapshot.

    Attributes:
        partition: its number.
        state: of the snapshot.
        matrix: None if there are none, or more than fit into memory; those are read in blocks by ``run``.
    """

    partition: int
    state: State
    matrix: VectorMatrix | None

    async def nearest(self, run: Run, wanted: Sequence[Nearest]) -> list[dict[int, float]]:
        """For each the cosines of the best by entry, with all that equal the last of them."""
        if self.matrix is not None:
            return await asyncio.to_thread(_tops, self.matrix, wanted)
        found: list[dict[int, float]] = [{} for _ in wanted]
        last, full = 0, self.state.vectors > 0
        while full:
            read = await _read(run, self.partition, Missing(last, self.state.block))
            full = len(read) == self.state.block
            last = read[-1][0] if full else last
            tops = await asyncio.to_thread(_tops, VectorMatrix.of(self.state.dimension, read, BYTE_ORDER), wanted)
            found = [merged(pair, each.limit) for *pair, each in zip(found, tops, wanted, strict=True)]
        return found

    async def similarities(self, run: Run, vector: Sequence[float], entries: Sequence[int]) -> dict[int, float]:
        """The cosines of the entries that have a vector."""
        if not entries or not self.state.vectors:
            return {}
        matrix = self.matrix
        if matrix is None:
            read = [tuple(row) for row in await run(_CHOSEN, list(entries))]
            matrix = VectorMatrix.of(self.state.dimension, read, BYTE_ORDER)
        return await asyncio.to_thread(matrix.similarities, vector, entries)


class Vectors:
    """The vectors of a store's partitions."""

    def __init__(self) -> None:
        self._matrices = VectorMatrices(BYTE_ORDER)
        self._known: OrderedDict[Owner, tuple[int, State]] = OrderedDict()

    def last(self, owner: Owner, *, with_matrix: bool) -> SnapshotVectors | None:
        """The vectors of the last snapshot; None if it is not known, or the vectors are wanted and not in memory."""
        known = self._known.get(owner)
        if known is None or not known[1].vectors or not with_matrix:
            return known and SnapshotVectors(*known, None)
        reached = _advanced(self._matrices.follow(*known)) if known[1].fits else None
        return SnapshotVectors(*known, reached) if isinstance(reached, VectorMatrix) else None

    async def current(self, run: Run, owner: Owner, *, with_matrix: bool) -> SnapshotVectors:
        """The vectors of the snapshot of ``run``; without the matrix, their state alone."""
        rows = await run(_STATE, *owner)
        state, partition = state_of(rows), rows[0]["partition"] if rows else 0
        matrix = None
        if with_matrix and state.vectors and state.fits:
            steps = self._matrices.follow(partition, state)
            reached = _advanced(steps)
            while isinstance(reached, Missing):
                reached = await asyncio.to_thread(_advanced, steps, await _read(run, partition, reached))
            matrix = reached
        self.note(owner, partition, state)
        return SnapshotVectors(partition, state, matrix)

    def note(self, owner: Owner, partition: int, state: State) -> None:
        """The last snapshot of a partition had this state."""
        self._known[owner] = partition, state
        self._known.move_to_end(owner)
        if len(self._known) > KNOWN_STATES:
            self._known.popitem(last=False)


def _advanced(steps: Generator[Missing, Read, VectorMatrix], read: Any = None) -> Missing | VectorMatrix:
    """The next yielded or returned value of the generator."""
    try:
        return steps.send(read)
    except StopIteration as done:
        matrix: VectorMatrix = done.value
        return matrix


async def _read(run: Run, partition: int, missing: Missing) -> Any:
    if missing.after is None:
        return [row["number"] for row in await run(_NUMBERS, partition)]
    return [tuple(row) for row in await run(_AFTER, partition, missing.after, missing.limit)]


def _tops(matrix: VectorMatrix, wanted: Sequence[Nearest]) -> list[dict[int, float]]:
    return [matrix.top(*each) for each in wanted]
