"""Exact vector search in memory, shared by backends: normalised vectors as the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]
    Numbers = NDArray[np.int64]

ByteOrder = Literal["<", ">"]

StoredVector = tuple[int, int, bytes]
"""The number of a vector, its entry, and its numbers."""

EXACT_NUMBERS = 2**15
"""Numbers of vectors that are compared exactly at once, in 256 kB."""

ROUNDING = 2**-23
"""Twice the rounding of a 32-bit product, relative to it."""


def to_bytes(vector: Sequence[float], order: ByteOrder) -> bytes:
    """The vector as it is stored, in 32-bit floats."""
    return pack(f"{order}{len(vector)}f", *vector)


class VectorMatrix:
    """The vectors, normalised, of entries; never changed, so that threads may share it.

    Vectors have ascending numbers. A longer matrix shares the memory of the one that it extends.
    """

    def __init__(self, buffer: _Buffer, size: int, alive: NDArray[np.bool_] | None = None) -> None:
        self._buffer = buffer
        self._alive = alive
        self._numbers, self._entries, self._rows = buffer.numbers[:size], buffer.entries[:size], buffer.rows[:size]
        self._size = size
        self._live = size if alive is None else int(alive.sum())
        self._sorted: tuple[Numbers, NDArray[np.intp]] | None = None

    @classmethod
    def of(cls, dimension: int, read: Iterable[StoredVector], order: ByteOrder) -> VectorMatrix:
        """A matrix of these vectors, by ascending number."""
        return cls(_Buffer(dimension, 0), 0).extended(list(read), order)

    def __len__(self) -> int:
        """Number of vectors."""
        return self._live

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return int(self._buffer.rows.shape[1])

    @property
    def last(self) -> int:
        """The greatest number that it has had; 0 if none."""
        return int(self._numbers[-1]) if self._size else 0

    @property
    def memory(self) -> int:
        """Bytes."""
        return self._buffer.rows.nbytes + self._buffer.numbers.nbytes + self._buffer.entries.nbytes

    def reserved(self, capacity: int) -> VectorMatrix:
        """The same vectors, with room for so many."""
        return VectorMatrix(self._copy(capacity, used=self._size), self._size, self._alive)

    def extended(self, read: Sequence[StoredVector], order: ByteOrder) -> VectorMatrix:
        """With these vectors, whose numbers are ascending and greater than the last."""
        import numpy as np  # noqa: PLC0415 — only searches by vector need it

        if not read:
            return self
        size = self._size + len(read)
        buffer = self._buffer if self._buffer.claim(self._size, size) else self._copy(size + size // 2, used=size)
        buffer.numbers[self._size : size] = [number for number, _, _ in read]
        buffer.entries[self._size : size] = [entry for _, entry, _ in read]
        joined = np.frombuffer(b"".join(vector for _, _, vector in read), np.dtype(f"{order}f4"))
        buffer.rows[self._size : size] = _normalised(joined.reshape(len(read), -1))
        alive = None if self._alive is None else np.concatenate([self._alive, np.ones(len(read), bool)])
        return VectorMatrix(buffer, size, alive)

    def restricted(self, numbers: Sequence[int]) -> VectorMatrix:
        """Without the vectors that have other numbers."""
        import numpy as np  # noqa: PLC0415

        alive = np.isin(self._numbers, np.asarray(numbers, np.int64))
        without = VectorMatrix(self._buffer, self._size, alive)
        return without if 2 * len(without) >= self._size else without._compacted()

    def top(self, vector: Sequence[float], limit: int, allowed: Sequence[int] | None = None) -> dict[int, float]:
        """The cosines of the best, by entry, in descending order, with all that equal the last of them.

        Args:
            vector: of the same length; the cosine with a zero vector is 0.
            limit: at least so many, if there are.
            allowed: only vectors of these entries.
        """
        import numpy as np  # noqa: PLC0415

        wanted = _normalised(np.asarray([vector], np.float64))[0]
        positions = self._positions(allowed)
        if positions is None:
            near = self._rows @ wanted
        elif 4 * len(positions) < self._size:  # copying many rows takes longer than scoring all
            near = self._rows[positions] @ wanted
        else:
            near = (self._rows @ wanted)[positions]
        if limit < len(near):
            worst = np.partition(near, len(near) - limit)[len(near) - limit]
            best = np.flatnonzero(near >= worst - 2 * self.dimension * ROUNDING)
            positions = best if positions is None else positions[best]
        elif positions is None:
            positions = np.arange(self._size)
        return _best(self._exact(positions, wanted), limit)

    def similarities(self, vector: Sequence[float], entries: Sequence[int]) -> dict[int, float]:
        """The cosine of each entry that has a vector."""
        import numpy as np  # noqa: PLC0415

        positions = self._positions(entries)
        if positions is None:
            return {}
        return dict(self._exact(positions, _normalised(np.asarray([vector], np.float64))[0]))

    def _exact(self, positions: NDArray[np.intp], wanted: Rows) -> list[tuple[int, float]]:
        """Entries and cosines; equal vectors have equal ones, which a product of matrices does not promise."""
        exact = wanted.astype("f8")
        cosines: list[float] = []
        step = max(1, EXACT_NUMBERS // self.dimension)
        for start in range(0, len(positions), step):  # all may be equal, so that this would copy the whole matrix
            rows = self._rows[positions[start : start + step]].astype("f8")
            rows *= exact
            cosines += rows.sum(axis=1).clip(-1.0, 1.0).tolist()
        return list(zip(self._entries[positions].tolist(), cosines, strict=True))

    def _positions(self, entries: Sequence[int] | None) -> NDArray[np.intp] | None:
        """The rows of these entries' vectors; None for all rows."""
        import numpy as np  # noqa: PLC0415

        if entries is None:
            return None if self._alive is None else np.flatnonzero(self._alive)
        if self._sorted is None:
            live = np.arange(self._size) if self._alive is None else np.flatnonzero(self._alive)
            order = live[np.argsort(self._entries[live], kind="stable")]
            self._sorted = self._entries[order], order
        held, rows = self._sorted
        wanted = np.unique(np.asarray(entries, np.int64))
        found = np.searchsorted(held, wanted)
        inside = found < len(held)
        found, wanted = found[inside], wanted[inside]
        positions: NDArray[np.intp] = rows[found[held[found] == wanted]]
        return positions

    def _copy(self, capacity: int, used: int) -> _Buffer:
        buffer = _Buffer(self.dimension, max(capacity, self._size), used)
        buffer.fill(self._numbers, self._entries, self._rows)
        return buffer

    def _compacted(self) -> VectorMatrix:
        buffer = _Buffer(self.dimension, len(self), len(self))
        buffer.fill(self._numbers[self._alive], self._entries[self._alive], self._rows[self._alive])
        return VectorMatrix(buffer, len(self))


