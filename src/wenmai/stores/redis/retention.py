"""Expiry on the server of records and threads that no delete or sweep has removed.

Every record with an end, and every key of a session, has an expiry, so that nothing stays for ever if its indexes are
lost. A session's keys expire ``kept`` after its end, which each activity moves. Its threads, and the records bound
to it that have no end of their own, expire up to twice :data:`SLACK` later than the session's record; they are extended
together, once a day at most, when its expiry has caught up with theirs.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from wenmai.clock import Clock, system_clock, to_micros
from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope
from wenmai.stores.identity import bound_session
from wenmai.stores.records import Record, Session
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import Link, Script
from wenmai.stores.redis.reading import Reader

GRACE = timedelta(hours=1)
"""How long after its end the server expires a record that no sweep has removed."""

SLACK = timedelta(days=1)
"""How much later than the session's record its other keys expire; up to twice that."""

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
"""``extend`` sets the expiry of a session's key past that of its record, which has ``left`` milliseconds (no expiry if
not above 0); ``out_of_step`` is whether an existing key has another expiry."""

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
"""Extend all keys of a session, except records that have an end of their own.

KEYS: a session's record, then the keys of its threads, then the records bound to it. ARGV: the number of thread keys.
"""


class Retention:
    """Computes expiries. There are none if the clock is not the system's, since the server has its own.

    Args:
        link, keys: of the store.
        clock: of the store.
        kept: how long after its end a session can still be read.
    """

    def __init__(self, link: Link, keys: Keys, clock: Clock, kept: timedelta) -> None:
        self._kept = kept
        self._link = link
        self._keys = keys
        self._reader = Reader(link, keys, clock)
        self._server_time = clock is system_clock

    @property
    def kept_micros(self) -> tuple[int, int]:
        """How long a session is kept after its end, and after its ``keep_until``; zeros if nothing expires."""
        return ((self._kept + GRACE) // _MICROSECOND, GRACE // _MICROSECOND) if self._server_time else (0, 0)

    def expiry(self, record: Record, keep_until: datetime | None) -> int | None:
        """When the server expires the record, in microseconds; None if never."""
        if not self._server_time:
            return None
        if keep_until is not None:
            return to_micros(keep_until + GRACE)
        return to_micros(record.expires_at + self._kept + GRACE) if isinstance(record, Session) else None

    def companion(self, scope: Scope, record: Record) -> str:
        """The companion key of a record: a session's threads, or the session of a bound record; "" if none.

        A session's companion shows whether all its keys are to be extended (see :meth:`extend`).
        """
        if isinstance(record, Session):
            return self._keys.session(scope, record.session_id, ())[1]
        named = bound_session(record)
        return self._keys.document(scope, Session, named[0]) if named else ""

    async def extend(self, scope: Scope, session_id: str, persona_ids: Callable[[], Awaitable[Sequence[str]]]) -> None:
        """Extend the expiries of all keys of a session; if the server fails, the next activity does it."""
        try:
            document, *threads = self._keys.session(scope, session_id, await persona_ids())
            bound = await self._reader.bound_keys(scope, session_id)
            await self._link.run(TOUCH, (document, *threads, *bound), (len(threads),))
        except StoreUnavailable:
            return
