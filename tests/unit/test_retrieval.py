"""Retrieval over records of any kind: here notes, which belong to one user each."""

from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

import pytest

from wenmai.resilience.degradation import collected_degradation
from wenmai.retrieval.corpus import Corpus
from wenmai.retrieval.index import PassageIndex
from wenmai.retrieval.local_index import LocalIndex
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.inprocess.search import InProcessSearch
from wenmai.stores.opening import open_store
from wenmai.stores.records.base import Record, RecordSpec
from wenmai.stores.structs import SearchEntry

ANNA, BORIS = Scope(user_id="anna"), Scope(user_id="boris")


class Note(Record, frozen=True, kw_only=True):
    """A note of a user."""

    spec: ClassVar[RecordSpec] = RecordSpec("notes", key="note_id")

    note_id: str
    text: str
    kind: str = "plan"


NOTES = Corpus(
    name="notes",
    kind=Note,
    entries_of=lambda note: [(SearchEntry(id=note.note_id, text=note.text, fields={"kind": note.kind}), note.text)],
)


class LengthEmbedder:
    """Embeds texts by their length."""

    name = "length"
    dimension: int | None = 2

    async def embed_query(self, text: str) -> list[float]:
        """See the class."""
        return [1.0, 1.0 / len(text)]

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """See the class."""
        return [[1.0, 1.0 / len(text)] for text in texts]


LINES = Corpus(
    name="lines",
    kind=Note,
    entries_of=lambda note: [
        (SearchEntry(id=f"{note.note_id}#{line}", text="", fields={"note": note.note_id}), line)
        for line in note.text.splitlines()
    ],
    key_field="note",
)


@pytest.fixture
async def documents() -> AsyncIterator[Documents]:
    """Where the notes are."""
    async with open_store("memory://") as store:
        assert store.documents is not None
        yield store.documents


@pytest.fixture(params=["stored", "local"])
async def index(request: pytest.FixtureRequest, documents: Documents) -> AsyncIterator[PassageIndex[Note]]:
    """An index of notes in a search store, or in the process."""
    opened = opened_as(request.param, NOTES, documents)
    yield opened
    await opened.close()


@pytest.fixture(params=["stored", "local"])
async def lines(request: pytest.FixtureRequest, documents: Documents) -> AsyncIterator[PassageIndex[Note]]:
    """An index of the lines of notes."""
    opened = opened_as(request.param, LINES, documents)
    yield opened
    await opened.close()


def opened_as(where: str, corpus: Corpus[Note], documents: Documents) -> PassageIndex[Note]:
    """An index in a search store, or in the process."""
    embedder = LengthEmbedder()
    if where == "local":
        return LocalIndex(corpus, documents, embedder)
    return PassageIndex(corpus, documents, InProcessSearch(), embedder)


async def write(index: PassageIndex[Note], documents: Documents, scope: Scope, *notes: Note) -> None:
    """Add notes as a writer of a corpus does."""
    await index.prepare(scope, notes)
    for note in notes:
        await documents.put(scope, note)
    await index.bump_revision(scope)
    index.start_embedding(scope)


async def found(index: PassageIndex[Note], scope: Scope, query: str, **preferred: str) -> list[str]:
    """The ids of the notes that a user finds."""
    result = await index.search(scope, query, where={}, preferred=preferred, limit=5)
    return [hit.id for hit in result.hits]


async def test_users_find_their_own_records(index: PassageIndex[Note], documents: Documents) -> None:
    """Records that are not shared are indexed, embedded and found for each user alone."""
    await write(index, documents, ANNA, Note(note_id="bridge", text="repair the bridge"))
    await write(index, documents, BORIS, Note(note_id="well", text="dig a well by the bridge"))
    assert await found(index, ANNA, "bridge") == ["bridge"]
    assert await found(index, BORIS, "bridge") == ["well"]
    for scope in (ANNA, BORIS):
        await index.finish_embedding(scope)
        result = await index.search(scope, "bridge", where={}, preferred={}, limit=5)
        assert [hit.similarity is None for hit in result.hits] == [False]
    assert index.embedding_progress is not None
    assert (index.embedding_progress.passages, index.embedding_progress.embedded) == (2, 2)


