"""Degradation: the names of dependencies that failed or were skipped during an operation.

Deep in a store the cache may be skipped or a fallback used. A caller far above, such as a turn that keeps a trace,
collects what is noted during its work, also in tasks that it starts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_collected: ContextVar[dict[str, None] | None] = ContextVar("wenmai_degraded", default=None)


@contextmanager
def collected_degradation() -> Iterator[dict[str, None]]:
    """Collect the names noted within the context: the keys of the dict, in the order in which they were noted."""
    names: dict[str, None] = {}
    token = _collected.set(names)
    try:
        yield names
    finally:
        _collected.reset(token)


def note_degraded(name: str) -> None:
    """Note that a dependency (``redis``, ``embedder`` …) failed or was skipped; each is collected once."""
    names = _collected.get()
    if names is not None:
        names[name] = None
