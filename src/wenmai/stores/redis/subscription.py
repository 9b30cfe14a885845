"""Listening to a channel, so that a connection which has died in silence is noticed within a bound."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from redis.asyncio.connection import Connection

from wenmai.errors import StoreUnavailable

BEAT_SECONDS = 1.0
"""How often the server is asked whether it is still there."""


class Subscription:
    """A connection that listens; made by :meth:`.link.Link.subscribe`.

    Args:
        connection: it has subscribed.
        patience: seconds that the server's word may be late.
        unavailable: makes the error of a reason.
    """

    def __init__(self, connection: Connection, patience: float, unavailable: Callable[[str], StoreUnavailable]) -> None:
        self._connection = connection
        self._patience = patience
        self._unavailable = unavailable

    async def messages(self) -> AsyncGenerator[bytes]:
        """What is published, as it comes, until the caller stops.

        Raises:
            StoreUnavailable: the connection is lost, or the server says nothing more.
        """
        beat = asyncio.create_task(self._beat())
        try:
            while True:
                async with asyncio.timeout(BEAT_SECONDS + self._patience):
                    answer = await self._connection.read_response()
                if answer[0] == b"message":
                    yield answer[2]
        except TimeoutError as error:
            raise self._unavailable("the channel fell silent") from error
        except Exception as error:
            raise self._unavailable(str(error) or type(error).__name__) from error
        finally:
            beat.cancel()
            await asyncio.wait([beat])
            await self._connection.disconnect(nowait=True)

    async def _beat(self) -> None:
        """Make the server say something now and then; if it cannot be asked, the reader will notice."""
        with suppress(Exception):
            while True:
                await self._connection.send_command("PING")
                await asyncio.sleep(BEAT_SECONDS)
