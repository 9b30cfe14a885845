"""Search: values that every backend refuses, each under the name of its field."""

from typing import Any

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import ExpectationError, equal
from wenmai.stores.conformance.harness import Harness
from wenmai.stores.structs import Range, RankFusion, SearchEntry, SearchQuery, WeightedFusion, Where

NAN, INFINITE = float("nan"), float("inf")

QUERIES: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "text"),
    ({"text": "\ud800"}, "text"),
    ({"vector": []}, "vector"),
    ({"vector": [NAN, 1.0]}, "vector"),
    ({"vector": [INFINITE, 1.0]}, "vector"),
    ({"text": "孝", "limit": 0}, "limit"),
    ({"text": "孝", "limit": 501}, "limit"),
    ({"text": "孝", "vector": [1.0, 0.0], "limit": 11, "pool": 10}, "pool"),
    ({"text": "孝", "vector": [1.0, 0.0], "pool": 1_001}, "pool"),
    ({"text": "孝", "ids": [f"e{number}" for number in range(501)]}, "ids"),
    ({"text": "孝", "ids": ["a", ""]}, "ids[1]"),
    ({"text": "孝", "where": {"year": None}}, "where.year"),
    ({"text": "孝", "where": {"year": True}}, "where.year"),
    ({"text": "孝", "where": {"year": NAN}}, "where.year"),
    ({"text": "孝", "where": {"year": 2**53}}, "where.year"),
    ({"text": "孝", "where": {"year": [1, {}]}}, "where.year[1]"),
    ({"text": "孝", "where": {"year": "\ud800"}}, "where.year"),
    ({"text": "孝", "where": {"year": Range(low=-INFINITE)}}, "where.year.low"),
    ({"text": "孝", "where": {"year": Range(low=1, high="2")}}, "where.year"),
    ({"text": "孝", "where": {"year": Range()}}, "where.year"),
    ({"text": "孝", "where": {f"f{number}": 1 for number in range(101)}}, "where"),
    ({"text": "孝", "where": {"year": list(range(10_000)), "month": 1}}, "where"),
    ({"text": "孝", "fusion": WeightedFusion(words=NAN)}, "fusion.words"),
    ({"text": "孝", "fusion": WeightedFusion(vector=-0.1)}, "fusion.vector"),
    ({"text": "孝", "fusion": RankFusion(constant=-1)}, "fusion.constant"),
)

ENTRIES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"id": ""}, "id"),
    ({"id": "a\0b"}, "id"),
    ({"text": "\ud800"}, "text"),
    ({"vector": []}, "vector"),
    ({"vector": [1.0]}, "vector"),
    ({"vector": [NAN, 1.0]}, "vector"),
    ({"vector": [1e39, 1.0]}, "vector"),
    ({"fields": {"year": 2**53}}, "fields.year"),
    ({"fields": {"year": INFINITE}}, "fields.year"),
    ({"fields": {"year": None}}, "fields.year"),
    ({"fields": {"year": [1, False]}}, "fields.year[1]"),
    ({"fields": {"year": "\ud800"}}, "fields.year"),
)


@case("search")
async def refused_queries_name_their_field(harness: Harness) -> None:
    """A value out of bounds raises InvalidInput with the path of its field, on an empty collection too."""
    scope = harness.scope()
    for state in ("empty", "with entries"):
        for bad, field in QUERIES:
            queries = [SearchQuery(text="孝"), SearchQuery(**bad)]
            await _expect_refusal(harness, scope, queries, f"queries[1].{field}", f"{bad}, {state}")
        await _expect_refusal(harness, scope, [SearchQuery(text="孝")] * 21, "queries", "21 queries")
        await harness.index(scope, "c", [SearchEntry(id="a", text="孝", vector=[1.0, 0.0])])
    await _expect_refusal(harness, scope, [SearchQuery(vector=[1.0])], "queries[0].vector", "another length")


