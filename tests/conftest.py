"""Fixtures that all tests share: the engine over each store that keeps everything."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from wenmai.engine import Engine, load_engine_settings, open_engine

STORES: dict[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory://",
    "sqlite": lambda folder: f"sqlite:///{folder}/wenmai.db",
}
"""Every store that can carry the whole service, by the name in test ids."""

OpenEngine = Callable[..., AbstractAsyncContextManager[Engine]]


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, for each backend in turn."""
    return STORES[request.param](tmp_path)


@asynccontextmanager
async def engine_at(url: str, **flags: Any) -> AsyncIterator[Engine]:
    """The engine with the npc profile over the store at ``url``; keywords are settings."""
    loaded = load_engine_settings(flags={"store": url, **flags}, environment={})
    async with open_engine(loaded.values) as engine:
        yield engine


@pytest.fixture
async def engine(store_url: str) -> AsyncIterator[Engine]:
    """The engine over each store in turn."""
    async with engine_at(store_url) as opened:
        yield opened
