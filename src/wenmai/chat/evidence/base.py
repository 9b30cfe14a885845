"""The evidence of a site: passages in a document store, found through a search index.

Passages belong to the site: any of its users finds them. The documents are the truth, the index is made from
them (:meth:`EvidenceBase.reindex`). A passage is indexed before its document is written: the document is the
mark that both are done, so that an ingestion that broke off is completed by running it again.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence

import msgspec

from wenmai.chat.evidence.fields import check_record
from wenmai.chat.evidence.index import BATCH, BATCH_CHARACTERS, SEARCH_SECONDS, EvidenceIndex
from wenmai.chat.evidence.local_index import LocalIndex
from wenmai.chat.evidence.pages import pages
from wenmai.chat.evidence.ranking import one_of_each, ordered, scores, verified_first
from wenmai.chat.evidence.reading import FileReader
from wenmai.chat.types import Passage
from wenmai.errors import ModelError
from wenmai.providers.embedders import Embedder
from wenmai.scope import Scope
from wenmai.stores.base import Documents, Page, Search, Stored
from wenmai.stores.breaker import Breaker, BreakerPolicy
from wenmai.stores.fields import check_range
from wenmai.stores.records import EvidenceRecord

MOST_FOUND = 50
_POOL = 4
"""So many times the passages wanted are looked at, for the order and for copies in other languages."""


class IngestReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an ingestion did, in passages."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found.

    Attributes:
        passages: best first, numbered from 1.
        degraded: ``embedder`` if it failed and the search went by words alone.
    """

    passages: list[Passage]
    degraded: list[str]


OnProgress = Callable[[IngestReport], None]
"""Is told after each batch what has been done so far."""


