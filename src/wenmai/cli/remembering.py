"""The memory that commands without an engine work on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from wenmai.errors import InvalidInput
from wenmai.memory.manager import Memory, MemoryPolicy, open_memory
from wenmai.settings import Settings
from wenmai.stores.key_prefix import with_key_prefix


@asynccontextmanager
async def opened_memory(settings: Settings) -> AsyncIterator[Memory]:
    """The memory of the settings' store, with their lifetime of sessions."""
    lifetime = timedelta(seconds=settings.session_lifetime_seconds)
    policy = MemoryPolicy(session_lifetime=lifetime, language=settings.language)
    store, hot = (with_key_prefix(url, settings.key_prefix) for url in (settings.store, settings.hot))
    async with open_memory(store, hot=hot, policy=policy) as memory:
        yield memory


def check_there(url: str) -> None:
    """Refuse a store that reading would have to create.

    Raises:
        InvalidInput: there is no such file.
    """
    if url.lower().startswith("sqlite://"):
        from wenmai.stores.sqlite import path_of  # noqa: PLC0415 — a driver is loaded for its own URLs only

        if not path_of(url).is_file():
            raise InvalidInput("store", url, "a store that is there")
