"""Search: entries are replaced and removed by id, and are private to a scope or shared by its site."""

import asyncio

from wenmai.scope import Scope
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal
from wenmai.stores.conformance.harness import Harness
from wenmai.stores.conformance.samples import HOSTILE_KEYS, SEPARATORS, SIMILAR_KEYS
from wenmai.stores.conformance.search_words import ids
from wenmai.stores.structs import SearchEntry


async def _found(harness: Harness, scope: Scope, text: str, *, shared: bool = False) -> list[str]:
    return ids(await harness.hits(scope, "c", text=text, shared=shared))


@case("search")
async def indexing_again_replaces(harness: Harness) -> None:
    """An entry that is indexed again is found only by its new text, vector and fields, and counts once."""
    scope = harness.scope()
    old = SearchEntry(id="a", text="孝悌", vector=[1.0, 0.0], fields={"npc": "elder"})
    await harness.index(scope, "c", [old, SearchEntry(id="b", text="睦邻", vector=[0.0, 1.0])])
    await harness.index(scope, "c", [SearchEntry(id="a", text="耕读", fields={"npc": "ancestor"})])
    equal(await harness.count(scope, "c"), 2, "entries")
    equal((await _found(harness, scope, "孝悌"), await _found(harness, scope, "耕读")), ([], ["a"]), "by words")
    equal(ids(await harness.hits(scope, "c", vector=[1.0, 0.0])), ["b"], "by vector")
    for npc, wanted in (("elder", []), ("ancestor", ["a"])):
        hits = await harness.hits(scope, "c", text="耕读", where={"npc": npc})
        equal(ids(hits), wanted, f"where npc is {npc}")


@case("search")
async def the_last_entry_of_a_duplicate_id_wins(harness: Harness) -> None:
    """Of entries with the same id in a batch, the last one is stored."""
    scope = harness.scope()
    await harness.index(scope, "c", [SearchEntry(id="a", text=text) for text in ("孝悌", "耕读")])
    equal(await harness.count(scope, "c"), 1, "entries")
    equal((await _found(harness, scope, "孝悌"), await _found(harness, scope, "耕读")), ([], ["a"]), "by words")


@case("search")
async def removal_is_exact_and_counted(harness: Harness) -> None:
    """``remove`` removes exactly the given ids, returns how many there were, and is idempotent."""
    scope = harness.scope()
    await harness.index(scope, "c", [SearchEntry(id=similar, text="孝悌", vector=[1.0]) for similar in SIMILAR_KEYS])
    removed = await harness.search.remove(scope, "c", ["session-1", "session-1", "absent", "*", "session%"])
    equal(removed, 1, "removed")
    equal(await harness.search.remove(scope, "c", ["session-1"]), 0, "removed a second time")
    equal(await harness.search.remove(scope, "c", []), 0, "removed of no ids")
    left = sorted(SIMILAR_KEYS[1:])
    equal(await _found(harness, scope, "孝悌"), left, "left by words")
    equal(ids(await harness.hits(scope, "c", vector=[1.0])), left, "left by vector")
    equal(await harness.count(scope, "c"), len(left), "left by count")


@case("search")
async def any_text_is_an_entry_or_collection(harness: Harness) -> None:
    """Awkward ids and collection names are ordinary and distinct."""
    scope = harness.scope()
    await harness.index(scope, "c", [SearchEntry(id=name, text="孝悌") for name in HOSTILE_KEYS])
    hits = await harness.hits(scope, "c", text="孝悌", limit=500)
    equal(sorted(ids(hits)), sorted(HOSTILE_KEYS), "the ids found")
    for name in HOSTILE_KEYS:
        await harness.index(scope, name, [SearchEntry(id="only", text="孝悌")])
    counts = {name: await harness.count(scope, name) for name in HOSTILE_KEYS}
    equal(counts, dict.fromkeys(HOSTILE_KEYS, 1), "entries in each collection")
    for number, name in enumerate(HOSTILE_KEYS, start=1):
        equal(await harness.search.remove(scope, "c", [name]), 1, f"removed of {name!r}")
        equal(await harness.count(scope, "c"), len(HOSTILE_KEYS) - number, f"left after {name!r}")


@case("search")
async def foreign_entries_are_absent(harness: Harness) -> None:
    """For another user, site or tenant entries cannot be found, counted, replaced or removed."""
    owner = harness.scope()
    mine = SearchEntry(id="a", text="孝悌", vector=[1.0, 0.0], fields={"npc": "elder"})
    await harness.index(owner, "c", [mine])
    for who, stranger in harness.foreign_scopes().items():
        for where in ({}, {"npc": "elder"}):
            for text, vector in (("孝悌", None), (None, [1.0, 0.0]), ("孝悌", [1.0, 0.0])):
                hits = await harness.hits(stranger, "c", text=text, vector=vector, where=where)
                equal(hits, [], f"hits of {who}")
        equal(await harness.count(stranger, "c"), 0, f"count by {who}")
        equal(await harness.search.remove(stranger, "c", ["a"]), 0, f"removal by {who}")
        await harness.index(stranger, "c", [SearchEntry(id="a", text="耕读")])
        equal(await _found(harness, stranger, "耕读"), ["a"], f"own entry of {who}")
    equal(await _found(harness, owner, "孝悌"), ["a"], "the owner's hits afterwards")
    equal(await harness.count(owner, "c"), 1, "the owner's count afterwards")


