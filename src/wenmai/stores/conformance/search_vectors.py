"""Vector search, hybrid search, and filters."""

from collections.abc import Mapping, Sequence
from math import isclose

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.harness import Harness
from wenmai.stores.conformance.samples import HOSTILE_KEYS
from wenmai.stores.conformance.search_words import ids
from wenmai.stores.contracts import SearchEntry

TOLERANCE = 1e-5
"""Vectors may be stored in single precision."""


async def _index_mixed(harness: Harness, scope: Scope) -> None:
    """By words of 孝悌: a, b, c. By the vector [1, 0]: b, d, a; c has none."""
    await harness.index(
        scope,
        "c",
        [
            SearchEntry(id="a", text="孝悌孝悌孝悌", vector=[0.0, 3.0]),
            SearchEntry(id="b", text="孝悌孝悌", vector=[2.0, 0.0]),
            SearchEntry(id="c", text="孝悌 ploughing water seed"),
            SearchEntry(id="d", text="耕读", vector=[0.8, 0.6]),
        ],
    )


@case("search")
async def vector_hits_are_ordered_by_cosine(harness: Harness) -> None:
    """Vector hits are ordered by descending cosine, whatever their length; entries without a vector are omitted."""
    scope = harness.scope()
    vectors = {"back": [-2.0, 0.0], "near": [8.0, 6.0], "same": [0.5, 0.0], "side": [0.0, 4.0]}
    entries = [SearchEntry(id=id_, text="孝", vector=vector) for id_, vector in vectors.items()]
    await harness.index(scope, "c", [*entries, SearchEntry(id="none", text="孝")])
    hits = await harness.search.query(scope, "c", vector=[3.0, 0.0])
    equal(ids(hits), ["same", "near", "side", "back"], "hits")
    for hit, cosine in zip(hits, (1.0, 0.8, 0.0, -1.0), strict=True):
        found = hit.similarity
        require(found is not None and isclose(found, cosine, abs_tol=TOLERANCE), f"cosine of {hit.id}: {found}")
        equal((hit.lexical, hit.coverage), (0, 0), f"lexical and coverage of {hit.id} without a text")
    equal(ids(await harness.search.query(scope, "c", vector=[3.0, 0.0], limit=2)), ["same", "near"], "2 hits")


@case("search")
async def hybrid_hits_are_fused_by_rank(harness: Harness) -> None:
    """With text and vector the union is ordered by the sum of 1/(60+rank); each hit has all its scores."""
    scope = harness.scope()
    await _index_mixed(harness, scope)
    words = await harness.search.query(scope, "c", text="孝悌")
    equal(ids(words), ["a", "b", "c"], "by words")
    meaning = await harness.search.query(scope, "c", vector=[1.0, 0.0])
    equal(ids(meaning), ["b", "d", "a"], "by vector")
    # b 1/62 + 1/61, a 1/61 + 1/63, d 1/62, c 1/63
    hits = await harness.search.query(scope, "c", text="孝悌", vector=[1.0, 0.0])
    equal(ids(hits), ["b", "a", "d", "c"], "by both")
    returned = {hit.id: hit for hit in hits}
    for hit in words:
        found = (returned[hit.id].lexical, returned[hit.id].coverage)
        equal(found, (hit.lexical, hit.coverage), f"lexical and coverage of {hit.id}")
    for hit in meaning:
        equal(returned[hit.id].similarity, hit.similarity, f"similarity of {hit.id}")
    equal((returned["d"].lexical, returned["d"].coverage), (0, 0), "lexical and coverage of a hit by vector alone")
    equal(returned["c"].similarity, None, "similarity of a hit without a vector")


