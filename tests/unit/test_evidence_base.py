"""The evidence base: idempotent ingestion, and a search with comparable scores."""

import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from wenmai.errors import InvalidInput, ModelError
from wenmai.grounding.evidence import EvidenceBase, IngestReport, SearchResult, parse
from wenmai.grounding.evidence.fields import record_from
from wenmai.providers.embedders import BundledEmbedder, Embedder, open_embedder
from wenmai.retrieval.ranking import SEMANTIC_WEIGHT, fused_order, scores
from wenmai.scope import Scope
from wenmai.stores.contracts import Search, Store
from wenmai.stores.opening import open_store
from wenmai.stores.records import EvidenceRecord
from wenmai.stores.structs import Hit, SearchEntry

SITE = Scope("village", "main", "operator")
USER = Scope("village", "main", "anna")
SAMPLE = Path(__file__).parents[2] / "profiles" / "npc" / "evidence"
DOCS = Path(__file__).parents[2] / "docs" / "how-to"
MIN_SCORE = 0.3


def passage(evidence_id: str, text: str, **fields: object) -> EvidenceRecord:
    """A record, in Chinese by default."""
    plain = {"evidence_id": evidence_id, "title": evidence_id, "text": text} | fields
    return msgspec.convert(plain, EvidenceRecord)


PRECEPTS = [
    passage("precept-1", "家训第一条是孝悌为本，孝顺父母。", domains=["precepts"], source_ref="族谱"),
    passage("precept-2", "家训第二条是耕读传家，种田读书。", domains=["precepts"], source_ref="族谱"),
    passage("bridge-1", "通济桥建于雍正六年，三孔石拱。", domains=["village"], source_ref="县志"),
    passage("bridge-2", "通济桥边有一棵老樟树。", domains=["village"], source_ref="口述"),
]


class WithoutSearch:
    """A store of documents and logs without search, such as Redis."""

    name = "without-search"
    search: Search | None = None

    def __init__(self, store: Store) -> None:
        self.documents = store.documents
        self.logs = store.logs
        self.ping = store.ping


