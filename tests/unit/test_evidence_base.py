"""Passages kept and found: ingestion that can be repeated, and a search whose scores mean something."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from wenmai.chat.evidence import EvidenceBase, Found, IngestReport, parse
from wenmai.chat.evidence.ranking import MEANING_SHARE, ordered, scores
from wenmai.errors import InvalidInput, ModelError
from wenmai.providers.embedders import BundledEmbedder, Embedder, open_embedder
from wenmai.scope import Scope
from wenmai.stores.base import Hit, Search, Store
from wenmai.stores.records import EvidenceRecord
from wenmai.stores.registry import open_store

SITE = Scope("village", "main", "operator")
VISITOR = Scope("village", "main", "anna")
SAMPLE = Path(__file__).parents[2] / "profiles" / "npc" / "evidence"
DOCS = Path(__file__).parents[2] / "docs" / "how-to"
MIN_SCORE = 0.3


def passage(evidence_id: str, text: str, **fields: object) -> EvidenceRecord:
    """A record, in Chinese unless told otherwise."""
    plain = {"evidence_id": evidence_id, "title": evidence_id, "text": text} | fields
    return msgspec.convert(plain, EvidenceRecord)


PRECEPTS = [
    passage("precept-1", "家训第一条是孝悌为本，孝顺父母。", domains=["precepts"], source_ref="族谱"),
    passage("precept-2", "家训第二条是耕读传家，种田读书。", domains=["precepts"], source_ref="族谱"),
    passage("bridge-1", "通济桥建于雍正六年，三孔石拱。", domains=["village"], source_ref="县志"),
    passage("bridge-2", "通济桥边有一棵老樟树。", domains=["village"], source_ref="口述"),
]


class WithoutSearch:
    """A store that keeps documents and logs, such as a Redis."""

    name = "without-search"
    search: Search | None = None

    def __init__(self, store: Store) -> None:
        self.documents = store.documents
        self.logs = store.logs
        self.ping = store.ping


@pytest.fixture(params=["with-search", "without-search"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An empty store in this process, with search of its own and without."""
    async with open_store("memory://") as opened:
        yield opened if request.param == "with-search" else WithoutSearch(opened)


@pytest.fixture(scope="module")
def bundled() -> Embedder:
    """The embedder whose weights are in its package; loading it takes a moment."""
    return BundledEmbedder()


def over(store: Store, embedder: Embedder | None = None) -> EvidenceBase:
    """The evidence in a store that has documents."""
    assert store.documents is not None
    return EvidenceBase(store.documents, store.search, embedder)


@pytest.fixture
async def evidence(store: Store) -> EvidenceBase:
    """The four passages, searched by words."""
    base = over(store)
    await base.ingest(SITE, PRECEPTS)
    return base


def sample() -> list[EvidenceRecord]:
    """The passages that ship with the npc profile, in Chinese and in English."""
    files = sorted(SAMPLE.iterdir())
    items = [item for file in files for item in parse(file.read_bytes(), file.name)]
    return [item for item in items if isinstance(item, EvidenceRecord)]


def ids(found: Found) -> list[str]:
    """The ids in the order given."""
    return [each.evidence_id for each in found.passages]


async def test_ingesting_the_same_again_changes_nothing(store: Store) -> None:
    """The second run reports all unchanged and writes no new version."""
    base = over(store)
    assert await base.ingest(SITE, PRECEPTS) == IngestReport(added=4)
    assert await base.ingest(SITE, PRECEPTS) == IngestReport(unchanged=4)
    stored = await base.get(SITE, "precept-1")
    assert stored is not None
    assert stored.version == 1


async def test_a_changed_passage_is_found_by_its_new_words_only(evidence: EvidenceBase) -> None:
    """Document and index change together."""
    new = msgspec.structs.replace(PRECEPTS[3], text="通济桥边有一株古银杏。")
    assert await evidence.ingest(SITE, [*PRECEPTS[:3], new]) == IngestReport(changed=1, unchanged=3)
    assert ids(await evidence.find(VISITOR, "银杏")) == ["bridge-2"]
    assert ids(await evidence.find(VISITOR, "樟树")) == []


