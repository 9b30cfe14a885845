"""The check at start: that the master keys and the store of data keys are those that the store was encrypted with."""

import secrets

import msgspec

from wenmai.errors import InvalidInput, VersionConflict
from wenmai.stores.contracts import Documents
from wenmai.stores.encryption.ciphers import check_value
from wenmai.stores.encryption.data_keys import DATA_KEYS_SCOPE
from wenmai.stores.encryption.marker import ENCRYPTED
from wenmai.stores.encryption.settings import MasterKey
from wenmai.stores.records import Marker
from wenmai.stores.structs import Stored
from wenmai.stores.update import update

_KEYRING = "keyring"
"""The marker beside the data keys; that beside what they encrypt has the ring's id alone."""


class _Keyring(msgspec.Struct, frozen=True):
    """The id of a set of data keys, and the master keys that wrap some of them, each with its digest."""

    ring: str
    masters: dict[str, str]


class Keyring:
    """The master keys in use.

    Args:
        documents: the store of what is encrypted.
        keys: the store of the data keys.
        masters: as configured.
    """

    def __init__(self, documents: Documents, keys: Documents, masters: tuple[MasterKey, ...]) -> None:
        self._documents = documents
        self._keys = keys
        self._masters = masters

    async def check(self, *, writes: bool) -> None:
        """Check the configuration; the first time that something is to be encrypted, remember it.

        Raises:
            InvalidInput: ``master_keys`` lack one that is in use, or have another one under its id; or ``keys_store``
                has other data keys.
            StoreError: a store cannot be read.
        """
        stored = await self._keys.get(DATA_KEYS_SCOPE, Marker, _KEYRING)
        encrypted = await self._documents.get(DATA_KEYS_SCOPE, Marker, ENCRYPTED)
        found = _decoded(stored).ring if stored else ""
        if encrypted is not None and encrypted.record.value != found:
            raise InvalidInput("keys_store", "***", "the store of the data keys with which this store is encrypted")
        if not writes:
            if stored is not None:
                self._checked(_decoded(stored))
            return
        ring = (await self._with_first(found or secrets.token_hex(8))).ring
        if encrypted is None:
            try:
                await self._documents.put(DATA_KEYS_SCOPE, Marker(name=ENCRYPTED, value=ring), expected=0)
            except VersionConflict:
                await self.check(writes=True)

    async def uses(self, key_id: str) -> bool:
        """Whether the master key is in use, or none is known to be.

        Raises:
            StoreError: the store cannot be read.
        """
        stored = await self._keys.get(DATA_KEYS_SCOPE, Marker, _KEYRING)
        return stored is None or key_id in _decoded(stored).masters

    async def drop_former(self) -> str:
        """Only the first master key is in use from now on, as it wraps all data keys; returns its id.

        Raises:
            StoreError: the store cannot be written.
        """
        first = self._masters[0].key_id

        def dropped(stored: Stored[Marker] | None) -> Marker:
            ring = _decoded(stored) if stored else _Keyring("", {})
            return _marker(_Keyring(ring.ring, {first: ring.masters[first]}))

        await update(self._keys, DATA_KEYS_SCOPE, Marker, _KEYRING, dropped)
        return first

    async def _with_first(self, new: str) -> _Keyring:
        """The keyring, in which the first master key is from now on."""

        def added(stored: Stored[Marker] | None) -> Marker:
            ring = _decoded(stored) if stored else _Keyring(new, {})
            first = self._masters[0].key_id
            return _marker(_Keyring(ring.ring, ring.masters | {first: self._checked(ring)[first]}))

        stored = await update(self._keys, DATA_KEYS_SCOPE, Marker, _KEYRING, added)
        return _decoded(stored)

    def _checked(self, ring: _Keyring) -> dict[str, str]:
        """The digests of the configured keys, among which all those are that are in use."""
        given = {master.key_id: check_value(master, ring.ring) for master in self._masters}
        for key_id, digest in ring.masters.items():
            if given.get(key_id) != digest:
                has = "another key under the id" if key_id in given else "no key with the id"
                raise InvalidInput("master_keys", "***", f"those of this store: there is {has} {key_id}")
        return given


def _decoded(stored: Stored[Marker]) -> _Keyring:
    return msgspec.json.decode(stored.record.value, type=_Keyring)


def _marker(ring: _Keyring) -> Marker:
    return Marker(name=_KEYRING, value=msgspec.json.encode(ring).decode())
