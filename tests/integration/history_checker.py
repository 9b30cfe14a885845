"""The rules of random histories: invariants that hold whatever was killed, disconnected or cancelled."""

from collections.abc import Callable, Iterator

import history_reading_rules as reading
import history_session_rules as sessions
from history_model import HistoryModel

MAX_VIOLATIONS = 12

RULES: tuple[Callable[[HistoryModel], Iterator[str]], ...] = (
    reading.foreign_texts,
    reading.mixed_up_sessions,
    reading.lost,
    reading.lost_questions,
    reading.duplicated,
    reading.gaps,
    reading.renumbered,
    reading.resurrected,
    reading.reappeared,
    sessions.concurrent_sessions,
    sessions.expired_early,
    sessions.continued_after_expiry,
    sessions.wrongly_rejected,
    sessions.answers,
    sessions.overwritten,
    sessions.unexpected_errors,
)


def violations(model: HistoryModel) -> list[str]:
    """The first violations in a history, as text; empty if there are none."""
    found = [f"{rule.__name__}: {words}" for rule in RULES for words in rule(model)]
    return found[:MAX_VIOLATIONS]
