"""Search: entries are replaced and removed by id, and belong to a scope or are shared by its site."""

import asyncio

from wenmai.scope import Scope
from wenmai.stores.base import SearchEntry
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal
from wenmai.stores.conformance.ground import Ground
from wenmai.stores.conformance.samples import HOSTILE_KEYS, SEPARATORS, TWINS
from wenmai.stores.conformance.search_words import ids


async def _found(ground: Ground, scope: Scope, text: str, *, shared: bool = False) -> list[str]:
    return ids(await ground.search.query(scope, "c", text=text, shared=shared))


@case("search")
async def indexing_again_replaces(ground: Ground) -> None:
    """An entry that is indexed again is found by its new text, vector and fields alone, and counts once."""
    scope = ground.scope()
    old = SearchEntry(id="a", text="孝悌", vector=[1.0, 0.0], fields={"npc": "elder"})
    await ground.index(scope, "c", [old, SearchEntry(id="b", text="睦邻", vector=[0.0, 1.0])])
    await ground.index(scope, "c", [SearchEntry(id="a", text="耕读", fields={"npc": "ancestor"})])
    equal(await ground.search.count(scope, "c"), 2, "entries")
    equal((await _found(ground, scope, "孝悌"), await _found(ground, scope, "耕读")), ([], ["a"]), "by words")
    equal(ids(await ground.search.query(scope, "c", vector=[1.0, 0.0])), ["b"], "by vector")
    for npc, wanted in (("elder", []), ("ancestor", ["a"])):
        hits = await ground.search.query(scope, "c", text="耕读", where={"npc": npc})
        equal(ids(hits), wanted, f"where npc is {npc}")


@case("search")
async def the_last_of_one_id_in_a_batch_stays(ground: Ground) -> None:
    """A batch that names an id twice leaves one entry, the later."""
    scope = ground.scope()
    await ground.index(scope, "c", [SearchEntry(id="a", text=text) for text in ("孝悌", "耕读")])
    equal(await ground.search.count(scope, "c"), 1, "entries")
    equal((await _found(ground, scope, "孝悌"), await _found(ground, scope, "耕读")), ([], ["a"]), "by words")


@case("search")
async def removal_is_exact_and_counted(ground: Ground) -> None:
    """``remove`` takes exactly the given ids, says how many there were, and is idempotent."""
    scope = ground.scope()
    await ground.index(scope, "c", [SearchEntry(id=twin, text="孝悌", vector=[1.0]) for twin in TWINS])
    removed = await ground.search.remove(scope, "c", ["session-1", "session-1", "absent", "*", "session%"])
    equal(removed, 1, "removed")
    equal(await ground.search.remove(scope, "c", ["session-1"]), 0, "removed a second time")
    equal(await ground.search.remove(scope, "c", []), 0, "removed of no ids")
    left = sorted(TWINS[1:])
    equal(await _found(ground, scope, "孝悌"), left, "left by words")
    equal(ids(await ground.search.query(scope, "c", vector=[1.0])), left, "left by vector")
    equal(await ground.search.count(scope, "c"), len(left), "left by count")


@case("search")
async def any_text_is_an_entry_or_collection(ground: Ground) -> None:
    """Awkward ids and collection names are ordinary and distinct."""
    scope = ground.scope()
    await ground.index(scope, "c", [SearchEntry(id=name, text="孝悌") for name in HOSTILE_KEYS])
    hits = await ground.search.query(scope, "c", text="孝悌", limit=500)
    equal(sorted(ids(hits)), sorted(HOSTILE_KEYS), "the ids found")
    for name in HOSTILE_KEYS:
        await ground.index(scope, name, [SearchEntry(id="only", text="孝悌")])
    counts = {name: await ground.search.count(scope, name) for name in HOSTILE_KEYS}
    equal(counts, dict.fromkeys(HOSTILE_KEYS, 1), "entries in each collection")
    for number, name in enumerate(HOSTILE_KEYS, start=1):
        equal(await ground.search.remove(scope, "c", [name]), 1, f"removed of {name!r}")
        equal(await ground.search.count(scope, "c"), len(HOSTILE_KEYS) - number, f"left after {name!r}")


@case("search")
async def foreign_entries_are_absent(ground: Ground) -> None:
    """For another user, site or tenant entries cannot be found, counted, replaced or removed."""
    owner = ground.scope()
    mine = SearchEntry(id="a", text="孝悌", vector=[1.0, 0.0], fields={"npc": "elder"})
    await ground.index(owner, "c", [mine])
    for who, stranger in ground.strangers().items():
        for where in (None, {"npc": "elder"}):
            for text, vector in (("孝悌", None), (None, [1.0, 0.0]), ("孝悌", [1.0, 0.0])):
                hits = await ground.search.query(stranger, "c", text=text, vector=vector, where=where)
                equal(hits, [], f"hits of {who}")
        equal(await ground.search.count(stranger, "c"), 0, f"count by {who}")
        equal(await ground.search.remove(stranger, "c", ["a"]), 0, f"removal by {who}")
        await ground.index(stranger, "c", [SearchEntry(id="a", text="耕读")])
        equal(await _found(ground, stranger, "耕读"), ["a"], f"own entry of {who}")
    equal(await _found(ground, owner, "孝悌"), ["a"], "the owner's hits afterwards")
    equal(await ground.search.count(owner, "c"), 1, "the owner's count afterwards")


