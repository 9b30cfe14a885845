"""Evidence is embedded in the background, on every store, with a real server of embeddings."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from http_service import Service
from program import Program

from embedding_server import embedding_server
from support import URLS, engine_at
from wenmai.grounding.evidence import EvidenceBase
from wenmai.providers.embedders import open_embedder
from wenmai.retrieval.embedding import BATCH, EmbeddingProgress
from wenmai.scope import Scope
from wenmai.stores.contracts import Store
from wenmai.stores.opening import open_store
from wenmai.stores.records import EvidenceRecord
from wenmai.stores.structs import SearchQuery

pytestmark = pytest.mark.each_store

SITE = Scope()
BRIDGE = EvidenceRecord(evidence_id="bridge", title="通济桥", text="通济桥建于雍正六年，三孔石拱。")
WELL = EvidenceRecord(evidence_id="well", title="古井", text="村口有一口古井。")
UNRELATED = "lantern"
"""A question that shares no word with the passages."""


class SlowEmbeddings:
    """A server that answers a request for passages when it is allowed to.

    Attributes:
        allowed: released once for each request that may be answered.
        requests: the texts of each request as it comes.
        answered: how often each text was embedded.
    """

    def __init__(self) -> None:
        self.url = ""
        self.allowed = asyncio.Semaphore(0)
        self.requests: asyncio.Queue[Sequence[str]] = asyncio.Queue()
        self.answered: Counter[str] = Counter()

    async def before(self, texts: Sequence[str]) -> None:
        """Hold the request, unless it is for a question, which has no title."""
        if not any("\n" in text for text in texts):
            return
        await self.requests.put(texts)
        await self.allowed.acquire()
        self.answered.update(texts)

    def allow(self) -> None:
        """Answer all requests from now on."""
        for _ in range(1000):
            self.allowed.release()

    def process(self, store: Store) -> EvidenceBase:
        """The evidence of a freshly started process."""
        assert store.documents is not None
        return EvidenceBase(store.documents, store.search, open_embedder("openai:any", base_url=self.url))


@pytest.fixture
async def embeddings() -> AsyncIterator[SlowEmbeddings]:
    """The server, which answers no request yet."""
    slow = SlowEmbeddings()
    async with embedding_server(before=slow.before) as (url, _):
        slow.url = url
        yield slow
        slow.allow()


@pytest.fixture(params=["sqlite", "postgresql"])
def shared_index_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store whose index all its processes share."""
    return URLS[request.param](request)


@asynccontextmanager
async def evidence_at(url: str, embeddings: SlowEmbeddings) -> AsyncIterator[EvidenceBase]:
    """The evidence of one process over the store, closed before its store."""
    async with open_store(url) as store:
        base = embeddings.process(store)
        try:
            yield base
        finally:
            await base.close()


async def found(base: EvidenceBase, query: str) -> list[str]:
    """The ids found; nothing is degraded."""
    result = await base.find(SITE, query)
    assert result.degraded == []
    return [each.evidence_id for each in result.passages]


def numbered(count: int) -> list[EvidenceRecord]:
    """Passages of different texts."""
    return [EvidenceRecord(evidence_id=f"p-{n:03}", title="田契", text=f"第{n}号田契。") for n in range(count)]


async def test_answers_come_by_words_before_any_vector_and_by_meaning_later(
    store_url: str, embeddings: SlowEmbeddings
) -> None:
    """Ingesting and asking wait for no vector, and a search without them is not degraded."""
    async with evidence_at(store_url, embeddings) as base:
        await base.ingest(SITE, [BRIDGE, WELL])
        assert await found(base, "通济桥") == ["bridge"]
        await embeddings.requests.get()
        assert await found(base, "通济桥") == ["bridge"]
        assert await found(base, UNRELATED) == []
        assert base.embedding_progress == EmbeddingProgress(passages=2, embedded=0)
        assert not embeddings.answered
        embeddings.allow()
        await base.finish_embedding(SITE)
        assert base.embedding_progress == EmbeddingProgress(passages=2, embedded=2)
        assert set(await found(base, UNRELATED)) == {"bridge", "well"}


async def test_the_same_text_is_embedded_once(store_url: str, embeddings: SlowEmbeddings) -> None:
    """In one batch, and in later ingestions; every passage gets its vector."""
    embeddings.allow()
    async with evidence_at(store_url, embeddings) as base:
        for names in (("a", "b"), ("c",)):
            records = [EvidenceRecord(evidence_id=name, title=BRIDGE.title, text=BRIDGE.text) for name in names]
            await base.ingest(SITE, records)
            await base.find(SITE, "通济桥")
            await base.finish_embedding(SITE)
        assert base.embedding_progress == EmbeddingProgress(passages=3, embedded=3)
    assert list(embeddings.answered.values()) == [1]


