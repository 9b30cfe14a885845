"""Work that is shielded from cancellation: the store does it anyway, so its outcome is awaited."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work; if the caller is cancelled, however often, the cancellation is raised after the work."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieved: no caller is left to raise it to
        raise cancelled
    return task.result()


async def all_of(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """The results of both; an error is raised only after both have ended."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    await asyncio.wait(tasks)
    return tasks[0].result(), tasks[1].result()
