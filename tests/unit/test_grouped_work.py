"""Grouped work: callers that wait for each other share a call, and no one's failure is another's."""

import asyncio
from collections.abc import Sequence

import pytest

from wenmai.resilience.grouped_work import GroupedWork

BAD = 13


class Written:
    """Work that notes its calls, takes a few steps of the event loop, and refuses one number."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.running: list[str] = []

    async def __call__(self, key: str, items: Sequence[int]) -> None:
        """Write the items."""
        assert key not in self.running, "one call per key at a time"
        self.running.append(key)
        self.calls.append((key, list(items)))
        for _ in range(3):
            await asyncio.sleep(0)
        self.running.remove(key)
        if BAD in items:
            raise ValueError(BAD)


async def test_what_is_given_while_a_call_runs_is_worked_on_together() -> None:
    """The first caller does not wait for others; another key is another call."""
    written = Written()
    work = GroupedWork[str, int](written)
    await asyncio.gather(*(work.add("a", [number, -number]) for number in range(1, 5)), work.add("b", [9]))
    assert written.calls == [("a", [1, -1]), ("b", [9]), ("a", [2, -2, 3, -3, 4, -4])]


async def test_a_failure_is_that_of_the_caller_whose_items_failed() -> None:
    """The others are done, each alone."""
    work = GroupedWork[str, int](Written())
    given = [[1], [2], [BAD], [3]]
    outcomes = await asyncio.gather(*(work.add("a", items) for items in given), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), type(None), ValueError, type(None)]


async def test_a_caller_that_is_cancelled_while_it_waits_leaves_nothing() -> None:
    """Its items are not written, and the others are."""
    written = Written()
    work = GroupedWork[str, int](written)
    first, cancelled, last = (asyncio.create_task(work.add("a", [number])) for number in (1, 2, 3))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(first, last)
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert 2 not in [item for _, items in written.calls for item in items]
