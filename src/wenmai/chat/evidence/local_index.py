"""The index over passages in this process, for a store without search: made from the documents, and kept true.

Each process has its own. What makes them agree is the *revision* of a site's evidence: a small shared record that is
put anew after passages were written or removed, so that it differs each time. A question asks for it, one read. If it
is another than the index was made at, the documents are listed, and what differs from the index is indexed or dropped:
what was known before is neither analysed nor embedded again.

A process that dies between its documents and its announcement leaves the others unaware. Ingesting again announces in
any case, and after :data:`TRUSTED_SECONDS` an index is compared with the documents whatever the revision says.

No question waits for passages to be embedded, which may take 0.1 s each. They are found by words at once, and get
their vectors in a task behind the answers, in those processes that are asked.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from wenmai.chat.evidence.index import SEARCH_SECONDS, Asked, EvidenceIndex, batches
from wenmai.chat.evidence.pages import pages
from wenmai.errors import ModelError, StoreError
from wenmai.providers.embedders import Embedder
from wenmai.scope import Scope
from wenmai.stores.base import Documents
from wenmai.stores.breaker import BreakerPolicy
from wenmai.stores.degradation import note_degraded
from wenmai.stores.memory.search import MemorySearch
from wenmai.stores.records import ActiveVersion, EvidenceRecord

SITES_KEPT = 1_000
PASSAGES_KEPT = 10_000
"""What a process keeps indexed, over all sites; the site that was asked longest ago is forgotten first.

