"""The in-process index: several processes over the same documents, each with an index of its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from wenmai.errors import ModelError
from wenmai.grounding.evidence import EvidenceBase, SearchResult
from wenmai.retrieval import embedding, local_index
from wenmai.retrieval.corpus import PAGE
from wenmai.retrieval.index import BATCH
from wenmai.retrieval.local_index import SLICE, LocalIndex
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.opening import open_store
from wenmai.stores.records import EvidenceRecord

SITE = Scope("village", "main")
OTHER = Scope("village", "other")
BRIDGE = EvidenceRecord(evidence_id="bridge", title="通济桥", text="通济桥建于雍正六年，三孔石拱。")
TREE = EvidenceRecord(evidence_id="tree", title="樟树", text="桥边有一棵老樟树。")
WELL = EvidenceRecord(evidence_id="tree", title="古井", text="村口有一口古井。")


@pytest.fixture
async def documents() -> AsyncIterator[Documents]:
    """The documents that the processes share."""
    async with open_store("memory://") as store:
        assert store.documents is not None
        yield store.documents


class RecordingEmbedder:
    """An embedder that embeds texts by their length, records them, and can fail."""

    name = "counting"

    def __init__(self) -> None:
        self.passages: list[str] = []
        self.failed, self.embedded = asyncio.Event(), asyncio.Event()
        self.healthy = True
        self.unblocked = asyncio.Event()
        self.unblocked.set()

    async def embed_query(self, text: str) -> list[float]:
        """See the class."""
        await asyncio.sleep(0)
        return [1.0, 1.0 / len(text)]

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """See the class."""
        await self.unblocked.wait()
        if not self.healthy:
            self.failed.set()
            raise ModelError(self.name, "out of order", retryable=True)
        self.passages += texts
        self.embedded.set()
        return [[1.0, 1.0 / len(text)] for text in texts]


def process(documents: Documents, embedder: RecordingEmbedder | None = None) -> EvidenceBase:
    """The evidence base of a freshly started process."""
    return EvidenceBase(documents, None, embedder)


async def find_with_vectors(base: EvidenceBase, query: str) -> SearchResult:
    """The result once all passages are embedded."""
    await base.find(SITE, query)
    await base.finish_embedding(SITE)
    return await base.find(SITE, query)


def ids(found: SearchResult) -> list[str]:
    """The ids in the order given."""
    return [each.evidence_id for each in found.passages]


async def test_another_process_sees_what_was_ingested_changed_and_deleted(documents: Documents) -> None:
    """The next question after each change uses the current documents."""
    writer, reader = process(documents), process(documents)
    assert ids(await reader.find(SITE, "通济桥")) == []
    await writer.ingest(SITE, [BRIDGE, TREE])
    assert ids(await reader.find(SITE, "通济桥"))[0] == "bridge"
    await writer.ingest(SITE, [WELL])
    assert ids(await reader.find(SITE, "古井")) == ["tree"]
    assert ids(await reader.find(SITE, "樟树")) == []
    assert ids(await reader.find(OTHER, "古井")) == []
    await writer.delete(SITE, "bridge")
    await writer.delete(SITE, "tree")
    assert ids(await reader.find(SITE, "通济桥 古井")) == []
    assert await reader._index.is_empty(SITE)


async def test_a_write_during_reconciliation_is_not_missed(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A passage that is written after its page was read is found by the next question."""
    writer, reader = process(documents), process(documents)
    await writer.ingest(SITE, [BRIDGE])
    listing = documents.list

    async def list_then_write(*arguments: Any, **more: Any) -> Any:
        page: Any = await listing(*arguments, **more)
        monkeypatch.undo()
        await writer.ingest(SITE, [TREE])
        return page

    monkeypatch.setattr(documents, "list", list_then_write)
    assert ids(await reader.find(SITE, "樟树")) == []
    assert ids(await reader.find(SITE, "樟树")) == ["tree"]