async def test_replacing_a_source_removes_what_it_no_longer_has(evidence: EvidenceBase) -> None:
    """Only passages of the sources that came are removed; without the wish nothing is."""
    assert (await evidence.ingest(SITE, PRECEPTS[:1])).removed == 0
    report = await evidence.ingest(SITE, PRECEPTS[:1], replace_source=True)
    assert report == IngestReport(unchanged=1, removed=1)
    assert await evidence.get(SITE, "precept-2") is None
    assert ids(await evidence.find(VISITOR, "耕读传家")) == []
    assert await evidence.get(SITE, "bridge-1") is not None


async def test_an_ingestion_that_broke_off_is_completed_by_the_next(store: Store) -> None:
    """A passage that was indexed but not written counts as new, and is not given out before."""

    class FullDisk:
        """Documents that refuse to be written."""

        def __init__(self) -> None:
            assert store.documents is not None
            self.get = store.documents.get
            self.get_many = store.documents.get_many
            self.delete = store.documents.delete
            self.list = store.documents.list
            self.sweep = store.documents.sweep

        async def put(self, *_: object, **__: object) -> None:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await EvidenceBase(FullDisk(), store.search, None).ingest(SITE, PRECEPTS)  # type: ignore[arg-type]
    base = over(store)
    assert ids(await base.find(VISITOR, "家训第一条")) == []
    assert await base.ingest(SITE, PRECEPTS) == IngestReport(added=4)
    assert ids(await base.find(VISITOR, "家训第一条"))[0] == "precept-1"


async def test_progress_is_told_batch_by_batch(store: Store) -> None:
    """Large ingestions go in batches of 200, from any iterable, an asynchronous one too."""

    async def many() -> AsyncIterator[EvidenceRecord]:
        for number in range(450):
            yield passage(f"p-{number}", f"第{number}号田契。")

    told: list[IngestReport] = []
    await over(store).ingest(SITE, many(), on_progress=told.append)
    assert [report.added for report in told] == [200, 400, 450]


async def test_a_record_out_of_bounds_is_refused(store: Store) -> None:
    """The bounds of the files hold for the library's callers."""
    with pytest.raises(InvalidInput, match=r"evidence\.confidence"):
        await over(store).ingest(SITE, [passage("a", "甲", confidence=1.5)])


async def test_domains_bound_what_is_found(evidence: EvidenceBase) -> None:
    """A persona speaks about its own domains only: where they have nothing, nothing is found."""
    assert set(ids(await evidence.find(VISITOR, "通济桥", domains=["village"]))) == {"bridge-1", "bridge-2"}
    assert ids(await evidence.find(VISITOR, "通济桥", domains=["precepts"])) == []
    assert set(ids(await evidence.find(VISITOR, "通济桥 家训", domains=["precepts", "village"]))) == {
        "precept-1",
        "precept-2",
        "bridge-1",
        "bridge-2",
    }


async def test_passages_are_numbered_in_the_order_given_and_scores_are_shares(evidence: EvidenceBase) -> None:
    """Numbers run from 1; the score of a full match is 1, of a partial one less; the limit is kept."""
    found = (await evidence.find(VISITOR, "家训第一条")).passages
    assert [each.number for each in found] == list(range(1, len(found) + 1))
    assert found[0].evidence_id == "precept-1"
    assert found[0].score == 1.0
    assert 0 < found[1].score < 1
    assert len((await evidence.find(VISITOR, "家训第一条", limit=1)).passages) == 1


async def test_words_of_the_title_count(store: Store) -> None:
    """A passage is found by its title, before one that has the word in its text."""
    base = over(store)
    await base.ingest(
        SITE,
        [
            passage("a", "族人说戏台旧时很热闹，年年有人来看。"),
            passage("b", "正对享堂，年年演戏三天。", title="戏台"),
        ],
    )
    assert ids(await base.find(VISITOR, "戏台")) == ["b", "a"]


