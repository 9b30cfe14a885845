"""The audit log of a tenant: entries that are only appended, each with the digest of the one before.

Changing or removing an entry breaks the chain from there on. Whoever can write to the store can make a new chain, or
cut off its end: compare the newest digest with one that was kept elsewhere.
"""

import asyncio
import hashlib
from typing import Annotated
from weakref import WeakValueDictionary

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from wenmai.clock import Clock
from wenmai.errors import VersionConflict
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import AuditEntry

_DIGITS = 12
_PAGE = 200


class AuditStatus(msgspec.Struct, frozen=True):
    """The result of a verification."""

    entries: Annotated[int, Meta(description="Number of entries.")]
    newest: Annotated[str, Meta(description="The digest of the last valid entry.")]
    broken_at: Annotated[
        int | None, Meta(description="The first entry that is missing or wrong; null if all are valid.")
    ]


class AuditLog:
    """The audit logs of all tenants."""

    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._known: dict[str, int] = {}
        """Tenant → number of the newest entry that this process wrote: a listing lacks it if the clock went back."""
        self._appending: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Of each tenant: of many entries at once each would lose against all the others."""

    async def record(self, tenant_id: str, act: str, *, actor: str = "", **details: str) -> AuditEntry:
        """Append an entry; durable on return.

        Raises:
            StoreError: it may not be stored.
        """
        async with self._appending.setdefault(tenant_id, asyncio.Lock()):
            return await self._append(tenant_id, act, actor, details)

    async def _append(self, tenant_id: str, act: str, actor: str, details: dict[str, str]) -> AuditEntry:
        scope = _scope(tenant_id)
        last = await self._last(scope, self._known.get(tenant_id, 0))
        while True:
            number = last.number + 1 if last else 1
            entry = AuditEntry(
                ref=_ref(number),
                number=number,
                at=self._clock(),
                act=act,
                actor=actor,
                details=details,
                previous=last.digest if last else "",
            )
            entry = replace(entry, digest=digest_of(entry))
            try:
                stored = await self._documents.put(scope, entry, expected=0)
            except VersionConflict:
                last = await self._last(scope, number)
            else:
                self._known[tenant_id] = number
                return stored.record

    async def entries(self, tenant_id: str, *, limit: int = 50, before: int | None = None) -> list[AuditEntry]:
        """The newest entries, newest first; ``before`` is the number of one."""
        scope = _scope(tenant_id)
        last = await self._last(scope)
        newest = min(last.number if last else 0, before - 1 if before is not None else 2**62)
        return (await self._read(scope, max(1, newest - limit + 1), newest))[::-1]

    async def verify(self, tenant_id: str) -> AuditStatus:
        """Check every entry of the tenant."""
        scope = _scope(tenant_id)
        last = await self._last(scope)
        count, previous = last.number if last else 0, ""
        for start in range(1, count + 1, _PAGE):
            end = min(start + _PAGE - 1, count)
            found = {entry.number: entry for entry in await self._read(scope, start, end)}
            for number in range(start, end + 1):
                entry = found.get(number)
                if entry is None or entry.previous != previous or entry.digest != digest_of(entry):
                    return AuditStatus(count, previous, number)
                previous = entry.digest
        return AuditStatus(count, previous, None)

    async def _last(self, scope: Scope, known: int = 0) -> AuditEntry | None:
        """The entry with the highest number, at least ``known``, whatever clocks of several processes say."""
        page = await self._documents.list(scope, AuditEntry, limit=1)
        number = max([known, *(stored.record.number for stored in page.items)])
        last: AuditEntry | None = None
        while found := await self._read(scope, number, number + _PAGE - 1):
            last = found[-1]
            if last.number < number + _PAGE - 1:
                break
            number += _PAGE
        return last

    async def _read(self, scope: Scope, first: int, last: int) -> list[AuditEntry]:
        found = []
        for start in range(first, last + 1, _PAGE):
            keys = [_ref(number) for number in range(start, min(start + _PAGE, last + 1))]
            stored = await self._documents.get_many(scope, AuditEntry, keys)
            found += [stored[key].record for key in keys if key in stored]
        return found


def _scope(tenant_id: str) -> Scope:
    """Where no request can write: no site is named ``*``."""
    return Scope(tenant_id, "*", "")


def _ref(number: int) -> str:
    return f"{number:0{_DIGITS}d}"


def digest_of(entry: AuditEntry) -> str:
    """The SHA-256 of all fields but the digest itself, in hexadecimal."""
    content = msgspec.json.encode(replace(entry, digest=""), order="deterministic")
    return hashlib.sha256(content).hexdigest()
