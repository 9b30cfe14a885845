"""Exceptions of the driver become our errors, whatever their type."""

import asyncio
from typing import cast

import asyncpg
import pytest

from wenmai.errors import SessionNotFound, StoreUnavailable
from wenmai.stores.postgresql.database import translated_errors
from wenmai.stores.postgresql.pool import Pool


class Idle:
    """A pool that counts how often its idle connections are closed."""

    def __init__(self) -> None:
        self.discarded = 0

    def discard_idle(self) -> None:
        """Count."""
        self.discarded += 1


@pytest.mark.parametrize(
    "problem",
    [
        asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
        asyncpg.ProtocolError("unexpected message"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.InterfaceError("connection is closed"),
        asyncio.IncompleteReadError(b"", 1),
        AttributeError("'NoneType' object has no attribute 'is_closing'"),
        OSError("reset"),
        TimeoutError(),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_any_error_of_a_lost_connection_is_store_unavailable(problem: Exception) -> None:
    """No exception of the driver or of Python reaches the caller, and idle connections are discarded."""
    pool = Idle()
    with pytest.raises(StoreUnavailable) as caught, translated_errors(cast("Pool", pool)):
        raise problem
    assert (caught.value.store, caught.value.__cause__, pool.discarded) == ("postgresql", problem, 1)


def test_an_error_reported_by_the_server_keeps_idle_connections() -> None:
    """A refused statement does not imply a lost connection."""
    pool = Idle()
    with pytest.raises(StoreUnavailable, match="statement timeout"), translated_errors(cast("Pool", pool)):
        raise asyncpg.QueryCanceledError("canceling statement due to statement timeout")
    assert pool.discarded == 0


def test_our_errors_and_cancellations_are_not_translated() -> None:
    """They propagate unchanged."""
    for problem in (SessionNotFound("s"), asyncio.CancelledError()):
        with pytest.raises(type(problem)) as caught, translated_errors(cast("Pool", Idle())):
            raise problem
        assert caught.value is problem
