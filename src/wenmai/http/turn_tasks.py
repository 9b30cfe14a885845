"""Turns run in their own tasks: limited in number, and never cancelled by a disconnect once they have started.

A turn that still waits for its thread is cancelled when its client disconnects. A turn starts just before its question
is stored; from then on it runs to completion, whether or not a client waits for the answer.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from starlette.types import Receive

from wenmai.errors import Overloaded, ServiceStopping

T = TypeVar("T")
U = TypeVar("U")

_log = logging.getLogger(__name__)


class ClientDisconnected(Exception):
    """The turn was cancelled before it started, because its client disconnected."""


class TurnTask(Generic[T]):
    """One turn and its task.

    Attributes:
        task: may outlive the request.
    """

    task: asyncio.Task[T]

    def __init__(self) -> None:
        self._started = False
        self._cancelled = False

    def mark_started(self) -> None:
        """From now on the turn runs to completion."""
        self._started = True

    def cancel_unless_started(self) -> None:
        """Cancel the turn unless it has started."""
        if not self._started and not self.task.done():
            self._cancelled = True
            self.task.cancel()

    async def answer(self) -> T:
        """The turn's answer; if the caller is cancelled, a started turn keeps running.

        Raises:
            ServiceStopping: the turn was cancelled.
        """
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self.task.cancelled():
                raise ServiceStopping from None
            self.cancel_unless_started()
            raise

    async def cancel_on_disconnect(self, receive: Receive, waiting: Awaitable[U]) -> U:
        """The result of ``waiting``; if the client disconnects meanwhile, the turn is cancelled unless it has started.

        Raises:
            ClientDisconnected: the turn was cancelled.
        """
        watch = asyncio.create_task(self._cancel_when_disconnected(receive))
        try:
            return await waiting
        except ServiceStopping:
            if self._cancelled:
                raise ClientDisconnected from None
            raise
        finally:
            watch.cancel()

    async def _cancel_when_disconnected(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.cancel_unless_started()


class TurnTasks:
    """The turns that are running or waiting.

    Args:
        max_total: limit in this process.
        max_per_thread: limit for one thread, in this process.
    """

    def __init__(self, *, max_total: int, max_per_thread: int) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._by_thread: Counter[Hashable] = Counter()
        self._max_total = max_total
        self._max_per_thread = max_per_thread

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, run: Callable[[TurnTask[T]], Coroutine[Any, Any, T]], thread: Hashable = None) -> TurnTask[T]:
        """Start a turn; ``thread`` is None if it waits for no other turn.

        Raises:
            Overloaded: a limit is reached.
        """
        if len(self._tasks) >= self._max_total:
            raise Overloaded("process")
        if thread is not None and self._by_thread[thread] >= self._max_per_thread:
            raise Overloaded("thread")
        turn = TurnTask[T]()
        turn.task = asyncio.create_task(run(turn))
        self._tasks.add(turn.task)
        self._by_thread[thread] += 1

        def on_done(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            self._by_thread[thread] -= 1
            if not self._by_thread[thread]:
                del self._by_thread[thread]
            if not task.cancelled():
                # Mark the exception as retrieved: the client that waited for it may be gone.
                task.exception()

        turn.task.add_done_callback(on_done)
        return turn

    async def drain(self, seconds: float) -> None:
        """Wait for the running turns, at most ``seconds``; then cancel the rest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        unfinished = set(self._tasks)
        for task in unfinished:
            task.cancel()
        if unfinished:
            _log.warning("cancelled %d turns that did not end within %s s", len(unfinished), seconds)
            await asyncio.wait(unfinished)
