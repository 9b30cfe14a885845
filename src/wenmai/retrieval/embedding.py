"""Gives indexed passages their vectors, in the background.

What is missing is read from the index itself (:meth:`wenmai.stores.contracts.Search.without_vector`), so that there is
no other state: after a crash the work goes on where it was. A vector is written only if the passage still has the text
that was embedded. One process at a time embeds the passages of an owner; two would only do some work twice.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Generic

import msgspec

from wenmai.errors import ModelError, StoreError
from wenmai.providers.embedders import Embedder
from wenmai.resilience.breaker import Breaker
from wenmai.retrieval.corpus import Corpus, R
from wenmai.retrieval.embedding_log import EmbeddingLog
from wenmai.retrieval.vector_cache import VectorCache
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Search
from wenmai.stores.lease import LEASE, Leases, LeaseTaken
from wenmai.stores.structs import CollectionSize

BATCH = 20
"""Passages per call of the embedder and per write."""

SLICE = 5 * BATCH
"""Passages of an owner after which other owners have their turn."""

RECHECK_SECONDS = 60.0
"""A question after so long makes the index be checked again: another process may have left passages without vectors."""

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0
"""Delay after the first failure of an owner; each further one waits twice as long, up to the longest."""

BREAKER_SECONDS = 30.0
"""No passage is embedded for so long after the embedder's breaker has opened."""

MAX_REFUSED = 5
"""Texts that the embedder may refuse for good before the others are left for later too."""

MAX_OWNERS = 1_000
"""Owners whose progress is known, the most recently checked."""

_log = logging.getLogger(__name__)

_NO_THREAD = ThreadKey("", "", "")


class EmbeddingProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How many passages are indexed, and how many of them have their vector."""

    passages: int
    embedded: int


OnEmbedded = Callable[[EmbeddingProgress], None]


class PassageEmbedding(Generic[R]):
    """Embeds the passages of one collection, over all their owners.

    Args:
        corpus: the records that are indexed.
        documents: have the passages' texts.
        search: has the index.
        collection: of the index.
        embedder: makes the vectors.
        breaker: of the embedder for questions; it is not used for passages, but while it is open they wait.
        leases: None for an index that no other process shares.
        complete: called before a pass, to index what is not indexed yet.
        pinned: entered while an owner has work, to keep its index.
    """

    def __init__(
        self,
        corpus: Corpus[R],
        documents: Documents,
        search: Search,
        collection: str,
        embedder: Embedder,
        breaker: Breaker,
        *,
        leases: Leases | None,
        complete: Callable[[Scope], Awaitable[None]] | None = None,
        pinned: Callable[[Scope], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._corpus = corpus
        self._documents = documents
        self._search = search
        self._collection = collection
        self._vectors = VectorCache(embedder)
        self._breaker = breaker
        self._leases = leases
        self._complete = complete
        self._pinned = pinned
        self._sizes: dict[Scope, CollectionSize] = {}
        self._checked: dict[Scope, float] = {}
        self._wanted: set[Scope] = set()
        self._tasks: dict[Scope, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()

    @property
    def progress(self) -> EmbeddingProgress:
        """The totals of the owners that this process has checked, as of their last check or write."""
        sizes = self._sizes.values()
        return EmbeddingProgress(
            passages=sum(size.entries for size in sizes), embedded=sum(size.vectors for size in sizes)
        )

    def is_complete(self, scope: Scope) -> bool:
        """Whether all passages of the owner had their vectors when it was last checked, and no work has come since."""
        size = self._sizes.get(self._corpus.owner(scope))
        return self._corpus.owner(scope) not in self._tasks and size is not None and size.vectors >= size.entries

    def start(self, scope: Scope) -> None:
        """Embed what has no vector, in the background; called again after each change."""
        owner = self._corpus.owner(scope)
        self._wanted.add(owner)
        self._checked.pop(owner, None)
        self._checked[owner] = time.monotonic()
        if owner not in self._tasks:
            self._tasks[owner] = asyncio.create_task(self._run(owner))

    def check(self, scope: Scope) -> None:
        """Start, unless the owner was checked a moment ago; called with each question."""
        checked = self._checked.get(self._corpus.owner(scope))
        if checked is None or time.monotonic() - checked >= RECHECK_SECONDS:
            self.start(scope)

    def forget(self, scope: Scope) -> None:
        """The owner's index is gone from this process."""
        self._sizes.pop(self._corpus.owner(scope), None)
        self._checked.pop(self._corpus.owner(scope), None)

    async def finish(self, scope: Scope, on_progress: OnEmbedded | None = None) -> None:
        """Embed what has no vector, or wait until another process has done so.

        Raises:
            ModelError: the embedder failed.
        """
        while True:
            try:
                return await self._embed_owner(self._corpus.owner(scope), on_progress)
            except LeaseTaken:
                if on_progress:
                    on_progress(self.progress)
                await asyncio.sleep(LEASE.total_seconds())

    async def close(self) -> None:
        """Stop at once: at most the batches that are being embedded are lost."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, owner: Scope) -> None:
        """Embed the owner's passages until all that can be embedded are, retrying after failures."""
        retry = FIRST_RETRY_SECONDS
        try:
            with self._pinned(owner):
                while owner in self._wanted:
                    await asyncio.sleep(self._breaker_seconds())
                    self._wanted.discard(owner)
                    try:
                        await self._embed_owner(owner)
                        retry = FIRST_RETRY_SECONDS
                        continue
                    except LeaseTaken:
                        delay = LEASE.total_seconds()
                    except (ModelError, StoreError) as problem:
                        delay, retry = retry, min(2 * retry, LONGEST_RETRY_SECONDS)
                        _log.warning("embedding of passages failed, retrying in %g s: %s", delay, problem)
                    except Exception:  # noqa: BLE001 — logged and retried
                        delay = LONGEST_RETRY_SECONDS
                        _log.exception("embedding of passages failed unexpectedly, retrying in %g s", delay)
                    self._wanted.add(owner)
                    await asyncio.sleep(delay)
        finally:
            del self._tasks[owner]

    def _breaker_seconds(self) -> float:
        status = self._breaker.status
        if status.state != "open" or status.opened_at is None:
            return 0.0
        return max(0.0, status.opened_at + BREAKER_SECONDS - self._breaker.now())

    async def _embed_owner(self, owner: Scope, on_progress: OnEmbedded | None = None) -> None:
        """One pass over the entries without a vector.

        Raises:
            LeaseTaken: another process is at it.
            ModelError: the embedder failed; or it refused some texts, the others have their vectors.
        """
        log = EmbeddingLog(owner, self._corpus.name)
        refused: list[ModelError] = []
        after = ""
        if self._complete:
            await self._complete(owner)
        while True:
            await self._count(owner)
            if on_progress:
                on_progress(self.progress)
            if not await self._missing(owner, after, 1):
                break
            async with self._turn, self._lease(owner):
                ids = await self._missing(owner, after, SLICE)
                size = await self._count(owner)
                log.show(size.vectors, size.entries)
                for start in range(0, len(ids), BATCH):
                    await self._embed(owner, ids[start : start + BATCH], refused)
                    log.show(self._sizes[owner].vectors, size.entries)
                    if on_progress:
                        on_progress(self.progress)
            after = ids[-1] if ids else after
        log.end()
        if refused:
            raise refused[-1]

    async def _embed(self, owner: Scope, ids: Sequence[str], refused: list[ModelError]) -> None:
        """Embed these passages; those that the embedder refuses for good are left out."""
        keys = list(dict.fromkeys(map(self._corpus.record_key, ids)))
        stored = await self._documents.get_many(owner, self._corpus.kind, keys)
        found = {
            entry.id: (entry, text) for each in stored.values() for entry, text in self._corpus.entries_of(each.record)
        }
        wanted = [found[id_] for id_ in ids if id_ in found]
        try:
            vectors = await self._vectors.embed([text for _, text in wanted])
        except ModelError as problem:
            if problem.retryable or len(refused) >= MAX_REFUSED:
                raise
            if len(ids) == 1:
                refused.append(problem)
                return
            for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
                await self._embed(owner, half, refused)
            return
        entries = [
            msgspec.structs.replace(entry, vector=vector) for (entry, _), vector in zip(wanted, vectors, strict=True)
        ]
        written = await self._search.embed(owner, self._collection, entries, shared=self._corpus.shared)
        size = self._sizes[owner]
        self._sizes[owner] = CollectionSize(size.entries, min(size.entries, size.vectors + written))

    async def _count(self, owner: Scope) -> CollectionSize:
        size = await self._search.size(owner, self._collection, shared=self._corpus.shared)
        self._sizes.pop(owner, None)
        self._sizes[owner] = size
        for oldest in [each for each in self._sizes if each not in self._tasks][:-MAX_OWNERS]:
            self.forget(oldest)
        return size

    async def _missing(self, owner: Scope, after: str, limit: int) -> list[str]:
        return await self._search.without_vector(
            owner, self._collection, after=after, limit=limit, shared=self._corpus.shared
        )

    @asynccontextmanager
    async def _lease(self, owner: Scope) -> AsyncIterator[None]:
        if self._leases is None:
            yield
            return
        work = f"embedding/{self._collection}"
        if not self._corpus.shared:  # names of leases are unique in a site, not in a user
            work += f"/{hashlib.blake2b(owner.user_id.encode(), digest_size=16).hexdigest()}"
        async with self._leases.hold(owner, work, _NO_THREAD, wait=False):
            yield