async def test_evidence_lost_with_the_server_is_not_found(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a loss of all data and as many new changes, the index matches the documents."""
    writer, reader, other = process(documents), process(documents), process(documents)
    await writer.ingest(SITE, [BRIDGE])
    for each in (reader, other):
        assert ids(await each.find(SITE, "通济桥")) == ["bridge"]
    async with open_store("memory://") as empty:
        assert empty.documents is not None
        for method in ("get", "get_many", "put", "delete", "list"):
            monkeypatch.setattr(documents, method, getattr(empty.documents, method))
        assert ids(await reader.find(SITE, "通济桥")) == []
        await writer.ingest(SITE, [TREE])
        for each in (reader, other):
            assert ids(await each.find(SITE, "樟树")) == ["tree"]


async def test_a_missing_revision_bump_is_recovered(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process died before it: its passages are found once they are ingested again, or the index is stale."""
    reader = process(documents)
    await reader.ingest(SITE, [msgspec.structs.replace(WELL, evidence_id="well")])
    assert ids(await reader.find(SITE, "通济桥")) == []
    await documents.put(SITE, BRIDGE)
    assert ids(await reader.find(SITE, "通济桥")) == []
    assert (await process(documents).ingest(SITE, [BRIDGE])).unchanged == 1
    assert ids(await reader.find(SITE, "通济桥")) == ["bridge"]

    monkeypatch.setattr(local_index, "FRESH_SECONDS", 0.0)
    stale = process(documents)
    await stale.find(SITE, "通济桥")
    await documents.put(SITE, TREE)
    assert ids(await stale.find(SITE, "樟树")) == ["tree"]


async def test_an_interrupted_ingestion_bumps_the_revision(documents: Documents) -> None:
    """Indexes that were built before find what was written before the error."""
    reader = process(documents)
    await reader.ingest(SITE, [WELL])
    assert ids(await reader.find(SITE, "通济桥")) == []

    def breaking_off() -> Iterator[EvidenceRecord]:
        yield from (msgspec.structs.replace(BRIDGE, evidence_id=f"bridge-{number}") for number in range(BATCH))
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        await process(documents).ingest(SITE, breaking_off())
    assert len(ids(await reader.find(SITE, "通济桥"))) > 1


async def test_only_new_passages_are_embedded(documents: Documents) -> None:
    """By the process that gets questions, not the one that ingests: each passage once, later only changes."""
    writing, reading = RecordingEmbedder(), RecordingEmbedder()
    writer, reader = process(documents, writing), process(documents, reading)
    await writer.ingest(SITE, [BRIDGE, TREE])
    await find_with_vectors(reader, "通济桥")
    assert len(reading.passages) == 2
    await writer.ingest(SITE, [WELL])
    found = await find_with_vectors(reader, "古井")
    assert ids(found) == ["tree", "bridge"]
    assert [text.partition("\n")[2] for text in reading.passages[2:]] == ["村口有一口古井。"]
    assert writing.passages == []


async def test_no_question_waits_for_passages_to_be_embedded(documents: Documents) -> None:
    """Until then they are found by words, which is no failure; concurrent changes end up in the index."""
    embedder = RecordingEmbedder()
    embedder.unblocked.clear()
    reader = process(documents, embedder)
    writer = process(documents)
    await writer.ingest(SITE, [BRIDGE, TREE])
    for _ in range(2):
        found = await reader.find(SITE, "通济桥")
        assert (ids(found), found.degraded) == (["bridge"], [])
    await writer.ingest(SITE, [WELL])
    assert ids(await reader.find(SITE, "古井")) == ["tree"]
    embedder.unblocked.set()
    found = await find_with_vectors(reader, "古井")
    assert ids(found) == ["tree", "bridge"]
    assert found.passages[0].score == 1.0


async def test_failed_embeddings_are_retried_later(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    """During the backoff questions are answered by words and call nothing; the retry needs no question."""
    monkeypatch.setattr(embedding, "FIRST_RETRY_SECONDS", 0.1)
    embedder = RecordingEmbedder()
    embedder.healthy = False
    reader = process(documents, embedder)
    await process(documents).ingest(SITE, [BRIDGE, TREE])
    await reader.find(SITE, "通济桥")
    await embedder.failed.wait()
    found = await reader.find(SITE, "通济桥")
    assert (ids(found), embedder.passages) == (["bridge"], [])
    embedder.healthy = True
    await embedder.embedded.wait()
    assert ids(await find_with_vectors(reader, "通济桥")) == ["bridge", "tree"]
    assert len(embedder.passages) == 2


async def test_embedding_stops_if_the_documents_changed_without_a_revision(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The passages are gone: the task ends until the next reconciliation instead of looping."""
    embedder = RecordingEmbedder()
    reader = process(documents, embedder)
    await process(documents).ingest(SITE, [BRIDGE])

    async def nothing(*_: object) -> dict[str, object]:
        return {}

    monkeypatch.setattr(documents, "get_many", nothing)
    await reader.find(SITE, "通济桥")
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert embedder.passages == []


async def test_closing_stops_background_tasks(documents: Documents) -> None:
    """No embedding task is left."""
    embedder = RecordingEmbedder()
    embedder.unblocked.clear()
    reader = process(documents, embedder)
    await reader.ingest(SITE, [BRIDGE])
    await reader.find(SITE, "通济桥")
    assert len(asyncio.all_tasks()) == 2
    await reader.close()
    assert len(asyncio.all_tasks()) == 1


async def test_the_least_recently_used_sites_are_evicted(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites and passages of a process are bounded; an evicted site is indexed again at its next question."""
    writer, reader = process(documents), process(documents)
    index = reader._index
    assert isinstance(index, LocalIndex)
    scopes = [Scope("village", name) for name in ("a", "b", "c")]
    for scope in scopes:
        await writer.ingest(scope, [BRIDGE, TREE])

    def kept() -> list[str]:
        return [owner.site_id for owner in index._indexes]

    monkeypatch.setattr(local_index, "MAX_OWNERS", 2)
    for scope in (*scopes, scopes[1]):
        assert ids(await reader.find(scope, "通济桥")) == ["bridge"]
    assert kept() == ["c", "b"]
    monkeypatch.setattr(local_index, "MAX_PASSAGES", 3)
    assert ids(await reader.find(scopes[0], "通济桥")) == ["bridge"]
    assert kept() == ["a"]
    assert list(index._local_search._partitions) == [("evidence:2", "village", "a")]


async def test_a_site_in_use_is_not_evicted(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent questions about many sites use one index each, even over the bound."""
    monkeypatch.setattr(local_index, "MAX_OWNERS", 1)
    scopes = [Scope("village", f"site-{number}") for number in range(8)]
    embedder = RecordingEmbedder()
    writer, reader = process(documents), process(documents, embedder)
    for scope in scopes:
        await writer.ingest(scope, [msgspec.structs.replace(BRIDGE, text=f"{BRIDGE.text}{scope.site_id}")])
    embedder.unblocked.clear()
    found = await asyncio.gather(*(reader.find(scope, "通济桥") for scope in scopes for _ in range(3)))
    assert [ids(each) for each in found] == [["bridge"]] * 24
    assert isinstance(reader._index, LocalIndex)
    assert len(reader._index._indexes) == len(scopes)
    embedder.unblocked.set()
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert len(embedder.passages) == len(scopes)
    assert len(reader._index._indexes) == 1


async def test_other_tasks_run_while_a_large_site_is_indexed(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index yields at least once per slice; concurrent questions share one reconciliation."""
    many = [msgspec.structs.replace(BRIDGE, evidence_id=f"p-{number}") for number in range(10 * SLICE)]
    await process(documents).ingest(SITE, many)
    rounds, pages = 0, 0
    listing = documents.list

    async def listed(*arguments: Any, **more: Any) -> Any:
        nonlocal pages
        pages += 1
        return await listing(*arguments, **more)

    async def tick() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(documents, "list", listed)
    ticking = asyncio.create_task(tick())
    reader = process(documents)
    await asyncio.gather(*(reader.find(SITE, "通济桥") for _ in range(4)))
    ticking.cancel()
    assert rounds >= len(many) / SLICE
    assert pages == -(-len(many) // PAGE)


async def test_an_index_without_an_embedder_can_be_built_ahead(documents: Documents) -> None:
    """``reindex`` indexes words alone, and tells how many passages."""
    base = process(documents)
    await base.ingest(SITE, [BRIDGE, TREE])
    assert await base.reindex(SITE) == 2
    found = await base.find(SITE, "通济桥")
    assert (ids(found)[0], found.degraded) == ("bridge", [])
