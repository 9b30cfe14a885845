"""Validation of arguments: many values at once are judged as one by one."""

from itertools import product
from typing import Any

import pytest

from wenmai.errors import InvalidInput
from wenmai.stores.validation import MAX_KEY, are_keys, check_key


class Name(str):
    """Text of a type of its own."""

    __slots__ = ()


RIGHT = ["a", "旅行", "x" * MAX_KEY, "\U0001f600", " "]
WRONG: list[Any] = ["", "x" * (MAX_KEY + 1), "a\0", "\ud83d", "\ude00", None, 5, b"a", ["a"]]


def is_key(value: object) -> bool:
    """Whether it is accepted as one key."""
    try:
        check_key("key", value)
    except InvalidInput:
        return False
    return True


@pytest.mark.parametrize("places", [0, 1, 2])
def test_many_keys_are_accepted_if_each_is(places: int) -> None:
    """With a wrong one at any place, also two of which each is half a character, they are not."""
    assert are_keys([])
    for values in product([*RIGHT, *WRONG], repeat=places + 1):
        assert are_keys(values) == all(map(is_key, values)), values


def test_keys_of_another_type_are_left_to_the_check_of_each() -> None:
    """Which accepts them."""
    assert is_key(Name("a"))
    assert not are_keys([Name("a")])