async def test_a_verified_passage_goes_before_an_unverified_one_that_is_hardly_better(store: Store) -> None:
    """Equal words: the verified one leads, whichever id comes first."""
    base = over(store)
    await base.ingest(
        SITE,
        [
            passage("a", "老樟树有三百年。", title="樟", verified=False),
            passage("b", "老樟树有三百年。", title="樟"),
        ],
    )
    assert ids(await base.find(VISITOR, "老樟树")) == ["b", "a"]


async def test_the_language_that_was_asked_for_is_preferred(store: Store) -> None:
    """Passages of the language if they match, others if only they do; never two copies of one passage."""
    base = over(store)
    await base.ingest(
        SITE,
        [
            passage("hall-1", "祠堂 Yan Hall 建于明代。", language="zh"),
            passage("hall-1-en", "The hall, Yan Hall, was built under the Ming.", language="en"),
            passage("tree-1", "老樟树有三百年。", language="zh-CN"),
        ],
    )
    assert ids(await base.find(VISITOR, "Yan Hall", language="en")) == ["hall-1-en"]
    assert ids(await base.find(VISITOR, "Yan Hall", language="zh-Hans")) == ["hall-1"]
    assert ids(await base.find(VISITOR, "老樟树", language="en")) == ["tree-1"]
    assert len(ids(await base.find(VISITOR, "Yan Hall", language="fr"))) == 1
    assert len(ids(await base.find(VISITOR, "Yan Hall"))) == 1


async def test_passages_belong_to_their_site(evidence: EvidenceBase) -> None:
    """Any user of the site finds them, no user of another site or tenant does."""
    assert ids(await evidence.find(VISITOR, "家训第一条"))
    for stranger in (Scope("village", "other", "anna"), Scope("town", "main", "anna")):
        assert ids(await evidence.find(stranger, "家训第一条")) == []
        assert await evidence.get(stranger, "precept-1") is None
        assert not await evidence.delete(stranger, "precept-1")
    assert await evidence.get(VISITOR, "precept-1") is not None


async def test_deleting_is_exact_and_complete(store: Store, evidence: EvidenceBase) -> None:
    """A deleted passage is neither listed nor found; its neighbours stay; deleting again does nothing."""
    assert await evidence.delete(SITE, "precept-1")
    assert not await evidence.delete(SITE, "precept-1")
    assert "precept-1" not in ids(await evidence.find(VISITOR, "家训第一条"))
    assert await evidence.delete_source(SITE, "族谱") == 1
    assert await evidence.delete_source(SITE, "族谱") == 0
    if store.search is not None:
        assert await store.search.count(SITE, "evidence", shared=True) == 2
    page = await evidence.list(SITE)
    assert {stored.record.evidence_id for stored in page.items} == {"bridge-1", "bridge-2"}


async def test_listing_goes_by_source_and_by_page(evidence: EvidenceBase) -> None:
    """All passages of the source, and only those, one page after the other."""
    page = await evidence.list(SITE, source_ref="族谱", limit=1)
    rest = await evidence.list(SITE, source_ref="族谱", cursor=page.next_cursor)
    assert {stored.record.evidence_id for stored in page.items + rest.items} == {"precept-1", "precept-2"}
    assert len(page.items) == 1
    assert rest.next_cursor is None


async def test_meaning_ranks_but_does_not_open_the_gate(store: Store, bundled: Embedder) -> None:
    """What shares no word with the question stays under the usual minimum, however near it is."""
    base = over(store, bundled)
    await base.ingest(SITE, PRECEPTS)
    await base.reindex(SITE)
    found = (await base.find(VISITOR, "How should children treat their father and mother?")).passages
    assert found[0].evidence_id == "precept-1"
    assert all(0 <= each.score < MIN_SCORE for each in found)
    best = (await base.find(VISITOR, "家训第一条是什么？", domains=["precepts"])).passages[0]
    assert (best.evidence_id, best.score) == ("precept-1", 1.0)


