"""Work that a cancellation must not leave half known: the store does it all the same, so its outcome is awaited."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work; if the caller is cancelled meanwhile, however often, the work ends first."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieved: there is no caller left to raise it to
        raise cancelled
    return task.result()


async def all_of(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """The results of both; if one fails, the other has ended too before the error is raised."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    await asyncio.wait(tasks)
    return tasks[0].result(), tasks[1].result()