@case("search")
async def shared_entries_belong_to_the_site(ground: Ground) -> None:
    """With ``shared`` every user of the site finds, replaces and removes an entry; other sites do not."""
    author, colleague = ground.scope("author"), ground.scope("colleague")
    await ground.index(author, "c", [SearchEntry(id="a", text="孝悌")], shared=True)
    equal(await _found(ground, colleague, "孝悌", shared=True), ["a"], "found by a colleague")
    for who in ("another site", "another tenant"):
        stranger = ground.strangers()[who]
        equal(await _found(ground, stranger, "孝悌", shared=True), [], f"found by {who}")
        equal(await ground.search.count(stranger, "c", shared=True), 0, f"count by {who}")
        equal(await ground.search.remove(stranger, "c", ["a"], shared=True), 0, f"removal by {who}")
    await ground.index(colleague, "c", [SearchEntry(id="a", text="耕读")], shared=True)
    equal(await ground.search.count(author, "c", shared=True), 1, "entries after a colleague's change")
    equal(await _found(ground, author, "耕读", shared=True), ["a"], "found after a colleague's change")
    equal(await ground.search.remove(colleague, "c", ["a"], shared=True), 1, "removed by a colleague")


@case("search")
async def own_and_shared_entries_are_apart(ground: Ground) -> None:
    """A user's own collection and the site's of the same name hold different entries, also of one id."""
    scope = ground.scope()
    await ground.index(scope, "c", [SearchEntry(id="a", text="孝悌")])
    await ground.index(scope, "c", [SearchEntry(id="a", text="耕读", vector=[1.0, 0.0, 0.0])], shared=True)
    await ground.index(scope, "c", [SearchEntry(id="b", text="孝悌", vector=[1.0])])
    equal(await _found(ground, scope, "孝悌"), ["a", "b"], "own hits")
    equal(await _found(ground, scope, "孝悌", shared=True), [], "shared hits")
    equal(await _found(ground, scope, "耕读", shared=True), ["a"], "shared hits by another word")
    equal(await ground.search.remove(scope, "c", ["a"]), 1, "removed of one's own")
    equal(await ground.search.count(scope, "c", shared=True), 1, "shared entries left")


@case("search")
async def scopes_and_collections_do_not_run_together(ground: Ground) -> None:
    """Wherever a separator stands in owner or collection, collections of different names are different."""
    for mark in SEPARATORS:
        for mine, other in ground.confusable_scopes(mark):
            await ground.index(mine, "c", [SearchEntry(id="a", text="孝悌")])
            equal(await _found(ground, other, "孝悌"), [], f"what {other} finds of {mine}")
            await ground.search.remove(mine, "c", ["a"])
        mine, other = ground.scope("a"), ground.scope(f"a{mark}b")
        await ground.index(mine, f"b{mark}c", [SearchEntry(id="a", text="孝悌")])
        equal(await _found(ground, other, "孝悌"), [], f"what {other} finds in its collection c")
        await ground.search.remove(mine, f"b{mark}c", ["a"])


@case("search")
async def no_name_of_a_user_means_shared(ground: Ground) -> None:
    """Whatever a user is called, the site's shared entries are not among the user's own."""
    for name in (" ", "*", "shared", "None", "null", "site", "_", "-", "0"):
        scope = ground.scope(name)
        await ground.index(scope, "c", [SearchEntry(id=f"by {name}", text="孝悌")], shared=True)
        equal(await _found(ground, scope, "孝悌"), [], f"own hits of {name!r}")


@case("search")
async def entries_are_found_at_once(ground: Ground) -> None:
    """What an index call has written is found by the next query, and what a removal has taken is not."""
    scope = ground.scope()
    for number in range(20):
        await ground.index(scope, "c", [SearchEntry(id="a", text=f"第{number}条 x{number}x", vector=[number + 1.0])])
        equal(await _found(ground, scope, f"x{number}x"), ["a"], f"hits after index {number}")
        equal(await ground.search.remove(scope, "c", ["a"]), 1, f"removal {number}")
        equal(await _found(ground, scope, f"x{number}x"), [], f"hits after removal {number}")


@case("search", "extended")
async def concurrent_indexing_loses_nothing(ground: Ground) -> None:
    """100 entries that are indexed at once, each replaced at once with others, are all there, once."""
    scope = ground.scope()
    await asyncio.gather(
        *(
            ground.index(scope, "c", [SearchEntry(id=f"e{number % 100}", text="孝悌", vector=[1.0, 0.0])])
            for number in range(200)
        )
    )
    equal(await ground.search.count(scope, "c"), 100, "entries")
    hits = await ground.search.query(scope, "c", text="孝悌", limit=500)
    equal(sorted(ids(hits)), sorted(f"e{number}" for number in range(100)), "hits")
