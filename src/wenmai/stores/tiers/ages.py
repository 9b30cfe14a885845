"""When the durable store vouched for the parts of a copy that is read from Redis."""

from collections.abc import Mapping
from datetime import timedelta

from wenmai.clock import from_micros, to_micros
from wenmai.stores.tiers.trust import Moment


class Ages:
    """The age of each part: by the server's clock and by that of the process which asked the durable store.

    The greater of the two counts, so that neither a clock that is behind nor a pause makes a copy look fresh.

    Args:
        marks: of the copy, see :mod:`.scripts`.
        server_now: the server's present moment in microseconds.
        now: ours.
    """

    def __init__(self, marks: Mapping[str, bytes], server_now: int, now: Moment) -> None:
        self._marks = marks
        self._server_now = server_now
        self._now = now

    def checked(self, part: str) -> Moment | None:
        """When; None if the part is not copied."""
        mark = self._marks.get(part)
        if mark is None:
            return None
        written, asked = map(int, mark.split())
        wall, running = self._now
        age = max(self._server_now - written, to_micros(wall) - asked)
        checked = min(wall - timedelta(microseconds=self._server_now - written), from_micros(asked))
        return Moment(checked, running - age / 1e6)
