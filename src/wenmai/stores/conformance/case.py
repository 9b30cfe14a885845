"""A case: one expectation of a contract, as a small coroutine function."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import Literal

from wenmai.stores.base import Capability
from wenmai.stores.conformance.ground import Ground

Level = Literal["base", "extended"]
"""``base`` is what Wenmai cannot do without; ``extended`` is what holds when things go wrong or grow."""


@dataclass(frozen=True, slots=True)
class Case:
    """One expectation.

    Attributes:
        name: unique in the suite.
        expectation: what must hold, in a sentence.
        durable: the case opens the URL again, so it needs a backend that outlives its opening.
    """

    name: str
    capability: Capability
    level: Level
    expectation: str
    check: Callable[[Ground], Awaitable[None]]
    durable: bool


def case(
    capability: Capability, level: Level = "base", *, durable: bool = False
) -> Callable[[Callable[[Ground], Awaitable[None]]], Case]:
    """Make the decorated function a :class:`Case`; its name and docstring become those of the case."""

    def declare(check: Callable[[Ground], Awaitable[None]]) -> Case:
        return Case(
            name=check.__name__,
            capability=capability,
            level=level,
            expectation=getdoc(check) or "",
            check=check,
            durable=durable,
        )

    return declare