async def test_preferred_records_are_found_alone_unless_weak(index: PassageIndex[Note], documents: Documents) -> None:
    """Others are searched only if the best of the preferred is weak, and are found if they are better."""
    notes = [
        Note(note_id="plan", text="the stone bridge"),
        Note(note_id="diary", text="the stone bridge in spring", kind="diary"),
        Note(note_id="dream", text="a whale", kind="dream"),
    ]
    await write(index, documents, ANNA, *notes)
    assert await found(index, ANNA, "stone bridge", kind="plan") == ["plan"]
    assert set(await found(index, ANNA, "stone bridge")) >= {"plan", "diary"}
    assert set(await found(index, ANNA, "stone bridge", kind="dream")) >= {"plan", "diary"}


async def test_a_removed_record_is_not_found(index: PassageIndex[Note], documents: Documents) -> None:
    """Only its owner can remove it from the index."""
    await write(index, documents, ANNA, Note(note_id="bridge", text="repair the bridge"))
    assert await found(index, ANNA, "bridge") == ["bridge"]
    await index.remove(BORIS, ["bridge"])
    assert await found(index, ANNA, "bridge") == ["bridge"]
    await index.remove(ANNA, ["bridge"])
    assert await found(index, ANNA, "bridge") == []


async def test_a_record_is_as_similar_as_the_best_of_its_entries(
    lines: PassageIndex[Note], documents: Documents
) -> None:
    """Each line has a vector of its own; a record without one has no similarity."""
    both, short = Note(note_id="both", text="a\nabcdefgh"), Note(note_id="short", text="ab")
    await write(lines, documents, ANNA, both, short)
    assert await lines.similarities(ANNA, [1.0, 1 / 8], [both, short]) == {}
    await lines.finish_embedding(ANNA)
    found = await lines.similarities(ANNA, [1.0, 1 / 8], [both, short, Note(note_id="absent", text="abc")])
    assert found["both"] == pytest.approx(1.0)
    assert found.keys() == {"both", "short"}
    assert found["short"] < found["both"]
    assert await lines.similarities(BORIS, [1.0, 1 / 8], [both]) == {}


async def test_a_removed_record_loses_all_its_entries(lines: PassageIndex[Note], documents: Documents) -> None:
    """Another record whose key begins alike keeps its own."""
    note, alike = Note(note_id="n", text="a\nbb"), Note(note_id="n#a", text="ccc")
    await write(lines, documents, ANNA, note, alike)
    assert await lines.similarities(ANNA, [1.0, 1.0], [note, alike]) == {}
    await lines.finish_embedding(ANNA)
    await documents.delete(ANNA, Note, "n")
    await lines.remove(ANNA, ["n"])
    await lines.bump_revision(ANNA)
    assert (await lines.similarities(ANNA, [1.0, 1.0], [note, alike])).keys() == {"n#a"}


async def test_records_of_an_earlier_version_are_indexed_by_their_parts(documents: Documents) -> None:
    """Notes that were written before their lines were indexed get entries when they are embedded."""
    note = Note(note_id="both", text="a\nbb")
    await documents.put(ANNA, note)
    index = opened_as("stored", LINES, documents)
    await index.finish_embedding(ANNA)
    assert (await index.similarities(ANNA, [1.0, 1.0], [note])).keys() == {"both"}
    await index.close()


async def test_a_vector_of_another_length_leaves_the_search_by_words(
    index: PassageIndex[Note], documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a model was replaced under its name: degraded, and no error of the caller."""
    note = Note(note_id="bridge", text="repair the bridge")
    await write(index, documents, ANNA, note)
    await index.finish_embedding(ANNA)
    assert await found(index, ANNA, "bridge") == ["bridge"]

    async def longer(_: LengthEmbedder, text: str) -> list[float]:
        return [1.0, 0.0, 1.0 / len(text)]

    monkeypatch.setattr(LengthEmbedder, "embed_query", longer)
    with collected_degradation() as degraded:
        result = await index.search(ANNA, "bridge", where={}, preferred={}, limit=5)
        assert await index.similarities(ANNA, [1.0, 0.0, 0.5], [note]) == {}
    assert [hit.id for hit in result.hits] == ["bridge"]
    assert (result.vector, result.embedder_failed, list(degraded)) == (None, True, ["embedder"])
