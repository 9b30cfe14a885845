"""How long the server keeps records and threads that no delete or sweep has removed.

Every record with an end, and every key of a session, has an expiry of the server's, so that nothing stays for ever if
its indexes are lost. A session's keys go :data:`KEPT` after its end, and each activity moves that. Its threads, and the
records that hang on it and have no end of their own, may lag: they are given :data:`SLACK` more than the session's
record, and are extended together when the record has caught up with them, which is once a day at most.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from wenmai.clock import Clock, system_clock, to_micros
from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope
from wenmai.stores.identity import session_named_by
from wenmai.stores.records import Record, Session
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import Link, Script
from wenmai.stores.redis.reading import Reader

KEPT = timedelta(days=30)
"""How long past its last activity and its lifetime a session can still be read."""

GRACE = timedelta(hours=1)
"""How long after its end the server drops a record that no sweep has removed."""

SLACK = timedelta(days=1)
"""How much longer than the session's record its other keys are kept, at most twice that."""

_MILLISECOND = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)

SLACK_MILLISECONDS = str(SLACK // _MILLISECOND)

EXTEND = """
local function extend(key, left)
  if left > 0 then redis.call('PEXPIRE', key, left + {SLACK}) else redis.call('PERSIST', key) end
end
local function out_of_step(key, left)
  local its = redis.call('PTTL', key)
  return left > 0 and its ~= -2 and (its < left or its > left + 2 * {SLACK})
end
""".replace("{SLACK}", SLACK_MILLISECONDS)
"""Give a key of a session an expiry past that of its record, which has so many milliseconds left (none if not above 0);
and whether a key that is there has another."""

TOUCH = Script(
    EXTEND
    + """
local left = redis.call('PTTL', KEYS[1])
if left == -2 then return 0 end
for at = 2, #KEYS do
  local follows = at <= 1 + ARGV[1] or redis.call('HEXISTS', KEYS[at], '_ends') == 0
  if follows then extend(KEYS[at], left) end
end
return 1
"""
)
"""KEYS: a session's record, then the keys of its threads, then the records that hang on it. ARGV: how many keys of
threads. They are given an expiry past the record's, but for records that have an end of their own."""


class Retention:
    """Decides on expiries. A clock that is not the system's says nothing of the server's: then there are none."""

    def __init__(self, link: Link, keys: Keys, clock: Clock) -> None:
        self._link = link
        self._keys = keys
        self._reader = Reader(link, keys, clock)
        self._server_time = clock is system_clock

    @property
    def kept_micros(self) -> tuple[int, int]:
        """How long past its end a session is kept, and how long past its ``keep_until``; zeros if without expiry."""
        return ((KEPT + GRACE) // _MICROSECOND, GRACE // _MICROSECOND) if self._server_time else (0, 0)

    def expiry(self, record: Record, keep_until: datetime | None) -> int | None:
        """When the server drops the record, in microseconds; None if never."""
        if not self._server_time:
            return None
        if keep_until is not None:
            return to_micros(keep_until + GRACE)
        return to_micros(record.expires_at + KEPT + GRACE) if isinstance(record, Session) else None

    def companion(self, scope: Scope, record: Record) -> str:
        """The key whose expiry goes with the record's: a session's threads, or the session of its part; "" if none.

        Of a session it tells whether all its keys are to be extended (see :meth:`extend`).
        """
        if isinstance(record, Session):
            return self._keys.session(scope, record.session_id, ())[1]
        named = session_named_by(record)
        return self._keys.document(scope, Session, named[0]) if named else ""

    async def extend(self, scope: Scope, session_id: str, npc_ids: Callable[[], Awaitable[Sequence[str]]]) -> None:
        """Bring the expiries of all keys of a session in step; the next activity does so if the server fails."""
        try:
            document, *threads = self._keys.session(scope, session_id, await npc_ids())
            parts = await self._reader.part_names(scope, session_id)
            await self._link.run(TOUCH, (document, *threads, *parts), (len(threads),))
        except StoreUnavailable:
            return