class _Buffer:
    """Memory for numbers, entries and rows, of which the first ``_used`` belong to a matrix."""

    def __init__(self, dimension: int, capacity: int, used: int = 0) -> None:
        import numpy as np  # noqa: PLC0415

        self.numbers: Numbers = np.empty(capacity, np.int64)
        self.entries: Numbers = np.empty(capacity, np.int64)
        self.rows: Rows = np.empty((capacity, dimension), np.float32)
        self._used = used
        self._lock = Lock()

    def fill(self, numbers: Numbers, entries: Numbers, rows: Rows) -> None:
        """Set the first rows."""
        size = len(numbers)
        self.numbers[:size], self.entries[:size], self.rows[:size] = numbers, entries, rows

    def claim(self, size: int, wanted: int) -> bool:
        """Reserve the rows between both sizes, if they exist and no other matrix has them."""
        with self._lock:
            if self._used != size or wanted > len(self.numbers):
                return False
            self._used = wanted
            return True


def merged(tops: Iterable[dict[int, float]], limit: int) -> dict[int, float]:
    """The best of several :meth:`VectorMatrix.top`, in the same form: for a partition that is read in blocks."""
    best: dict[int, float] = {}
    for top in tops:
        best = _best([*best.items(), *top.items()], limit)
    return best


def _best(scored: list[tuple[int, float]], limit: int) -> dict[int, float]:
    """The best, in descending order, with all that equal the last of them."""
    scored.sort(key=lambda each: -each[1])
    if limit < len(scored):
        worst = scored[limit - 1][1]
        scored = [each for each in scored if each[1] >= worst]
    return dict(scored)


def _normalised(rows: NDArray[Any]) -> Rows:
    """Each row normalised to length 1; zeros stay."""
    import numpy as np  # noqa: PLC0415

    exact = rows.astype(np.float64)
    lengths = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    lengths[lengths == 0] = 1
    exact /= lengths
    return exact.astype(np.float32)
