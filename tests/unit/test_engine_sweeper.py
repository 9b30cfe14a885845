"""The task of the engine that removes what is past its end."""

import asyncio
import logging
from typing import cast

import pytest

from wenmai import engine
from wenmai.errors import StoreUnavailable
from wenmai.stores.base import Documents


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
    """Whatever type of exception a store raises, it is logged and the next sweep is made."""
    monkeypatch.setattr(engine, "SWEEP_SECONDS", 0.0)
    documents = FailingDocuments(StoreUnavailable("test", "gone"), RuntimeError("a bug"), OSError("cut"))
    with caplog.at_level(logging.WARNING):
        sweeper = asyncio.create_task(engine._sweep_for_ever(cast("Documents", documents)))
        try:
            async with asyncio.timeout(5):
                await documents.swept.wait()
        finally:
            sweeper.cancel()
            await asyncio.wait([sweeper])
    assert sum("the sweep failed" in record.message for record in caplog.records) == 3