class EvidenceBase:
    """See the module's docstring.

    Args:
        documents: where the passages are kept.
        search: where they are found; None keeps an index in this process (:mod:`.local_index`).
        embedder: None searches by words alone. Each embedder has an index of its own, which is made when the
            first question finds it empty; :meth:`reindex` makes it ahead of that.
        policy: when the embedder and the search are left alone.
        search_seconds: how long the search for a question may take.

    Attributes:
        breakers: in front of the search, and of the embedder if there is one.
        files: reads the files that passages come from.
    """

    def __init__(
        self,
        documents: Documents,
        search: Search | None,
        embedder: Embedder | None,
        *,
        policy: BreakerPolicy | None = None,
        search_seconds: float = SEARCH_SECONDS,
    ) -> None:
        self._documents = documents
        self._index = (
            LocalIndex(documents, embedder, policy=policy, search_seconds=search_seconds)
            if search is None
            else EvidenceIndex(search, embedder, policy=policy, search_seconds=search_seconds)
        )
        self._rebuilding = asyncio.Lock()
        self.files = FileReader()
        searching = (self._index.search_breaker,)
        self.breakers: tuple[Breaker, ...] = (self._index.embedder_breaker, *searching) if embedder else searching

    async def ingest(
        self,
        scope: Scope,
        records: AsyncIterable[EvidenceRecord] | Iterable[EvidenceRecord],
        *,
        replace_source: bool = False,
        on_progress: OnProgress | None = None,
    ) -> IngestReport:
        """Add or change passages; what is there already, equal in all fields, is left alone.

        Args:
            scope: the site; its user does not matter.
            records: of several passages with one id the first counts.
            replace_source: remove afterwards the passages that are stored of the same sources
                (``source_ref``) and did not come this time.
            on_progress: see :data:`OnProgress`.

        Raises:
            InvalidInput: a record's field is not allowed; the batches before it have been ingested.
            ModelError: the embedder failed; likewise. With an index in this process nothing is embedded yet.
        """
        report = IngestReport()
        seen: set[str] = set()
        sources: set[str] = set()
        try:
            async for batch in _batches(records):
                fresh = {record.evidence_id: record for record in reversed(batch) if record.evidence_id not in seen}
                seen |= fresh.keys()
                sources |= {record.source_ref for record in batch if record.source_ref}
                report = await self._ingest_batch(scope, list(fresh.values()), report)
                await asyncio.sleep(0)  # a store in this process may never have let other tasks in
                if on_progress:
                    on_progress(report)
        finally:
            await self._index.announce(scope)
        if not replace_source:
            return report
        removed = [await self._remove(scope, await self._ids(scope, source) - seen) for source in sources]
        return msgspec.structs.replace(report, removed=sum(removed))

    async def find(
        self,
        scope: Scope,
        query: str,
        *,
        domains: Sequence[str] = (),
        language: str | None = None,
        limit: int = 6,
    ) -> Found:
        """The passages that answer the question best; scores and order are those of :mod:`.ranking`.

        Args:
            scope: the site; its user does not matter.
            query: what is searched for, in any wording.
            domains: only passages of one of these; empty means all. Where they have nothing, nothing is
                found: a persona speaks about its own domains only.
            language: a BCP 47 tag. Passages of another language are given only if those of this one are weak
                and the others are better; never two copies of one passage.
            limit: 1 to 50 passages.

        Raises:
            StoreUnavailable: the search or the documents cannot be reached, or the search is left alone for now.
        """
        check_range("limit", limit, 1, MOST_FOUND)
        pool = limit * _POOL
        asked = await self._index.ask(scope, query, domains=domains, language=language, limit=pool)
        if not asked.hits and not asked.embedder_failed and await self._rebuild_if_empty(scope):
            asked = await self._index.ask(scope, query, domains=domains, language=language, limit=pool)
        score = scores(asked.hits)
        order = ordered(asked.hits, score)
        stored = await self._documents.get_many(scope, EvidenceRecord, order)
        records = verified_first([stored[id_].record for id_ in order if id_ in stored], score)
        chosen = one_of_each(records)[:limit]
        passages = [_passage(record, score, number) for number, record in enumerate(chosen, start=1)]
        return Found(passages=passages, degraded=["embedder"] if asked.embedder_failed else [])

    async def get(self, scope: Scope, evidence_id: str) -> Stored[EvidenceRecord] | None:
        """The passage of that id, or None."""
        return await self._documents.get(scope, EvidenceRecord, evidence_id)

    async def delete(self, scope: Scope, evidence_id: str) -> bool:
        """Remove the passage of that id; True if there was one."""
        return await self._remove(scope, {evidence_id}) == 1

    async def delete_source(self, scope: Scope, source_ref: str) -> int:
        """Remove all passages of a source; how many there were."""
        return await self._remove(scope, await self._ids(scope, source_ref))

    async def reindex(self, scope: Scope, *, on_progress: Callable[[int], None] | None = None) -> int:
        """Make the index of this embedder from the documents; how many passages it has.

        Raises:
            ModelError: the embedder failed; what is indexed so far stays.
        """
        done = 0
        async for page in pages(self._documents, scope):
            await self._index.add(scope, [stored.record for stored in page.items])
            done += len(page.items)
            if on_progress:
                on_progress(done)
        return done

    async def list(
        self,
        scope: Scope,
        *,
        source_ref: str | None = None,
        source_type: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[EvidenceRecord]:
        """The site's passages, newest first; see :meth:`wenmai.stores.base.Documents.list`."""
        given = {"source_ref": source_ref, "source_type": source_type}
        where = {field: value for field, value in given.items() if value is not None}
        return await self._documents.list(scope, EvidenceRecord, where=where, limit=limit, cursor=cursor)

    async def close(self) -> None:
        """End what runs behind the answers; it can be done again."""
        await self._index.close()

    async def _ingest_batch(
        self, scope: Scope, records: Sequence[EvidenceRecord], report: IngestReport
    ) -> IngestReport:
        stored = await self._documents.get_many(scope, EvidenceRecord, [each.evidence_id for each in records])
        pairs = [(record, stored.get(record.evidence_id)) for record in records]
        added = [new for new, old in pairs if old is None]
        changed = [new for new, old in pairs if old is not None and old.record != new]
        await self._index.prepare(scope, added + changed)
        await asyncio.gather(*(self._documents.put(scope, record) for record in added + changed))
        return IngestReport(
            added=report.added + len(added),
            changed=report.changed + len(changed),
            unchanged=report.unchanged + len(records) - len(added) - len(changed),
        )

    async def _remove(self, scope: Scope, ids: set[str]) -> int:
        """The document goes first: an index entry without one is never given out."""
        removed = [await self._documents.delete(scope, EvidenceRecord, id_) for id_ in sorted(ids)]
        if ids:
            await self._index.remove(scope, sorted(ids))
            await self._index.announce(scope)
        return sum(removed)

    async def _ids(self, scope: Scope, source_ref: str) -> set[str]:
        found = pages(self._documents, scope, {"source_ref": source_ref})
        return {stored.record.evidence_id async for page in found for stored in page.items}

    async def _rebuild_if_empty(self, scope: Scope) -> bool:
        """True if there was no index and now there is one."""
        async with self._rebuilding:
            try:
                return await self._index.is_empty(scope) and await self.reindex(scope) > 0
            except ModelError:
                return False


def _passage(record: EvidenceRecord, score: Mapping[str, float], number: int) -> Passage:
    return Passage(
        evidence_id=record.evidence_id,
        title=record.title,
        text=record.text,
        source_ref=record.source_ref,
        score=round(score[record.evidence_id], 4),
        number=number,
        language=record.language,
        domains=record.domains,
        verified=record.verified,
        confidence=record.confidence,
    )


async def _batches(
    records: AsyncIterable[EvidenceRecord] | Iterable[EvidenceRecord],
) -> AsyncIterator[list[EvidenceRecord]]:
    batch: list[EvidenceRecord] = []
    characters = 0
    async for record in _each(records):
        check_record(record)
        batch.append(record)
        characters += len(record.text)
        if len(batch) == BATCH or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


async def _each(
    records: AsyncIterable[EvidenceRecord] | Iterable[EvidenceRecord],
) -> AsyncIterator[EvidenceRecord]:
    if isinstance(records, AsyncIterable):
        async for record in records:
            yield record
    else:
        for record in records:
            yield record
