"""Vector search and its refusals."""

from math import isclose

from wenmai.errors import InvalidInput
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.harness import Harness
from wenmai.stores.conformance.search_words import ids
from wenmai.stores.structs import SearchEntry

TOLERANCE = 1e-5
"""Vectors may be stored in single precision."""


@case("search")
async def vector_hits_are_ordered_by_cosine(harness: Harness) -> None:
    """Vector hits are ordered by descending cosine, whatever their length; entries without a vector are omitted."""
    scope = harness.scope()
    vectors = {"back": [-2.0, 0.0], "near": [8.0, 6.0], "same": [0.5, 0.0], "side": [0.0, 4.0]}
    entries = [SearchEntry(id=id_, text="孝", vector=vector) for id_, vector in vectors.items()]
    await harness.index(scope, "c", [*entries, SearchEntry(id="none", text="孝")])
    hits = await harness.hits(scope, "c", vector=[3.0, 0.0])
    equal(ids(hits), ["same", "near", "side", "back"], "hits")
    for hit, cosine in zip(hits, (1.0, 0.8, 0.0, -1.0), strict=True):
        found = hit.similarity
        require(found is not None and isclose(found, cosine, abs_tol=TOLERANCE), f"cosine of {hit.id}: {found}")
        equal((hit.lexical, hit.coverage), (0, 0), f"lexical and coverage of {hit.id} without a text")
    equal(ids(await harness.hits(scope, "c", vector=[3.0, 0.0], limit=2)), ["same", "near"], "2 hits")


@case("search")
async def a_query_of_zeros_is_near_nothing(harness: Harness) -> None:
    """A query's vector of zeros counts as none: with a text, only words are searched; alone, it finds nothing."""
    scope = harness.scope()
    entries = [SearchEntry(id=id_, text=text, vector=[1.0, 0.0]) for id_, text in {"a": "孝", "b": "悌"}.items()]
    await harness.index(scope, "c", entries)
    equal(ids(await harness.hits(scope, "c", vector=[0.0, 0.0])), [], "hits by vector")
    [hit] = await harness.hits(scope, "c", text="悌", vector=[0.0, 0.0])
    equal((hit.id, hit.similarity), ("b", None), "hit by text and vector")
    equal(ids(await harness.hits(scope, "c", vector=[0.0, 0.0], ids=["b", "a"])), ["a", "b"], "hits of ids")


@case("search")
async def vectors_of_another_length_are_refused(harness: Harness) -> None:
    """A vector of another length than the collection's raises InvalidInput; none of its batch is stored."""
    scope = harness.scope()
    with raises(InvalidInput, "a first batch of two lengths"):
        await harness.index(
            scope,
            "c",
            [SearchEntry(id="a", text="孝", vector=[1.0]), SearchEntry(id="b", text="孝", vector=[1.0, 0.0])],
        )
    equal(await harness.count(scope, "c"), 0, "entries after the refused batch")
    await harness.index(scope, "c", [SearchEntry(id="a", text="孝", vector=[1.0, 0.0])])
    for vector in ([1.0], [1.0, 0.0, 0.0], []):
        with raises(InvalidInput, f"an entry with {len(vector)} dimensions among those with 2"):
            await harness.index(
                scope,
                "c",
                [SearchEntry(id="new", text="孝"), SearchEntry(id="a", text="悌", vector=vector)],
            )
        with raises(InvalidInput, f"a query with {len(vector)} dimensions"):
            await harness.hits(scope, "c", vector=vector)
        with raises(InvalidInput, f"a query by text and with {len(vector)} dimensions"):
            await harness.hits(scope, "c", text="孝", vector=vector)
    equal(ids(await harness.hits(scope, "c", text="孝 悌")), ["a"], "hits after the refused batches")
    await harness.index(scope, "d", [SearchEntry(id="a", text="孝", vector=[1.0, 0.0, 0.0])])


@case("search")
async def queries_need_text_or_vector(harness: Harness) -> None:
    """A query with neither, or a limit outside 1 to 500, raises InvalidInput, on an empty collection too."""
    scope = harness.scope()
    for _ in range(2):
        with raises(InvalidInput, "a query with neither text nor vector"):
            await harness.hits(scope, "c")
        for limit in (0, -1, 501):
            with raises(InvalidInput, f"limit {limit}"):
                await harness.hits(scope, "c", text="孝", limit=limit)
        await harness.index(scope, "c", [SearchEntry(id="a", text="孝")])
    equal(ids(await harness.hits(scope, "c", text="孝", limit=500)), ["a"], "hits at limit 500")


@case("search")
async def empty_collections_have_no_hits(harness: Harness) -> None:
    """A collection that never existed, lost its last entry, or has no vectors, returns no hits."""
    scope = harness.scope()
    await harness.index(scope, "emptied", [SearchEntry(id="a", text="孝", vector=[1.0, 0.0])])
    await harness.search.remove(scope, "emptied", ["a"])
    await harness.index(scope, "words", [SearchEntry(id="a", text="悌")])
    await harness.index(scope, "nothing", [])
    for collection in ("never", "emptied", "words", "nothing"):
        for hits in (
            await harness.hits(scope, collection, text="孝"),
            await harness.hits(scope, collection, vector=[1.0, 0.0]),
            await harness.hits(scope, collection, text="孝", vector=[1.0, 0.0]),
            await harness.hits(scope, collection, text="孝", where={"npc": "elder"}),
        ):
            equal(hits, [], f"hits in {collection!r}")
    counts = [await harness.count(scope, name) for name in ("never", "emptied", "words", "nothing")]
    equal(counts, [0, 0, 1, 0], "entries")
    equal(await harness.search.remove(scope, "never", ["a"]), 0, "removed from a collection that never existed")
    await harness.index(scope, "emptied", [SearchEntry(id="b", text="孝")])
    equal(ids(await harness.hits(scope, "emptied", text="孝")), ["b"], "hits after indexing again")
