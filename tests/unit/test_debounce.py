"""Gathering keys, so that their work is shared."""

import asyncio

import pytest

from wenmai.resilience.debounce import Gathering

NEVER = 3600.0


@pytest.mark.parametrize(("quiet", "longest"), [(0.0, NEVER), (NEVER, 0.0)])
async def test_a_key_is_passed_on_once_quiet_or_old(quiet: float, longest: float) -> None:
    """With the time of its first addition, and once."""
    passed: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
    gathering = Gathering[str](
        lambda key, since: passed.put_nowait((key, since)), seconds=0.001, quiet=quiet, longest=longest
    )
    gathering.add("a", 1.0)
    gathering.add("a", 2.0)
    assert await asyncio.wait_for(passed.get(), 10) == ("a", 1.0)
    await asyncio.sleep(0.01)
    assert passed.empty()
    assert gathering.pending() == {}


async def test_a_key_that_is_added_again_and_again_waits() -> None:
    """Others do not wait for it; a flush passes it on."""
    passed: asyncio.Queue[str] = asyncio.Queue()
    gathering = Gathering[str](lambda key, _: passed.put_nowait(key), seconds=0.001, quiet=NEVER, longest=NEVER)
    gathering.add("busy")
    gathering.add("old", asyncio.get_running_loop().time() - NEVER)
    assert await asyncio.wait_for(passed.get(), 10) == "old"
    await asyncio.sleep(0.01)
    assert passed.empty()
    assert list(gathering.pending()) == ["busy"]
    gathering.flush()
    assert passed.get_nowait() == "busy"
    gathering.close()
