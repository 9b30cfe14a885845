"""Opens the memory for commands that need no engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from wenmai.config.settings import Settings
from wenmai.errors import InvalidInput
from wenmai.memory.erasure_receipts import Receipts
from wenmai.memory.library import Memory, MemoryPolicy, open_memory
from wenmai.memory.recall_model import named_reranker
from wenmai.memory.retention import Retention, RetentionPolicy
from wenmai.memory.window import WindowLimits
from wenmai.stores.encryption.settings import Encryption
from wenmai.stores.key_prefix import with_kept_days, with_key_prefix


@asynccontextmanager
async def memory_from_settings(settings: Settings) -> AsyncIterator[Memory]:
    """The memory of the configured store, with the configured session lifetime and window."""
    lifetime = timedelta(seconds=settings.session_lifetime_seconds)
    policy = MemoryPolicy(
        session_lifetime=lifetime,
        session_ids=settings.session_ids,
        language=settings.language,
        window=WindowLimits(**settings.window),
        history_cap=settings.history_cap,
        retention=RetentionPolicy(default=Retention.of_days(traces=settings.trace_retention_days)),
        rule_titles_final=settings.model in ("", "offline"),
    )
    store, hot = (with_key_prefix(url, settings.key_prefix) for url in (settings.store, settings.hot))
    store = with_kept_days(store, settings.session_retention_days)
    opening = open_memory(
        store,
        hot=hot,
        search=settings.search,
        policy=policy,
        embedder=settings.embedder,
        store_policy=settings.store_policy,
        encryption=Encryption.of_settings(**settings.encryption),
    )
    async with opening as memory:
        memory.erasures.receipts = Receipts.of_urls(
            store, hot, settings.search, settings.keys_store, key=settings.receipt_key
        )
        memory.recalls.reranker = named_reranker(settings.reranker, settings.recall_model_seconds)
        yield memory


def require_existing_store(url: str) -> None:
    """Reject an SQLite URL if the file does not exist, instead of creating it.

    Raises:
        InvalidInput: the file does not exist.
    """
    if url.lower().startswith("sqlite://"):
        from wenmai.stores.sqlite import path_of  # noqa: PLC0415 — a driver is loaded for its own URLs only

        if not path_of(url).is_file():
            raise InvalidInput("store", url, "an existing store")