@case("search")
async def refused_entries_name_their_field(harness: Harness) -> None:
    """An entry out of bounds raises InvalidInput with the path of its field; none of its batch is stored."""
    scope = harness.scope()
    good = SearchEntry(id="good", text="孝", vector=[1.0, 0.0])
    for bad, field in ENTRIES:
        entry = SearchEntry(**{"id": "bad", "text": "孝"} | bad)
        try:
            await harness.search.index(scope, "c", [good, entry])
        except InvalidInput as error:
            equal(error.field, f"entries[1].{field}", f"the field refused of {bad}")
        else:
            raise ExpectationError(f"{bad} was not refused")
    equal(await harness.count(scope, "c"), 0, "entries afterwards")
    await harness.index(scope, "c", [good])
    batch = [SearchEntry(id="b", text="孝"), SearchEntry(id="bad", text="孝", vector=[1.0])]
    for write, entries, field in (
        (harness.search.index, batch, "entries[1].vector"),
        (harness.search.embed, batch[1:], "entries[0].vector"),
    ):
        try:
            await write(scope, "c", entries)
        except InvalidInput as error:
            equal(error.field, field, "the field of a vector unlike those of the collection")
        else:
            raise ExpectationError("a vector of another length was not refused")


@case("search")
async def filters_at_the_bounds_are_accepted(harness: Harness) -> None:
    """The most fields and values of a filter, with long names, are accepted with words, a vector and ids."""
    scope = harness.scope()
    names = ["".join(map(chr, range(0x20000 + number, 0x22000 + number))) for number in range(100)]
    fields = dict.fromkeys(names, "\U0010ffff" * 100)
    entry = SearchEntry(id="a", text="孝", vector=[1.0, 0.0], fields={"year": 1, **fields})
    filters: tuple[Where, ...] = (fields, {"year": list(range(9_999)), names[0]: Range(low="")})
    asked: tuple[dict[str, Any], ...] = ({"text": "孝"}, {"vector": [1.0, 0.0]}, {"text": "孝", "ids": ["a"]})
    for where in filters:
        await harness.index(scope, "c", [entry])
        for query in asked:
            equal(len(await harness.hits(scope, "c", **query, where=where)), 1, f"hits of {list(query)}")
        equal(await harness.search.remove(scope, "c", where=where), 1, "removed")


@case("search")
async def values_at_the_bounds_are_accepted(harness: Harness) -> None:
    """The largest numbers, vectors of any scale, texts with NUL, and the longest lists of ids are accepted."""
    scope = harness.scope()
    entries = [
        SearchEntry(id="large", text="孝 \0", vector=[3e38, 3e38], fields={"x": 2**53 - 1, "y": "a\0b"}),
        SearchEntry(id="small", text="孝", vector=[1e-30, 1e-30], fields={"x": 1 - 2**53, "z": -0.0}),
        SearchEntry(id="zero", text="孝", vector=[0.0, 0.0]),
    ]
    await harness.index(scope, "c", entries)
    hits = await harness.hits(scope, "c", vector=[1e-20, 1e-20], ids=["large", "small", *map(str, range(498))])
    for hit in hits:
        equal(round(hit.similarity or 0.0, 5), 1.0, f"similarity of {hit.id}")
    equal(len(hits), 2, "hits")
    [zero] = await harness.hits(scope, "c", vector=[1.0, 0.0], ids=["zero"])
    equal(zero.similarity, 0.0, "similarity of a vector of zeros")
    for where, wanted in (({"x": 2**53 - 1}, "large"), ({"y": "a\0b"}, "large"), ({"z": 0}, "small")):
        [hit] = await harness.hits(scope, "c", text="孝", where=where)
        equal(hit.id, wanted, f"the hit where {where}")
    hits = await harness.hits(scope, "c", text="孝", vector=[1.0, 0.0], limit=500, pool=1_000)
    equal(len(hits), 3, "hits at the largest limit and pool")


async def _expect_refusal(harness: Harness, scope: Scope, queries: list[SearchQuery], field: str, what: str) -> None:
    try:
        await harness.search.query(scope, "c", queries)
    except InvalidInput as error:
        equal(error.field, field, f"the field refused of {what}")
    else:
        raise ExpectationError(f"{what} was not refused")
