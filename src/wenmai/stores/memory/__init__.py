"""The in-process backend, ``memory://``: all three contracts in dictionaries, gone when it is closed.

It is meant for tests and for trying things out. One event loop uses it, and no method awaits between looking
and writing: that is all its atomicity. What it stores is encoded, so it shares no mutable value.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wenmai.clock import Clock
from wenmai.errors import UnsupportedUrl
from wenmai.stores.base import Documents, Logs, Search
from wenmai.stores.memory.documents import MemoryDocuments
from wenmai.stores.memory.logs import MemoryLogs
from wenmai.stores.memory.search import MemorySearch

__all__ = ["MemoryStore", "open_store"]


class MemoryStore:
    """See :class:`wenmai.stores.base.Store`; ``durable`` tells the conformance suite not to reopen it."""

    name = "memory"
    durable = False

    def __init__(self, clock: Clock) -> None:
        documents = MemoryDocuments(clock)
        self.documents: Documents | None = documents
        self.logs: Logs | None = MemoryLogs(documents, clock)
        self.search: Search | None = MemorySearch()

    async def ping(self) -> None:
        """Return: this process answers."""


@asynccontextmanager
async def open_store(url: str, *, clock: Clock) -> AsyncIterator[MemoryStore]:
    """Give an empty store of its own for each opening.

    Raises:
        UnsupportedUrl: anything stands after ``memory://``.
    """
    if url.lower() != "memory://":
        raise UnsupportedUrl(url, ["memory://"])
    yield MemoryStore(clock)