@case("search")
async def two_good_ranks_beat_one_best(harness: Harness) -> None:
    """The fusion's constant is large: an entry ranked second in both lists precedes one ranked first and fourth."""
    scope = harness.scope()
    vectors = {"a": [0.0, 1.0], "b": [0.9, 0.1], "c": [0.5, 0.5], "d": [1.0, 0.0]}
    entries = [
        SearchEntry(id=id_, text="孝悌" * (4 - number) + " ploughing", vector=vector)
        for number, (id_, vector) in enumerate(vectors.items())
    ]
    await harness.index(scope, "c", entries)
    equal(ids(await harness.search.query(scope, "c", text="孝悌")), ["a", "b", "c", "d"], "by words")
    equal(ids(await harness.search.query(scope, "c", vector=[1.0, 0.0])), ["d", "b", "c", "a"], "by vector")
    # b 2/62, a and d 1/61 + 1/64, c 2/63
    hits = await harness.search.query(scope, "c", text="孝悌", vector=[1.0, 0.0])
    equal(ids(hits), ["b", "a", "d", "c"], "by both")


@case("search")
async def each_ranking_is_limited_before_the_fusion(harness: Harness) -> None:
    """Only the best ``limit`` of each list are fused; ``limit`` hits are returned, with all their scores."""
    scope = harness.scope()
    await _index_mixed(harness, scope)
    # of 2 each: b 1/62 + 1/61, a 1/61, d 1/62
    two = await harness.search.query(scope, "c", text="孝悌", vector=[1.0, 0.0], limit=2)
    equal(ids(two), ["b", "a"], "2 hits")
    [one] = await harness.search.query(scope, "c", text="孝悌", vector=[1.0, 0.0], limit=1)
    equal(one.id, "a", "of two first places the smaller id")
    require(one.similarity is not None, "a hit by words has no similarity though it has a vector")
    [other] = await harness.search.query(scope, "c", text="耕读", vector=[0.0, 1.0], limit=1)
    equal(other.id, "a", "the first place by vector, before that by words")
    await harness.index(scope, "c", [SearchEntry(id="A", text="耕读 孝悌 seed", vector=[0.0, 1.0])])
    [both] = await harness.search.query(scope, "c", text="耕读", vector=[0.0, 1.0], limit=1)
    equal(both.id, "A", "the first place by vector and second by words")
    require(both.lexical > 0, "a hit by vector has score 0 though it holds the word")


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
    equal(await harness.search.count(scope, "c"), 0, "entries after the refused batch")
    await harness.index(scope, "c", [SearchEntry(id="a", text="孝", vector=[1.0, 0.0])])
    for vector in ([1.0], [1.0, 0.0, 0.0], []):
        with raises(InvalidInput, f"an entry with {len(vector)} dimensions among those with 2"):
            await harness.index(
                scope,
                "c",
                [SearchEntry(id="new", text="孝"), SearchEntry(id="a", text="悌", vector=vector)],
            )
        with raises(InvalidInput, f"a query with {len(vector)} dimensions"):
            await harness.search.query(scope, "c", vector=vector)
        with raises(InvalidInput, f"a query by text and with {len(vector)} dimensions"):
            await harness.search.query(scope, "c", text="孝", vector=vector)
    equal(ids(await harness.search.query(scope, "c", text="孝 悌")), ["a"], "hits after the refused batches")
    await harness.index(scope, "d", [SearchEntry(id="a", text="孝", vector=[1.0, 0.0, 0.0])])


