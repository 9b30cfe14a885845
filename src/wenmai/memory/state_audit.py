"""The audit of business states: old changes are copied into records of their own, and read back from them."""

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from wenmai.errors import VersionConflict
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import BusinessState, StateAudit, StateChange

ARCHIVED = 8
"""Changes of an audit record; a state has at most a few more than twice as many."""

_PAGE = 20


class StateAudits:
    """Writes and reads audit records."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    async def archive(self, scope: Scope, state: BusinessState) -> tuple[str, int]:
        """Copy the oldest changes into the audit; returns incarnation and version of the last of them.

        Two processes copy the same changes under the same key, so the second has nothing to do.
        """
        oldest = state.changes[:ARCHIVED]
        await self._write(scope, state, oldest)
        return state.incarnation, oldest[-1].version

    async def archive_all(self, scope: Scope, state: BusinessState) -> BusinessState:
        """Copy all changes but the newest into the audit; returns the state with these alone."""
        kept = max(0, len(state.changes) // ARCHIVED - 1) * ARCHIVED
        for start in range(0, kept, ARCHIVED):  # in order, in which they are listed
            await self._write(scope, state, state.changes[start : start + ARCHIVED])
        return replace(state, changes=state.changes[kept:])

    async def collect(
        self, scope: Scope, state: BusinessState, *, enough: int | None = None, before: int | None = None
    ) -> list[StateChange]:
        """The newest changes before a version, ascending: at least ``enough``, or all."""
        found = {change.version: change for change in state.changes}
        wanted, cursor = _count_before(state.changes, before), None
        while len(found) < state.state_version and (enough is None or wanted < enough):
            page = await self._documents.list(
                scope, StateAudit, where={"session_id": state.session_id}, limit=_PAGE, cursor=cursor
            )
            for audit in (stored.record for stored in page.items):
                if audit.incarnation == state.incarnation:
                    older = [change for change in audit.changes if change.version not in found]
                    found |= {change.version: change for change in older}
                    wanted += _count_before(older, before)
            cursor = page.next_cursor
            if cursor is None:
                break
        return [found[version] for version in sorted(found) if before is None or version < before]

    async def _write(self, scope: Scope, state: BusinessState, changes: list[StateChange]) -> None:
        audit = StateAudit(
            ref=f"{state.incarnation}/{changes[0].version}",
            session_id=state.session_id,
            incarnation=state.incarnation,
            changes=changes,
        )
        with suppress(VersionConflict):
            await self._documents.put(scope, audit, expected=0)


def _count_before(changes: Sequence[StateChange], version: int | None) -> int:
    return len(changes) if version is None else sum(change.version < version for change in changes)
