"""Validation times of the parts of an entry that is read from Redis."""

from collections.abc import Mapping
from datetime import timedelta

from wenmai.stores.cache.freshness import Moment


class ValidationTimes:
    """When each part was validated, by the server's clock and by that of the process that read the durable store.

    The greater of the two ages counts, so that neither a slow clock nor a pause makes an entry look fresh.

    Args:
        metadata: of the entry, see :mod:`.scripts`.
        server_now: the server's current time in microseconds.
        now: ours.
        steady_now: ours by a :class:`SteadyWall`, in microseconds.
    """

    def __init__(self, metadata: Mapping[str, bytes], server_now: int, now: Moment, steady_now: int) -> None:
        self._metadata = metadata
        self._server_now = server_now
        self._now = now
        self._steady_now = steady_now

    def of(self, part: str) -> Moment | None:
        """The validation time of a part; None if the part is not cached."""
        stamp = self._metadata.get(part)
        if stamp is None:
            return None
        written, read = map(int, stamp.split())
        wall, monotonic = self._now
        age = max(self._server_now - written, self._steady_now - read)
        return Moment(wall - timedelta(microseconds=age), monotonic - age / 1e6)
