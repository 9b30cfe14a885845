"""Turns run in tasks of their own: bounded in number, and to their end once they have begun.

A turn that still waits for its thread is given up when its client leaves. One that has begun, which is before its
question is stored, goes on to its end whether or not a client waits for the answer.
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


class ClientLeft(Exception):
    """The turn was given up before it began, because its client had left."""


class Turn(Generic[T]):
    """One turn in its task.

    Attributes:
        task: outlives the request.
    """

    task: asyncio.Task[T]

    def __init__(self) -> None:
        self._begun = False
        self._given_up = False

    def begin(self) -> None:
        """From now on the turn runs to its end."""
        self._begun = True

    def give_up(self) -> None:
        """Cancel the turn unless it has begun."""
        if not self._begun and not self.task.done():
            self._given_up = True
            self.task.cancel()

    async def answer(self) -> T:
        """The turn's answer; if the caller is cancelled, a turn that has begun goes on.

        Raises:
            ServiceStopping: the turn was cancelled.
        """
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self.task.cancelled():
                raise ServiceStopping from None
            self.give_up()
            raise

    async def while_client_stays(self, receive: Receive, waiting: Awaitable[U]) -> U:
        """What ``waiting`` gives; if the client leaves meanwhile, the turn is given up unless it has begun.

        Raises:
            ClientLeft: the turn was given up.
        """
        watch = asyncio.create_task(self._give_up_with_client(receive))
        try:
            return await waiting
        except ServiceStopping:
            if self._given_up:
                raise ClientLeft from None
            raise
        finally:
            watch.cancel()

    async def _give_up_with_client(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.give_up()


class RunningTurns:
    """The turns that run or wait now; each leaves when it ends.

    Args:
        in_process: how many there may be.
        in_thread: how many there may be of one thread.
    """

    def __init__(self, *, in_process: int, in_thread: int) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._of_thread: Counter[Hashable] = Counter()
        self._in_process = in_process
        self._in_thread = in_thread

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, run: Callable[[Turn[T]], Coroutine[Any, Any, T]], thread: Hashable = None) -> Turn[T]:
        """Run a turn; ``thread`` is None for one that waits for no other.

        Raises:
            Overloaded: there are as many as there may be.
        """
        if len(self._tasks) >= self._in_process:
            raise Overloaded("process")
        if thread is not None and self._of_thread[thread] >= self._in_thread:
            raise Overloaded("thread")
        turn = Turn[T]()
        turn.task = asyncio.create_task(run(turn))
        self._tasks.add(turn.task)
        self._of_thread[thread] += 1

        def ended(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            self._of_thread[thread] -= 1
            if not self._of_thread[thread]:
                del self._of_thread[thread]
            if not task.cancelled():
                # Looked at here, because the client that waited for it may be gone.
                task.exception()

        turn.task.add_done_callback(ended)
        return turn

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
