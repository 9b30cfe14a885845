"""A store is opened by its URL; the scheme says which backend."""

from contextlib import AbstractAsyncContextManager
from importlib import import_module

from wenmai.clock import Clock, system_clock
from wenmai.errors import MissingExtra, UnsupportedUrl
from wenmai.stores.base import Store

_BACKENDS = {
    "memory": ("wenmai.stores.memory", ""),
    "redis": ("wenmai.stores.redis", "redis"),
    "rediss": ("wenmai.stores.redis", "redis"),
    "sqlite": ("wenmai.stores.sqlite", ""),
    "postgresql": ("wenmai.stores.postgresql", "postgresql"),
    "postgres": ("wenmai.stores.postgresql", "postgresql"),
}
"""Scheme → (module with ``open_store``, the extra that brings its driver)."""


def schemes() -> list[str]:
    """The URL schemes that can be opened."""
    return sorted(_BACKENDS)


def open_store(url: str, *, clock: Clock = system_clock) -> AbstractAsyncContextManager[Store]:
    """Open the store at ``url`` for as long as the context lasts.

    ``memory://`` keeps everything in this process; ``sqlite:///relative.db`` and ``sqlite:////absolute.db``
    keep it in one file; ``redis://host:port/0`` and, with TLS, ``rediss://…`` keep documents and logs on a server.

    Raises:
        UnsupportedUrl: no backend of that scheme.
        MissingExtra: the backend's driver is not installed.
    """
    scheme = url.partition(":")[0].lower()
    if scheme not in _BACKENDS or "://" not in url:
        raise UnsupportedUrl(url, schemes())
    module, extra = _BACKENDS[scheme]
    try:
        backend = import_module(module)
    except ModuleNotFoundError as missing:
        if not extra:
            raise
        raise MissingExtra(missing.name or module, extra) from missing
    store: AbstractAsyncContextManager[Store] = backend.open_store(url, clock=clock)
    return store
