"""Search: vectors that arrive later than the text, and the size of a collection."""

from wenmai.errors import InvalidInput
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises
from wenmai.stores.conformance.harness import Harness
from wenmai.stores.conformance.search_words import ids
from wenmai.stores.structs import CollectionSize, Hit, SearchEntry


@case("search")
async def vectors_may_arrive_later(harness: Harness) -> None:
    """An entry is found by words at once, and by vector when its vector has arrived; only that changes."""
    scope = harness.scope()
    await harness.index(
        scope, "c", [SearchEntry(id="a", text="孝悌", fields={"year": 1}), SearchEntry(id="b", text="孝")]
    )
    before = await harness.hits(scope, "c", text="孝悌")
    equal(ids(await harness.hits(scope, "c", vector=[1.0, 0.0])), [], "hits by vector before")
    late = [SearchEntry(id="a", text="孝悌", vector=[2.0, 0.0]), SearchEntry(id="absent", text="孝", vector=[1.0, 0.0])]
    equal(await harness.search.embed(scope, "c", late), 1, "entries that got their vector")
    [hit] = await harness.hits(scope, "c", vector=[1.0, 0.0])
    equal((hit.id, _rounded(hit), dict(hit.fields)), ("a", 1.0, {"year": 1}), "the hit by vector")
    equal(await harness.hits(scope, "c", text="孝悌"), before, "hits by words afterwards")
    equal(await harness.search.size(scope, "c"), CollectionSize(2, 1), "size")
    await harness.search.embed(scope, "c", [SearchEntry(id="a", text="孝悌", vector=[0.0, 3.0])])
    [hit] = await harness.hits(scope, "c", vector=[1.0, 0.0])
    equal(_rounded(hit), 0.0, "similarity after another vector has come")
    equal(await harness.search.embed(scope, "c", []), 0, "entries of none")
    equal(await harness.search.embed(scope, "never", late), 0, "entries of an empty collection")


@case("search")
async def entries_may_have_no_words(harness: Harness) -> None:
    """An entry without text gets its vector later, is compared with a query among given ids, and goes by a filter."""
    scope = harness.scope()
    entries = [SearchEntry(id=f"{of}#{part}", text="", fields={"of": of}) for of in "ab" for part in "12"]
    await harness.index(scope, "c", entries)
    equal(await harness.search.without_vector(scope, "c", limit=9), [each.id for each in entries], "without a vector")
    late = {"a#1": [1.0, 0.0], "a#2": [0.0, 1.0], "b#1": [1.0, 0.0]}
    vectors = [SearchEntry(id=id_, text="", vector=vector) for id_, vector in late.items()]
    equal(await harness.search.embed(scope, "c", vectors), 3, "entries that got their vector")
    hits = await harness.hits(scope, "c", vector=[1.0, 0.0], ids=["a#1", "a#2", "b#2", "absent"])
    similar = {hit.id: _rounded(hit) for hit in hits if hit.similarity is not None}
    equal(similar, {"a#1": 1.0, "a#2": 0.0}, "similarities of the ids")
    equal(await harness.hits(scope, "c", text="孝"), [], "hits by words")
    await harness.search.remove(scope, "c", where={"of": ("a", "c")})
    equal(await harness.search.size(scope, "c"), CollectionSize(2, 1), "size after the removal")


@case("search")
async def vectors_of_another_text_are_ignored(harness: Harness) -> None:
    """A vector for a text that the entry no longer has leaves it as it is."""
    scope = harness.scope()
    await harness.index(
        scope, "c", [SearchEntry(id="a", text="孝悌"), SearchEntry(id="b", text="睦邻", vector=[0.0, 1.0])]
    )
    await harness.index(scope, "c", [SearchEntry(id="a", text="耕读")])
    stale = [SearchEntry(id=id_, text=text, vector=[1.0, 0.0]) for id_, text in (("a", "孝悌"), ("b", "睦邻 "))]
    equal(await harness.search.embed(scope, "c", stale), 0, "entries that got their vector")
    [hit] = await harness.hits(scope, "c", vector=[0.0, 1.0])
    equal((hit.id, _rounded(hit)), ("b", 1.0), "the hit by vector")
    equal(await harness.search.size(scope, "c"), CollectionSize(2, 1), "size")


@case("search")
async def the_same_text_keeps_its_vector(harness: Harness) -> None:
    """Indexed again without a vector, an entry keeps its vector if the text is the same, and loses it otherwise."""
    scope = harness.scope()
    await harness.index(
        scope, "c", [SearchEntry(id=id_, text="孝悌", vector=[1.0, 0.0], fields={"year": 1}) for id_ in ("a", "b")]
    )
    await harness.index(
        scope,
        "c",
        [SearchEntry(id="a", text="孝悌", fields={"year": 2}), SearchEntry(id="b", text="耕读", fields={"year": 2})],
    )
    [hit] = await harness.hits(scope, "c", vector=[1.0, 0.0])
    equal((hit.id, _rounded(hit), dict(hit.fields)), ("a", 1.0, {"year": 2}), "the hit by vector")
    equal(await harness.search.size(scope, "c"), CollectionSize(2, 1), "size")
    await harness.search.remove(scope, "c", ["a"])
    await harness.index(scope, "c", [SearchEntry(id="a", text="孝悌")])
    equal(await harness.hits(scope, "c", vector=[1.0, 0.0]), [], "hits by vector after a removal")
    equal(await harness.search.size(scope, "c"), CollectionSize(2, 0), "size after a removal")


