"""Finding the primary through sentinels: again after each failure, since a failover is its most likely cause."""

import asyncio

from redis.asyncio.connection import Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from wenmai.stores.redis.address import Address


async def primary_of(address: Address) -> tuple[str, int]:
    """Host and port of the primary, from the first sentinel that knows it; each has ``connect_timeout`` to answer.

    Raises:
        OSError: none of them knows it.
    """
    problems = []
    for host, port in address.sentinels:
        try:
            async with asyncio.timeout(address.connect_timeout):
                found = await _query(host, port, address.service)
        except (TimeoutError, RedisError, OSError) as problem:
            problems.append(f"{host}:{port}: {str(problem) or 'no answer in time'}")
            continue
        if found is not None:
            return found
        problems.append(f"{host}:{port}: no service {address.service!r}")
    raise OSError(f"no sentinel knows the primary ({'; '.join(problems)})")


async def _query(host: str, port: int, service: str) -> tuple[str, int] | None:
    connection = Connection(host=host, port=port, socket_timeout=None, retry=Retry(NoBackoff(), 0), protocol=2)
    try:
        await connection.connect()  # type: ignore[no-untyped-call] # redis-py does not say what it returns
        await connection.send_command("SENTINEL", "get-master-addr-by-name", service)
        answer = await connection.read_response()
    finally:
        await connection.disconnect(nowait=True)
    return None if answer is None else (answer[0].decode(), int(answer[1]))
