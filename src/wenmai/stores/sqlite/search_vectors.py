"""The vectors of a partition, in memory as of the snapshot of a connection."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.vector_matrices import Missing, State, VectorMatrices
from wenmai.stores.vector_matrix import ByteOrder, VectorMatrix, merged

BYTE_ORDER: ByteOrder = "<"

_AFTER = "SELECT number, entry, vector FROM search_vectors WHERE partition = ? AND number > ? ORDER BY number LIMIT ?"
_CHOSEN = """
SELECT v.number, v.entry, v.vector FROM json_each(?) j CROSS JOIN search_entries e ON e.entry = j.value
CROSS JOIN search_vectors v ON v.number = e.number ORDER BY v.number"""
_NUMBERS = "SELECT number FROM search_vectors WHERE partition = ? ORDER BY number"


class SnapshotVectors(NamedTuple):
    """The vectors of a partition as of a snapshot.

    Attributes:
        connection: that reads the snapshot.
        partition: its row.
        state: of the snapshot.
        matrix: None if the vectors do not fit into memory; they are then read in blocks.
    """

    connection: apsw.Connection
    partition: int
    state: State
    matrix: VectorMatrix | None

    def top(self, vector: Sequence[float], limit: int, allowed: Sequence[int] | None) -> dict[int, float]:
        """See :meth:`wenmai.stores.vector_matrix.VectorMatrix.top`."""
        if self.matrix is not None:
            return self.matrix.top(vector, limit, allowed)
        return merged((block.top(vector, limit, allowed) for block in self._blocks()), limit)

    def similarities(self, vector: Sequence[float], entries: Sequence[int]) -> dict[int, float]:
        """See :meth:`wenmai.stores.vector_matrix.VectorMatrix.similarities`."""
        matrix = self.matrix
        if matrix is None:
            read = fetch(self.connection, _CHOSEN, (json.dumps(list(entries)),))
            matrix = VectorMatrix.of(self.state.dimension, read, BYTE_ORDER)
        return matrix.similarities(vector, entries)

    def _blocks(self) -> Iterator[VectorMatrix]:
        last, full = 0, True
        while full:
            read = fetch(self.connection, _AFTER, (self.partition, last, self.state.block))
            block = VectorMatrix.of(self.state.dimension, read, BYTE_ORDER)
            yield block
            last, full = block.last, len(read) == self.state.block


def snapshot_vectors(
    matrices: VectorMatrices, connection: apsw.Connection, partition: int, state: State
) -> SnapshotVectors:
    """The vectors of a partition; reads those that have come since the last time."""
    matrix = _followed(matrices, connection, partition, state) if state.fits else None
    return SnapshotVectors(connection, partition, state, matrix)


def _followed(matrices: VectorMatrices, connection: apsw.Connection, partition: int, state: State) -> VectorMatrix:
    steps = matrices.follow(partition, state)
    try:
        missing = next(steps)
        while True:
            missing = steps.send(_read(connection, partition, missing))
    except StopIteration as done:
        matrix: VectorMatrix = done.value
        return matrix


def _read(connection: apsw.Connection, partition: int, missing: Missing) -> Any:
    if missing.after is None:
        return [number for (number,) in fetch(connection, _NUMBERS, (partition,))]
    return fetch(connection, _AFTER, (partition, missing.after, missing.limit))