@pytest.fixture(params=["with-search", "without-search"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An empty in-process store, with and without search."""
    async with open_store("memory://") as opened:
        yield opened if request.param == "with-search" else WithoutSearch(opened)


@pytest.fixture(scope="module")
def bundled() -> Embedder:
    """The embedder with weights in its package; loading it takes a moment."""
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


def ids(found: SearchResult) -> list[str]:
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
    assert ids(await evidence.find(USER, "银杏")) == ["bridge-2"]
    assert ids(await evidence.find(USER, "樟树")) == []


async def test_replacing_a_source_removes_what_it_no_longer_has(evidence: EvidenceBase) -> None:
    """Only passages of the ingested sources are removed, and only if requested."""
    assert (await evidence.ingest(SITE, PRECEPTS[:1])).removed == 0
    report = await evidence.ingest(SITE, PRECEPTS[:1], replace_source=True)
    assert report == IngestReport(unchanged=1, removed=1)
    assert await evidence.get(SITE, "precept-2") is None
    assert ids(await evidence.find(USER, "耕读传家")) == []
    assert await evidence.get(SITE, "bridge-1") is not None


async def test_an_interrupted_ingestion_is_completed_by_the_next(store: Store) -> None:
    """A passage that was indexed but not written counts as new, and is not returned before."""

    class FullDisk:
        """Documents that fail to write."""

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
    assert ids(await base.find(USER, "家训第一条")) == []
    assert await base.ingest(SITE, PRECEPTS) == IngestReport(added=4)
    assert ids(await base.find(USER, "家训第一条"))[0] == "precept-1"


async def test_progress_is_reported_per_batch(store: Store) -> None:
    """Large ingestions run in batches of 200, from any iterable, asynchronous or not."""

    async def many() -> AsyncIterator[EvidenceRecord]:
        for number in range(450):
            yield passage(f"p-{number}", f"第{number}号田契。")

    progress: list[IngestReport] = []
    await over(store).ingest(SITE, many(), on_progress=progress.append)
    assert [report.added for report in progress] == [200, 400, 450]


async def test_a_record_out_of_bounds_is_rejected(store: Store) -> None:
    """Library callers have the same bounds as files."""
    with pytest.raises(InvalidInput, match=r"evidence\.confidence"):
        await over(store).ingest(SITE, [passage("a", "甲", confidence=1.5)])


async def test_domains_restrict_the_search(evidence: EvidenceBase) -> None:
    """Passages of other domains are never a fallback."""
    assert set(ids(await evidence.find(USER, "通济桥", domains=["village"]))) == {"bridge-1", "bridge-2"}
    assert ids(await evidence.find(USER, "通济桥", domains=["precepts"])) == []
    assert set(ids(await evidence.find(USER, "通济桥 家训", domains=["precepts", "village"]))) == {
        "precept-1",
        "precept-2",
        "bridge-1",
        "bridge-2",
    }


async def test_passages_are_numbered_in_the_order_given_and_scores_are_shares(evidence: EvidenceBase) -> None:
    """Numbers run from 1; a full match scores 1, a partial one less; the limit is respected."""
    found = (await evidence.find(USER, "家训第一条")).passages
    assert [each.number for each in found] == list(range(1, len(found) + 1))
    assert found[0].evidence_id == "precept-1"
    assert found[0].score == 1.0
    assert 0 < found[1].score < 1
    assert len((await evidence.find(USER, "家训第一条", limit=1)).passages) == 1


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
    assert ids(await base.find(USER, "戏台")) == ["b", "a"]


async def test_a_verified_passage_precedes_an_unverified_one_that_is_hardly_better(store: Store) -> None:
    """With equal words the verified one comes first, in any order of ids."""
    base = over(store)
    await base.ingest(
        SITE,
        [
            passage("a", "老樟树有三百年。", title="樟", verified=False),
            passage("b", "老樟树有三百年。", title="樟"),
        ],
    )
    assert ids(await base.find(USER, "老樟树")) == ["b", "a"]


async def test_the_requested_language_is_preferred(store: Store) -> None:
    """Passages in the language if they match, others as a fallback; never two translations of one passage."""
    base = over(store)
    await base.ingest(
        SITE,
        [
            passage("hall-1", "祠堂 Yan Hall 建于明代。", language="zh"),
            passage("hall-1-en", "The hall, Yan Hall, was built under the Ming.", language="en"),
            passage("tree-1", "老樟树有三百年。", language="zh-CN"),
        ],
    )
    assert ids(await base.find(USER, "Yan Hall", language="en")) == ["hall-1-en"]
    assert ids(await base.find(USER, "Yan Hall", language="zh-Hans")) == ["hall-1"]
    assert ids(await base.find(USER, "老樟树", language="en")) == ["tree-1"]
    assert len(ids(await base.find(USER, "Yan Hall", language="fr"))) == 1
    assert len(ids(await base.find(USER, "Yan Hall"))) == 1


async def test_passages_belong_to_their_site(evidence: EvidenceBase) -> None:
    """Every user of the site finds them, no user of another site or tenant does."""
    assert ids(await evidence.find(USER, "家训第一条"))
    for stranger in (Scope("village", "other", "anna"), Scope("town", "main", "anna")):
        assert ids(await evidence.find(stranger, "家训第一条")) == []
        assert await evidence.get(stranger, "precept-1") is None
        assert not await evidence.delete(stranger, "precept-1")
    assert await evidence.get(USER, "precept-1") is not None


async def test_deleting_is_exact_and_complete(store: Store, evidence: EvidenceBase) -> None:
    """A deleted passage is neither listed nor found; others are kept; deleting again does nothing."""
    assert await evidence.delete(SITE, "precept-1")
    assert not await evidence.delete(SITE, "precept-1")
    assert "precept-1" not in ids(await evidence.find(USER, "家训第一条"))
    assert await evidence.delete_source(SITE, "族谱") == 1
    assert await evidence.delete_source(SITE, "族谱") == 0
    if store.search is not None:
        assert (await store.search.size(SITE, "evidence:2", shared=True)).entries == 2
    page = await evidence.list(SITE)
    assert {stored.record.evidence_id for stored in page.items} == {"bridge-1", "bridge-2"}


async def test_listing_goes_by_source_and_by_page(evidence: EvidenceBase) -> None:
    """All passages of the source, and only those, one page after the other."""
    page = await evidence.list(SITE, source_ref="族谱", limit=1)
    rest = await evidence.list(SITE, source_ref="族谱", cursor=page.next_cursor)
    assert {stored.record.evidence_id for stored in page.items + rest.items} == {"precept-1", "precept-2"}
    assert len(page.items) == 1
    assert rest.next_cursor is None


async def test_semantic_similarity_alone_stays_below_the_minimum_score(store: Store, bundled: Embedder) -> None:
    """A passage that shares no word with the question stays below the default minimum, however similar."""
    base = over(store, bundled)
    await base.ingest(SITE, PRECEPTS)
    await base.reindex(SITE)
    await base.finish_embedding(SITE)
    found = (await base.find(USER, "How should children treat their father and mother?")).passages
    assert found[0].evidence_id == "precept-1"
    assert all(0 <= each.score < MIN_SCORE for each in found)
    best = (await base.find(USER, "家训第一条是什么？", domains=["precepts"])).passages[0]
    assert (best.evidence_id, best.score) == ("precept-1", 1.0)


def test_nearness_is_measured_from_the_farthest_hit() -> None:
    """Scores grow with coverage and nearness, and are within 0 to 1 for any cosines."""

    def hit(id_: str, coverage: float, similarity: float | None) -> Hit:
        return Hit(id=id_, lexical=coverage, coverage=coverage, similarity=similarity)

    score = scores([hit("a", 0.5, 0.9), hit("b", 0.5, 0.8), hit("c", 0.5, None), hit("d", 0.0, 1.0)])
    assert score == pytest.approx({"a": 0.5 + SEMANTIC_WEIGHT * 0.5 * 0.5, "b": 0.5, "c": 0.5, "d": SEMANTIC_WEIGHT})
    assert scores([hit("a", 1.0, 1.0)]) == {"a": 1.0}
    assert scores([hit("a", 0.25, -0.5), hit("b", 0.0, 1.0)])["a"] == 0.25


def test_lexical_and_semantic_ranks_are_fused_and_ties_broken_by_score() -> None:
    """First lexically and second semantically ties with the reverse: the one with more coverage comes first."""
    hits = [
        Hit(id="a", lexical=3.0, coverage=0.4, similarity=0.90),
        Hit(id="b", lexical=2.0, coverage=0.6, similarity=0.91),
        Hit(id="c", lexical=0.0, coverage=0.0, similarity=0.80),
    ]
    assert fused_order(hits, scores(hits)) == ["b", "a", "c"]


def test_a_passage_without_a_vector_is_ranked_by_its_words_alone() -> None:
    """It does not fall behind passages with fewer words that happen to be embedded, nor rise above ones with more."""
    hits = [
        Hit(id="best", lexical=5.0, coverage=1.0, similarity=None),
        Hit(id="near", lexical=2.0, coverage=0.2, similarity=0.9),
        Hit(id="far", lexical=1.0, coverage=0.1, similarity=0.8),
        Hit(id="worst", lexical=0.5, coverage=0.1, similarity=None),
    ]
    assert fused_order(hits, scores(hits)) == ["best", "near", "far", "worst"]


async def test_while_vectors_come_the_best_passage_by_words_is_found(store: Store) -> None:
    """Among many that are embedded already and share a word with the question."""
    embedder = HalfEmbedder()
    base = over(store, embedder)
    await base.ingest(SITE, [passage(f"a-{n:03}", "通济桥", title=f"田契{n}号") for n in range(120)])
    await base.find(USER, "通济桥")
    await base.finish_embedding(SITE)
    embedder.broken = True
    await base.ingest(SITE, [passage("best", "通济桥建于雍正六年，三孔石拱。", title="通济桥")])
    assert ids(await base.find(USER, "通济桥建于雍正哪一年", limit=1)) == ["best"]
    await base.close()


class HalfEmbedder:
    """An embedder whose vectors are all equal; when it is broken, it still embeds questions."""

    name = "half"
    broken = False

    async def embed_query(self, text: str) -> list[float]:
        """See the class."""
        return [1.0, 1.0 / len(text)]

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """See the class."""
        if self.broken:
            raise ModelError(self.name, "gone", retryable=True)
        return [[1.0, 0.0] for _ in texts]


class BrokenEmbedder(BundledEmbedder):
    """The bundled embedder, out of order."""

    def __init__(self) -> None:
        pass

    async def embed_query(self, text: str) -> list[float]:
        """Fail."""
        raise ModelError(self.name, f"gone: {text}", retryable=True)

    async def embed_passages(self, texts: object) -> list[list[float]]:
        """Fail."""
        raise ModelError(self.name, f"gone: {texts}", retryable=True)


async def test_without_its_embedder_the_search_is_lexical_and_degraded(store: Store, bundled: Embedder) -> None:
    """The search falls back to words."""
    await over(store, bundled).ingest(SITE, PRECEPTS)
    found = await over(store, BrokenEmbedder()).find(USER, "家训第一条")
    assert ids(found)[0] == "precept-1"
    assert found.degraded == ["embedder"]


async def test_ingestion_does_not_need_the_embedder(store: Store) -> None:
    """The passages are found by words; only waiting for their vectors fails."""
    base = over(store, BrokenEmbedder())
    await base.ingest(SITE, [passage("new", "新的一条。")])
    assert ids(await base.find(USER, "新的一条")) == ["new"]
    with pytest.raises(ModelError):
        await base.finish_embedding(SITE)
    await base.close()


async def test_another_embedder_gets_its_own_index_at_the_first_question(
    store: Store, evidence: EvidenceBase, bundled: Embedder
) -> None:
    """Evidence ingested without an embedder is found with one, and vice versa."""
    with_vectors = over(store, bundled)
    assert ids(await with_vectors.find(USER, "家训第一条"))[0] == "precept-1"
    assert await with_vectors.reindex(SITE) == len(PRECEPTS)
    without = over(store, open_embedder("none"))
    assert ids(await without.find(USER, "家训第一条"))[0] == "precept-1"


async def test_a_passage_is_as_similar_as_its_most_similar_sentence(store: Store, bundled: Embedder) -> None:
    """What stands beside a sentence does not blur its similarity; a changed passage has that of its new sentences."""
    base = over(store, bundled)
    said, other = "通济桥建于雍正六年。", "桥边有一棵老樟树，树下可以乘凉。"
    await base.ingest(SITE, [passage("alone", said, title="桥"), passage("both", other + said, title="桥")])

    async def similarities() -> dict[str, float | None]:
        await base.find(USER, "桥")  # an index in the process follows the documents with a question
        await base.finish_embedding(SITE)
        return {each.evidence_id: each.similarity for each in (await base.find(USER, "桥是哪年建的？")).passages}

    similar = await similarities()
    assert similar["both"] == pytest.approx(similar["alone"], abs=1e-4)
    await base.ingest(SITE, [passage("both", other, title="桥")])
    changed = await similarities()
    assert changed["alone"] == similar["alone"]
    assert (changed["both"] or 1.0) < (similar["alone"] or 0.0) - 0.01
    await base.close()


@pytest.mark.parametrize("store", ["with-search"], indirect=True)
async def test_an_index_of_the_first_analysis_is_built_anew(store: Store) -> None:
    """Passages indexed before texts were folded are found after the next ingestion, and their old index is removed."""
    assert store.search is not None
    base = over(store)
    await base.ingest(SITE, PRECEPTS[:2])
    await store.search.remove(SITE, "evidence:2", where={"language": "zh"}, shared=True)
    old = SearchEntry(id="precept-1", text="家训", fields={"language": "zh", "domains": []})
    await store.search.index(SITE, "evidence", [old], shared=True)
    await over(store).ingest(SITE, PRECEPTS[2:])
    assert ids(await base.find(USER, "家訓第二條"))[0] == "precept-2"
    assert ids(await base.find(USER, "通濟橋"))
    assert (await store.search.size(SITE, "evidence", shared=True)).entries == 0


@pytest.mark.parametrize(
    ("question", "language", "expected"),
    [
        ("家训第一条是什么？", "zh", "precepts-01"),
        ("通济桥是哪一年建的？", "zh", "village-03"),
        ("What is the first precept?", "en", "precepts-01-en"),
        ("What does the third precept mean?", "en", "precepts-03-en"),
    ],
)
async def test_the_sample_answers_its_own_questions_by_lexical_search(
    store: Store, question: str, language: str, expected: str
) -> None:
    """Without an embedder the right passage comes first, and reaches the default minimum score."""
    base = over(store)
    await base.ingest(SITE, sample())
    best = (await base.find(USER, question, language=language)).passages[0]
    assert best.evidence_id == expected
    assert best.score >= MIN_SCORE


@pytest.mark.parametrize("page", ["ingest-evidence.md", "choose-a-model.md"])
def test_the_examples_of_the_how_to_pages_run(page: str) -> None:
    """Each Python block is a program of its own, and its assertions hold."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": "example"})  # noqa: S102 - our own pages


