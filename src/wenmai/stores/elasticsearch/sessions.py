"""Sessions as owners: the lookup of one, and the removal of all that belongs to it.

A session is deleted in three steps: its document is marked, from which moment the session and all that is bound to it
are absent; what belongs to it is removed; then the document is. A process that dies in between leaves the mark, and the
next sweep, or the next session with that id, continues.
"""

from collections.abc import Sequence
from datetime import datetime

from wenmai.errors import SessionNotFound
from wenmai.scope import Scope
from wenmai.stores.elasticsearch.client import Client, Found, Ref, Write
from wenmai.stores.elasticsearch.indices import OTHERS, SESSIONS, STATES
from wenmai.stores.elasticsearch.rows import Row, row_of
from wenmai.stores.elasticsearch.threads import remove_threads


def living_session(found: Found | None, scope: Scope, now: datetime, incarnation: str | None) -> Row | None:
    """The session if it exists for the scope, and is that incarnation; None or "" for any."""
    row = row_of(found)
    if row is None or row.user_id != scope.user_id or not row.is_alive(now):
        return None
    return row if incarnation in (None, "", row.incarnation) else None


def required_session(found: Found | None, scope: Scope, now: datetime, named: tuple[str, str]) -> Row:
    """The living session of that id and incarnation.

    Raises:
        SessionNotFound: there is none.
    """
    session_id, incarnation = named
    row = living_session(found, scope, now, incarnation)
    if row is None:
        raise SessionNotFound(session_id)
    return row


async def bound_to_living(client: Client, rows: Sequence[Row], now: datetime) -> list[bool]:
    """For each row, whether the session that it is bound to exists; True if it is bound to none."""
    ids = list({row.session for row in rows if row.session})
    if not ids:
        return [True] * len(rows)
    refs = [Ref(client.index(SESSIONS), id_) for id_ in ids]
    found = await client.get(refs)
    living = {
        (id_, session.incarnation)
        for id_, each in zip(ids, found, strict=True)
        if (session := row_of(each)) is not None and session.is_alive(now)
    }
    return [not row.session or (row.session, row.incarnation) in living for row in rows]


async def purge_session(client: Client, ref: Ref) -> None:
    """Remove a session that is deleted or expired, with all that belongs to it."""
    [found] = await client.get([ref])
    row = row_of(found)
    if row is None:
        return
    if not row.deleted:
        row.deleted = True
        if not all(await client.write([Write(ref, row.document(), found)])):
            return
        [found] = await client.get([ref])
    await remove_threads(client, ref.id, row.personas, row.incarnation)
    mine = [{"term": {"session": ref.id}}, {"term": {"incarnation": row.incarnation}}]
    await client.delete_where([client.index(STATES), client.index(OTHERS)], {"bool": {"filter": mine}})
    if found is not None:
        await client.write([Write(ref, None, found)])
