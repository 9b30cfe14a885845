"""The in-process backend, ``memory://``: all three contracts in dictionaries, discarded when it is closed.

For tests and experiments. One event loop uses it, and no method awaits between reading and writing, which makes it
atomic. Stored values are encoded, so no mutable value is shared.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wenmai.clock import Clock
from wenmai.errors import UnsupportedUrl
from wenmai.stores.contracts import Documents, Logs, Search
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.inprocess.logs import InProcessLogs
from wenmai.stores.inprocess.search import InProcessSearch

__all__ = ["InProcessStore", "open_store"]


class InProcessStore:
    """See :class:`wenmai.stores.contracts.Store`; the conformance suite does not reopen it, as ``durable`` is False."""

    name = "memory"
    durable = False

    def __init__(self, clock: Clock) -> None:
        documents = InProcessDocuments(clock)
        self.documents: Documents | None = documents
        self.logs: Logs | None = InProcessLogs(documents, clock)
        self.search: Search | None = InProcessSearch()

    async def ping(self) -> None:
        """Always available."""


@asynccontextmanager
async def open_store(url: str, *, clock: Clock) -> AsyncIterator[InProcessStore]:
    """Open a new, empty store each time.

    Raises:
        UnsupportedUrl: the URL has anything after ``memory://``.
    """
    if url.lower() != "memory://":
        raise UnsupportedUrl(url, ["memory://"])
    yield InProcessStore(clock)
