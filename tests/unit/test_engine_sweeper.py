"""The engine's task that deletes expired records."""

import asyncio
import logging
from typing import cast

import pytest

from wenmai import engine
from wenmai.errors import StoreUnavailable
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


async def test_no_failure_of_a_sweep_is_the_last_sweep(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Any exception of the store is logged, and the sweep is retried."""
    monkeypatch.setattr(engine, "SWEEP_SECONDS", 0.0)
    documents = FailingDocuments(StoreUnavailable("test", "gone"), RuntimeError("a bug"), OSError("cut"))
    with caplog.at_level(logging.WARNING):
        sweeper = asyncio.create_task(engine._sweep_periodically(cast("Documents", documents)))
        try:
            async with asyncio.timeout(5):
                await documents.swept.wait()
        finally:
            sweeper.cancel()
            await asyncio.wait([sweeper])
    assert sum("sweep of expired records failed" in record.message for record in caplog.records) == 3