A passage of 150 characters takes about 9 kB, with a vector of 384 numbers 21 kB. A site with more passages than that is
kept alone: its evidence must fit into the process.
"""

TRUSTED_SECONDS = 600.0
RETRY_SECONDS = 30.0
"""How long nothing is embedded after that has failed."""

SLICE = 25
"""Passages that are indexed without letting other tasks in: about 3 ms."""

EMBEDDED_AT_ONCE = 20

_log = logging.getLogger(__name__)

_REF = "evidence"

_Revision = tuple[int, datetime, datetime] | None
"""Version, creation and last change of the shared record: no two states of it are alike, even if it was lost."""


@dataclass(slots=True)
class _Site:
    """What is indexed of one site.

    Attributes:
        prints: id → :func:`_print` of the passage as it is indexed.
        bare: ids of those that lack their vectors; never any without an embedder.
        embedding: the task that gives them their vectors.
        revision: the one at which the documents were compared.
        trusted_until: on the monotonic clock, until when equal revisions are believed.
        users: tasks that need it just now; it is not forgotten under them.
        changing: held by the one that changes it.
    """

    scope: Scope
    prints: dict[str, bytes] = field(default_factory=dict)
    bare: set[str] = field(default_factory=set)
    embedding: asyncio.Task[None] | None = None
    revision: _Revision = None
    trusted_until: float = 0.0
    users: int = 0
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_true(self, revision: _Revision) -> bool:
        return self.revision == revision and time.monotonic() < self.trusted_until

    def has(self, record: EvidenceRecord) -> bool:
        return self.prints.get(record.evidence_id) == _print(record)


class LocalIndex(EvidenceIndex):
    """See the module.

    Args:
        documents: where the passages and the revision are.
        embedder: None indexes and searches words alone. Vectors are kept in this process alone: each embeds every
            passage of the sites that it is asked about.
        policy: when the embedder is left alone.
        search_seconds: how long the search for a question may take, once the index is true.
    """

    def __init__(
        self,
        documents: Documents,
        embedder: Embedder | None,
        *,
        policy: BreakerPolicy | None = None,
        search_seconds: float = SEARCH_SECONDS,
    ) -> None:
        self._documents = documents
        self._shelves = MemorySearch()
        self._sites: dict[tuple[str, str], _Site] = {}
        self._embeds_again = 0.0
        super().__init__(self._shelves, embedder, policy=policy, search_seconds=search_seconds)

    async def prepare(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """Do nothing: who is asked next reads the documents, and need not be the one who ingests."""

    async def announce(self, scope: Scope) -> None:
        """Let every process, this one too, compare its index with the documents before its next answer."""
        await self._documents.put(scope, ActiveVersion(ref=_REF, number=1, latest=1))

    async def add(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """See :meth:`.index.EvidenceIndex.add`."""
        with self._used(scope) as site:
            async with site.changing:
                await self._add_words(site, records)
            await self._add_vectors(site, records)

    async def remove(self, scope: Scope, ids: Sequence[str]) -> None:
        """See :meth:`.index.EvidenceIndex.remove`."""
        with self._used(scope) as site:
            async with site.changing:
                await self._drop(site, ids)

    async def ask(self, scope: Scope, query: str, *, domains: Sequence[str], language: str | None, limit: int) -> Asked:
        """See :meth:`.index.EvidenceIndex.ask`; what other processes announced before is found.

        It counts as a failure of the embedder that some passages still lack their vectors.
        """
        with self._used(scope) as site:
            if not site.is_true(await self._revision(scope)):
                await self._make_true(site)
            bare = bool(site.bare)
            if bare:
                self._embed_behind(site)
            asked = await super().ask(scope, query, domains=domains, language=language, limit=limit)
        if not bare:
            return asked
        note_degraded(self.embedder_breaker.name)
        return msgspec.structs.replace(asked, embedder_failed=True)

    async def close(self) -> None:
        """Stop embedding."""
        tasks = [site.embedding for site in self._sites.values() if site.embedding]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _make_true(self, site: _Site) -> None:
        async with site.changing:
            # Read before the documents are: what is announced meanwhile makes it another one.
            revision = await self._revision(site.scope)
            if not site.is_true(revision):
                await self._compare(site)
                site.revision = revision
                site.trusted_until = time.monotonic() + TRUSTED_SECONDS

    async def _compare(self, site: _Site) -> None:
        """Make the words of the index those of the documents."""
        there: set[str] = set()
        async for page in pages(self._documents, site.scope):
            records = [stored.record for stored in page.items]
            there |= {record.evidence_id for record in records}
            await self._add_words(site, [record for record in records if not site.has(record)])
        await self._drop(site, [id_ for id_ in site.prints if id_ not in there])

    async def _add_words(self, site: _Site, records: Sequence[EvidenceRecord]) -> None:
        for batch in batches(records, SLICE):
            await self._put(site.scope, batch, [None] * len(batch))
            site.prints |= {record.evidence_id: _print(record) for record in batch}
            if self._embedder:
                site.bare |= {record.evidence_id for record in batch}
            await asyncio.sleep(0)

    async def _add_vectors(self, site: _Site, records: Sequence[EvidenceRecord]) -> None:
        """Embed what is indexed by words; others may change the site meanwhile.

        Raises:
            ModelError: the embedder failed; the batches before have their vectors.
        """
        for batch in batches(records, EMBEDDED_AT_ONCE):
            pairs = list(zip(batch, await self._vectors(batch), strict=True))
            async with site.changing:
                still = [(record, vector) for record, vector in pairs if site.has(record)]
                await self._put(site.scope, [record for record, _ in still], [vector for _, vector in still])
                site.bare -= {record.evidence_id for record, _ in still}

    async def _drop(self, site: _Site, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), SLICE):
            batch = ids[start : start + SLICE]
            await super().remove(site.scope, batch)
            for id_ in batch:
                site.prints.pop(id_, None)
            site.bare -= set(batch)
            await asyncio.sleep(0)

    def _embed_behind(self, site: _Site) -> None:
        """Have a task embed what lacks its vector, unless one does, or it has just failed."""
        if (site.embedding is None or site.embedding.done()) and time.monotonic() >= self._embeds_again:
            site.embedding = asyncio.create_task(self._embed(site))

    async def _embed(self, site: _Site) -> None:
        with self._used(site.scope):
            try:
                while site.bare:
                    ids = sorted(site.bare)[:EMBEDDED_AT_ONCE]
                    stored = await self._documents.get_many(site.scope, EvidenceRecord, ids)
                    await self._add_vectors(site, [each.record for each in stored.values()])
                    if site.bare.issuperset(ids):
                        return  # the documents have changed: the next question compares, and begins again
            except (ModelError, StoreError) as problem:
                _log.warning("passages are found by words alone for now: %s", problem)
                self._embeds_again = time.monotonic() + RETRY_SECONDS

    async def _revision(self, scope: Scope) -> _Revision:
        stored = await self._documents.get(scope, ActiveVersion, _REF)
        return (stored.version, stored.created_at, stored.updated_at) if stored else None

    @contextmanager
    def _used(self, scope: Scope) -> Iterator[_Site]:
        """The site, which from now on is the last one to be forgotten; those that are too many go at the end."""
        name = (scope.tenant_id, scope.site_id)
        site = self._sites.pop(name, None) or _Site(scope)
        self._sites[name] = site
        site.users += 1
        try:
            yield site
        finally:
            site.users -= 1
            self._make_room()

    def _make_room(self) -> None:
        passages = sum(len(site.prints) for site in self._sites.values())
        *earlier, _ = self._sites.items()
        for name, site in earlier:
            if passages <= PASSAGES_KEPT and len(self._sites) <= SITES_KEPT:
                return
            if not site.users:
                passages -= len(site.prints)
                del self._sites[name]
                self._shelves.forget(site.scope, self._collection, shared=True)


def _print(record: EvidenceRecord) -> bytes:
    """What tells two states of a passage apart."""
    return hashlib.blake2b(msgspec.msgpack.encode(record), digest_size=16).digest()
