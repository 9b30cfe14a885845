"""The vectors of one partition in process, by id: a matrix that is brought up to date when it is searched."""

from collections.abc import Iterable, Sequence

from wenmai.stores.vector_matrix import ByteOrder, VectorMatrix, to_bytes

_ORDER: ByteOrder = "<"


class Vectors:
    """See the module."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._last = 0
        self._new: dict[int, bytes] = {}
        self._matrix: VectorMatrix | None = None
        self._dimension = 0

    def __len__(self) -> int:
        """Number of vectors."""
        return len(self._numbers)

    def __contains__(self, id_: object) -> bool:
        """Whether the entry has a vector."""
        return id_ in self._numbers

    @property
    def dimension(self) -> int | None:
        """The length of the vectors; None without vectors."""
        return self._dimension if self._numbers else None

    @property
    def is_stale(self) -> bool:
        """Whether the matrix has to be brought up to date, the first time with an import of numpy."""
        return bool(self._new)

    def put(self, id_: str, vector: Sequence[float]) -> None:
        """Set the vector of an entry, of the same length as the others."""
        self.discard(id_)
        if not self._numbers:
            self._matrix, self._dimension = None, len(vector)
        self._last += 1
        self._numbers[id_], self._ids[self._last] = self._last, id_
        self._new[self._last] = to_bytes(vector, _ORDER)

    def discard(self, id_: str) -> None:
        """Remove the vector of an entry, if it has one."""
        number = self._numbers.pop(id_, None)
        if number is not None:
            del self._ids[number]
            self._new.pop(number, None)

    def top(self, vector: Sequence[float], limit: int, ids: Iterable[str] | None = None) -> dict[str, float]:
        """The cosines of the best ``limit``, and of those equal to the last, by id; of these ids alone, if given."""
        allowed = None if ids is None else self._numbers_of(ids)
        return self._by_id(self._current().top(vector, limit, allowed)) if self._numbers else {}

    def similarities(self, vector: Sequence[float], ids: Iterable[str]) -> dict[str, float]:
        """The cosine of each of the entries that has a vector."""
        return self._by_id(self._current().similarities(vector, self._numbers_of(ids))) if self._numbers else {}

    def _current(self) -> VectorMatrix:
        """The matrix with all changes so far."""
        matrix = VectorMatrix.of(self._dimension, (), _ORDER) if self._matrix is None else self._matrix
        new = [(number, number, vector) for number, vector in self._new.items()]
        self._matrix = matrix.extended(new, _ORDER)
        self._new.clear()
        if len(self._matrix) != len(self._numbers):
            self._matrix = self._matrix.restricted(list(self._ids))
        return self._matrix

    def _numbers_of(self, ids: Iterable[str]) -> list[int]:
        return [self._numbers[id_] for id_ in ids if id_ in self._numbers]

    def _by_id(self, cosines: dict[int, float]) -> dict[str, float]:
        return {self._ids[number]: cosine for number, cosine in cosines.items()}
