"""The tier in the process: copies of the sessions used last, bounded in number and in bytes."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from wenmai.stores.base import Stored
from wenmai.stores.records import Session
from wenmai.stores.tiers.copies import SessionCopy, SessionKey
from wenmai.stores.tiers.failures import CopyFailures

SESSIONS = 10_000
BYTES = 64 * 1024 * 1024


class Load:
    """A read or a change of a session below, whose outcome is to be kept here.

    Attributes:
        spoiled: the session has changed since.
        overtaken: the copy has gone since, because of another process's change or for want of room.
    """

    def __init__(self) -> None:
        self.spoiled = False
        self.overtaken = False


class Lru:
    """Copies of sessions; the one that was used longest ago goes first. A copy that fails is forgotten.

    Args:
        sessions: how many at most.
        size: bytes that all of them take together at most, about.
    """

    def __init__(self, *, sessions: int = SESSIONS, size: int = BYTES) -> None:
        self._sessions = sessions
        self._limit = size
        self._copies: OrderedDict[SessionKey, tuple[SessionCopy, int]] = OrderedDict()
        self._loads: dict[SessionKey, list[Load]] = {}
        self._failures = CopyFailures()
        self.size = 0

    def __len__(self) -> int:
        return len(self._copies)

    def find(self, key: SessionKey, owner: str) -> SessionCopy | None:
        """The copy, if it is of this user's session; another's is as good as absent."""
        found = self._copies.get(key)
        if found is None or found[0].owner != owner:
            return None
        self._copies.move_to_end(key)
        return found[0]

    @contextmanager
    def loading(self, key: SessionKey) -> Iterator[Load]:
        """A read below, to be kept by :meth:`fill` unless the session changes meanwhile, or a :meth:`changing` one."""
        load = Load()
        loads = self._loads.setdefault(key, [])
        loads.append(load)
        try:
            yield load
        finally:
            loads.remove(load)
            if not loads:
                del self._loads[key]

    def fill(self, key: SessionKey, load: Load, found: SessionCopy) -> None:
        """Keep what was read, if nothing has changed since the load began."""
        if load.spoiled or not found.may_be_kept:
            return
        with self._forgotten_on_failure(key):
            mine = self._copies.get(key)
            if mine is not None and mine[0].owner == found.owner and _may_be_one(mine[0], found):
                mine[0].take(found)
                found = mine[0]
            self._keep(key, found)

    @contextmanager
    def changing(self, key: SessionKey, owner: str, incarnation: str | None, load: Load) -> Iterator[SessionCopy]:
        """The copy, to be brought in line with a change that is stored; what is being read meanwhile is not kept.

        Nothing is kept if the change was overtaken since ``load`` began: then it may not be the last. If the copy is of
        another incarnation than was changed, which of the two has the id cannot be told here, and both are dropped.
        """
        self._spoil(key)
        found = self._copies.get(key)
        copy = found[0] if found is not None and found[0].owner == owner else SessionCopy(owner)
        if None not in (incarnation, copy.incarnation) and copy.incarnation != incarnation:
            self.forget(key)
            yield SessionCopy(owner)
            return
        copy.incarnation = copy.incarnation or incarnation
        with self._forgotten_on_failure(key):
            yield copy
            if found is not None or not load.overtaken:
                self._keep(key, copy)

    def replace_earlier(self, key: SessionKey, stored: Stored[Session]) -> None:
        """Drop the copy of a session that had the id before the one that was stored."""
        found = self._copies.get(key)
        if found is not None and found[0].incarnation not in (None, stored.record.incarnation):
            known = found[0].session
            if known is not None and known.value.created_at < stored.created_at:
                del self._copies[key]
                self.size -= found[1]

    def doubt(self, key: SessionKey) -> None:
        """Keep the copy, for when the durable store is gone, and trust none of it any more."""
        self._spoil(key)
        if key in self._copies:
            self._copies[key][0].doubt()

    def recheck(self, key: SessionKey, owner: str) -> None:
        """Trust the copy no more if it is of this user's session: nothing was changed, but it may be stale."""
        found = self._copies.get(key)
        if found is not None and found[0].owner == owner:
            found[0].doubt()

    def forget(self, key: SessionKey, owner: str | None = None) -> None:
        """Drop the copy, if it is of this user's session; what is being read or changed meanwhile is not kept."""
        found = self._copies.get(key)
        if found is not None and owner is not None and found[0].owner != owner:
            return
        self._spoil(key, overtaken=True)
        if found is not None:
            del self._copies[key]
            self.size -= found[1]

    @contextmanager
    def _forgotten_on_failure(self, key: SessionKey) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # noqa: BLE001 — the copy is dropped, and the failure logged
            self._failures.note("kept", problem)
            self.forget(key)

    def _spoil(self, key: SessionKey, *, overtaken: bool = False) -> None:
        for load in self._loads.get(key, ()):
            load.spoiled = True
            load.overtaken |= overtaken

    def _keep(self, key: SessionKey, copy: SessionCopy) -> None:
        size = copy.size
        before = self._copies.pop(key, None)
        self._copies[key] = copy, size
        self.size += size - (before[1] if before else 0)
        while len(self._copies) > self._sessions or (self.size > self._limit and len(self._copies) > 1):
            left, (_, dropped) = self._copies.popitem(last=False)
            self.size -= dropped
            self._spoil(left, overtaken=True)


def _may_be_one(mine: SessionCopy, found: SessionCopy) -> bool:
    """Whether two copies are of one session; what was found is the newer one if they are not."""
    return None in (mine.incarnation, found.incarnation) or mine.incarnation == found.incarnation
