"""Vectors in memory: exact order, and matrices that follow the vectors of a database."""

import tracemalloc
from collections.abc import Sequence
from math import hypot
from random import Random
from threading import Thread

import pytest

from wenmai.stores import vector_matrices
from wenmai.stores.vector_matrices import Missing, State, VectorMatrices
from wenmai.stores.vector_matrix import StoredVector, VectorMatrix, merged, to_bytes

Vectors = dict[int, list[float]]


class Table:
    """The vectors of a partition, as a database stores them, and what has been read of them."""

    def __init__(self, vectors: Vectors, changes: int = 1) -> None:
        self.vectors = vectors
        self.changes = changes
        self.read: list[int | str] = []

    def state(self) -> State:
        """Of this moment."""
        return State(self.changes, len(self.vectors), 2)

    def follow(self, matrices: VectorMatrices, partition: int = 1) -> VectorMatrix:
        """The matrix of this moment."""
        steps = matrices.follow(partition, self.state())
        try:
            missing = next(steps)
            while True:
                missing = steps.send(self._answer(missing))
        except StopIteration as done:
            matrix: VectorMatrix = done.value
            return matrix

    def _answer(self, missing: Missing) -> list[int] | list[StoredVector]:
        if missing.after is None:
            self.read.append("numbers")
            return sorted(self.vectors)
        numbers = [number for number in sorted(self.vectors) if number > missing.after][: missing.limit]
        self.read += numbers
        return _stored({number: self.vectors[number] for number in numbers})


def _stored(vectors: Vectors) -> list[StoredVector]:
    """The number of an entry is that of its vector."""
    return [(number, number, to_bytes(vector, "<")) for number, vector in vectors.items()]


def _random(count: int, dimension: int, seed: int = 1) -> Vectors:
    chance = Random(seed)  # noqa: S311 — the same each time
    return {3 * number: [chance.gauss(0, 1) for _ in range(dimension)] for number in range(1, count + 1)}


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / (hypot(*a) * hypot(*b))


def _exact(vectors: Vectors, wanted: Sequence[float]) -> list[int]:
    """All numbers in the order of their cosines."""
    scores = {number: _cosine(wanted, vector) for number, vector in vectors.items()}
    return sorted(scores, key=lambda number: -scores[number])


@pytest.mark.parametrize("allowed", [None, range(3, 150, 6), range(0, 1_000, 2)])
def test_the_best_are_those_of_the_definition(allowed: Sequence[int] | None) -> None:
    """The order is that of cosines in double precision, with few or most of the vectors allowed."""
    vectors, wanted = _random(300, 48), _random(1, 48, seed=2)[3]
    matrix = VectorMatrix.of(48, _stored(vectors), "<")
    inside = [number for number in _exact(vectors, wanted) if allowed is None or number in allowed]
    top = matrix.top(wanted, 20, allowed)
    assert list(top) == inside[:20]
    for number, similarity in matrix.similarities(wanted, inside).items():
        assert similarity == pytest.approx(_cosine(wanted, vectors[number]), abs=1e-6)
        assert top.get(number, similarity) == similarity


def test_equal_vectors_are_equally_similar_and_all_among_the_best() -> None:
    """Wherever they are in the matrix, so that the caller can order them by id."""
    vectors = _random(500, 37)
    for number in range(30, 1_500, 150):
        vectors[number] = [2.0 * number * x for x in vectors[3]]
    top = VectorMatrix.of(37, _stored(vectors), "<").top(vectors[3], 2)
    assert sorted(top) == [3, *range(30, 1_500, 150)]
    assert len(set(top.values())) == 1


def test_a_zero_vector_has_cosine_0() -> None:
    """With any vector, and any vector with it."""
    matrix = VectorMatrix.of(2, _stored({1: [0.0, 0.0], 2: [3.4e38, 3.4e38], 3: [-1e-30, 0.0]}), "<")
    assert matrix.top([1.0, 0.0], 3) == pytest.approx({2: 0.5**0.5, 1: 0.0, 3: -1.0})
    assert matrix.top([0.0, 0.0], 1) == {1: 0.0, 2: 0.0, 3: 0.0}


