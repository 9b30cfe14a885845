"""Schema versions, and the progress of schema upgrades.

A backend with tables upgrades a store in place when it is opened, version by version, each in its own transaction: a
process that is killed leaves the version before or after the step, and the next process continues from there.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

_log = logging.getLogger(__name__)


class Schema(NamedTuple):
    """The version of a store's tables.

    Attributes:
        found: version of the store; 0 if it has no tables yet.
        known: the newest version that this Wenmai reads and writes, and upgrades to.
    """

    found: int
    known: int


class Step(NamedTuple):
    """One step of an upgrade, reported when it begins and when it is done.

    Attributes:
        store: the backend's name.
        found: the version before; 0 for a new store.
        reached: the version after.
        sessions, messages: how many the store contains.
        seconds: duration; None when it begins.
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
"""Called for each step when it begins and when it is done, in order."""


def log_step(step: Step) -> None:
    """Write the step to the log."""
    _log.info("%s: %s", step.store, step)
