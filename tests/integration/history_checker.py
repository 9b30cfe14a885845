"""The rules of random histories: what must hold whatever was killed, cut off or cancelled."""

from collections.abc import Callable, Iterator

import history_reading_rules as reading
import history_session_rules as sessions
from history_past import Past

MOST = 12

RULES: tuple[Callable[[Past], Iterator[str]], ...] = (
    reading.foreign_words,
    reading.mistaken_sessions,
    reading.lost,
    reading.lost_questions,
    reading.doubled,
    reading.gaps,
    reading.renumbered,
    reading.resurrected,
    reading.came_back,
    sessions.two_at_once,
    sessions.ended_in_use,
    sessions.went_on,
    sessions.refused,
    sessions.answers,
    sessions.overwritten,
    sessions.unexpected_errors,
)


def complaints(past: Past) -> list[str]:
    """Everything that is wrong with a history, in words, up to a bound; empty if nothing is."""
    found = [f"{rule.__name__}: {words}" for rule in RULES for words in rule(past)]
    return found[:MOST]
