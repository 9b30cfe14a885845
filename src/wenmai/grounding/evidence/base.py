"""The evidence base of a site: passages in a document store, retrieved through a search index.

Passages are shared by all users of the site. The documents are the source of truth; the index is derived from them
(:meth:`EvidenceBase.reindex`). A passage is indexed before its document is written, so a document means that both are
done: an interrupted ingestion is completed by running it again. It is found by words at once, and by meaning when its
vector has been made in the background.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from wenmai.clock import Clock, system_clock
from wenmai.grounding.evidence.entries import EVIDENCE, SENTENCES, in_domains, in_language, with_tags
from wenmai.grounding.evidence.fields import check_record
from wenmai.grounding.evidence.ranking import drop_translations, verified_first
from wenmai.grounding.evidence.reading import FileReader
from wenmai.grounding.evidence.versions import in_force
from wenmai.grounding.types import Passage
from wenmai.providers.embedders import BundledEmbedder, Embedder
from wenmai.resilience.breaker import Breaker, BreakerPolicy
from wenmai.retrieval.corpus import Corpus
from wenmai.retrieval.embedding import EmbeddingProgress, OnEmbedded
from wenmai.retrieval.index import BATCH, BATCH_CHARACTERS, SEARCH_SECONDS, PassageIndex
from wenmai.retrieval.local_index import LocalIndex
from wenmai.retrieval.query_embedding import QueryEmbedding
from wenmai.retrieval.ranking import fused_order, scores
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents, Search
from wenmai.stores.records import EvidenceRecord
from wenmai.stores.structs import Page, Range, Stored
from wenmai.stores.validation import check_range

MAX_FOUND = 50
_CANDIDATES_PER_PASSAGE = 4
"""Candidates per requested passage, to rank and to drop translations from."""


class IngestReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an ingestion, in passages."""

    added: Annotated[int, Meta(description="New passages.")] = 0
    changed: Annotated[int, Meta(description="Passages with changed text or fields.")] = 0
    unchanged: Annotated[int, Meta(description="Passages already stored with equal fields.")] = 0
    removed: Annotated[int, Meta(description="Passages removed because the source no longer has them.")] = 0


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a search.

    Attributes:
        passages: best first, numbered from 1.
        degraded: ``embedder`` if it failed and the search used words alone.
    """

    passages: Annotated[list[Passage], Meta(description="The passages found, best first.")]
    degraded: Annotated[list[str], Meta(description="Components that failed or were skipped; normally empty.")]


OnProgress = Callable[[IngestReport], None]
"""Called after each batch with the totals so far."""


class EvidenceBase:
    """See the module's docstring.

    Args:
        documents: stores the passages.
        search: search store; None keeps an index in this process (:mod:`wenmai.retrieval.local_index`).
        embedder: None searches by words alone. Each embedder has an index of its own, built by words when the first
            question finds it empty; :meth:`reindex` builds it ahead of that.
        policy: of the circuit breakers of embedder and search.
        search_seconds: timeout of the search for a question.
        clock: tells which versions of a source are in force.

    Attributes:
        breakers: of the search, and of the embedder if there is one.
        queries: embeds questions, behind the embedder's breaker.
        files: reads files of passages.
    """

    def __init__(
        self,
        documents: Documents,
        search: Search | None,
        embedder: Embedder | None,
        *,
        policy: BreakerPolicy | None = None,
        search_seconds: float = SEARCH_SECONDS,
        clock: Clock = system_clock,
    ) -> None:
        self._documents = documents
        self._clock = clock

        def index(corpus: Corpus[EvidenceRecord]) -> PassageIndex[EvidenceRecord]:
            if search is None:
                return LocalIndex(corpus, documents, embedder, policy=policy, search_seconds=search_seconds)
            return PassageIndex(corpus, documents, search, embedder, policy=policy, search_seconds=search_seconds)

        self._index = index(EVIDENCE)
        # What a cosine says of an answer is known of the bundled embedder alone (answers/data/scorer.yaml).
        calibrated = embedder is not None and embedder.name == BundledEmbedder.name
        self._sentences = index(SENTENCES) if calibrated else None
        self._indexes = [self._index, self._sentences] if self._sentences else [self._index]
        self._rebuilding = asyncio.Lock()
        self._changes: dict[tuple[str, str], int] = {}
        self.files: FileReader = FileReader()
        self.queries: QueryEmbedding = self._index.queries
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
        """Add or change passages; a passage that is stored already, equal in all fields, is not written.

        Args:
            scope: the site; its user does not matter.
            records: of several passages with one id the first is used.
            replace_source: afterwards remove stored passages of the same sources (``source_ref``) that are not among
                the records.
            on_progress: see :data:`OnProgress`.

        Raises:
            InvalidInput: a record's field is not allowed; the batches before it have been ingested.
        """
        await self._rebuild_if_empty(scope)  # passages that are stored already would not be indexed below
        report = IngestReport()
        seen: set[str] = set()
        sources: set[str] = set()
        try:
            async for batch in _batches(records):
                new_records = {
                    record.evidence_id: record for record in reversed(batch) if record.evidence_id not in seen
                }
                seen |= new_records.keys()
                sources |= {record.source_ref for record in batch if record.source_ref}
                report = await self._ingest_batch(scope, list(new_records.values()), report)
                await asyncio.sleep(0)  # an in-process store may not have yielded to other tasks
                if on_progress:
                    on_progress(report)
        finally:
            await self._changed(scope)
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
        tags: Sequence[str] = (),
        language: str | None = None,
        limit: int = 6,
    ) -> SearchResult:
        """Retrieve the best passages for a question; scores and order are those of :mod:`wenmai.retrieval.ranking`.

        Of a source in several versions, only the passages of the one that is in force today.

        Args:
            scope: the site; its user does not matter.
            query: search text, in any wording.
            domains: only passages of one of these; empty means all. Passages of other domains are never a fallback.
            tags: only passages with one of these; empty means all.
            language: a BCP 47 tag. Passages in other languages are returned only if those in this one are weak and
                the others are better; never two translations of one passage.
            limit: 1 to 50 passages.

        Raises:
            StoreUnavailable: the search or the documents cannot be reached, or the search's breaker is open.
        """
        check_range("limit", limit, 1, MAX_FOUND)
        candidates = limit * _CANDIDATES_PER_PASSAGE
        where, preferred = {**in_domains(domains), **with_tags(tags)}, in_language(language)
        found = await self._index.search(scope, query, where=where, preferred=preferred, limit=candidates)
        if not found.hits and await self._rebuild_if_empty(scope):
            found = await self._index.search(scope, query, where=where, preferred=preferred, limit=candidates)
        score = scores(found.hits)
        order = fused_order(found.hits, score)
        stored = await self._documents.get_many(scope, EvidenceRecord, order)
        records = [stored[id_].record for id_ in order if id_ in stored]
        records = await in_force(self._documents, scope, records, self._clock().date())
        records = verified_first(records, score)
        chosen = drop_translations(records)[:limit]
        similar: Mapping[str, float] = {}
        if self._sentences and found.vector is not None:
            similar = await self._sentences.similarities(scope, found.vector, chosen)
        passages = [_passage(record, score, similar, number) for number, record in enumerate(chosen, start=1)]
        return SearchResult(passages=passages, degraded=["embedder"] if found.embedder_failed else [])

    async def get(self, scope: Scope, evidence_id: str) -> Stored[EvidenceRecord] | None:
        """The passage of that id, or None."""
        return await self._documents.get(scope, EvidenceRecord, evidence_id)

    async def passages(self, scope: Scope, evidence_ids: Sequence[str]) -> Mapping[str, Passage]:
        """The passages of these ids that exist and are in force, by id.

        Their score and number are 0: they were not searched for.
        """
        stored = await self._documents.get_many(scope, EvidenceRecord, evidence_ids)
        records = [found.record for found in stored.values()]
        records = await in_force(self._documents, scope, records, self._clock().date())
        return {each.evidence_id: _passage(each, {each.evidence_id: 0.0}, {}, 0) for each in records}

    def changes(self, scope: Scope) -> int:
        """The number of changes of the site's evidence by this process; what is derived from it depends on that."""
        return self._changes.get((scope.tenant_id, scope.site_id), 0)

    async def delete(self, scope: Scope, evidence_id: str) -> bool:
        """Remove the passage of that id; True if there was one."""
        return await self._remove(scope, {evidence_id}) == 1

    async def delete_source(self, scope: Scope, source_ref: str) -> int:
        """Remove all passages of a source and return their number."""
        return await self._remove(scope, await self._ids(scope, source_ref))

    async def reindex(self, scope: Scope, *, on_progress: Callable[[int], None] | None = None) -> int:
        """Rebuild the index of this embedder from the documents and return its number of passages.

        They are found by words then; vectors of unchanged passages are kept, the others follow in the background.
        """
        done = 0
        async for page in EVIDENCE.pages(self._documents, scope):
            for index in self._indexes:
                await index.add(scope, [stored.record for stored in page.items])
            done += len(page.items)
            if on_progress:
                on_progress(done)
        await self._index.remove_earlier(scope, {"language": Range(low="")})
        return done

    def start_embedding(self, scope: Scope) -> None:
        """Make what vectors the site's passages lack, in the background; questions and ingestions start it too."""
        for index in self._indexes:
            index.start_embedding(scope)

    async def finish_embedding(self, scope: Scope, *, on_progress: OnEmbedded | None = None) -> None:
        """Return when every passage of the site has its vectors; at once without an embedder.

        Raises:
            ModelError: the embedder failed; vectors made so far are kept.
            StoreError: the store failed; likewise.
        """
        await self._index.finish_embedding(scope, on_progress)
        if self._sentences:
            await self._sentences.finish_embedding(scope)

    @property
    def embedding_progress(self) -> EmbeddingProgress | None:
        """The totals of the sites that this process has checked; None without an embedder."""
        return self._index.embedding_progress

    async def list(
        self,
        scope: Scope,
        *,
        source_ref: str | None = None,
        source_type: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[EvidenceRecord]:
        """The site's passages, newest first; see :meth:`wenmai.stores.contracts.Documents.list`."""
        given = {"source_ref": source_ref, "source_type": source_type}
        where = {field: value for field, value in given.items() if value is not None}
        return await self._documents.list(scope, EvidenceRecord, where=where, limit=limit, cursor=cursor)

    async def close(self) -> None:
        """Stop background tasks; idempotent."""
        for index in self._indexes:
            await index.close()

    async def _ingest_batch(
        self, scope: Scope, records: Sequence[EvidenceRecord], report: IngestReport
    ) -> IngestReport:
        stored = await self._documents.get_many(scope, EvidenceRecord, [each.evidence_id for each in records])
        pairs = [(record, stored.get(record.evidence_id)) for record in records]
        added = [new for new, old in pairs if old is None]
        changed = [new for new, old in pairs if old is not None and old.record != new]
        if self._sentences:
            await self._sentences.remove(scope, [each.evidence_id for each in changed])
        for index in self._indexes:
            await index.prepare(scope, added + changed)
        await asyncio.gather(*(self._documents.put(scope, record) for record in added + changed))
        if added or changed:
            self.start_embedding(scope)
        return IngestReport(
            added=report.added + len(added),
            changed=report.changed + len(changed),
            unchanged=report.unchanged + len(records) - len(added) - len(changed),
        )

    async def _remove(self, scope: Scope, ids: set[str]) -> int:
        """The document is deleted first: an index entry without one is never returned."""
        removed = [await self._documents.delete(scope, EvidenceRecord, id_) for id_ in sorted(ids)]
        if ids:
            for index in self._indexes:
                await index.remove(scope, sorted(ids))
            await self._changed(scope)
        return sum(removed)

    async def _changed(self, scope: Scope) -> None:
        site = scope.tenant_id, scope.site_id
        self._changes[site] = self._changes.get(site, 0) + 1
        for index in self._indexes:
            await index.bump_revision(scope)

    async def _ids(self, scope: Scope, source_ref: str) -> set[str]:
        found = EVIDENCE.pages(self._documents, scope, {"source_ref": source_ref})
        return {stored.record.evidence_id async for page in found for stored in page.items}

    async def _rebuild_if_empty(self, scope: Scope) -> bool:
        """True if the index was empty and has been built."""
        if not self._index.stored:
            return False
        async with self._rebuilding:
            return await self._index.is_empty(scope) and await self.reindex(scope) > 0


def _passage(record: EvidenceRecord, score: Mapping[str, float], similar: Mapping[str, float], number: int) -> Passage:
    return Passage(
        evidence_id=record.evidence_id,
        title=record.title,
        text=record.text,
        source_ref=record.source_ref,
        score=round(score[record.evidence_id], 4),
        similarity=similar.get(record.evidence_id),
        number=number,
        language=record.language,
        domains=record.domains,
        verified=record.verified,
        confidence=record.confidence,
        effective_date=record.effective_date,
        supersedes=record.supersedes,
    )


async def _batches(
    records: AsyncIterable[EvidenceRecord] | Iterable[EvidenceRecord],
) -> AsyncIterator[list[EvidenceRecord]]:
    batch: list[EvidenceRecord] = []
    characters = 0
    async for record in _iterate(records):
        check_record(record)
        batch.append(record)
        characters += len(record.text)
        if len(batch) == BATCH or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


async def _iterate(
    records: AsyncIterable[EvidenceRecord] | Iterable[EvidenceRecord],
) -> AsyncIterator[EvidenceRecord]:
    if isinstance(records, AsyncIterable):
        async for record in records:
            yield record
    else:
        for record in records:
            yield record
