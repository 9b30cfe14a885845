"""Erasure of a user: everything is removed, searched for, and a receipt is issued.

A record of the erasure is stored first. A process that dies leaves it running, and :meth:`Erasures.resume` of any
process completes it. What is stored of a deleted session is refused by the store. A turn that began before the erasure
finds its record before it begins another session. Search entries that a killed process added last are removed once
more after :data:`GRACE`.
"""

import hashlib
import logging
from collections import Counter
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from wenmai.clock import Clock
from wenmai.errors import Conflict, VersionConflict
from wenmai.memory.audit import AuditLog
from wenmai.memory.erasure_receipts import ErasedItems, ErasureReceipt, Receipts
from wenmai.memory.user_data import ENTRIES, KEYS, UserData
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import ErasureRecord, Session
from wenmai.stores.structs import Stored
from wenmai.stores.update import update

_log = logging.getLogger(__name__)

ERASURES_SCOPE = Scope("*", "*", "")
"""Erasures of all tenants are found together, where no request can write."""

GRACE = timedelta(minutes=10)
"""How long after the receipt work on deleted sessions may still end."""

PASSES = 10
"""How often what arrives meanwhile is removed before the erasure is left to the background."""

_PAGE = 100

_CHECKED = [
    "a listing of every kind of record of the user",
    "the threads of the removed sessions by their ids",
    "the sizes of the user's search indexes",
    "a search for the user's own words",
]


