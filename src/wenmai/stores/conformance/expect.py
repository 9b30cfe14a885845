"""Assertions for cases; independent of any test runner, and not disabled by ``python -O``."""

from collections.abc import Iterator
from contextlib import contextmanager

MAX_SHOWN = 200
"""Most characters of a value in a failure message."""


class ExpectationError(AssertionError):
    """The backend does not meet the contract."""


def require(condition: object, what: str) -> None:
    """Fail the case with ``what`` unless the condition holds."""
    if not condition:
        raise ExpectationError(what)


def equal(found: object, wanted: object, what: str) -> None:
    """Fail the case unless the two are equal."""
    if found != wanted:
        raise ExpectationError(f"{what}: found {_short(found)}, wanted {_short(wanted)}")


@contextmanager
def raises(error: type[Exception], what: str) -> Iterator[None]:
    """Fail the case unless the block raises ``error``; any other error propagates."""
    try:
        yield
    except error:
        return
    raise ExpectationError(f"{what}: {error.__name__} was not raised")


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= MAX_SHOWN else f"{shown[: MAX_SHOWN // 2]} … {shown[-MAX_SHOWN // 2 :]}"
