"""Waiting for one of a bounded number of connections, without waiting for a server that has stopped answering."""

import asyncio
from collections import deque


class Gate:
    """Lets at most ``size`` callers in; the others wait in order of arrival.

    A plain semaphore would let a hung server be tried by one caller after another, each waiting a timeout longer
    than the one before. Here the first timeout ends the waiting of all (:meth:`turn_away`).
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Take a place, at once or when one is given back; whoever has entered must :meth:`leave`.

        Raises:
            TimeoutError: the server stopped answering in the meantime.
        """
        if self._free:
            self._free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.leave()
            raise

    def leave(self) -> None:
        """Give the place to whoever waits longest."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def turn_away(self) -> None:
        """Fail everybody who waits just now."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_exception(TimeoutError("the server stopped answering"))
