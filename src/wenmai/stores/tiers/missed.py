"""Changes of sessions that the Redis server has not heard of yet, within a bound."""

import logging
from collections import OrderedDict
from typing import Literal, NamedTuple

from wenmai.scope import Scope

_log = logging.getLogger(__name__)

DOUBTS = 50_000
"""Sessions whose copies are to be invalidated; past that the oldest is left to the bound of the trust."""

REMOVALS = 200_000
"""Sessions whose copies are to be removed; past that the oldest is left to the server's expiry of copies."""

Key = tuple[Scope, str]
"""Who has changed a session, and its id."""

_ORDER = ("recheck", "doubt", "drop")


class Repair(NamedTuple):
    """How the server's copy of a session is brought in line.

    Attributes:
        how: ``recheck`` invalidates the copy if it is the scope's own, ``doubt`` invalidates it whoever owns it,
            ``drop`` removes it.
        npc_ids: to be removed with the threads of these personas.
    """

    how: Literal["recheck", "doubt", "drop"]
    npc_ids: frozenset[str] = frozenset()


RECHECK, DOUBT, DROP = Repair("recheck"), Repair("doubt"), Repair("drop")


class Missed:
    """What is to be repaired. A removal makes room for no other: it holds words that were deleted."""

    def __init__(self, *, doubts: int = DOUBTS, removals: int = REMOVALS) -> None:
        self._bounds = {"doubt": doubts, "drop": removals}
        self._doubts: OrderedDict[Key, Repair] = OrderedDict()
        self._removals: OrderedDict[Key, Repair] = OrderedDict()

    def __len__(self) -> int:
        return len(self._doubts) + len(self._removals)

    def __contains__(self, key: Key) -> bool:
        return key in self._doubts or key in self._removals

    def add(self, key: Key, repair: Repair) -> None:
        """Note a repair, beside what is already noted of the session."""
        noted = self._doubts.pop(key, None) or self._removals.pop(key, None) or RECHECK
        how = max(noted.how, repair.how, key=_ORDER.index)
        # A new object, also where nothing is new: by that a repair under way knows that it is not the last.
        self._of(how)[key] = Repair(how, noted.npc_ids | repair.npc_ids)
        if len(self._doubts) > self._bounds["doubt"]:
            self._doubts.popitem(last=False)
        if len(self._removals) > self._bounds["drop"]:
            (_, session_id), _ = self._removals.popitem(last=False)
            _log.warning("too many removals wait for Redis: the copy of session %s stays until it expires", session_id)

    def next(self) -> tuple[Key, Repair]:
        """What is to be repaired first."""
        return next(iter((self._removals or self._doubts).items()))

    def done(self, key: Key, repair: Repair) -> None:
        """Forget a repair, unless another one of the session has been noted since."""
        noted = self._of(repair.how)
        if noted.get(key) is repair:
            del noted[key]

    def postpone(self, key: Key) -> None:
        """Let the others come first."""
        for noted in (self._doubts, self._removals):
            if key in noted:
                noted.move_to_end(key)

    def _of(self, how: str) -> OrderedDict[Key, Repair]:
        return self._removals if how == "drop" else self._doubts
