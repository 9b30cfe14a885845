"""Periodic background tasks, as the engine's that deletes expired records."""

import asyncio
import logging
from functools import partial
from typing import cast

import pytest

from wenmai.engine.maintenance import delete_expired
from wenmai.errors import StoreUnavailable
from wenmai.resilience.background import BackgroundTasks
from wenmai.stores.contracts import Documents


class FailingDocuments:
    """Documents whose sweeps fail, each with the next of the given exceptions, and then succeed."""

    def __init__(self, *problems: Exception) -> None:
        self._problems = list(problems)
        self.swept = asyncio.Event()

    async def sweep(self) -> int:
        """Fail, or succeed."""
        if self._problems:
            raise self._problems.pop(0)
        self.swept.set()
        return 0


async def test_no_failure_of_a_sweep_is_the_last_sweep(caplog: pytest.LogCaptureFixture) -> None:
    """Any exception of the store is logged, and the sweep is retried."""
    documents = FailingDocuments(StoreUnavailable("test", "gone"), RuntimeError("a bug"), OSError("cut"))
    tasks = BackgroundTasks()
    with caplog.at_level(logging.WARNING):
        delete = partial(delete_expired, cast("Documents", documents))
        tasks.repeat("sweep of expired records", delete, seconds=0.0)
        async with asyncio.timeout(5):
            await documents.swept.wait()
        await tasks.stop(0)
    assert sum("sweep of expired records failed" in record.message for record in caplog.records) == 3
