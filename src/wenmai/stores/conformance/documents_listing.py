"""Documents: listings are by owner, newest first, paged by a cursor that later writes do not disturb."""

from datetime import timedelta

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.ground import Ground, keys
from wenmai.stores.conformance.samples import evidence, small, trace
from wenmai.stores.records import EvidenceRecord, IdempotentTurn, TraceRecord

FORGED_CURSORS = (
    "",
    " ",
    "not a cursor",
    "bm90IGEgY3Vyc29y",
    "../../etc/passwd",
    "' OR 1=1 --",
    "{}",
    "[1,2]",
    "🏮",
    "====",
    "A" * 5_000,
    "\x00",
)


MANY = 100
"""No listing here has as many pages; one that goes in circles would."""


async def _put_in_order(ground: Ground, scope: Scope, names: list[str]) -> None:
    for name in names:
        await ground.documents.put(scope, small(name))
        ground.clock.advance(timedelta(microseconds=1))


async def _all_pages(ground: Ground, scope: Scope, limit: int) -> list[list[str]]:
    """The keys of all pages of the scope's preferences, as far as ``MANY`` pages."""
    pages: list[list[str]] = []
    cursor: str | None = None
    while len(pages) < MANY:
        page = await ground.documents.list(scope, IdempotentTurn, limit=limit, cursor=cursor)
        pages.append(keys(page))
        cursor = page.next_cursor
        if cursor is None:
            return pages
    return pages


@case("documents")
async def listings_are_newest_first_in_pages(ground: Ground) -> None:
    """Pages come newest created first, to the microsecond; the last page, full or not, has no cursor."""
    scope = ground.scope()
    names = [f"s{number}" for number in (3, 1, 4, 10, 5, 9)]
    await _put_in_order(ground, scope, names)
    newest = names[::-1]
    equal(await _all_pages(ground, scope, 4), [newest[:4], newest[4:]], "pages of 4 of 6")
    equal(await _all_pages(ground, scope, 3), [newest[:3], newest[3:]], "pages of 3 of 6")
    equal(await _all_pages(ground, scope, 6), [newest], "pages of 6 of 6")
    equal(await _all_pages(ground, scope, 500), [newest], "pages of 500 of 6")


@case("documents")
async def a_listing_holds_what_get_gives(ground: Ground) -> None:
    """A listed record is equal to the one that get returns, with its version, owner and moments."""
    scope = ground.scope()
    await ground.documents.put(scope, trace("t", blocks=[{"深": [1, None]}]))
    ground.clock.advance(timedelta(seconds=1))
    await ground.documents.put(scope, trace("t", answer="孝"))
    page = await ground.documents.list(scope, TraceRecord)
    equal(page.items, [await ground.documents.get(scope, TraceRecord, "t")], "the listing")


@case("documents")
async def a_change_does_not_move_a_record(ground: Ground) -> None:
    """A listing goes by creation: a record that is put again stays where it was."""
    scope = ground.scope()
    await _put_in_order(ground, scope, ["a", "b", "c"])
    await ground.documents.put(scope, small("a", holder="casual"))
    equal(await _all_pages(ground, scope, 10), [["c", "b", "a"]], "the listing")


@case("documents")
async def later_writes_do_not_disturb_older_pages(ground: Ground) -> None:
    """Creating, changing or deleting between two pages, the last one seen too, repeats and hides nothing."""
    scope = ground.scope()
    await _put_in_order(ground, scope, [f"s{number}" for number in range(9)])
    first = await ground.documents.list(scope, IdempotentTurn, limit=3)
    equal(keys(first), ["s8", "s7", "s6"], "the first page")
    await _put_in_order(ground, scope, ["new-1", "new-2"])
    await ground.documents.delete(scope, IdempotentTurn, "s6")
    await ground.documents.put(scope, small("s4", holder="casual"))
    second = await ground.documents.list(scope, IdempotentTurn, limit=3, cursor=first.next_cursor)
    equal(keys(second), ["s5", "s4", "s3"], "the second page")
    await ground.documents.delete(scope, IdempotentTurn, "s8")
    await _put_in_order(ground, scope, ["s8"])
    third = await ground.documents.list(scope, IdempotentTurn, limit=4, cursor=second.next_cursor)
    equal((keys(third), third.next_cursor), (["s2", "s1", "s0"], None), "the third page")


@case("documents")
async def records_of_one_moment_are_paged_without_loss(ground: Ground) -> None:
    """Records created in the same microsecond appear once each, whatever the page size."""
    scope = ground.scope()
    names = [f"s{number}" for number in range(11)]
    for name in names:
        await ground.documents.put(scope, small(name))
    for limit in (1, 2, 5):
        listed = [name for page in await _all_pages(ground, scope, limit) for name in page]
        equal(sorted(listed), sorted(names), f"the keys in pages of {limit}")


