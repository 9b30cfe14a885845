"""The entries that satisfy filters, kept for small partitions that change rarely, such as the evidence of a site."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import apsw

from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.sqlite.search_filters import Filter, matching_entries, narrowest_first
from wenmai.stores.sqlite.search_partition import Partition

MOST_ENTRIES = 1_000
"""Of a partition whose matching rows are kept."""

KEPT = 32
"""Lists of rows, of all partitions; the domains of a site's personas in the languages of its users are fewer."""


class MatchingRows:
    """The rows that satisfy filters, by the partition's state, which is never used twice; threads may share it."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[int, int, tuple[Filter, ...]], list[int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        """How many lists are kept."""
        return len(self._rows)

    def of(self, connection: apsw.Connection, partition: Partition, filters: Sequence[Filter]) -> list[int] | None:
        """The rows that satisfy all filters; None without a filter, or if the partition has too many entries."""
        if not filters or partition.entries > MOST_ENTRIES:
            return None
        state = partition.row, partition.changes, tuple(filters)
        with self._lock:
            rows = self._rows.get(state)
            if rows is not None:
                self._rows.move_to_end(state)
                return rows
        ordered = narrowest_first(connection, partition.row, filters, partition.entries).filters
        rows = [row for (row,) in fetch(connection, *matching_entries(partition.row, ordered))]
        with self._lock:
            self._rows[state] = rows
            if len(self._rows) > KEPT:
                self._rows.popitem(last=False)
        return rows
