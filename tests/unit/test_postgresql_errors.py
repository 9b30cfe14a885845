"""Exceptions of the driver become errors of ours, whatever their type."""

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
        self.dropped = 0

    def drop_idle(self) -> None:
        """Count."""
        self.dropped += 1


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
def test_whatever_a_cut_connection_raises_is_store_unavailable(problem: Exception) -> None:
    """No type of the driver's or of Python's reaches the caller, and other connections are not counted on."""
    pool = Idle()
    with pytest.raises(StoreUnavailable) as told, translated_errors(cast("Pool", pool)):
        raise problem
    assert (told.value.store, told.value.__cause__, pool.dropped) == ("postgresql", problem, 1)


def test_what_the_server_reports_costs_no_other_connection() -> None:
    """A statement that is refused says nothing of the connections."""
    pool = Idle()
    with pytest.raises(StoreUnavailable, match="statement timeout"), translated_errors(cast("Pool", pool)):
        raise asyncpg.QueryCanceledError("canceling statement due to statement timeout")
    assert pool.dropped == 0


def test_errors_of_ours_and_cancellations_pass_as_they_are() -> None:
    """A refusal stays what it is."""
    for problem in (SessionNotFound("s"), asyncio.CancelledError()):
        with pytest.raises(type(problem)) as told, translated_errors(cast("Pool", Idle())):
            raise problem
        assert told.value is problem
