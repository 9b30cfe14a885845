"""Turns run to their end, whether or not somebody still waits for them."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from wenmai.errors import ServiceStopping

T = TypeVar("T")

_log = logging.getLogger(__name__)


class RunningTurns:
    """The turns that run now; each leaves when it ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, turn: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run the turn in a task of its own, which outlives the request."""
        task = asyncio.create_task(turn)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, turn: Coroutine[Any, Any, T]) -> T:
        """The turn's answer; if the caller is cancelled the turn goes on.

        Raises:
            ServiceStopping: the turn was cancelled, because its time was over.
        """
        task = self.start(turn)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise ServiceStopping from None
            raise

    async def drain(self, seconds: float) -> None:
        """Wait for the running turns, at most so long; then those that still run are cancelled."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        late = set(self._tasks)
        for task in late:
            task.cancel()
        if late:
            _log.warning("%d turns did not end within %s s and were cancelled", len(late), seconds)
            await asyncio.wait(late)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Looked at here, because the one who waited for it may be gone.
            task.exception()