def test_a_matrix_does_not_change() -> None:
    """Two that extend the same one, from threads or not, have their own vectors; it has those that it had."""
    base = VectorMatrix.of(2, _stored({1: [1.0, 0.0]}), "<").reserved(1_000)
    longer: dict[int, VectorMatrix] = {}

    def extend(first: int) -> None:
        matrix = base
        for number in range(first, first + 200, 2):
            matrix = matrix.extended(_stored({number: [0.0, float(first)]}), "<")
        longer[first] = matrix

    threads = [Thread(target=extend, args=(first,)) for first in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for first in (2, 3):
        assert longer[first].top([0.0, 1.0], 1) == dict.fromkeys(range(first, first + 200, 2), 1.0)
    assert base.top([1.0, 0.0], 10) == {1: 1.0}
    assert (len(base), len(longer[2].restricted([1, 2])), len(longer[2])) == (1, 2, 101)


def test_blocks_give_what_the_whole_gives() -> None:
    """A partition that does not fit into memory is scored in blocks."""
    vectors, wanted = _random(200, 5), [1.0, 2.0, 3.0, 4.0, 5.0]
    vectors[600] = vectors[3]
    stored = _stored(vectors)
    blocks = [VectorMatrix.of(5, stored[first : first + 7], "<") for first in range(0, 200, 7)]
    whole = VectorMatrix.of(5, stored, "<")
    for limit in (1, 10, 200, 500):
        assert merged((block.top(wanted, limit) for block in blocks), limit) == whole.top(wanted, limit)


def test_a_change_reads_that_change() -> None:
    """A new vector is read alone; after a removal, or a replacement under a new number, the numbers too."""
    table, matrices = Table({1: [1.0, 0.0], 2: [0.0, 1.0], 3: [1.0, 1.0]}), VectorMatrices("<")
    assert len(table.follow(matrices)) == 3
    table.follow(matrices)
    assert table.read == [1, 2, 3]
    table.vectors[4], table.changes = [0.0, -1.0], 2
    assert list(table.follow(matrices).top([0.0, -1.0], 1)) == [4]
    assert table.read == [1, 2, 3, 4]
    del table.vectors[4]
    table.vectors[5], table.changes = [-1.0, 0.0], 3
    assert table.follow(matrices).similarities([-1.0, 0.0], [1, 4, 5]) == {1: -1.0, 5: 1.0}
    assert table.read == [1, 2, 3, 4, 5, "numbers"]
    table.vectors, table.changes = {}, 4
    assert len(table.follow(matrices)) == 0
    assert table.read == [1, 2, 3, 4, 5, "numbers", "numbers"]


def test_an_older_snapshot_has_its_own_vectors() -> None:
    """A query that began before a concurrent one sees what it has begun with, and does not set the matrix back."""
    new, old = Table({2: [0.0, 1.0]}, changes=5), Table({1: [1.0, 0.0]}, changes=4)
    matrices = VectorMatrices("<")
    new.follow(matrices)
    assert list(old.follow(matrices).top([1.0, 0.0], 1)) == [1]
    new.read.clear()
    assert list(new.follow(matrices).top([1.0, 0.0], 1)) == [2]
    assert new.read == []


def test_the_least_recently_used_matrix_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the memory that a store may use; the largest number of vectors that fit are kept."""
    tables = {number: Table({1: [1.0, 0.0]}) for number in (1, 2, 3)}
    monkeypatch.setattr(vector_matrices, "MEMORY_BYTES", 2 * (2 * 4 + 16 + vector_matrices.OVERHEAD_BYTES))
    matrices = VectorMatrices("<")
    for number in (1, 2, 1, 3, 1, 2):
        tables[number].follow(matrices, number)
    assert [table.read for table in tables.values()] == [[1], [1, 1], [1]]
    assert not State(1, 1_000, 384).fits


def test_equal_cosines_are_read_in_little_memory() -> None:
    """A query of zeros equals all vectors; they are compared in parts, without a copy of the matrix."""
    matrix = VectorMatrix.of(256, _stored({number: [float(number)] * 256 for number in range(1, 8_001)}), "<")
    tracemalloc.start()
    try:
        assert len(matrix.top([0.0] * 256, 10)) == 8_000
        assert tracemalloc.get_traced_memory()[1] < matrix.memory
    finally:
        tracemalloc.stop()


def test_numbers_count_as_memory() -> None:
    """A vector of one number takes more for its own number and that of its entry, which count."""
    matrix = VectorMatrix.of(1, _stored({number: [1.0] for number in range(1, 101)}), "<")
    assert matrix.memory >= 100 * (16 + 4)
