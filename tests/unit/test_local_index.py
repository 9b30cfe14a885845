"""The index over passages in the process: several processes over the same documents, each with one of its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from wenmai.chat.evidence import EvidenceBase, Found, local_index
from wenmai.chat.evidence.index import BATCH
from wenmai.chat.evidence.local_index import SLICE, LocalIndex
from wenmai.chat.evidence.pages import PAGE
from wenmai.errors import ModelError
from wenmai.scope import Scope
from wenmai.stores.base import Documents
from wenmai.stores.records import EvidenceRecord
from wenmai.stores.registry import open_store

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


class Counting:
    """An embedder that tells texts apart by their length, counts them, and can be out of order."""

    name = "counting"
    dimension: int | None = 2

    def __init__(self) -> None:
        self.passages: list[str] = []
        self.works = True
        self.free = asyncio.Event()
        self.free.set()

    async def embed_query(self, text: str) -> list[float]:
        """See the class."""
        await asyncio.sleep(0)
        return [1.0, 1.0 / len(text)]

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """See the class."""
        await self.free.wait()
        if not self.works:
            raise ModelError(self.name, "out of order", retryable=True)
        self.passages += texts
        return [[1.0, 1.0 / len(text)] for text in texts]


def process(documents: Documents, embedder: Counting | None = None) -> EvidenceBase:
    """The evidence as a process sees it that was started just now."""
    return EvidenceBase(documents, None, embedder)


async def found_with_vectors(base: EvidenceBase, query: str) -> Found:
    """What it finds once all passages have their vectors."""
    for _ in range(100):
        found = await base.find(SITE, query)
        if not found.degraded:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError("they never had")


def ids(found: Found) -> list[str]:
    """The ids in the order given."""
    return [each.evidence_id for each in found.passages]


async def test_another_process_sees_what_was_ingested_changed_and_deleted(documents: Documents) -> None:
    """The next question after each of them is answered by what is stored now."""
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


async def test_what_was_written_during_the_comparison_is_not_missed(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A passage that arrives, announced, after its page was read is found by the next question."""
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


