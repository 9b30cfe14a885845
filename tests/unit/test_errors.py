"""Error messages have a bounded length and a bounded cost."""

import pytest

from wenmai.errors import InvalidInput, bounded_repr


class Endless(list[object]):
    """A list that must not be iterated to its end."""

    def __len__(self) -> int:
        return 10**9

    def __iter__(self) -> "Endless":
        return self

    def __next__(self) -> object:
        self.taken = getattr(self, "taken", 0) + 1
        assert self.taken < 100
        return "x"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "'text'"),
        (b"bytes", "b'bytes'"),
        (5, "5"),
        (None, "None"),
        ([1, "a"], "[1, 'a']"),
        (("a",), "('a')"),
        ({"a": [1]}, "{'a': [1]}"),
        ([1, 2, 3, 4], "[1, 2, 3, …]"),
        pytest.param(1 << 100_000, "an integer of 100001 bits", id="huge"),
        (Endless(), "['x', 'x', 'x', …]"),
    ],
)
def test_a_value_is_shown_by_its_beginning(value: object, expected: str) -> None:
    """Small values in full, large ones by their first items."""
    assert bounded_repr(value) == expected


def test_a_value_that_shares_its_parts_is_shown_at_once() -> None:
    """Ten lines of YAML can expand to 10^50 items; they are never expanded."""
    value: list[object] = ["x"] * 10
    for _ in range(50):
        value = [value] * 10
    assert len(bounded_repr(value)) <= 80
    itself: list[object] = []
    itself.append(itself)
    assert len(bounded_repr(itself)) <= 80


def test_an_error_is_bounded_whatever_it_names() -> None:
    """Field, value and allowed values may all come from a caller."""
    error = InvalidInput("f" * 10_000, "v" * 10_000_000, "a" * 10_000)
    assert len(str(error)) < 1_000
    assert len(error.field) <= 200
    assert len(error.allowed) <= 500