class Erasures:
    """Erases users.

    Attributes:
        receipts: issues the receipts.
    """

    def __init__(self, documents: Documents, data: UserData, audit: AuditLog, clock: Clock) -> None:
        self._documents = documents
        self._data = data
        self._audit = audit
        self._clock = clock
        self.receipts: Receipts = Receipts()

    async def erase(self, scope: Scope, *, actor: str = "") -> ErasureReceipt:
        """Erase everything that is stored of the user, and that a running turn of the user stores meanwhile.

        An erasure of the user that was interrupted is continued. Begin and end are in the audit log, without the user.

        Args:
            scope: the user.
            actor: who erases, for the audit log.

        Raises:
            Conflict: the user writes so much that the erasure is left to the background.
            StoreError: a store failed; the erasure is continued in the background.
        """
        return await self._run(scope, await self._begun(scope, actor))

    async def was_erased(self, scope: Scope, since: datetime) -> bool:
        """Whether an erasure of the user has begun since then."""
        found = await self._newest(scope)
        return found is not None and found.record.started_at >= since

    async def was_erased_lately(self, scope: Scope) -> bool:
        """Whether an erasure of the user has begun within a day, the longest that work is expected to run."""
        return await self.was_erased(scope, self._clock() - timedelta(days=1))

    async def resume(self) -> None:
        """Continue the erasures of all users that were interrupted, and end those that are final.

        Raises:
            StoreError: a store failed.
        """
        for stored in await self._in_state("running"):
            try:
                await self._run(_owner(stored.record), stored.record)
            except Conflict as problem:
                _log.warning("%s", problem)
        for stored in await self._in_state("issued"):
            await self._finalize(stored.record)

    async def _finalize(self, record: ErasureRecord) -> None:
        """Remove what interrupted work has left, if it has had its time; all of a user who has not come back."""
        if record.finished_at is None or self._clock() < record.finished_at + GRACE:
            return
        scope = _owner(record)
        if (await self._documents.list(scope, Session, limit=1)).items:
            await self._data.remove_entries(scope, record.incarnations)
        else:
            await self._data.remove(scope)
        await self._change(record, state="final", incarnations=[], for_user="")

    async def _begun(self, scope: Scope, actor: str) -> ErasureRecord:
        """The user's running erasure, which is asked for again, or a new one; the same for two who ask at once."""
        tenant_id, site_id, user_id = scope
        subject = self.receipts.subject(*scope)
        newest = await self._newest(scope)
        previous = newest.record if newest else None
        while True:
            if previous is not None and previous.state == "running":
                # Also work that was received since the erasure began is now refused.
                previous = await self._change(previous, started_at=max(previous.started_at, self._clock()))
                if previous.state == "running":
                    return previous
            record = ErasureRecord(
                erasure_id=_following(subject, previous.erasure_id if previous else ""),
                subject=subject,
                for_tenant=tenant_id,
                for_site=site_id,
                for_user=user_id,
                started_at=self._clock(),
            )
            try:
                stored = await self._documents.put(ERASURES_SCOPE, record, expected=0)
            except VersionConflict:
                begun = await self._documents.get(ERASURES_SCOPE, ErasureRecord, record.erasure_id)
                previous = begun.record if begun else previous
                continue
            act = "erasure_began"
            await self._audit.record(tenant_id, act, actor=actor, site=site_id, erasure=record.erasure_id)
            return stored.record

    async def _run(self, scope: Scope, record: ErasureRecord) -> ErasureReceipt:
        counts, continued = Counter(record.removed), record.counted
        for number in range(PASSES):
            found = await self._data.inventory(scope)
            # First it finds again what was counted before an interruption, or by another process.
            counts = counts + found.counts if number else counts | found.counts
            record = await self._counted(record, counts, [incarnation for _, incarnation in found.sessions])
            await self._data.remove(scope)
            await self._data.forget_key(scope)
            if not await self._data.left(scope, found):
                return await self._finished(scope, record, continued=continued)
        raise Conflict(f"user {scope.user_id} is being written to all the time; the erasure goes on in the background")

    async def _finished(self, scope: Scope, record: ErasureRecord, *, continued: bool) -> ErasureReceipt:
        receipts = self.receipts
        places = {ENTRIES: receipts.search, KEYS: receipts.keys_store}
        receipt = receipts.signed(
            ErasureReceipt(
                erasure_id=record.erasure_id,
                tenant_id=scope.tenant_id,
                site_id=scope.site_id,
                user_id=scope.user_id,
                started_at=record.started_at,
                finished_at=self._clock(),
                erased=[
                    ErasedItems(what=kind, where=places.get(kind, receipts.store), count=count)
                    for kind, count in sorted(record.removed.items())
                ],
                left=0,
                checked=_CHECKED,
                later=receipts.later(),
                continued=True if continued else msgspec.UNSET,
            )
        )
        kept = msgspec.to_builtins(receipt) | {"user_id": ""}
        issued = await self._change(record, state="issued", finished_at=receipt.finished_at, receipt=kept)
        if issued.receipt != kept:  # by another process
            return msgspec.convert(issued.receipt | {"user_id": scope.user_id}, ErasureReceipt)
        await self._audit.record(
            scope.tenant_id, "user_erased", site=scope.site_id, erasure=record.erasure_id, signature=receipt.signature
        )
        return receipt

    async def _newest(self, scope: Scope) -> Stored[ErasureRecord] | None:
        where = {"subject": self.receipts.subject(*scope)}
        page = await self._documents.list(ERASURES_SCOPE, ErasureRecord, where=where, limit=1)
        return page.items[0] if page.items else None

    async def _in_state(self, state: str) -> list[Stored[ErasureRecord]]:
        found: list[Stored[ErasureRecord]] = []
        cursor, more = None, True
        while more:
            page = await self._documents.list(
                ERASURES_SCOPE, ErasureRecord, where={"state": state}, limit=_PAGE, cursor=cursor
            )
            found += page.items
            cursor, more = page.next_cursor, page.next_cursor is not None
        return found

    async def _counted(self, record: ErasureRecord, counts: Counter[str], incarnations: list[str]) -> ErasureRecord:
        """Store what was found; several processes find the same items, so that the highest counts are right."""

        def changed(stored: Stored[ErasureRecord] | None) -> ErasureRecord:
            present = stored.record if stored else record
            known = [*dict.fromkeys(present.incarnations + incarnations)]
            if present.state != "running":
                return replace(present, incarnations=known if present.state == "issued" else [])
            return replace(present, counted=True, removed=dict(Counter(present.removed) | counts), incarnations=known)

        return (await update(self._documents, ERASURES_SCOPE, ErasureRecord, record.erasure_id, changed)).record

    async def _change(self, record: ErasureRecord, **fields: object) -> ErasureRecord:
        """Change the record; one with a receipt only becomes final."""

        def changed(stored: Stored[ErasureRecord] | None) -> ErasureRecord:
            present = stored.record if stored else record
            return present if present.receipt and fields.get("state") != "final" else replace(present, **fields)

        return (await update(self._documents, ERASURES_SCOPE, ErasureRecord, record.erasure_id, changed)).record


def _following(subject: str, erasure_id: str) -> str:
    """The id of the subject's next erasure: of those who begin it at once, one stores it."""
    return f"era-{hashlib.sha256(f'{subject} {erasure_id}'.encode()).hexdigest()[:16]}"


def _owner(record: ErasureRecord) -> Scope:
    return Scope(record.for_tenant, record.for_site, record.for_user)
