"""Background tasks: work beside the requests, owned by one component and drained when it closes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any

from wenmai.errors import StoreError

_log = logging.getLogger(__name__)


class BackgroundTasks:
    """The background tasks of a component; none is lost to the garbage collector or outlives :meth:`stop`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._periodic: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """The number of tasks that run, without the periodic ones."""
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run the work, which handles its own errors."""
        # In a context of its own: what a request collects in its context ends with the request.
        task = asyncio.create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def repeat(
        self, what: str, work: Callable[[], Awaitable[object]], *, seconds: float, first_after: float = 0.0
    ) -> None:
        """Run the work every ``seconds`` until :meth:`stop`; a failure is logged and retried at the next interval.

        Args:
            what: names the work in the log.
            work: called for each run.
            seconds: between the end of a run and the next.
            first_after: seconds before the first run.
        """
        work_forever = repeat_forever(what, work, seconds=seconds, first_after=first_after)
        self._periodic.add(asyncio.create_task(work_forever, context=Context()))

    async def join(self) -> None:
        """Wait until no task runs, the periodic ones apart."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def stop_repeating(self) -> None:
        """Cancel the periodic tasks; :meth:`stop` waits for them."""
        for task in self._periodic:
            task.cancel()

    async def stop(self, seconds: float | None = None) -> None:
        """Stop the periodic tasks, wait for the others, at most so long, and cancel those that still run."""
        self.stop_repeating()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.join()
        late = self._tasks | self._periodic
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        self._periodic.clear()


async def repeat_forever(
    what: str,
    work: Callable[[], Awaitable[object]],
    *,
    seconds: float,
    first_after: float = 0.0,
    retry_after: float | None = None,
) -> None:
    """Repeat work until the task is cancelled; a failure is logged, and the work retried.

    Args:
        what: names the work in the log.
        work: called for each run.
        seconds: between the end of a run and the next.
        first_after: seconds before the first run.
        retry_after: seconds after a failed run; None means ``seconds``.
    """
    await asyncio.sleep(first_after)
    delay = seconds if retry_after is None else retry_after
    while True:
        try:
            await work()
        except StoreError as problem:
            _log.warning("%s failed, retrying in %g s: %s", what, delay, problem)
        except Exception:  # noqa: BLE001 — logged and retried
            _log.exception("%s failed unexpectedly, retrying in %g s", what, delay)
        else:
            await asyncio.sleep(seconds)
            continue
        await asyncio.sleep(delay)
