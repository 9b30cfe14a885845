"""Search: the fields of entries, in hits, filters and removals."""

from collections.abc import Mapping, Sequence

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises
from wenmai.stores.conformance.harness import Harness
from wenmai.stores.conformance.samples import AWKWARD_TEXT, HOSTILE_KEYS
from wenmai.stores.conformance.search_words import ids
from wenmai.stores.structs import CollectionSize, FieldValue, Range, SearchEntry, Where

VALUES: dict[str, FieldValue | Sequence[FieldValue]] = {
    "text": "家训",
    "empty": "",
    "awkward": AWKWARD_TEXT,
    "integer": 1368,
    "negative": -7,
    "largest": 2**53 - 1,
    "float": 0.1,
    "whole": 2.0,
    "tiny": -1e-9,
    "huge": 1.5e300,
    "texts": ["家训", "农事"],
    "numbers": [1, 2.5, -3],
    "mixed": ["1", 1, 2.5],
    "nothing": [],
}


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
            ("words", await harness.hits(scope, "c", text="孝", where=where)),
            ("vector", await harness.hits(scope, "c", vector=[1.0, 0.0], where=where)),
            ("both", await harness.hits(scope, "c", text="孝", vector=[1.0, 0.0], where=where)),
        ):
            equal(ids(hits), wanted, f"hits by {how} where {dict(where)}")
    hits = await harness.hits(scope, "c", text="孝", where={"domain": "农事"}, limit=1)
    equal(ids(hits), ["b"], "1 hit by words where 农事")
    hits = await harness.hits(scope, "c", vector=[1.0, 0.0], where={"domain": "农事"}, limit=1)
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
        by_value = await harness.hits(scope, "c", text="孝", where={"value": name})
        by_field = await harness.hits(scope, "c", text="孝", where={f"field {name}": ["x"]})
        equal((ids(by_value), ids(by_field)), ([f"e{number}"], [f"e{number}"]), f"hits where {name!r}")
    equal(await harness.hits(scope, "c", text="孝", where={"value": []}), [], "hits with an empty filter")


@case("search")
async def hits_carry_their_fields(harness: Harness) -> None:
    """A hit has the fields that it was indexed with: texts, numbers of their kind, and lists."""
    scope = harness.scope()
    entries = [SearchEntry(id="a", text="孝", vector=[1.0], fields=VALUES), SearchEntry(id="b", text="悌")]
    await harness.index(scope, "c", entries)
    for query in ({"text": "孝"}, {"vector": [1.0]}, {"text": "孝", "vector": [1.0]}, {"text": "x", "ids": ["a"]}):
        [hit] = await harness.hits(scope, "c", **query)
        found = {
            name: value if isinstance(value, str | int | float) else [*value] for name, value in hit.fields.items()
        }
        for name, value in VALUES.items():
            equal(repr(found.get(name)), repr(value), f"field {name} by {query}")
        equal(sorted(found), sorted(VALUES), f"names of fields by {query}")
    [hit] = await harness.hits(scope, "c", text="悌")
    equal(dict(hit.fields), {}, "fields of an entry without")
    await harness.index(scope, "c", [SearchEntry(id="a", text="孝", fields={"text": "农事"})])
    [hit] = await harness.hits(scope, "c", text="孝")
    equal(dict(hit.fields), {"text": "农事"}, "fields of an entry that was replaced")


@case("search")
async def numbers_and_texts_are_different_values(harness: Harness) -> None:
    """A filter compares numbers with numbers, whole or not, and texts with texts, exactly."""
    scope = harness.scope()
    values: dict[str, FieldValue | Sequence[FieldValue]] = {
        "float": 2.0,
        "integer": 2,
        "largest": 2**53 - 1,
        "list": ["2", 3],
        "next": 2**53 - 2,
        "text": "2",
    }
    await _index_values(harness, scope, values)
    expectations: list[tuple[FieldValue | Sequence[FieldValue], list[str]]] = [
        (2, ["float", "integer"]),
        (2.0, ["float", "integer"]),
        ("2", ["list", "text"]),
        ([2, "2"], ["float", "integer", "list", "text"]),
        (3, ["list"]),
        (2**53 - 1, ["largest"]),
        ("2.0", []),
        (2.5, []),
    ]
    for wanted, found in expectations:
        await _expect_where(harness, scope, {"value": wanted}, found)


@case("search")
async def ranges_select_numbers(harness: Harness) -> None:
    """A range has its low bound and not its high one; it selects numbers alone, and a list by any one value."""
    scope = harness.scope()
    values: dict[str, FieldValue | Sequence[FieldValue]] = {
        "floats": [1367.5, 1500.25],
        "large": 2**53 - 1,
        "list": [-5, 2000],
        "ming": 1368,
        "negative": -221,
        "nothing": [],
        "qing": 1644,
        "text": "1400",
    }
    await _index_values(harness, scope, values)
    for wanted, found in (
        (Range(low=1368, high=1644), ["floats", "ming"]),
        (Range(low=1368.0, high=1644.5), ["floats", "ming", "qing"]),
        (Range(low=1644), ["large", "list", "qing"]),
        (Range(high=0), ["list", "negative"]),
        (Range(high=-221), []),
        (Range(low=0, high=1000), []),
        (Range(low=2**53 - 1), ["large"]),
        (Range(low=1644, high=1368), []),
        (Range(low=1368, high=1368), []),
    ):
        await _expect_where(harness, scope, {"value": wanted}, found)


