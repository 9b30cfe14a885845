"""Schema versions: what a backend with tables says of them, and how it tells that it upgrades a store.

A backend of this kind upgrades a store in place when it is opened, one version after another, each in a transaction
of its own: a process that is killed leaves the version before or the one after, and the next one goes on from there.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

_log = logging.getLogger(__name__)


class Schema(NamedTuple):
    """The version of a store's tables.

    Attributes:
        found: of the store; 0 for one that is still to be made.
        known: the newest one that this Wenmai reads and writes, to which it upgrades.
    """

    found: int
    known: int


class Step(NamedTuple):
    """One version's step of an upgrade, as it begins and once more when it is done.

    Attributes:
        store: the backend's name.
        found: the version before; 0 for a store that is made anew.
        reached: the version after.
        sessions, messages: how many the store holds.
        seconds: how long it took; None as it begins.
    """

    store: str
    found: int
    reached: int
    sessions: int
    messages: int
    seconds: float | None = None

    def __str__(self) -> str:
        """``schema 1 → 2, 1,000 sessions, 100,000 messages: done in 0.10 s``."""
        now = "begun" if self.seconds is None else f"done in {self.seconds:.2f} s"
        held = f"{self.sessions:,} sessions, {self.messages:,} messages"
        return f"schema {self.found} → {self.reached}, {held}: {now}"


OnStep = Callable[[Step], None]
"""Is told of each step as it begins and when it is done, in the order in which they happen."""


def log_step(step: Step) -> None:
    """Write the step to the log."""
    _log.info("%s: %s", step.store, step)