SELF = {"source_ref": "a", "supersedes": "a", "effective_date": "2025-01-01"}
VERSIONS = [
    passage("old", "抵押率的上限为65%。", source_ref="办法，2022版", effective_date="2022-01-01"),
    passage(
        "new", "抵押率的上限为70%。", source_ref="办法，2025版", effective_date="2025-01-01", supersedes="办法，2022版"
    ),
    passage(
        "next", "抵押率的上限为75%。", source_ref="办法，2027版", effective_date="2027-01-01", supersedes="办法，2025版"
    ),
]


@pytest.mark.parametrize(("day", "found"), [("2024-12-31", "old"), ("2025-01-01", "new"), ("2027-06-01", "next")])
async def test_of_the_versions_of_a_source_the_one_in_force_is_found(store: Store, day: str, found: str) -> None:
    """Whatever the order in which they were ingested."""
    assert store.documents is not None
    now = datetime.fromisoformat(f"{day}T12:00:00+00:00")
    for order in (VERSIONS, VERSIONS[::-1]):
        site = Scope("village", order[0].evidence_id)
        base = EvidenceBase(store.documents, store.search, None, clock=lambda: now)
        await base.ingest(site, order)
        assert [each.evidence_id for each in (await base.find(site, "抵押率的上限")).passages] == [found]


