"""Fixtures that all tests share: the engine over each store that keeps everything."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support import STORES, engine_at
from wenmai.engine import Engine


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, for each backend in turn."""
    return STORES[request.param](tmp_path)


@pytest.fixture
async def engine(store_url: str) -> AsyncIterator[Engine]:
    """The engine over each store in turn."""
    async with engine_at(store_url) as opened:
        yield opened
