"""How a case says what it expects; independent of any test runner, and not switched off by ``python -O``."""

from collections.abc import Iterator
from contextlib import contextmanager

SHOWN = 200
"""Characters of a value that a failure shows."""


class UnmetError(AssertionError):
    """The backend did otherwise than the contract says."""


def require(condition: object, what: str) -> None:
    """Fail the case with ``what`` unless the condition holds."""
    if not condition:
        raise UnmetError(what)


def equal(found: object, wanted: object, what: str) -> None:
    """Fail the case unless the two are equal."""
    if found != wanted:
        raise UnmetError(f"{what}: found {_short(found)}, wanted {_short(wanted)}")


@contextmanager
def raises(error: type[Exception], what: str) -> Iterator[None]:
    """Fail the case unless the block raises ``error``; another error fails it by itself."""
    try:
        yield
    except error:
        return
    raise UnmetError(f"{what}: {error.__name__} was not raised")


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= SHOWN else f"{shown[: SHOWN // 2]} … {shown[-SHOWN // 2 :]}"
