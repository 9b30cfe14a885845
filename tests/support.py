"""What tests of several folders use: the engine over any store."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from wenmai.engine import Engine, load_engine_settings, open_engine

STORES: dict[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory://",
    "sqlite": lambda folder: f"sqlite:///{folder}/wenmai.db",
}
"""Every store that can carry the whole service, by the name in test ids."""


@asynccontextmanager
async def engine_at(url: str, **flags: Any) -> AsyncIterator[Engine]:
    """The engine with the npc profile over the store at ``url``; keywords are settings."""
    loaded = load_engine_settings(flags={"store": url, **flags}, environment={})
    async with open_engine(loaded.values) as engine:
        yield engine
