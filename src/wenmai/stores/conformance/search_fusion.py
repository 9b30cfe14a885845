"""Search by words and vector at once: the fusions, the pool, given ids, and several queries."""

from math import cos, sin
from typing import Any

from msgspec.structs import replace

from wenmai.scope import Scope
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, require
from wenmai.stores.conformance.harness import Harness
from wenmai.stores.conformance.search_words import ids
from wenmai.stores.structs import RankFusion, SearchEntry, SearchQuery, WeightedFusion


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
async def hybrid_hits_are_fused_by_rank(harness: Harness) -> None:
    """With text and vector the union is ordered by the sum of 1/(60+rank); each hit has all its scores."""
    scope = harness.scope()
    await _index_mixed(harness, scope)
    words = await harness.hits(scope, "c", text="孝悌")
    equal(ids(words), ["a", "b", "c"], "by words")
    meaning = await harness.hits(scope, "c", vector=[1.0, 0.0])
    equal(ids(meaning), ["b", "d", "a"], "by vector")
    # b 1/62 + 1/61, a 1/61 + 1/63, d 1/62, c 1/63
    hits = await harness.hits(scope, "c", text="孝悌", vector=[1.0, 0.0])
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
    equal(ids(await harness.hits(scope, "c", text="孝悌")), ["a", "b", "c", "d"], "by words")
    equal(ids(await harness.hits(scope, "c", vector=[1.0, 0.0])), ["d", "b", "c", "a"], "by vector")
    # b 2/62, a and d 1/61 + 1/64, c 2/63
    hits = await harness.hits(scope, "c", text="孝悌", vector=[1.0, 0.0])
    equal(ids(hits), ["b", "a", "d", "c"], "by both")


@case("search")
async def each_ranking_is_cut_at_the_pool(harness: Harness) -> None:
    """Only the best ``pool`` of each list are fused; each hit has all its scores."""
    scope = harness.scope()
    await _index_mixed(harness, scope)
    # of 2 each: b 1/62 + 1/61, a 1/61, d 1/62
    two = await harness.hits(scope, "c", text="孝悌", vector=[1.0, 0.0], limit=2, pool=2)
    equal(ids(two), ["b", "a"], "2 hits")
    [one] = await harness.hits(scope, "c", text="孝悌", vector=[1.0, 0.0], limit=1, pool=1)
    equal(one.id, "a", "of two first places the smaller id")
    require(one.similarity is not None, "a hit by words has no similarity though it has a vector")
    [other] = await harness.hits(scope, "c", text="耕读", vector=[0.0, 1.0], limit=1, pool=1)
    equal(other.id, "a", "the first place by vector, before that by words")
    await harness.index(scope, "c", [SearchEntry(id="A", text="耕读 孝悌 seed", vector=[0.0, 1.0])])
    [both] = await harness.hits(scope, "c", text="耕读", vector=[0.0, 1.0], limit=1, pool=1)
    equal(both.id, "A", "the first place by vector and second by words")
    require(both.lexical > 0, "a hit by vector has score 0 though it holds the word")


@case("search")
async def scores_are_fused_by_weight(harness: Harness) -> None:
    """Weighted fusion orders by the weighted sum of the z-scores of both scores over the pool."""
    scope = harness.scope()
    texts = {"a": "lantern", "b": "lantern", "c": "buffalo", "d": "buffalo"}
    vectors = {"a": [0.0, 1.0], "b": [0.6, 0.8], "c": [0.8, 0.6], "d": [1.0, 0.0]}
    entries = [SearchEntry(id=id_, text=text, vector=vectors[id_]) for id_, text in texts.items()]
    await harness.index(scope, "c", entries)
    # z of the words: 1, 1, -1, -1; z of the cosines 0, 0.6, 0.8, 1: -1.604, 0, 0.535, 1.069
    for fusion, wanted in (
        (WeightedFusion(), ["d", "b", "c", "a"]),  # -0.82, 0.30, 0.07, 0.45
        (WeightedFusion(words=0.5, vector=0.5), ["b", "d", "c", "a"]),  # -0.30, 0.50, -0.23, 0.03
        (WeightedFusion(words=0.8, vector=0.2), ["b", "a", "d", "c"]),  # 0.48, 0.80, -0.69, -0.59
        (WeightedFusion(words=1.0, vector=0.0), ["a", "b", "c", "d"]),
        (WeightedFusion(words=0.0, vector=1.0), ["d", "c", "b", "a"]),
        (RankFusion(), ["a", "b", "d", "c"]),  # 1/61 + 1/64, 1/62 + 1/63, 1/62, 1/61
        (RankFusion(constant=0), ["a", "d", "b", "c"]),  # 1/1 + 1/4, 1/2 + 1/3, 1/2, 1/1
    ):
        hits = await harness.hits(scope, "c", text="lantern", vector=[1.0, 0.0], fusion=fusion)
        equal(ids(hits), wanted, f"hits by {fusion}")


@case("search")
async def without_a_vector_an_entry_weighs_as_the_mean(harness: Harness) -> None:
    """In weighted fusion an entry without a vector has the mean similarity, and does not change it."""
    scope = harness.scope()
    entries = [
        SearchEntry(id="a", text="lantern", vector=[0.0, 1.0]),
        SearchEntry(id="b", text="lantern", vector=[0.28, 0.96]),
        SearchEntry(id="c", text="buffalo", vector=[0.8, 0.6]),
        SearchEntry(id="d", text="buffalo", vector=[1.0, 0.0]),
        SearchEntry(id="e", text="lantern"),
    ]
    await harness.index(scope, "c", entries)
    # z of the words: 0.816 and -1.225; z of the cosines: -1.303, -0.602, 0.702, 1.203; the sums:
    # a -0.67, b -0.18, c 0.12, d 0.47, e 0.24
    hits = await harness.hits(scope, "c", text="lantern", vector=[1.0, 0.0], fusion=WeightedFusion())
    equal(ids(hits), ["d", "e", "c", "b", "a"], "hits")
    equal(hits[1].similarity, None, "similarity of the entry without a vector")
    same = [SearchEntry(id=id_, text="lantern", vector=[0.6, 0.8]) for id_ in ("x", "y")]
    await harness.index(scope, "same", [*same, SearchEntry(id="w", text="lantern")])
    hits = await harness.hits(scope, "same", text="lantern", vector=[1.0, 0.0], fusion=WeightedFusion())
    equal(ids(hits), ["w", "x", "y"], "hits of equal scores")