async def test_neither_a_later_successor_nor_a_circle_hides_a_version(store: Store) -> None:
    """What supersedes from next year on is no answer today; of two that name each other the later one is in force."""
    assert store.documents is not None
    base = EvidenceBase(store.documents, store.search, None, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    circle = msgspec.structs.replace(VERSIONS[0], supersedes="办法，2025版")
    future = [
        msgspec.structs.replace(VERSIONS[2], evidence_id=f"next-{number}", supersedes="办法，2022版")
        for number in range(120)
    ]
    await base.ingest(SITE, [circle, VERSIONS[1], *future])
    found = (await base.find(SITE, "抵押率的上限", limit=50)).passages
    assert [each.evidence_id for each in found] == ["new"]
    assert [*await base.passages(SITE, ["old", "new", "next-1"])] == ["new"]


@pytest.mark.parametrize(
    "fields", [{"effective_date": "2025-02-30"}, {"effective_date": "2025"}, {"supersedes": "a"}, SELF]
)
def test_a_version_has_a_day_of_the_calendar(fields: dict[str, str]) -> None:
    """A source that supersedes another without a day would supersede it at no time."""
    with pytest.raises(InvalidInput, match=r"effective_date|supersedes"):
        record_from({"text": "抵押率的上限为70%。", **fields})
