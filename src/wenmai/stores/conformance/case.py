"""A case: one expectation of a contract, as a small coroutine function."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import Literal

from wenmai.stores.conformance.harness import Harness
from wenmai.stores.contracts import Capability

Level = Literal["base", "extended"]
"""``base``: required by Wenmai; ``extended``: behaviour under load, concurrency, reopening and failures."""


@dataclass(frozen=True, slots=True)
class Case:
    """One expectation.

    Attributes:
        name: unique in the suite.
        expectation: one sentence.
        durable: the case reopens the URL, so it needs a backend whose data survives that.
    """

    name: str
    capability: Capability
    level: Level
    expectation: str
    check: Callable[[Harness], Awaitable[None]]
    durable: bool


def case(
    capability: Capability, level: Level = "base", *, durable: bool = False
) -> Callable[[Callable[[Harness], Awaitable[None]]], Case]:
    """Make the decorated function a :class:`Case`; its name and docstring become the name and expectation."""

    def declare(check: Callable[[Harness], Awaitable[None]]) -> Case:
        return Case(
            name=check.__name__,
            capability=capability,
            level=level,
            expectation=getdoc(check) or "",
            check=check,
            durable=durable,
        )

    return declare