@case("search")
async def the_order_does_not_depend_on_the_limit(harness: Harness) -> None:
    """The first hits of a longer list are those of a shorter one, by either fusion."""
    scope = harness.scope()
    entries = [
        SearchEntry(
            id=f"e{number:03}",
            text="lantern " * (number * 7 % 5) + "buffalo " * (number * 3 % 11) + "field seed",
            vector=None if number % 9 == 0 else [cos(number * 2.4), sin(number * 2.4)],
        )
        for number in range(150)
    ]
    await harness.index(scope, "c", entries)
    for fusion in (RankFusion(), WeightedFusion()):
        longest = await harness.hits(
            scope, "c", text="lantern buffalo", vector=[1.0, 0.0], fusion=fusion, limit=100, pool=100
        )
        equal(len(longest), 100, f"hits by {fusion}")
        for limit in (1, 10, 50):
            hits = await harness.hits(
                scope, "c", text="lantern buffalo", vector=[1.0, 0.0], fusion=fusion, limit=limit, pool=100
            )
            equal(ids(hits), ids(longest)[:limit], f"the first {limit} of 100 by {fusion}")


@case("search")
async def ids_are_scored_exactly(harness: Harness) -> None:
    """With ``ids`` the hits are those entries, matched or not, with the scores that they have without ``ids``."""
    scope = harness.scope()
    await _index_mixed(harness, scope)
    await harness.index(scope, "c", [SearchEntry(id="e", text="buffalo", fields={"npc": "elder"})])
    both: dict[str, Any] = {"text": "孝悌", "vector": [1.0, 0.0]}
    every = {hit.id: hit for hit in await harness.hits(scope, "c", **both)}
    hits = await harness.hits(scope, "c", ids=["e", "c", "d", "a", "a", "absent"], **both)
    # of these: a 1/61 + 1/62, d 1/61, c 1/62, e in no list
    equal(ids(hits), ["a", "d", "c", "e"], "hits by both")
    equal(hits[:3], [every[hit.id] for hit in hits[:3]], "scores of entries that match")
    equal((hits[3].lexical, hits[3].coverage, hits[3].similarity), (0, 0, None), "scores of one that matches nothing")
    narrowed: list[tuple[dict[str, Any], list[str]]] = [
        ({"text": "孝悌"}, ["a", "c", "d", "e"]),
        ({"vector": [1.0, 0.0]}, ["d", "a", "c", "e"]),
        ({"text": "孝悌", "limit": 1}, ["a"]),
        ({"text": "孝悌", "where": {"npc": "elder"}}, ["e"]),
        ({"text": "祠堂"}, ["a", "c", "d", "e"]),
        (both | {"limit": 1, "pool": 1}, ["a"]),
        (both | {"fusion": WeightedFusion(words=0.0, vector=1.0)}, ["d", "c", "e", "a"]),
    ]
    for query, wanted in narrowed:
        hits = await harness.hits(scope, "c", ids=["e", "c", "d", "a"], **query)
        equal(ids(hits), wanted, f"hits by {query}")
    equal(await harness.hits(scope, "c", ids=[], **both), [], "hits of no ids")
    for who, stranger in harness.foreign_scopes().items():
        equal(await harness.hits(stranger, "c", ids=["a", "b"], **both), [], f"hits of {who}")
    equal(await harness.hits(scope, "c", shared=True, ids=["a", "b"], **both), [], "shared hits")


@case("search")
async def several_queries_are_as_each_alone(harness: Harness) -> None:
    """Up to 20 queries at once have the hits of each alone, in the order of the queries."""
    scope = harness.scope()
    await _index_mixed(harness, scope)
    await harness.index(scope, "c", [SearchEntry(id="e", text="耕读 孝悌", fields={"npc": "elder"})])
    queries = [
        SearchQuery(text="孝悌"),
        SearchQuery(vector=[1.0, 0.0], limit=2),
        SearchQuery(text="祠堂"),
        SearchQuery(text="孝悌", where={"npc": "elder"}),
        SearchQuery(text="耕读", vector=[0.0, 1.0], fusion=WeightedFusion()),
        SearchQuery(text="耕读", vector=[0.0, 1.0], ids=["c", "d"]),
        SearchQuery(text="孝悌"),
    ]
    alone = [(await harness.search.query(scope, "c", [query]))[0] for query in queries]
    equal(await harness.search.query(scope, "c", queries), alone, "hits of all at once")
    equal(await harness.search.query(scope, "c", []), [], "hits of no query")
    bare = await harness.search.query(scope, "c", [replace(query, fields=False) for query in queries])
    scores = [[replace(hit, fields={}) for hit in hits] for hits in alone]
    equal([[replace(hit, fields={}) for hit in hits] for hits in bare], scores, "hits without their fields")
    equal(await harness.search.query(scope, "never", queries), [[]] * len(queries), "hits in an empty collection")
    found = await harness.search.query(scope, "c", queries[:1] * 20)
    equal([ids(hits) for hits in found], [ids(alone[0])] * 20, "hits of 20 queries")