@case("search")
async def late_vectors_are_all_or_none(harness: Harness) -> None:
    """A batch with a missing vector, or one of another length, is refused and changes nothing."""
    scope = harness.scope()
    await harness.index(scope, "c", [SearchEntry(id="a", text="孝"), SearchEntry(id="b", text="悌")])
    good = SearchEntry(id="a", text="孝", vector=[1.0, 0.0])
    for what, bad in (
        ("no vector", SearchEntry(id="b", text="悌")),
        ("another length", SearchEntry(id="b", text="悌", vector=[1.0])),
        ("length 0", SearchEntry(id="b", text="悌", vector=[])),
        ("a number that is not finite", SearchEntry(id="b", text="悌", vector=[float("nan"), 1.0])),
    ):
        with raises(InvalidInput, what):
            await harness.search.embed(scope, "c", [good, bad])
    equal(await harness.search.size(scope, "c"), CollectionSize(2, 0), "size after the refused batches")
    equal(await harness.search.embed(scope, "c", [good]), 1, "entries that got their vector")
    with raises(InvalidInput, "another length than the collection's"):
        await harness.search.embed(scope, "c", [SearchEntry(id="b", text="悌", vector=[1.0])])


@case("search")
async def entries_without_a_vector_are_listed(harness: Harness) -> None:
    """The ids without a vector come in ascending order of code points, in pages."""
    scope = harness.scope()
    names = sorted(["B", "a", "b", "Z", "é", "严", "\uf900", "\U00020bb7", "e1", "e10", "e2", "_", "-"])
    await harness.index(scope, "c", [SearchEntry(id=name, text="孝") for name in names])
    await harness.index(scope, "c", [SearchEntry(id="m", text="孝", vector=[1.0])])
    equal(await harness.search.without_vector(scope, "c"), names, "ids")
    paged: list[str] = []
    for _ in names:
        paged += await harness.search.without_vector(scope, "c", after=paged[-1] if paged else "", limit=2)
    equal(paged, names, "ids, two by two")
    equal(await harness.search.without_vector(scope, "c", after="b"), names[names.index("b") + 1 :], "ids after b")
    await harness.search.embed(scope, "c", [SearchEntry(id=name, text="孝", vector=[1.0]) for name in names[1:]])
    equal(await harness.search.without_vector(scope, "c"), names[:1], "ids after the vectors of the others")
    equal(await harness.search.without_vector(scope, "never"), [], "ids of an empty collection")
    for limit in (0, 501):
        with raises(InvalidInput, f"limit {limit}"):
            await harness.search.without_vector(scope, "c", limit=limit)


@case("search")
async def late_vectors_stay_in_their_scope(harness: Harness) -> None:
    """Another user, site or tenant, or the site as a whole, can neither see entries without vectors nor embed them."""
    owner = harness.scope()
    entry = SearchEntry(id="a", text="孝悌", vector=[1.0, 0.0])
    await harness.index(owner, "c", [SearchEntry(id="a", text="孝悌")])
    for who, stranger in harness.foreign_scopes().items():
        equal(await harness.search.embed(stranger, "c", [entry]), 0, f"vectors by {who}")
        equal(await harness.search.without_vector(stranger, "c"), [], f"ids for {who}")
        equal(await harness.search.size(stranger, "c"), CollectionSize(0, 0), f"size for {who}")
    equal(await harness.search.embed(owner, "c", [entry], shared=True), 0, "vectors for the site")
    equal(await harness.search.size(owner, "c"), CollectionSize(1, 0), "the owner's size")
    await harness.index(owner, "c", [SearchEntry(id="a", text="孝悌")], shared=True)
    equal(await harness.search.embed(harness.scope("colleague"), "c", [entry], shared=True), 1, "by a colleague")
    equal(await harness.search.size(owner, "c", shared=True), CollectionSize(1, 1), "the site's size")
    equal(await harness.search.without_vector(owner, "c"), ["a"], "the owner's ids afterwards")


@case("search", "extended", durable=True)
async def late_vectors_are_seen_by_other_stores(harness: Harness) -> None:
    """The next vector search of another store sees all that one store has indexed, embedded, replaced or removed."""
    scope = harness.scope()
    async with harness.reopened() as other:
        for vector in ([1.0, 0.0], [0.0, 1.0]):
            await harness.index(scope, "c", [SearchEntry(id="a", text="孝悌", vector=vector)])
            equal([_rounded(hit) for hit in await other.hits(scope, "c", vector=vector)], [1.0], "similarity")
        await other.index(scope, "c", [SearchEntry(id="b", text="耕读")])
        equal(ids(await harness.hits(scope, "c", vector=[0.0, 1.0])), ["a"], "hits before the vector")
        equal(await other.search.embed(scope, "c", [SearchEntry(id="b", text="耕读", vector=[0.6, 0.8])]), 1, "vectors")
        equal(ids(await harness.hits(scope, "c", vector=[0.0, 1.0])), ["a", "b"], "hits after the vector")
        await other.search.remove(scope, "c", ["a"])
        equal(ids(await harness.hits(scope, "c", vector=[0.0, 1.0])), ["b"], "hits after a removal")
        await other.index(scope, "c", [SearchEntry(id="b", text="睦邻")])
        equal(ids(await harness.hits(scope, "c", vector=[0.0, 1.0])), [], "hits after another text")


def _rounded(hit: Hit) -> float | None:
    """The similarity without the error of single precision."""
    return None if hit.similarity is None else round(hit.similarity, 5)
