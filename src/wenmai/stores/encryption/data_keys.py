"""The data keys of users: created once, stored wrapped, cached, erased with their user."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from wenmai.errors import StoreUnavailable, Undecipherable, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.encryption.ciphers import DataKey, new_key_id, unwrap, wrap
from wenmai.stores.encryption.settings import KEY_BYTES, MasterKey
from wenmai.stores.records import DataKeyRecord
from wenmai.stores.structs import Stored

DATA_KEYS_SCOPE = Scope("*", "*", "")
"""The keys of all tenants are found together, where no request can write."""

CACHE_SECONDS = 300.0
"""How long a key stays in the memory of a process; that of an erased user in other processes too."""

MAX_CACHED, MAX_SESSIONS = 10_000, 1_000
"""Keys in the memory of a process, and sessions that are known of each."""

_PAGE = 200


class _Cached(NamedTuple):
    """A key, and the incarnations of sessions that are known to have it."""

    key: DataKey
    until: float
    sessions: set[str]


class DataKeys:
    """The data keys in one store.

    A user whose key was erased gets another one with the next session. A process that has cached the former key finds
    that out when it reads the session, which names its key, or else when it writes into it for the first time.

    Args:
        documents: keep the wrapped keys.
        masters: the first one wraps new keys.
        is_in_use: whether the master key with this id was not replaced since.
    """

    def __init__(
        self, documents: Documents, masters: tuple[MasterKey, ...], is_in_use: Callable[[str], Awaitable[bool]]
    ) -> None:
        self._documents = documents
        self._is_in_use = is_in_use
        self._masters = {master.key_id: master for master in masters}
        self._first = masters[0]
        self._cache: OrderedDict[Scope, _Cached] = OrderedDict()

    async def current(self, scope: Scope) -> DataKey:
        """The user's key, which is created if there is none.

        Raises:
            StoreError: it cannot be read or stored.
        """
        return self._cached(scope) or await self._read(scope) or await self._created(scope)

    async def of_session(self, scope: Scope, incarnation: str) -> DataKey:
        """The user's key, with which something of the session may be encrypted.

        A session that is known to have the cached key has no other one: an erasure deletes both.

        Args:
            scope: the user.
            incarnation: of the session; empty if it is not known.

        Raises:
            StoreError: it cannot be read or stored.
        """
        cached = self._cached(scope)
        if cached is not None and incarnation in self._cache[scope].sessions:
            return cached
        key = await self._read(scope) or await self._created(scope)
        self.know(scope, key.key_id, incarnation)
        return key

    def know(self, scope: Scope, key_id: str, incarnation: str) -> None:
        """Remember that the session, if it is known, has this key."""
        cached = self._cache.get(scope)
        if cached is None or cached.key.key_id != key_id or not incarnation:
            return
        if len(cached.sessions) >= MAX_SESSIONS:
            cached.sessions.clear()
        cached.sessions.add(incarnation)

    async def existing(self, scope: Scope) -> DataKey | None:
        """The user's key; None if there is none, so that nothing is encrypted with it.

        Raises:
            StoreError: it cannot be read.
        """
        return self._cached(scope) or await self._read(scope)

    async def named(self, scope: Scope, key_ids: Iterable[str]) -> Mapping[str, DataKey]:
        """The user's keys with these ids, which ciphertexts name.

        Raises:
            Undecipherable: one is gone.
            StoreError: it cannot be read.
        """
        found: dict[str, DataKey] = {}
        for key_id in key_ids:
            key = self._cached(scope)
            if key is None or key.key_id != key_id:
                key = await self._read(scope)
            if key is None or key.key_id != key_id:
                raise Undecipherable(f"its data key {key_id} is gone: erased, or in another keys_store")
            found[key_id] = key
        return found

    async def is_current(self, scope: Scope, key: DataKey) -> bool:
        """Whether the key is the user's now, and was not erased since it was cached."""
        stored = await self._stored(scope)
        current = stored is not None and stored.record.key_id == key.key_id
        if not current:
            self._cache.pop(scope, None)
        return current

    async def count(self, scope: Scope) -> int:
        """1 if the user has a key, else 0."""
        return int(await self._stored(scope) is not None)

    async def forget(self, scope: Scope) -> None:
        """Erase the user's key, with which everything that it encrypts becomes unreadable."""
        await self._documents.delete(DATA_KEYS_SCOPE, DataKeyRecord, _ref(scope))
        self._cache.pop(scope, None)

    async def check(self) -> int:
        """Unwrap all data keys that are stored; returns how many. None is kept.

        Raises:
            Undecipherable: the master keys do not unwrap one.
            StoreError: they cannot be read.
        """
        done, cursor, more = 0, None, True
        while more:
            page = await self._documents.list(DATA_KEYS_SCOPE, DataKeyRecord, limit=_PAGE, cursor=cursor)
            for stored in page.items:
                self._secret(stored.record)
            done += len(page.items)
            cursor, more = page.next_cursor, page.next_cursor is not None
        return done

    async def rewrap(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Wrap all keys that another master key wraps with the first one; returns how many.

        Processes that do not have the first one may still create keys until the others are
        :meth:`dropped <wenmai.stores.encryption.keyring.Keyring.drop_former>`; then a second run finds those.

        What they encrypt is not touched. A run that was interrupted is repeated: it goes on with those that are left.

        Raises:
            Undecipherable: the master key of one of them is not configured.
        """
        done, cursor, more = 0, None, True
        while more:
            page = await self._documents.list(DATA_KEYS_SCOPE, DataKeyRecord, limit=_PAGE, cursor=cursor)
            for stored in page.items:
                if stored.record.master_id != self._first.key_id:
                    done += await self._rewrap(stored)
                    if on_progress is not None:
                        on_progress(done)
            cursor, more = page.next_cursor, page.next_cursor is not None
        return done

    async def _rewrap(self, stored: Stored[DataKeyRecord]) -> bool:
        scope, record = _owner(stored.record), stored.record
        wrapped = wrap(self._first, scope, record.key_id, self._secret(record))
        try:
            changed = replace(record, master_id=self._first.key_id, wrapped=wrapped)
            await self._documents.put(DATA_KEYS_SCOPE, changed, expected=stored.version)
        except VersionConflict:  # erased, or another process has wrapped it
            return False
        return True

    def _cached(self, scope: Scope) -> DataKey | None:
        cached = self._cache.get(scope)
        if cached is None or cached.until <= time.monotonic():
            return None
        self._cache.move_to_end(scope)
        return cached.key

    async def _stored(self, scope: Scope) -> Stored[DataKeyRecord] | None:
        return await self._documents.get(DATA_KEYS_SCOPE, DataKeyRecord, _ref(scope))

    async def _read(self, scope: Scope) -> DataKey | None:
        # The time before the read: an erasure after it is not covered.
        until = time.monotonic() + CACHE_SECONDS
        stored = await self._stored(scope)
        if stored is None:
            self._cache.pop(scope, None)
            return None
        return self._keep(scope, DataKey(stored.record.key_id, self._secret(stored.record)), until)

    async def _created(self, scope: Scope) -> DataKey:
        until = time.monotonic() + CACHE_SECONDS
        key_id, secret = new_key_id(), secrets.token_bytes(KEY_BYTES)
        record = DataKeyRecord(
            ref=_ref(scope),
            key_id=key_id,
            master_id=self._first.key_id,
            wrapped=wrap(self._first, scope, key_id, secret),
            for_tenant=scope.tenant_id,
            for_site=scope.site_id,
            for_user=scope.user_id,
        )
        try:
            await self._documents.put(DATA_KEYS_SCOPE, record, expected=0)
        except VersionConflict:  # another process was faster: both use its key
            return await self.current(scope)
        if not await self._is_in_use(record.master_id):
            await self._documents.delete(DATA_KEYS_SCOPE, DataKeyRecord, record.ref, expected=1)
            reason = f"the master key {record.master_id} was replaced: restart this process with the present one"
            raise StoreUnavailable("data keys", reason)
        return self._keep(scope, DataKey(key_id, secret), until)

    def _keep(self, scope: Scope, key: DataKey, until: float) -> DataKey:
        self._cache[scope] = _Cached(key, until, set())
        self._cache.move_to_end(scope)
        while len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)
        return key

    def _secret(self, record: DataKeyRecord) -> bytes:
        master = self._masters.get(record.master_id)
        if master is None:
            raise Undecipherable(f"the master key {record.master_id} is not among master_keys")
        return unwrap(master, _owner(record), record.key_id, record.wrapped)


def _owner(record: DataKeyRecord) -> Scope:
    return Scope(record.for_tenant, record.for_site, record.for_user)


def _ref(scope: Scope) -> str:
    return sha256(msgspec.json.encode(scope)).hexdigest()