@case("search")
async def shared_entries_belong_to_the_site(harness: Harness) -> None:
    """With ``shared`` every user of the site finds, replaces and removes an entry; other sites do not."""
    author, colleague = harness.scope("author"), harness.scope("colleague")
    await harness.index(author, "c", [SearchEntry(id="a", text="孝悌")], shared=True)
    equal(await _found(harness, colleague, "孝悌", shared=True), ["a"], "found by a colleague")
    for who in ("another site", "another tenant"):
        stranger = harness.foreign_scopes()[who]
        equal(await _found(harness, stranger, "孝悌", shared=True), [], f"found by {who}")
        equal(await harness.count(stranger, "c", shared=True), 0, f"count by {who}")
        equal(await harness.search.remove(stranger, "c", ["a"], shared=True), 0, f"removal by {who}")
    await harness.index(colleague, "c", [SearchEntry(id="a", text="耕读")], shared=True)
    equal(await harness.count(author, "c", shared=True), 1, "entries after a colleague's change")
    equal(await _found(harness, author, "耕读", shared=True), ["a"], "found after a colleague's change")
    equal(await harness.search.remove(colleague, "c", ["a"], shared=True), 1, "removed by a colleague")


@case("search")
async def own_and_shared_entries_are_separate(harness: Harness) -> None:
    """A user's own collection and the site's of the same name have separate entries, even with equal ids."""
    scope = harness.scope()
    await harness.index(scope, "c", [SearchEntry(id="a", text="孝悌")])
    await harness.index(scope, "c", [SearchEntry(id="a", text="耕读", vector=[1.0, 0.0, 0.0])], shared=True)
    await harness.index(scope, "c", [SearchEntry(id="b", text="孝悌", vector=[1.0])])
    equal(await _found(harness, scope, "孝悌"), ["a", "b"], "own hits")
    equal(await _found(harness, scope, "孝悌", shared=True), [], "shared hits")
    equal(await _found(harness, scope, "耕读", shared=True), ["a"], "shared hits by another word")
    equal(await harness.search.remove(scope, "c", ["a"]), 1, "removed of one's own")
    equal(await harness.count(scope, "c", shared=True), 1, "shared entries left")


@case("search")
async def separators_in_collections_do_not_collide(harness: Harness) -> None:
    """Wherever a separator stands in owner or collection, different names are different collections."""
    for mark in SEPARATORS:
        for mine, other in harness.colliding_scopes(mark):
            await harness.index(mine, "c", [SearchEntry(id="a", text="孝悌")])
            equal(await _found(harness, other, "孝悌"), [], f"what {other} finds of {mine}")
            await harness.search.remove(mine, "c", ["a"])
        mine, other = harness.scope("a"), harness.scope(f"a{mark}b")
        await harness.index(mine, f"b{mark}c", [SearchEntry(id="a", text="孝悌")])
        equal(await _found(harness, other, "孝悌"), [], f"what {other} finds in its collection c")
        await harness.search.remove(mine, f"b{mark}c", ["a"])


@case("search")
async def no_user_id_means_shared(harness: Harness) -> None:
    """Whatever the user id, the site's shared entries are not among the user's own."""
    for name in (" ", "*", "shared", "None", "null", "site", "_", "-", "0"):
        scope = harness.scope(name)
        await harness.index(scope, "c", [SearchEntry(id=f"by {name}", text="孝悌")], shared=True)
        equal(await _found(harness, scope, "孝悌"), [], f"own hits of {name!r}")


@case("search")
async def changes_are_visible_at_once(harness: Harness) -> None:
    """The next query finds indexed entries and does not find removed ones."""
    scope = harness.scope()
    for number in range(20):
        await harness.index(scope, "c", [SearchEntry(id="a", text=f"第{number}条 x{number}x", vector=[number + 1.0])])
        equal(await _found(harness, scope, f"x{number}x"), ["a"], f"hits after index {number}")
        equal(await harness.search.remove(scope, "c", ["a"]), 1, f"removal {number}")
        equal(await _found(harness, scope, f"x{number}x"), [], f"hits after removal {number}")


@case("search", "extended")
async def concurrent_indexing_loses_nothing(harness: Harness) -> None:
    """100 entries, each indexed twice concurrently, are all stored exactly once."""
    scope = harness.scope()
    await asyncio.gather(
        *(
            harness.index(scope, "c", [SearchEntry(id=f"e{number % 100}", text="孝悌", vector=[1.0, 0.0])])
            for number in range(200)
        )
    )
    equal(await harness.count(scope, "c"), 100, "entries")
    hits = await harness.hits(scope, "c", text="孝悌", limit=500)
    equal(sorted(ids(hits)), sorted(f"e{number}" for number in range(100)), "hits")