@case("search")
async def queries_need_text_or_vector(harness: Harness) -> None:
    """A query with neither, or a limit outside 1 to 500, raises InvalidInput, on an empty collection too."""
    scope = harness.scope()
    for _ in range(2):
        with raises(InvalidInput, "a query with neither text nor vector"):
            await harness.search.query(scope, "c")
        for limit in (0, -1, 501):
            with raises(InvalidInput, f"limit {limit}"):
                await harness.search.query(scope, "c", text="孝", limit=limit)
        await harness.index(scope, "c", [SearchEntry(id="a", text="孝")])
    equal(ids(await harness.search.query(scope, "c", text="孝", limit=500)), ["a"], "hits at limit 500")


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
            await harness.search.query(scope, collection, text="孝"),
            await harness.search.query(scope, collection, vector=[1.0, 0.0]),
            await harness.search.query(scope, collection, text="孝", vector=[1.0, 0.0]),
            await harness.search.query(scope, collection, text="孝", where={"npc": "elder"}),
        ):
            equal(hits, [], f"hits in {collection!r}")
    counts = [await harness.search.count(scope, name) for name in ("never", "emptied", "words", "nothing")]
    equal(counts, [0, 0, 1, 0], "entries")
    equal(await harness.search.remove(scope, "never", ["a"]), 0, "removed from a collection that never existed")
    await harness.index(scope, "emptied", [SearchEntry(id="b", text="孝")])
    equal(ids(await harness.search.query(scope, "emptied", text="孝")), ["b"], "hits after indexing again")


@case("search")
async def filters_select_by_any_value(harness: Harness) -> None:
    """A filter selects entries with one of its values; all filters must match; they apply before the limit."""
    scope = harness.scope()
    fields: dict[str, Mapping[str, str | Sequence[str]]] = {
        "a": {"domain": "家训", "npc": "elder"},
        "b": {"domain": ["家训", "农事"], "npc": "ancestor"},
        "c": {"domain": ["农事"]},
        "d": {"domain": []},
        "e": {},
    }
    entries = [
        SearchEntry(id=id_, text="孝" * (5 - number), vector=[1.0, number / 10], fields=those)
        for number, (id_, those) in enumerate(fields.items())
    ]
    await harness.index(scope, "c", entries)
    expectations: list[tuple[Mapping[str, str | Sequence[str]], list[str]]] = [
        ({}, ["a", "b", "c", "d", "e"]),
        ({"domain": "家训"}, ["a", "b"]),
        ({"domain": ["农事"]}, ["b", "c"]),
        ({"domain": ["家训", "农事", "祠堂"]}, ["a", "b", "c"]),
        ({"domain": "农事", "npc": ["elder", "ancestor"]}, ["b"]),
        ({"npc": "elde"}, []),
        ({"npc": "*"}, []),
        ({"npc": "Elder"}, []),
        ({"nothing": "x"}, []),
        ({"domain": "家"}, []),
    ]
    for where, wanted in expectations:
        for how, hits in (
            ("words", await harness.search.query(scope, "c", text="孝", where=where)),
            ("vector", await harness.search.query(scope, "c", vector=[1.0, 0.0], where=where)),
            ("both", await harness.search.query(scope, "c", text="孝", vector=[1.0, 0.0], where=where)),
        ):
            equal(ids(hits), wanted, f"hits by {how} where {dict(where)}")
    hits = await harness.search.query(scope, "c", text="孝", where={"domain": "农事"}, limit=1)
    equal(ids(hits), ["b"], "1 hit by words where 农事")
    hits = await harness.search.query(scope, "c", vector=[1.0, 0.0], where={"domain": "农事"}, limit=1)
    equal(ids(hits), ["b"], "1 hit by vector where 农事")


@case("search", "extended")
async def any_text_is_a_field_or_value(harness: Harness) -> None:
    """Awkward field names and values select exactly; a filter without values matches nothing."""
    scope = harness.scope()
    entries = [
        SearchEntry(id=f"e{number}", text="孝", fields={"value": name, f"field {name}": "x"})
        for number, name in enumerate(HOSTILE_KEYS)
    ]
    await harness.index(scope, "c", entries)
    for number, name in enumerate(HOSTILE_KEYS):
        by_value = await harness.search.query(scope, "c", text="孝", where={"value": name})
        by_field = await harness.search.query(scope, "c", text="孝", where={f"field {name}": ["x"]})
        equal((ids(by_value), ids(by_field)), ([f"e{number}"], [f"e{number}"]), f"hits where {name!r}")
    equal(await harness.search.query(scope, "c", text="孝", where={"value": []}), [], "hits with an empty filter")