def test_nearness_is_measured_from_the_farthest_hit() -> None:
    """Scores grow with coverage and with nearness, and stay within 0 to 1 whatever the cosines are."""

    def hit(id_: str, coverage: float, similarity: float | None) -> Hit:
        return Hit(id=id_, lexical=coverage, coverage=coverage, similarity=similarity)

    score = scores([hit("a", 0.5, 0.9), hit("b", 0.5, 0.8), hit("c", 0.5, None), hit("d", 0.0, 1.0)])
    assert score == pytest.approx({"a": 0.5 + MEANING_SHARE * 0.5 * 0.5, "b": 0.5, "c": 0.5, "d": MEANING_SHARE})
    assert scores([hit("a", 1.0, 1.0)]) == {"a": 1.0}
    assert scores([hit("a", 0.25, -0.5), hit("b", 0.0, 1.0)])["a"] == 0.25


def test_ranks_by_words_and_by_meaning_are_fused_and_ties_go_by_score() -> None:
    """First by words and second by meaning ties with the reverse: the one that covers more leads."""
    hits = [
        Hit(id="a", lexical=3.0, coverage=0.4, similarity=0.90),
        Hit(id="b", lexical=2.0, coverage=0.6, similarity=0.91),
        Hit(id="c", lexical=0.0, coverage=0.0, similarity=0.80),
    ]
    assert ordered(hits, scores(hits)) == ["b", "a", "c"]


class Dead(BundledEmbedder):
    """The bundled embedder, after its process was lost."""

    def __init__(self) -> None:
        self.dimension = None

    async def embed_query(self, text: str) -> list[float]:
        """Fail."""
        raise ModelError(self.name, f"gone: {text}", retryable=True)

    async def embed_passages(self, texts: object) -> list[list[float]]:
        """Fail."""
        raise ModelError(self.name, f"gone: {texts}", retryable=True)


async def test_a_dead_embedder_costs_meaning_and_is_told(store: Store, bundled: Embedder) -> None:
    """The search goes on by words."""
    await over(store, bundled).ingest(SITE, PRECEPTS)
    found = await over(store, Dead()).find(VISITOR, "家训第一条")
    assert ids(found)[0] == "precept-1"
    assert found.degraded == ["embedder"]


@pytest.mark.parametrize("store", ["with-search"], indirect=True)
async def test_ingestion_that_would_leave_holes_is_refused(store: Store) -> None:
    """A store's index lacks no vector: without the embedder nothing is ingested."""
    with pytest.raises(ModelError):
        await over(store, Dead()).ingest(SITE, [passage("new", "新的一条。")])
    assert await over(store).get(SITE, "new") is None


async def test_another_embedder_gets_its_own_index_when_it_is_first_asked(
    store: Store, evidence: EvidenceBase, bundled: Embedder
) -> None:
    """Evidence that was ingested without an embedder is found with one, and the other way round."""
    with_vectors = over(store, bundled)
    assert ids(await with_vectors.find(VISITOR, "家训第一条"))[0] == "precept-1"
    assert await with_vectors.reindex(SITE) == len(PRECEPTS)
    without = over(store, open_embedder("none"))
    assert ids(await without.find(VISITOR, "家训第一条"))[0] == "precept-1"


@pytest.mark.parametrize(
    ("question", "language", "expected"),
    [
        ("家训第一条是什么？", "zh", "precepts-01"),
        ("通济桥是哪一年建的？", "zh", "village-03"),
        ("What is the first precept?", "en", "precepts-01-en"),
        ("What does the third precept mean?", "en", "precepts-03-en"),
    ],
)
async def test_the_sample_answers_its_own_questions_by_words_alone(
    store: Store, question: str, language: str, expected: str
) -> None:
    """Without an embedder the right passage leads, and it passes the gate's usual minimum."""
    base = over(store)
    await base.ingest(SITE, sample())
    best = (await base.find(VISITOR, question, language=language)).passages[0]
    assert best.evidence_id == expected
    assert best.score >= MIN_SCORE


@pytest.mark.parametrize("page", ["ingest-evidence.md", "choose-a-model.md"])
def test_the_examples_of_the_how_to_pages_run(page: str) -> None:
    """Each Python block is a program of its own, and what it asserts is so."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": "example"})  # noqa: S102 - our own pages
