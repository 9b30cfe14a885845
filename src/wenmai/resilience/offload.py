"""Computations that would block the event loop run in a worker thread; short ones do not pay for the thread."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_by_size(size: int, large: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the function on the event loop if the size of its input is at most ``large``, else in a worker thread."""
    if size <= large:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