async def test_evidence_that_vanished_with_the_server_is_not_found(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a loss of everything, and as many changes from the start, the index is that of the documents."""
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


async def test_a_process_that_died_before_its_announcement_is_made_up_for(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wrote is found once somebody ingests the same again, or the index is no longer trusted."""
    reader = process(documents)
    await reader.ingest(SITE, [msgspec.structs.replace(WELL, evidence_id="well")])
    assert ids(await reader.find(SITE, "通济桥")) == []
    await documents.put(SITE, BRIDGE)
    assert ids(await reader.find(SITE, "通济桥")) == []
    assert (await process(documents).ingest(SITE, [BRIDGE])).unchanged == 1
    assert ids(await reader.find(SITE, "通济桥")) == ["bridge"]

    monkeypatch.setattr(local_index, "TRUSTED_SECONDS", 0.0)
    forgetful = process(documents)
    await forgetful.find(SITE, "通济桥")
    await documents.put(SITE, TREE)
    assert ids(await forgetful.find(SITE, "樟树")) == ["tree"]


async def test_an_ingestion_that_breaks_off_is_announced_too(documents: Documents) -> None:
    """What it wrote before the error is found by those who had asked before."""
    reader = process(documents)
    await reader.ingest(SITE, [WELL])
    assert ids(await reader.find(SITE, "通济桥")) == []

    def breaking_off() -> Iterator[EvidenceRecord]:
        yield from (msgspec.structs.replace(BRIDGE, evidence_id=f"bridge-{number}") for number in range(BATCH))
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        await process(documents).ingest(SITE, breaking_off())
    assert len(ids(await reader.find(SITE, "通济桥"))) > 1


async def test_only_what_is_new_is_embedded(documents: Documents) -> None:
    """By the process that is asked, not the one that ingests: what is there once, later only what came or changed."""
    writing, reading = Counting(), Counting()
    writer, reader = process(documents, writing), process(documents, reading)
    await writer.ingest(SITE, [BRIDGE, TREE])
    await found_with_vectors(reader, "通济桥")
    assert len(reading.passages) == 2
    await writer.ingest(SITE, [WELL])
    found = await found_with_vectors(reader, "古井")
    assert ids(found) == ["tree", "bridge"]
    assert [text.partition("\n")[2] for text in reading.passages[2:]] == ["村口有一口古井。"]
    assert writing.passages == []


async def test_no_question_waits_for_passages_to_be_embedded(documents: Documents) -> None:
    """While they are, they are found by words, and the answer says so; what changes meanwhile is right in the end."""
    embedder = Counting()
    embedder.free.clear()
    reader = process(documents, embedder)
    writer = process(documents)
    await writer.ingest(SITE, [BRIDGE, TREE])
    for _ in range(2):
        found = await reader.find(SITE, "通济桥")
        assert (ids(found), found.degraded) == (["bridge"], ["embedder"])
    await writer.ingest(SITE, [WELL])
    assert ids(await reader.find(SITE, "古井")) == ["tree"]
    embedder.free.set()
    found = await found_with_vectors(reader, "古井")
    assert (found.passages[0].evidence_id, found.passages[0].score) == ("tree", 1.0)


async def test_what_the_embedder_failed_for_gets_its_vectors_later(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers are degraded and it is left alone for a while; then a question has it tried again."""
    embedder = Counting()
    embedder.works = False
    reader = process(documents, embedder)
    await process(documents).ingest(SITE, [BRIDGE, TREE])
    monkeypatch.setattr(local_index, "RETRY_SECONDS", 3600.0)
    await reader.find(SITE, "通济桥")
    await asyncio.sleep(0.01)
    embedder.works = True
    found = await reader.find(SITE, "通济桥")
    await asyncio.sleep(0.01)
    assert (ids(found), found.degraded, embedder.passages) == (["bridge"], ["embedder"], [])
    assert isinstance(reader._index, LocalIndex)
    reader._index._embeds_again = 0.0
    assert ids(await found_with_vectors(reader, "通济桥")) == ["bridge", "tree"]


async def test_embedding_ends_where_the_documents_have_changed_unannounced(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it would embed is not there any more: it waits for the next comparison, and does not try for ever."""
    embedder = Counting()
    reader = process(documents, embedder)
    await process(documents).ingest(SITE, [BRIDGE])

    async def nothing(*_: object) -> dict[str, object]:
        return {}

    monkeypatch.setattr(documents, "get_many", nothing)
    await reader.find(SITE, "通济桥")
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert embedder.passages == []


async def test_closing_stops_what_runs_behind(documents: Documents) -> None:
    """No task is left of an index that was embedding."""
    embedder = Counting()
    embedder.free.clear()
    reader = process(documents, embedder)
    await reader.ingest(SITE, [BRIDGE])
    await reader.find(SITE, "通济桥")
    assert len(asyncio.all_tasks()) == 2
    await reader.close()
    assert len(asyncio.all_tasks()) == 1


async def test_sites_that_were_not_asked_for_long_are_forgotten(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process keeps so many sites and passages; a forgotten site is indexed again when it is asked."""
    writer, reader = process(documents), process(documents)
    index = reader._index
    assert isinstance(index, LocalIndex)
    scopes = [Scope("village", name) for name in ("a", "b", "c")]
    for scope in scopes:
        await writer.ingest(scope, [BRIDGE, TREE])

    def kept() -> list[str]:
        return [site for _, site in index._sites]

    monkeypatch.setattr(local_index, "SITES_KEPT", 2)
    for scope in (*scopes, scopes[1]):
        assert ids(await reader.find(scope, "通济桥")) == ["bridge"]
    assert kept() == ["c", "b"]
    monkeypatch.setattr(local_index, "PASSAGES_KEPT", 3)
    assert ids(await reader.find(scopes[0], "通济桥")) == ["bridge"]
    assert kept() == ["a"]
    assert list(index._shelves._shelves) == [("evidence", "village", "a")]


async def test_a_site_is_not_forgotten_while_it_is_asked(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions about many sites at once are all answered from one index of each, whatever the bound."""
    monkeypatch.setattr(local_index, "SITES_KEPT", 1)
    scopes = [Scope("village", f"site-{number}") for number in range(8)]
    embedder = Counting()
    writer, reader = process(documents), process(documents, embedder)
    for scope in scopes:
        await writer.ingest(scope, [BRIDGE])
    embedder.free.clear()
    found = await asyncio.gather(*(reader.find(scope, "通济桥") for scope in scopes for _ in range(3)))
    assert [ids(each) for each in found] == [["bridge"]] * 24
    assert isinstance(reader._index, LocalIndex)
    assert len(reader._index._sites) == len(scopes)
    embedder.free.set()
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert len(embedder.passages) == len(scopes)
    assert len(reader._index._sites) == 1


async def test_other_tasks_run_while_a_large_site_is_indexed(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are let in at least once a slice; questions about the site wait for one comparison, not for one each."""
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