async def test_a_passage_that_changes_meanwhile_never_gets_the_vector_of_its_old_text(
    store_url: str, embeddings: SlowEmbeddings
) -> None:
    """The late vector is dropped, and the new text is embedded."""
    old = EvidenceRecord(evidence_id="bridge", title="桥", text="桥" * 300)
    new = EvidenceRecord(evidence_id="bridge", title="桥", text="桥建于明。")
    async with evidence_at(store_url, embeddings) as base:
        await base.ingest(SITE, [old])
        await base.find(SITE, "桥")
        assert len((await embeddings.requests.get())[0]) == len("桥\n") + 300
        await base.ingest(SITE, [new])
        await base.find(SITE, "桥")
        embeddings.allowed.release()
        [text] = await embeddings.requests.get()
        assert text == "桥\n桥建于明。"
        assert base.embedding_progress == EmbeddingProgress(passages=1, embedded=0)
        embeddings.allow()
        await base.finish_embedding(SITE)
        index = base._index
        vector = [float(len(text)), 1.0, 0.0]
        [[hit]] = await index._search.query(SITE, index._collection, [SearchQuery(vector=vector)], shared=True)
    assert hit.similarity == pytest.approx(1.0, abs=1e-5)


async def test_a_passage_that_is_deleted_meanwhile_stays_deleted(store_url: str, embeddings: SlowEmbeddings) -> None:
    """Its vector is dropped, the others are written."""
    async with evidence_at(store_url, embeddings) as base:
        await base.ingest(SITE, [BRIDGE, WELL])
        await base.find(SITE, "通济桥")
        await embeddings.requests.get()
        await base.delete(SITE, "bridge")
        embeddings.allow()
        await base.finish_embedding(SITE)
        assert base.embedding_progress == EmbeddingProgress(passages=1, embedded=1)
        assert await found(base, UNRELATED) == ["well"]


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process a lease that nobody renews is free after a second, and is tried again more often."""
    monkeypatch.setattr("wenmai.stores.lease.LEASE", timedelta(seconds=1))
    monkeypatch.setattr("wenmai.retrieval.embedding.LEASE", timedelta(seconds=0.2))


@pytest.mark.usefixtures("short_lease")
async def test_after_a_kill_no_text_that_has_its_vector_is_embedded_again(
    shared_index_url: str, embeddings: SlowEmbeddings, tmp_path: Path
) -> None:
    """`wenmai ingest` is killed in its third batch; the service goes on there."""
    file = tmp_path / "deeds.jsonl"
    lines = [
        json.dumps({"evidence_id": each.evidence_id, "title": each.title, "text": each.text}) for each in numbered(50)
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    command = ["-m", "wenmai", "ingest", str(file), "--store", shared_index_url, "--embedder", "openai:any"]
    environment = os.environ | {"OPENAI_API_BASE": embeddings.url, "OPENAI_API_KEY": "none"}
    process = Program(command, env=environment)
    for _ in range(2):
        await embeddings.requests.get()
        embeddings.allowed.release()
    await embeddings.requests.get()
    process.kill()
    await asyncio.to_thread(process.wait)
    assert embeddings.answered.total() == 2 * BATCH
    async with evidence_at(shared_index_url, embeddings) as base:
        assert len(await found(base, "田契")) > 0
        before = embeddings.answered.copy()
        embeddings.allow()
        await base.finish_embedding(SITE)
        assert base.embedding_progress == EmbeddingProgress(passages=50, embedded=50)
    assert all(embeddings.answered[text] == 1 for text in before)


@pytest.mark.usefixtures("short_lease")
async def test_one_process_at_a_time_embeds_a_site(shared_index_url: str, embeddings: SlowEmbeddings) -> None:
    """The other one waits, and has nothing left to do."""
    async with open_store(shared_index_url) as store:
        first, second = embeddings.process(store), embeddings.process(store)
        await first.ingest(SITE, numbered(BATCH + 1))
        await embeddings.requests.get()
        waiting = asyncio.create_task(second.finish_embedding(SITE))
        second.start_embedding(SITE)
        assert len(await found(second, "田契")) > 0
        embeddings.allow()
        await first.finish_embedding(SITE)
        await waiting
        await asyncio.gather(first.close(), second.close())
    assert set(embeddings.answered.values()) == {1}


async def test_readiness_and_metrics_show_the_vectors_coming(
    store_settings: dict[str, str], embeddings: SlowEmbeddings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service is ready without them."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_API_BASE", embeddings.url)
    async with engine_at(**store_settings, embedder="openai:any", sample_sites="") as engine:
        client = Service(engine).client
        passages = [
            {"evidence_id": each.evidence_id, "title": each.title, "text": each.text} for each in (BRIDGE, WELL)
        ]
        assert (await client.post("/api/v1/evidence", json={"evidence": passages})).json()["added"] == 2
        await client.post("/api/v1/evidence/search", json={"query": "通济桥"})
        await embeddings.requests.get()
        ready = (await client.get("/readyz")).json()
        assert (ready["status"], ready["evidence"]) == ("ok", {"passages": 2, "embedded": 0})
        embeddings.allow()
        await engine.evidence.finish_embedding(SITE)
        assert (await client.get("/readyz")).json()["evidence"] == {"passages": 2, "embedded": 2}
        lines = (await client.get("/metrics")).text.splitlines()
    assert {"wenmai_evidence_passages 2.0", "wenmai_evidence_embedded 2.0"} <= set(lines)
