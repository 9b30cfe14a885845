"""The public names: what ``import wenmai`` offers is decided on purpose, and documented."""

import inspect
from collections.abc import Iterator

import pytest

import wenmai
from wenmai import blocking

PUBLIC = [
    "Conflict",
    "Encryption",
    "InvalidInput",
    "Memory",
    "MemoryPolicy",
    "Message",
    "MissingExtra",
    "ModelError",
    "MovableClock",
    "NewMessage",
    "NotFound",
    "Scope",
    "SessionExpired",
    "SessionMemory",
    "SessionNotFound",
    "StoreError",
    "StoreUnavailable",
    "WenmaiError",
    "Window",
    "WindowLimits",
    "open",
]


def test_the_public_names_are_pinned() -> None:
    """A name is added or taken away by changing this list too, and the changelog."""
    assert sorted(wenmai.__all__) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name: str) -> None:
    """What the list promises can be had."""
    assert hasattr(wenmai, name)


def undocumented(name: str, thing: object) -> Iterator[str]:
    """The name, and those of its public methods and properties, that have no docstring of their own."""
    if not (vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)):
        yield name
    if not isinstance(thing, type):
        return
    for member, value in vars(thing).items():
        function = inspect.isroutine(value) or isinstance(value, property)
        if function and not member.startswith("_") and not inspect.getdoc(value):
            yield f"{name}.{member}"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name: str) -> None:
    """Each public class and function says what it is, and so does each public method."""
    assert list(undocumented(name, getattr(wenmai, name))) == []


@pytest.mark.parametrize("thing", [blocking.open, blocking.BlockingMemory, blocking.BlockingSession])
def test_the_blocking_shell_is_documented(thing: type) -> None:
    """The names of ``wenmai.blocking`` say what they are too."""
    assert list(undocumented(thing.__name__, thing)) == []


def test_a_missing_docstring_is_found() -> None:
    """The check sees a class without one, even below a documented base, and a method without one."""

    class Documented:
        """Has a docstring."""

        def bare(self) -> None:
            pass

    class Inheriting(Documented):
        pass

    assert list(undocumented("Documented", Documented)) == ["Documented.bare"]
    assert list(undocumented("Inheriting", Inheriting)) == ["Inheriting"]
