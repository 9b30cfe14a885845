"""Invalidations that Redis has not received yet, bounded in number."""

import logging
from collections import OrderedDict
from typing import Literal, NamedTuple

from wenmai.scope import Scope

_log = logging.getLogger(__name__)

MAX_STALE = 50_000
"""Pending sessions to mark stale; past that the oldest is forgotten, and its entry becomes stale by age alone."""

MAX_DROPS = 200_000
"""Pending sessions to drop; past that the oldest is forgotten, and its entry stays on Redis until its TTL ends."""

Key = tuple[Scope, str]
"""The user who changed a session, and its id."""

_STRENGTH = ("mark_own_stale", "mark_stale", "drop")


class PendingInvalidation(NamedTuple):
    """An invalidation of a session's entry on Redis.

    Attributes:
        action: ``mark_own_stale`` marks the entry stale if it belongs to the scope's user, ``mark_stale`` does so for
            any owner, ``drop`` deletes it.
        persona_ids: the personas of threads to delete with it.
    """

    action: Literal["mark_own_stale", "mark_stale", "drop"]
    persona_ids: frozenset[str] = frozenset()


MARK_OWN_STALE, MARK_STALE, DROP = (
    PendingInvalidation("mark_own_stale"),
    PendingInvalidation("mark_stale"),
    PendingInvalidation("drop"),
)


class PendingInvalidations:
    """A queue of invalidations. Drops have their own bound: their entries hold text that a user deleted."""

    def __init__(self, *, max_stale: int = MAX_STALE, max_drops: int = MAX_DROPS) -> None:
        self._max_stale = max_stale
        self._max_drops = max_drops
        self._stale: OrderedDict[Key, PendingInvalidation] = OrderedDict()
        self._drops: OrderedDict[Key, PendingInvalidation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._stale) + len(self._drops)

    def __contains__(self, key: Key) -> bool:
        return key in self._stale or key in self._drops

    def add(self, key: Key, invalidation: PendingInvalidation) -> None:
        """Queue an invalidation, merged with what is pending for the session."""
        pending = self._stale.pop(key, None) or self._drops.pop(key, None) or MARK_OWN_STALE
        action = max(pending.action, invalidation.action, key=_STRENGTH.index)
        # Always a new object: by its identity an invalidation in progress finds that another one came after it.
        self._queue_of(action)[key] = PendingInvalidation(action, pending.persona_ids | invalidation.persona_ids)
        if len(self._stale) > self._max_stale:
            self._stale.popitem(last=False)
        if len(self._drops) > self._max_drops:
            (_, session_id), _ = self._drops.popitem(last=False)
            _log.warning("too many deletions pending: the Redis entry of session %s stays until its TTL", session_id)

    def next(self) -> tuple[Key, PendingInvalidation]:
        """The invalidation to send first."""
        return next(iter((self._drops or self._stale).items()))

    def done(self, key: Key, invalidation: PendingInvalidation) -> None:
        """Remove an invalidation, unless another one of the session was added since."""
        queue = self._queue_of(invalidation.action)
        if queue.get(key) is invalidation:
            del queue[key]

    def postpone(self, key: Key) -> None:
        """Move the session to the end of its queue."""
        for queue in (self._stale, self._drops):
            if key in queue:
                queue.move_to_end(key)

    def _queue_of(self, action: str) -> OrderedDict[Key, PendingInvalidation]:
        return self._drops if action == "drop" else self._stale
