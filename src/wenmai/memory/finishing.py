"""Work that a cancellation must not leave half known: the store does it all the same, so its outcome is awaited."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work; if the caller is cancelled meanwhile, the work ends first, then it is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen: nobody is left to raise it to
        raise
