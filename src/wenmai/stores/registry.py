"""A store is opened by its URL; the scheme says which backend.

A backend is a module with ``open_store(url, *, clock)``. One that has tables has ``schema_at(url)`` and
``upgrade(url, on_step)`` too.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from wenmai.clock import Clock, system_clock
from wenmai.errors import MissingExtra, StoreError, UnsupportedUrl
from wenmai.stores.base import Store
from wenmai.stores.upgrades import OnStep, Schema

if TYPE_CHECKING:
    from wenmai.stores.breaker import Breaker, BreakerPolicy

_BACKENDS = {
    "memory": ("wenmai.stores.memory", ""),
    "redis": ("wenmai.stores.redis", "redis"),
    "rediss": ("wenmai.stores.redis", "redis"),
    "redis+sentinel": ("wenmai.stores.redis", "redis"),
    "rediss+sentinel": ("wenmai.stores.redis", "redis"),
    "sqlite": ("wenmai.stores.sqlite", ""),
    "postgresql": ("wenmai.stores.postgresql", "postgresql"),
    "postgres": ("wenmai.stores.postgresql", "postgresql"),
}
"""Scheme → (module with ``open_store``, the extra that brings its driver)."""

_TIERS = ("wenmai.stores.tiers", "redis")


def schemes() -> list[str]:
    """The URL schemes that can be opened."""
    return sorted(_BACKENDS)


@asynccontextmanager
async def open_store(url: str, *, clock: Clock = system_clock) -> AsyncIterator[Store]:
    """Open the store at ``url`` for as long as the context lasts; tables of an older version are upgraded.

    ``memory://`` keeps everything in this process; ``sqlite:///relative.db`` and ``sqlite:////absolute.db``
    keep it in one file; ``redis://host:port/0`` and, with TLS, ``rediss://…`` keep documents and logs on a server.

    Raises:
        UnsupportedUrl: no backend of that scheme.
        MissingExtra: the backend's driver is not installed.
        InvalidInput: the URL, or what it names, will not do; says what would.
        StoreTooNew: a newer Wenmai wrote the tables.
        StoreUnavailable: the store cannot be reached, or takes no writes.
    """
    async with AsyncExitStack() as stack:
        with _naming_the_setting():
            store: Store = await stack.enter_async_context(_backend(url).open_store(url, clock=clock))
        yield store


@asynccontextmanager
async def open_stores(
    url: str, hot: str = "", *, clock: Clock = system_clock, breaking: "BreakerPolicy | None" = None
) -> AsyncIterator["tuple[Store, tuple[Breaker, ...]]"]:
    """Open the store at ``url`` and, if there is one, the hot tier in front of it.

    Args:
        url: see :func:`open_store`.
        hot: URL of a Redis server, or "" for none; see :func:`wenmai.stores.tiers.open_tiers`.
        clock: tells the time that is stored.
        breaking: when the hot tier is left alone.

    Yields:
        The store, and the breakers in front of what it can do without.

    Raises:
        WenmaiError: as for :func:`open_store` and ``open_tiers``; it names the setting, ``store`` or ``hot``.
    """
    async with open_store(url, clock=clock) as store:
        if not hot:
            yield store, ()
            return
        with _naming_the_setting("hot"):
            tiers = _loaded(*_TIERS)
        async with tiers.open_tiers(store, hot, clock=clock, breaking=breaking) as tiered:
            yield tiered, (tiered.breaker,)


async def schema_at(url: str) -> Schema | None:
    """The schema of the store at ``url``, which is left as it is; None if its backend has no tables.

    Raises:
        WenmaiError: as for :func:`open_store`.
    """
    with _naming_the_setting():
        backend = _backend(url)
        schema: Schema | None = await backend.schema_at(url) if hasattr(backend, "schema_at") else None
    return schema


async def prepare_store(url: str, on_step: OnStep) -> None:
    """Check that the store at ``url`` can be used, and make or upgrade its tables, as opening it would.

    Raises:
        WenmaiError: as for :func:`open_store`.
    """
    with _naming_the_setting():
        backend = _backend(url)
        if hasattr(backend, "upgrade"):
            await backend.upgrade(url, on_step)
            return
        async with backend.open_store(url, clock=system_clock):
            pass


def _backend(url: str) -> ModuleType:
    scheme = url.partition(":")[0].lower()
    if scheme not in _BACKENDS or "://" not in url:
        raise UnsupportedUrl(url, schemes())
    return _loaded(*_BACKENDS[scheme])


def _loaded(module: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if not extra:
            raise
        raise MissingExtra((missing.name or module).partition(".")[0], extra) from missing


@contextmanager
def _naming_the_setting(setting: str = "store") -> Iterator[None]:
    """Say of an error at opening which setting led to it; an InvalidInput does so by itself."""
    try:
        yield
    except (StoreError, MissingExtra) as problem:
        problem.name_setting(setting)
        raise
