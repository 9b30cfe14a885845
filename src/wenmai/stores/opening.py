"""Opening a store by its URL; the scheme selects the backend.

A backend is a module with ``open_store(url, *, clock)``. One that has tables also has ``schema_at(url)`` and
``upgrade(url, on_step)``.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Literal, get_args

from wenmai.clock import Clock, system_clock
from wenmai.errors import InvalidInput, MissingExtra, StoreError, UnsupportedUrl, mask_url
from wenmai.stores.contracts import Search, Store
from wenmai.stores.encryption.marker import refuse_encrypted
from wenmai.stores.encryption.settings import Encryption
from wenmai.stores.private import PrivateStore
from wenmai.stores.separate_search import StoreWithSearch
from wenmai.stores.upgrades import OnStep, Schema
from wenmai.text.redact import Redactor

if TYPE_CHECKING:
    from wenmai.resilience.breaker import Breaker, BreakerPolicy
    from wenmai.stores.encryption.store import EncryptedStore

StorePolicy = Literal["off", "redact", "encrypt"]
"""What is done before anything is written: nothing, private values are replaced by placeholders, or all that users say
is encrypted."""

_BACKENDS = {
    "elasticsearch": ("wenmai.stores.elasticsearch", "elasticsearch"),
    "elasticsearch+https": ("wenmai.stores.elasticsearch", "elasticsearch"),
    "memory": ("wenmai.stores.inprocess", ""),
    "milvus": ("wenmai.stores.milvus", "milvus"),
    "milvuss": ("wenmai.stores.milvus", "milvus"),
    "opensearch": ("wenmai.stores.elasticsearch", "opensearch"),
    "opensearch+https": ("wenmai.stores.elasticsearch", "opensearch"),
    "redis": ("wenmai.stores.redis", "redis"),
    "rediss": ("wenmai.stores.redis", "redis"),
    "redis+sentinel": ("wenmai.stores.redis", "redis"),
    "rediss+sentinel": ("wenmai.stores.redis", "redis"),
    "sqlite": ("wenmai.stores.sqlite", ""),
    "postgresql": ("wenmai.stores.postgresql", "postgresql"),
    "postgres": ("wenmai.stores.postgresql", "postgresql"),
}
"""Scheme → (module with ``open_store``, the extra that installs its driver)."""

_CACHE = ("wenmai.stores.cache", "redis")
_ENCRYPTION = ("wenmai.stores.encryption.store", "encrypt")


def schemes() -> list[str]:
    """The URL schemes that can be opened."""
    return sorted(_BACKENDS)


@asynccontextmanager
async def open_store(url: str, *, clock: Clock = system_clock) -> AsyncIterator[Store]:
    """Open the store at ``url`` for the duration of the context; tables of an older version are upgraded.

    ``memory://`` stores everything in this process; ``sqlite:///relative.db`` and ``sqlite:////absolute.db``
    in one file; ``redis://host:port/0`` and, with TLS, ``rediss://…`` store documents and logs on a server.

    Raises:
        UnsupportedUrl: no backend has that scheme.
        MissingExtra: the backend's driver is not installed.
        InvalidInput: the URL, or the database that it names, cannot be used; the message says what is required.
        StoreTooNew: a newer Wenmai wrote the tables.
        StoreUnavailable: the store cannot be reached, or refuses writes.
    """
    async with AsyncExitStack() as stack:
        with _naming_the_setting():
            store: Store = await stack.enter_async_context(_backend(url).open_store(url, clock=clock))
        yield store


@asynccontextmanager
async def open_stores(
    url: str,
    hot: str = "",
    *,
    search: str = "",
    clock: Clock = system_clock,
    breaker_policy: "BreakerPolicy | None" = None,
    policy: StorePolicy = "redact",
    encryption: Encryption | None = None,
) -> AsyncIterator["tuple[Store, tuple[Breaker, ...]]"]:
    """Open the store at ``url`` and, if configured, the Redis cache in front of it and the store for its search.

    Args:
        url: see :func:`open_store`.
        hot: URL of a Redis server, or "" for none; see :func:`wenmai.stores.cache.open_cache`.
        search: URL of a store that has the search indexes, in place of that at ``url``; "" for none.
        clock: source of stored timestamps.
        breaker_policy: of the breaker in front of the Redis cache.
        policy: see :data:`StorePolicy`.
        encryption: the keys for the policy ``encrypt``, or with another one for what was encrypted before.

    Yields:
        The store, and the breakers of its optional dependencies.

    Raises:
        WenmaiError: as for :func:`open_store` and ``open_cache``; it names ``store``, ``hot`` or ``search``.
        InvalidInput: there is no such policy; or the store has encrypted data, or the policy is ``encrypt``, and
            ``encryption`` is missing or of other keys.
    """
    if policy not in get_args(StorePolicy):
        raise InvalidInput("store_policy", policy, f"one of {', '.join(get_args(StorePolicy))}")
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(url, clock=clock))
        breakers: tuple[Breaker, ...] = ()
        if hot:
            with _naming_the_setting("hot"):
                cache = _import(*_CACHE)
            cached = await stack.enter_async_context(
                cache.open_cache(store, hot, clock=clock, breaker_policy=breaker_policy)
            )
            store, breakers = cached, (cached.breaker,)
        if search:
            store = StoreWithSearch(store, await stack.enter_async_context(open_search(search, clock=clock)))
        store = await _with_encryption(stack, store, policy, encryption, clock)
        yield PrivateStore(store, Redactor()) if policy == "redact" else store, breakers


async def _with_encryption(
    stack: AsyncExitStack, store: Store, policy: StorePolicy, encryption: Encryption | None, clock: Clock
) -> Store:
    if encryption is None:
        if policy == "encrypt":
            raise InvalidInput("master_keys", "", "given for the store_policy encrypt: wenmai encryption new-key")
        if store.documents is not None:
            await refuse_encrypted(store.documents)
        return store
    keys_store = store
    if encryption.keys_store:
        with _naming_the_setting("keys_store"):
            backend = _backend(encryption.keys_store)
            keys_store = await stack.enter_async_context(backend.open_store(encryption.keys_store, clock=clock))
    module = _import(*_ENCRYPTION)
    opened: Store = await module.encrypted(store, keys_store, encryption, writes=policy == "encrypt")
    return opened


def encrypted_part(store: Store) -> "EncryptedStore | None":
    """The store with encryption that :func:`open_stores` has opened; None without encryption."""
    return getattr(store, "encrypted", None)


@asynccontextmanager
async def open_search(url: str, *, setting: str = "search", clock: Clock = system_clock) -> AsyncIterator[Search]:
    """Open the search indexes of the store at ``url``; errors name the setting.

    Raises:
        WenmaiError: as for :func:`open_store`.
        InvalidInput: the store has no search.
    """
    async with AsyncExitStack() as stack:
        with _naming_the_setting(setting):
            store: Store = await stack.enter_async_context(_backend(url).open_store(url, clock=clock))
        if store.search is None:
            raise InvalidInput(setting, mask_url(url), "the URL of a store with search")
        yield store.search


async def schema_at(url: str) -> Schema | None:
    """The schema of the store at ``url``, which is not changed; None if its backend has no tables.

    Raises:
        WenmaiError: as for :func:`open_store`.
    """
    with _naming_the_setting():
        backend = _backend(url)
        schema: Schema | None = await backend.schema_at(url) if hasattr(backend, "schema_at") else None
    return schema


async def prepare_store(url: str, on_step: OnStep) -> None:
    """Check that the store at ``url`` can be used, and create or upgrade its tables, as opening it would.

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
    return _import(*_BACKENDS[scheme])


def _import(module: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if not extra:
            raise
        raise MissingExtra((missing.name or module).partition(".")[0], extra) from missing


@contextmanager
def _naming_the_setting(setting: str = "store") -> Iterator[None]:
    """Add the name of the setting to an error at opening; an InvalidInput names it already."""
    try:
        yield
    except (StoreError, MissingExtra) as problem:
        problem.name_setting(setting)
        raise
