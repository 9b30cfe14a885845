"""A process that a test kills while it embeds: ``python embedding_victim.py STORE_URL LOG CALLS``.

It builds the recall index for a new embedder and is killed by the embedder's call after so many.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from wenmai.clock import system_clock
from wenmai.memory import episodes
from wenmai.memory.library import Memory, required
from wenmai.memory.rebuilding import rebuild_episodes
from wenmai.stores.opening import open_store

EMBEDDED_TOGETHER = 2


class RecordingEmbedder:
    """An embedder that writes what it embeds to a file, a line each, until it kills its process.

    Args:
        log: the file.
        calls: for passages, before the one that kills; None for no end.
    """

    name = "recording"

    def __init__(self, log: Path, calls: int | None = None) -> None:
        self._log = log
        self._calls = calls

    async def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return [1.0, float(len(text))]

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of passages."""
        if self._calls is not None:
            if not self._calls:
                os.kill(os.getpid(), signal.SIGKILL)
            self._calls -= 1
        with self._log.open("a", encoding="utf-8") as log:
            log.writelines(f"{text}\n" for text in texts)
        return [[1.0, float(len(text))] for text in texts]


async def embed_all(url: str, embedder: RecordingEmbedder) -> None:
    """Build the recall index with this embedder."""
    episodes.EMBEDDED_TOGETHER = EMBEDDED_TOGETHER
    async with open_store(url, clock=system_clock) as store:
        documents, logs = required(store, url)
        memory = Memory(documents, logs, search=store.search, embedder=embedder)
        memory.derived.start()
        await rebuild_episodes(memory, documents, logs)


if __name__ == "__main__":
    asyncio.run(embed_all(sys.argv[1], RecordingEmbedder(Path(sys.argv[2]), int(sys.argv[3]))))
