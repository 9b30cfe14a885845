"""Admission of callers to a bounded number of connections; waiting ends when the server stops answering."""

import asyncio
from collections import deque


class Admission:
    """Admits at most ``size`` callers; the others wait in order of arrival.

    With a plain semaphore one caller after another would try a hung server, each waiting a timeout longer than the one
    before. Here the first timeout fails all waiting callers (:meth:`fail_waiting`).
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Take a slot, waiting until one is free; the caller must :meth:`release` it.

        Raises:
            TimeoutError: the server stopped answering in the meantime.
        """
        if self._free:
            self._free -= 1
            return
        slot = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled() and slot.exception() is None:
                self.release()
            raise

    def release(self) -> None:
        """Give the slot to the caller that has waited longest."""
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1

    def fail_waiting(self) -> None:
        """Fail all callers that are waiting now."""
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_exception(TimeoutError("the server stopped answering"))