@case("search")
async def ranges_select_texts_by_code_points(harness: Harness) -> None:
    """A range of texts compares code points, so that dates in one form are in the order of time."""
    scope = harness.scope()
    values: dict[str, FieldValue | Sequence[FieldValue]] = {
        "compatible": "\uf900",
        "first": "2024-05-01T08:00:00Z",
        "han": "严",
        "later": "2024-05-02T00:00:00Z",
        "list": ["2023-01-01", "2025-01-01"],
        "lower": "a",
        "number": 2024,
        "rare": "\U00020bb7",
        "upper": "B",
    }
    await _index_values(harness, scope, values)
    for wanted, found in (
        (Range(low="2024-05-01", high="2024-05-02T00:00:00Z"), ["first"]),
        (Range(low="2024-05-01", high="2024-05-03"), ["first", "later"]),
        (Range(low="2024-05-01T08:00:00Z", high="2024-05-01T08:00:00Z"), []),
        (Range(high="2024"), ["list"]),
        (Range(low="2024", high="3"), ["first", "later", "list"]),
        (Range(low="B", high="a"), ["upper"]),
        (Range(low="C", high="b"), ["lower"]),
        (Range(low="严", high="\uffff"), ["compatible", "han"]),
        (Range(low="\uffff"), ["rare"]),
    ):
        await _expect_where(harness, scope, {"value": wanted}, found)


@case("search")
async def ranges_and_values_must_all_match(harness: Harness) -> None:
    """A filter of several fields selects the entries that match each; it applies before the limit."""
    scope = harness.scope()
    entries = [
        SearchEntry(
            id=f"e{number}",
            text="孝" * (9 - number),
            vector=[1.0, number / 10],
            fields={"year": number, "npc": "elder" if number % 2 else "ancestor", "day": f"2024-05-0{number}"},
        )
        for number in range(1, 9)
    ]
    await harness.index(scope, "c", entries)
    where = {"year": Range(low=3), "npc": "elder", "day": Range(high="2024-05-07")}
    for query in ({"text": "孝"}, {"vector": [1.0, 0.0]}, {"text": "孝", "vector": [1.0, 0.0]}):
        equal(ids(await harness.hits(scope, "c", where=where, **query)), ["e3", "e5"], f"hits by {query}")
        equal(ids(await harness.hits(scope, "c", where=where, limit=1, **query)), ["e3"], f"1 hit by {query}")


@case("search")
async def removal_by_filter_is_exact(harness: Harness) -> None:
    """``remove`` by a filter removes the matching entries of its own collection, and returns their number."""
    scope = harness.scope()
    entries = [SearchEntry(id=f"e{year}", text="孝", vector=[1.0], fields={"year": year}) for year in range(10)]
    others = [*harness.foreign_scopes().values(), scope]
    for other in others:
        await harness.index(other, "other" if other == scope else "c", entries)
    await harness.index(scope, "c", entries, shared=True)
    await harness.index(scope, "c", entries)
    equal(await harness.search.remove(scope, "c", where={"year": Range(low=7)}), 3, "removed by a range")
    equal(await harness.search.remove(scope, "c", where={"year": [0, 1, "2"]}), 2, "removed by values")
    unmatched: list[Where] = [{"year": []}, {"nothing": 3}, {"year": 0}, {"year": 3, "npc": "x"}]
    for where in unmatched:
        equal(await harness.search.remove(scope, "c", where=where), 0, f"removed where {where}")
    equal(ids(await harness.hits(scope, "c", text="孝")), [f"e{year}" for year in range(2, 7)], "left by words")
    equal(await harness.search.size(scope, "c"), CollectionSize(5, 5), "left by size")
    for other in others:
        equal(await harness.count(other, "other" if other == scope else "c"), 10, f"entries of {other}")
    equal(await harness.count(scope, "c", shared=True), 10, "shared entries")
    equal(await harness.search.remove(scope, "c", where={"year": Range(low=0)}), 5, "removed of the rest")
    equal(await harness.search.remove(scope, "never", where={"year": 1}), 0, "removed from an empty collection")


@case("search")
async def a_removal_needs_ids_or_a_filter(harness: Harness) -> None:
    """A removal by both, by neither, or by a filter without fields is refused and removes nothing."""
    scope = harness.scope()
    await harness.index(scope, "c", [SearchEntry(id="a", text="孝", fields={"year": 1})])
    with raises(InvalidInput, "neither ids nor a filter"):
        await harness.search.remove(scope, "c")
    with raises(InvalidInput, "ids and a filter"):
        await harness.search.remove(scope, "c", ["a"], where={"year": 1})
    with raises(InvalidInput, "no ids and a filter"):
        await harness.search.remove(scope, "c", [], where={"year": 1})
    with raises(InvalidInput, "a filter without fields"):
        await harness.search.remove(scope, "c", where={})
    equal(await harness.count(scope, "c"), 1, "entries afterwards")


async def _index_values(
    harness: Harness, scope: Scope, values: Mapping[str, FieldValue | Sequence[FieldValue]]
) -> None:
    await harness.index(
        scope,
        "c",
        [SearchEntry(id=id_, text="孝", vector=[1.0], fields={"value": value}) for id_, value in values.items()],
    )


async def _expect_where(harness: Harness, scope: Scope, where: Where, wanted: list[str]) -> None:
    for query in ({"text": "孝"}, {"vector": [1.0]}, {"text": "孝", "vector": [1.0]}):
        equal(ids(await harness.hits(scope, "c", where=where, **query)), wanted, f"hits by {query} where {where}")
