"""Enumerates the threads of all scopes by SCAN, in short pages."""

from collections.abc import Mapping
from datetime import datetime

from wenmai.clock import to_micros
from wenmai.errors import InvalidInput
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import Link
from wenmai.stores.structs import ActiveThread, ActiveThreads

_SESSION_FIELDS = ("_user", "_ends", "_born", "updated_at")
_START = "0"
_MAX_DIGITS = 20
"""Of SCAN's cursor, an unsigned 64-bit integer."""


async def enumerate_threads(
    link: Link, keys: Keys, now: datetime, since: datetime | None, cursor: str | None, limit: int
) -> ActiveThreads:
    """See :meth:`wenmai.stores.contracts.Logs.active_threads`; ``limit`` counts the keys that are examined.

    Raises:
        InvalidInput: the cursor is invalid.
    """
    if cursor is None:
        # SCAN has no key, so no node of a cluster redirects it: this command finds the node with the keys.
        await link.command("EXISTS", keys.ending)
    elif not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _MAX_DIGITS):
        raise InvalidInput("cursor", cursor, "a cursor of an earlier page")
    position, names = await link.command("SCAN", cursor or _START, "MATCH", keys.all_sessions, "COUNT", limit)
    sessions = await _live_sessions(link, keys, [name.decode() for name in names], now, since)
    items = await _threads(link, keys, sessions)
    following = position.decode()
    return ActiveThreads(items, None if following == _START else following)


_Sessions = Mapping[tuple[Scope, str], tuple[str, datetime]]
"""Owner and session id → incarnation and ``active_at``."""


async def _live_sessions(link: Link, keys: Keys, names: list[str], now: datetime, since: datetime | None) -> _Sessions:
    rows = await link.commands([("HMGET", name, *_SESSION_FIELDS) for name in names])
    live = {}
    for name, (user, ends, born, updated_at) in zip(names, rows, strict=True):
        if user is None or (ends and int(ends) <= to_micros(now)):
            continue
        active_at = datetime.fromisoformat(updated_at.decode())
        if since is None or active_at > since:
            tenant, site, session_id = keys.parse_session(name)
            live[Scope(tenant, site, user.decode()), session_id] = (born.decode(), active_at)
    return live


async def _threads(link: Link, keys: Keys, sessions: _Sessions) -> list[ActiveThread]:
    listings = [keys.session(scope, session_id, ())[1] for scope, session_id in sessions]
    listed = await link.commands([("ZRANGE", listing, 0, -1) for listing in listings])
    threads = [
        (scope, ThreadKey(session_id, persona_id.decode(), born), active_at)
        for ((scope, session_id), (born, active_at)), persona_ids in zip(sessions.items(), listed, strict=True)
        for persona_id in persona_ids
    ]
    numbers = [keys.thread(scope, thread).numbers for scope, thread, _ in threads]
    found = await link.commands([("HMGET", key, "_born", "_count") for key in numbers])
    return [
        ActiveThread(scope, thread, int(count), active_at)
        for (scope, thread, active_at), (born, count) in zip(threads, found, strict=True)
        if born is not None and born.decode() == thread.incarnation
    ]
