"""Subscriptions with a heartbeat, so that a dead connection is noticed in bounded time."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from redis.asyncio.connection import Connection

from wenmai.errors import StoreUnavailable

HEARTBEAT_SECONDS = 1.0
"""The interval of the heartbeat."""


class Subscription:
    """A subscribed connection; made by :meth:`.link.Link.subscribe`.

    Args:
        connection: it has subscribed.
        timeout: of the reply to a heartbeat, in seconds.
        unavailable: makes an error from a reason.
    """

    def __init__(self, connection: Connection, timeout: float, unavailable: Callable[[str], StoreUnavailable]) -> None:
        self._connection = connection
        self._timeout = timeout
        self._unavailable = unavailable

    async def messages(self) -> AsyncGenerator[bytes]:
        """The published messages, until the caller stops.

        Raises:
            StoreUnavailable: the connection is lost, or the server has stopped answering.
        """
        heartbeat = asyncio.create_task(self._heartbeat())
        try:
            while True:
                async with asyncio.timeout(HEARTBEAT_SECONDS + self._timeout):
                    answer = await self._connection.read_response()
                if answer[0] == b"message":
                    yield answer[2]
        except TimeoutError as error:
            raise self._unavailable("no heartbeat on the channel in time") from error
        except Exception as error:
            raise self._unavailable(str(error) or type(error).__name__) from error
        finally:
            heartbeat.cancel()
            await asyncio.wait([heartbeat])
            await self._connection.disconnect(nowait=True)

    async def _heartbeat(self) -> None:
        """Make the server send something regularly; a failure here is noticed by the reader."""
        with suppress(Exception):
            while True:
                await self._connection.send_command("PING")
                await asyncio.sleep(HEARTBEAT_SECONDS)
