"""Documents whose private fields are encrypted."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from wenmai.resilience.offload import run_by_size
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.encryption.ciphers import DataKey, key_id_of
from wenmai.stores.encryption.data_keys import DataKeys
from wenmai.stores.encryption.records import LARGE, has_private_values, open_record, seal_record, size_of, with_private
from wenmai.stores.identity import INCARNATION
from wenmai.stores.records import Record, Session
from wenmai.stores.structs import Page, Stored
from wenmai.stores.values import check_owner, check_record

R = TypeVar("R", bound=Record)


class EncryptedDocuments:
    """See :class:`wenmai.stores.contracts.Documents`.

    Args:
        documents: the store.
        keys: of the users.
        writes: whether what is written is encrypted; what is read is decrypted in any case.
    """

    def __init__(self, documents: Documents, keys: DataKeys, *, writes: bool) -> None:
        self._documents = documents
        self._keys = keys
        self._writes = writes

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """Write the record with its private fields encrypted, and return it with them."""
        if not self._writes or not has_private_values(record):
            return await self._documents.put(scope, record, expected=expected, keep_until=keep_until)
        check_record(record, keep_until)
        check_owner(scope, record.key)
        created = bool(record.spec.identity) and not getattr(record, record.spec.identity)
        incarnation: str = getattr(record, INCARNATION, "")
        key = await (self._keys.current(scope) if created else self._keys.of_session(scope, incarnation))
        sealed = await run_by_size(size_of(record), LARGE, seal_record, key, scope, record)
        stored = await self._documents.put(scope, sealed, expected=expected, keep_until=keep_until)
        if created:
            stored = await self._with_current_key(scope, record, key, stored, keep_until)
        return replace(stored, record=with_private(stored.record, record))

    async def _with_current_key(
        self, scope: Scope, record: R, key: DataKey, stored: Stored[R], keep_until: datetime | None
    ) -> Stored[R]:
        """A new session, encrypted again if the key was erased meanwhile.

        An erasure that deletes the key after this check finds the session.
        """
        identity = record.spec.identity
        while not await self._keys.is_current(scope, key):
            key = await self._keys.current(scope)
            created = replace(record, **{identity: getattr(stored.record, identity)})
            stored = await self._documents.put(scope, seal_record(key, scope, created), keep_until=keep_until)
        return stored

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """The record, decrypted."""
        stored = await self._documents.get(scope, of, key)
        return None if stored is None else (await self._opened(scope, [stored]))[0]

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """The records, decrypted."""
        found = await self._documents.get_many(scope, of, keys)
        return dict(zip(found, await self._opened(scope, list(found.values())), strict=True))

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """Delete the record."""
        return await self._documents.delete(scope, of, key, expected=expected, identity=identity)

    async def list(
        self,
        scope: Scope,
        of: type[R],
        *,
        where: Mapping[str, str] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[R]:
        """The records, decrypted."""
        page = await self._documents.list(scope, of, where=where, limit=limit, cursor=cursor)
        return Page([*await self._opened(scope, page.items)], page.next_cursor)

    async def sweep(self) -> int:
        """Remove the expired records of all scopes."""
        return await self._documents.sweep()

    async def _opened(self, scope: Scope, found: Sequence[Stored[R]]) -> Sequence[Stored[R]]:
        sealed = [text for stored in found if (text := getattr(stored.record, "sealed", ""))]
        if not sealed:
            return found
        keys = await self._keys.named(scope, {key_id_of(text) for text in sealed})

        for stored in found:
            if isinstance(stored.record, Session) and stored.record.sealed:
                self._keys.know(scope, key_id_of(stored.record.sealed), stored.record.incarnation)

        def opened() -> Sequence[Stored[R]]:
            return [replace(stored, record=open_record(keys, scope, stored.record)) for stored in found]

        return await run_by_size(sum(map(len, sealed)), LARGE, opened)
