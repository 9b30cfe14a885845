"""The vectors of a store's partitions (a scope's collection each), kept in memory and followed across processes.

A backend numbers the vectors of a partition in the order of their commits and never reuses a number: a replaced vector
gets a new one. With the partition it stores a counter of changes, the number of vectors and their length: its
:class:`State`. A query reads the state and its entries in one snapshot; if the matrix is of another state,
:meth:`VectorMatrices.follow` says what to read:

1. the vectors with a number greater than the last;
2. if there are now more rows than vectors, some were removed since: all numbers, without the vectors.
"""

from collections import OrderedDict
from collections.abc import Generator, Sequence
from threading import Lock
from typing import Any, NamedTuple

from wenmai.stores.vector_matrix import ByteOrder, StoredVector, VectorMatrix

MEMORY_BYTES = 512 * 2**20
"""Most memory for the matrices of a store; a larger partition is read in blocks by each query."""

BLOCK_BYTES = 16 * 2**20
"""A block of vectors that are read together."""

FLOAT_BYTES, NUMBER_BYTES = 4, 16
OVERHEAD_BYTES = 2_000
"""Memory of a matrix besides its rows."""


class State(NamedTuple):
    """The state of a partition's vectors in one snapshot.

    Attributes:
        changes: incremented by every transaction that adds or removes vectors of the partition.
        vectors: how many there are.
        dimension: their length.
    """

    changes: int
    vectors: int
    dimension: int

    @property
    def fits(self) -> bool:
        """Whether the vectors fit into memory."""
        return self.vectors * (self.dimension * FLOAT_BYTES + NUMBER_BYTES) <= MEMORY_BYTES

    @property
    def block(self) -> int:
        """Number of vectors that are read together."""
        return max(1, BLOCK_BYTES // (self.dimension * FLOAT_BYTES))


class Missing(NamedTuple):
    """Input of :meth:`VectorMatrices.follow`, read by a backend in the snapshot of the state.

    Attributes:
        after: the ``limit`` first vectors with a greater number, ascending; None for all numbers without vectors.
        limit: of the vectors.
    """

    after: int | None
    limit: int = 0


Read = Sequence[StoredVector] | Sequence[int]
"""Vectors, or numbers alone, by ascending number."""


class VectorMatrices:
    """The matrices of a store's partitions, within :data:`MEMORY_BYTES`; the least recently used go first."""

    def __init__(self, order: ByteOrder) -> None:
        self._order = order
        self._matrices: OrderedDict[int, tuple[int, VectorMatrix]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def follow(self, partition: int, state: State) -> Generator[Missing, Read, VectorMatrix]:
        """Bring the matrix of a partition to the state of a snapshot.

        Sent what it yields, the generator returns the matrix. Any number of them may run at once.

        Args:
            partition: unique in the store.
            state: one that :attr:`State.fits`.
        """
        with self._lock:
            changes, matrix = self._matrices.get(partition, (0, None))
            if matrix is not None and changes == state.changes:
                self._matrices.move_to_end(partition)
                return matrix
        # A state before that of the matrix is of a snapshot that began before that of a concurrent query.
        if matrix is None or changes > state.changes or matrix.dimension != state.dimension:
            matrix = VectorMatrix.of(state.dimension, (), self._order).reserved(state.vectors)
        full = True
        while full:
            read: Any = yield Missing(matrix.last, state.block)
            matrix = matrix.extended(read, self._order)
            full = len(read) == state.block
        if len(matrix) != state.vectors:
            numbers: Any = yield Missing(None)
            matrix = matrix.restricted(numbers)
        self._keep(partition, state.changes, matrix)
        return matrix

    def _keep(self, partition: int, changes: int, matrix: VectorMatrix) -> None:
        with self._lock:
            if self._matrices.get(partition, (0, None))[0] > changes:
                return
            if partition in self._matrices:
                self._bytes -= _bytes(self._matrices.pop(partition)[1])
            self._matrices[partition] = changes, matrix
            self._bytes += _bytes(matrix)
            while self._bytes > MEMORY_BYTES and len(self._matrices) > 1:
                self._bytes -= _bytes(self._matrices.popitem(last=False)[1][1])


def _bytes(matrix: VectorMatrix) -> int:
    return matrix.memory + OVERHEAD_BYTES
