"""In-process index over passages, for a store without search: derived from the documents and kept fresh.

Each process has its own. The *revision* of a site's evidence invalidates them: a shared marker that is rewritten after
passages were written or removed, so that it differs each time. Each question reads it once. If the index was
built at another revision, the documents are listed and differences are indexed or dropped; unchanged passages are
neither analysed nor embedded again.

A process that dies between its documents and the revision leaves other indexes stale. Ingesting again bumps the
revision in any case, and after :data:`FRESH_SECONDS` an index is reconciled with the documents whatever its revision.

Passages are embedded in the background (:mod:`.embedding`), in the processes that get questions.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from wenmai.grounding.evidence.embedding import PassageEmbedding
from wenmai.grounding.evidence.entries import entry_of
from wenmai.grounding.evidence.index import SEARCH_SECONDS, EvidenceIndex, SearchHits, batches
from wenmai.grounding.evidence.pages import pages
from wenmai.providers.embedders import Embedder
from wenmai.resilience.breaker import BreakerPolicy
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.inprocess.search import InProcessSearch
from wenmai.stores.records import EvidenceRecord, Marker

MAX_SITES = 1_000
MAX_PASSAGES = 10_000
"""Bounds of a process's index over all sites; the least recently used site is evicted first.

A passage of 150 characters takes about 9 kB, with a vector of 384 numbers 12 kB. A site with more passages is kept
alone: its evidence must fit into the process.
"""

FRESH_SECONDS = 600.0
SLICE = 25
"""Passages indexed between yields to other tasks: about 3 ms."""

_REVISION = "evidence"
"""The name of the marker."""

_Revision = tuple[int, datetime, datetime] | None
"""Version, creation and last change of the marker: unique to each state, even if the record was lost."""


@dataclass(slots=True)
class _Site:
    """The index of one site.

    Attributes:
        digests: id → :func:`_digest` of the passage as indexed.
        revision: the one at which the index was reconciled with the documents.
        fresh_until: on the monotonic clock; from then on the index is stale at any revision.
        pins: tasks that use it now; a pinned site is not evicted.
        lock: held while the index changes.
    """

    scope: Scope
    digests: dict[str, bytes] = field(default_factory=dict)
    revision: _Revision = None
    fresh_until: float = 0.0
    pins: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_fresh(self, revision: _Revision) -> bool:
        return self.revision == revision and time.monotonic() < self.fresh_until

    def has(self, record: EvidenceRecord) -> bool:
        return self.digests.get(record.evidence_id) == _digest(record)


class LocalIndex(EvidenceIndex):
    """See the module.

    Args:
        documents: stores the passages and the revision.
        embedder: None indexes and searches words alone. Vectors are kept in this process alone: each process embeds
            every passage of the sites that it is asked about.
        policy: of the circuit breakers.
        search_seconds: timeout of the search for a question, once the index is fresh.
    """

    stored = False

    def __init__(
        self,
        documents: Documents,
        embedder: Embedder | None,
        *,
        policy: BreakerPolicy | None = None,
        search_seconds: float = SEARCH_SECONDS,
    ) -> None:
        self._documents = documents
        self._local_search = InProcessSearch()
        self._sites: dict[tuple[str, str], _Site] = {}
        super().__init__(documents, self._local_search, embedder, policy=policy, search_seconds=search_seconds)

    async def prepare(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """Do nothing: each process indexes from the documents, when a question comes."""

    async def bump_revision(self, scope: Scope) -> None:
        """Invalidate the index of every process, this one too; the next search reconciles it with the documents."""
        await self._documents.put(scope, Marker(name=_REVISION))

    async def add(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """See :meth:`.index.EvidenceIndex.add`."""
        with self._pinned(scope) as site:
            async with site.lock:
                await self._add_words(site, records)
        self.start_embedding(scope)

    async def remove(self, scope: Scope, ids: Sequence[str]) -> None:
        """See :meth:`.index.EvidenceIndex.remove`."""
        with self._pinned(scope) as site:
            async with site.lock:
                await self._drop(site, ids)

    async def search(
        self, scope: Scope, query: str, *, domains: Sequence[str], language: str | None, limit: int
    ) -> SearchHits:
        """See :meth:`.index.EvidenceIndex.search`; changes under an earlier revision are visible."""
        with self._pinned(scope) as site:
            if not site.is_fresh(await self._revision(scope)):
                await self._refresh(site)
            return await super().search(scope, query, domains=domains, language=language, limit=limit)

    async def _refresh(self, site: _Site) -> None:
        async with site.lock:
            # Read before the documents: a concurrent change bumps it, so that the next search sees the change.
            revision = await self._revision(site.scope)
            if not site.is_fresh(revision):
                await self._reconcile(site)
                site.revision = revision
                site.fresh_until = time.monotonic() + FRESH_SECONDS
                self.start_embedding(site.scope)

    async def _reconcile(self, site: _Site) -> None:
        """Reconcile the lexical index with the documents."""
        stored_ids: set[str] = set()
        async for page in pages(self._documents, site.scope):
            records = [stored.record for stored in page.items]
            stored_ids |= {record.evidence_id for record in records}
            await self._add_words(site, [record for record in records if not site.has(record)])
        await self._drop(site, [id_ for id_ in site.digests if id_ not in stored_ids])

    async def _add_words(self, site: _Site, records: Sequence[EvidenceRecord]) -> None:
        for batch in batches(records, SLICE):
            await self._local_search.index(site.scope, self._collection, list(map(entry_of, batch)), shared=True)
            site.digests |= {record.evidence_id: _digest(record) for record in batch}
            await asyncio.sleep(0)

    async def _drop(self, site: _Site, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), SLICE):
            batch = ids[start : start + SLICE]
            await super().remove(site.scope, batch)
            for id_ in batch:
                site.digests.pop(id_, None)
            await asyncio.sleep(0)

    def _open_embedding(self, documents: Documents, embedder: Embedder) -> PassageEmbedding:
        return PassageEmbedding(
            documents,
            self._local_search,
            self._collection,
            embedder,
            self.embedder_breaker,
            leases=None,
            pinned=self._pinned,
        )

    async def _revision(self, scope: Scope) -> _Revision:
        stored = await self._documents.get(scope, Marker, _REVISION)
        return (stored.version, stored.created_at, stored.updated_at) if stored else None

    @contextmanager
    def _pinned(self, scope: Scope) -> Iterator[_Site]:
        """The site, pinned and most recently used; sites over the bounds are evicted at the end."""
        name = (scope.tenant_id, scope.site_id)
        site = self._sites.pop(name, None) or _Site(scope)
        self._sites[name] = site
        site.pins += 1
        try:
            yield site
        finally:
            site.pins -= 1
            self._evict()

    def _evict(self) -> None:
        passages = sum(len(site.digests) for site in self._sites.values())
        *earlier, _ = self._sites.items()
        for name, site in earlier:
            if passages <= MAX_PASSAGES and len(self._sites) <= MAX_SITES:
                return
            if not site.pins:
                passages -= len(site.digests)
                del self._sites[name]
                self._local_search.clear(site.scope, self._collection, shared=True)
                if self._embedding:
                    self._embedding.forget(site.scope)


def _digest(record: EvidenceRecord) -> bytes:
    """Digest of a passage with all its fields."""
    return hashlib.blake2b(msgspec.msgpack.encode(record), digest_size=16).digest()