@case("documents")
async def filters_apply_before_the_limit(ground: Ground) -> None:
    """``where`` keeps only equal records, several fields together, and pages are filled from what is left."""
    scope = ground.scope()
    for number in range(12):
        npc, mode = ("elder", "ancestor")[number % 2], ("normal", "refuse")[number % 3 == 0]
        await ground.documents.put(scope, trace(f"t{number}", npc_id=npc, policy_mode=mode))
        ground.clock.advance(timedelta(seconds=1))
    where = {"npc_id": "elder"}
    first = await ground.documents.list(scope, TraceRecord, where=where, limit=4)
    equal(keys(first), ["t10", "t8", "t6", "t4"], "the first page")
    rest = await ground.documents.list(scope, TraceRecord, where=where, limit=4, cursor=first.next_cursor)
    equal((keys(rest), rest.next_cursor), (["t2", "t0"], None), "the second page")
    both = await ground.documents.list(scope, TraceRecord, where={"npc_id": "elder", "policy_mode": "refuse"})
    equal(keys(both), ["t6", "t0"], "two filters")
    for none in ("elde", "Elder", "elder ", "%", "*", ""):
        page = await ground.documents.list(scope, TraceRecord, where={"npc_id": none})
        equal(keys(page), [], f"records with npc_id {none!r}")


@case("documents")
async def a_filter_sees_the_present_value(ground: Ground) -> None:
    """After a record has changed, it is found by its new value and no longer by the old one."""
    scope = ground.scope()
    await ground.documents.put(scope, evidence("e", source_ref="卷一"))
    await ground.documents.put(scope, evidence("e", source_ref="卷二"))
    old = await ground.documents.list(scope, EvidenceRecord, where={"source_ref": "卷一"})
    new = await ground.documents.list(scope, EvidenceRecord, where={"source_ref": "卷二"})
    equal((keys(old), keys(new)), ([], ["e"]), "found by the old and by the new value")


@case("documents")
async def undeclared_filters_are_refused(ground: Ground) -> None:
    """Filtering by a field that the record type does not declare raises InvalidInput, whatever its name."""
    scope = ground.scope()
    for field in ("answer", "trace_id", "user_id", "nothing", "", "npc_id = npc_id OR 'a'", "npc_id; --"):
        with raises(InvalidInput, f"filter by {field!r}"):
            await ground.documents.list(scope, TraceRecord, where={field: "x"})
    with raises(InvalidInput, "filter of a type that declares none"):
        await ground.documents.list(scope, IdempotentTurn, where={"holder": "h"})


@case("documents")
async def page_limits_are_1_to_500(ground: Ground) -> None:
    """Limits 1 and 500 are allowed, 0, -1 and 501 raise InvalidInput; the default is 20."""
    scope = ground.scope()
    for number in range(21):
        await ground.documents.put(scope, small(f"s{number}"))
    for limit in (0, -1, 501):
        with raises(InvalidInput, f"limit {limit}"):
            await ground.documents.list(scope, IdempotentTurn, limit=limit)
    sizes = [len((await ground.documents.list(scope, IdempotentTurn, limit=limit)).items) for limit in (1, 500)]
    equal(sizes, [1, 21], "records at limits 1 and 500")
    equal(len((await ground.documents.list(scope, IdempotentTurn)).items), 20, "records without a limit")


@case("documents")
async def forged_cursors_are_refused(ground: Ground) -> None:
    """Anything that is not one of the backend's own cursors raises InvalidInput."""
    scope = ground.scope()
    await ground.documents.put(scope, small("s"))
    for cursor in FORGED_CURSORS:
        with raises(InvalidInput, f"cursor {cursor[:40]!r}"):
            await ground.documents.list(scope, IdempotentTurn, cursor=cursor)


@case("documents")
async def a_foreign_cursor_leaks_nothing(ground: Ground) -> None:
    """With the cursor of another scope's listing, a scope sees its own records at most."""
    owner = ground.scope()
    await _put_in_order(ground, owner, [f"owner-{number}" for number in range(4)])
    cursor = (await ground.documents.list(owner, IdempotentTurn, limit=1)).next_cursor
    require(cursor, "a page of 1 of 4 records has no next_cursor")
    for who, stranger in ground.strangers().items():
        await ground.documents.put(stranger, small(f"own-{who}"))
        try:
            page = await ground.documents.list(stranger, IdempotentTurn, cursor=cursor)
        except InvalidInput:
            continue
        require(set(keys(page)) <= {f"own-{who}"}, f"{who} saw {keys(page)}")
