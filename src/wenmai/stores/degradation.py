"""What did not work while something was done, told to whoever collects it.

Deep in a store a tier may be skipped or a second source asked. The caller far above, such as a turn that keeps a
trace, opens a collection around its work; whatever is noted meanwhile, in tasks that it starts too, is in it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_collected: ContextVar[dict[str, None] | None] = ContextVar("wenmai_degraded", default=None)


@contextmanager
def collected_degradation() -> Iterator[dict[str, None]]:
    """Collect the names noted within the context, as the keys of the dict, in the order in which they came."""
    names: dict[str, None] = {}
    token = _collected.set(names)
    try:
        yield names
    finally:
        _collected.reset(token)


def note_degraded(name: str) -> None:
    """Note that the part of this name (``redis``, ``embedder`` …) failed or was left alone; once is enough."""
    names = _collected.get()
    if names is not None:
        names[name] = None
