"""The local cache: entries of the most recently used sessions in this process, bounded in number and in bytes."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from wenmai.stores.cache.entries import CachedSession, SessionKey
from wenmai.stores.cache.failures import EntryFailures
from wenmai.stores.records import Session
from wenmai.stores.structs import Stored

SESSIONS = 10_000
BYTES = 64 * 1024 * 1024


class Load:
    """A read or write of a session in the durable store whose result is to be cached.

    Attributes:
        invalidated: the session has changed since.
        superseded: the entry was dropped or evicted since, by another process's change or for lack of room.
    """

    def __init__(self) -> None:
        self.invalidated = False
        self.superseded = False


class Lru:
    """Cache entries by session; the least recently used is evicted first. An entry that fails is dropped.

    Args:
        sessions: the maximal number of entries.
        size: the maximal size of all of them in bytes, about.
    """

    def __init__(self, *, sessions: int = SESSIONS, size: int = BYTES) -> None:
        self._sessions = sessions
        self._limit = size
        self._entries: OrderedDict[SessionKey, tuple[CachedSession, int]] = OrderedDict()
        self._loads: dict[SessionKey, list[Load]] = {}
        self._failures = EntryFailures()
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: SessionKey, owner: str) -> CachedSession | None:
        """The entry, if it belongs to this user; another user's counts as absent."""
        found = self._entries.get(key)
        if found is None or found[0].owner != owner:
            return None
        self._entries.move_to_end(key)
        return found[0]

    @contextmanager
    def loading(self, key: SessionKey) -> Iterator[Load]:
        """Track a load until its result is cached, by :meth:`fill` for a read and by :meth:`updating` for a write."""
        load = Load()
        loads = self._loads.setdefault(key, [])
        loads.append(load)
        try:
            yield load
        finally:
            loads.remove(load)
            if not loads:
                del self._loads[key]

    def fill(self, key: SessionKey, load: Load, read: CachedSession) -> None:
        """Cache what was read, unless the session has changed since the load began."""
        if load.invalidated or not read.cacheable:
            return
        with self._dropped_on_failure(key):
            found = self._entries.get(key)
            if found is not None and found[0].owner == read.owner and _same_session(found[0], read):
                found[0].merge(read)
                read = found[0]
            self._put(key, read)

    @contextmanager
    def updating(self, key: SessionKey, owner: str, incarnation: str | None, load: Load) -> Iterator[CachedSession]:
        """The entry, to be updated with a change that is stored; loads in progress are invalidated.

        Nothing is cached if the change was superseded since ``load`` began: then it may not be the last. If the entry
        is of another incarnation than the change, which of the two has the id is unknown here, and both are dropped.
        """
        self._invalidate(key)
        found = self._entries.get(key)
        entry = found[0] if found is not None and found[0].owner == owner else CachedSession(owner)
        if None not in (incarnation, entry.incarnation) and entry.incarnation != incarnation:
            self.drop(key)
            yield CachedSession(owner)
            return
        entry.incarnation = entry.incarnation or incarnation
        with self._dropped_on_failure(key):
            yield entry
            if found is not None or not load.superseded:
                self._put(key, entry)

    def drop_predecessor(self, key: SessionKey, stored: Stored[Session]) -> None:
        """Drop the entry of a session that had the id before the one that was stored."""
        found = self._entries.get(key)
        if found is not None and found[0].incarnation not in (None, stored.record.incarnation):
            cached = found[0].records.get(Session)
            if cached is not None and cached.value is not None and cached.value.created_at < stored.created_at:
                del self._entries[key]
                self.size -= found[1]

    def mark_stale(self, key: SessionKey) -> None:
        """Mark the entry stale; it is kept as a fallback for when the durable store is unavailable."""
        self._invalidate(key)
        if key in self._entries:
            self._entries[key][0].mark_stale()

    def mark_own_stale(self, key: SessionKey, owner: str) -> None:
        """Mark the entry stale if it belongs to this user; loads in progress stay valid, since nothing was changed."""
        found = self._entries.get(key)
        if found is not None and found[0].owner == owner:
            found[0].mark_stale()

    def drop(self, key: SessionKey, owner: str | None = None) -> None:
        """Drop the entry, if it belongs to this user, and supersede the loads in progress."""
        found = self._entries.get(key)
        if found is not None and owner is not None and found[0].owner != owner:
            return
        self._invalidate(key, superseded=True)
        if found is not None:
            del self._entries[key]
            self.size -= found[1]

    @contextmanager
    def _dropped_on_failure(self, key: SessionKey) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # noqa: BLE001 — the entry is dropped, and the failure logged
            self._failures.note("kept", problem)
            self.drop(key)

    def _invalidate(self, key: SessionKey, *, superseded: bool = False) -> None:
        for load in self._loads.get(key, ()):
            load.invalidated = True
            load.superseded |= superseded

    def _put(self, key: SessionKey, entry: CachedSession) -> None:
        size = entry.size
        before = self._entries.pop(key, None)
        self._entries[key] = entry, size
        self.size += size - (before[1] if before else 0)
        while len(self._entries) > self._sessions or (self.size > self._limit and len(self._entries) > 1):
            evicted, (_, freed) = self._entries.popitem(last=False)
            self.size -= freed
            self._invalidate(evicted, superseded=True)


def _same_session(cached: CachedSession, read: CachedSession) -> bool:
    """Whether two entries are of one session; if not, the one that was read is newer."""
    return None in (cached.incarnation, read.incarnation) or cached.incarnation == read.incarnation
