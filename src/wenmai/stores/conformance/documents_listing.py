"""Documents: listings are per owner, newest first, with a cursor that later writes do not disturb."""

from datetime import timedelta

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.harness import Harness, keys
from wenmai.stores.conformance.samples import evidence, small_record, trace
from wenmai.stores.records import Block, EvidenceRecord, IdempotentTurn, TraceRecord

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


MAX_PAGES = 100
"""More pages than any listing here has; stops a cursor that loops."""


async def _put_in_order(harness: Harness, scope: Scope, names: list[str]) -> None:
    for name in names:
        await harness.documents.put(scope, small_record(name))
        harness.clock.advance(timedelta(microseconds=1))


async def _all_pages(harness: Harness, scope: Scope, limit: int) -> list[list[str]]:
    """The keys of all pages of the scope's records, at most ``MAX_PAGES`` pages."""
    pages: list[list[str]] = []
    cursor: str | None = None
    while len(pages) < MAX_PAGES:
        page = await harness.documents.list(scope, IdempotentTurn, limit=limit, cursor=cursor)
        pages.append(keys(page))
        cursor = page.next_cursor
        if cursor is None:
            return pages
    return pages


@case("documents")
async def listings_are_newest_first_in_pages(harness: Harness) -> None:
    """Pages are ordered by creation, newest first, to the microsecond; the last page, full or not, has no cursor."""
    scope = harness.scope()
    names = [f"s{number}" for number in (3, 1, 4, 10, 5, 9)]
    await _put_in_order(harness, scope, names)
    newest = names[::-1]
    equal(await _all_pages(harness, scope, 4), [newest[:4], newest[4:]], "pages of 4 of 6")
    equal(await _all_pages(harness, scope, 3), [newest[:3], newest[3:]], "pages of 3 of 6")
    equal(await _all_pages(harness, scope, 6), [newest], "pages of 6 of 6")
    equal(await _all_pages(harness, scope, 500), [newest], "pages of 500 of 6")


@case("documents")
async def a_listing_equals_what_get_returns(harness: Harness) -> None:
    """A listed record is equal to the one that get returns, with its version, owner and timestamps."""
    scope = harness.scope()
    await harness.documents.put(scope, trace("t", blocks=[Block("深", "孝", 1)]))
    harness.clock.advance(timedelta(seconds=1))
    await harness.documents.put(scope, trace("t", answer="孝"))
    page = await harness.documents.list(scope, TraceRecord)
    equal(page.items, [await harness.documents.get(scope, TraceRecord, "t")], "the listing")


@case("documents")
async def a_change_does_not_reorder_a_listing(harness: Harness) -> None:
    """A listing is ordered by creation: another put of a record does not move it."""
    scope = harness.scope()
    await _put_in_order(harness, scope, ["a", "b", "c"])
    await harness.documents.put(scope, small_record("a", holder="casual"))
    equal(await _all_pages(harness, scope, 10), [["c", "b", "a"]], "the listing")


@case("documents")
async def later_writes_do_not_disturb_older_pages(harness: Harness) -> None:
    """Creating, changing or deleting records between two pages, including the last one seen, repeats and hides none."""
    scope = harness.scope()
    await _put_in_order(harness, scope, [f"s{number}" for number in range(9)])
    first = await harness.documents.list(scope, IdempotentTurn, limit=3)
    equal(keys(first), ["s8", "s7", "s6"], "the first page")
    await _put_in_order(harness, scope, ["new-1", "new-2"])
    await harness.documents.delete(scope, IdempotentTurn, "s6")
    await harness.documents.put(scope, small_record("s4", holder="casual"))
    second = await harness.documents.list(scope, IdempotentTurn, limit=3, cursor=first.next_cursor)
    equal(keys(second), ["s5", "s4", "s3"], "the second page")
    await harness.documents.delete(scope, IdempotentTurn, "s8")
    await _put_in_order(harness, scope, ["s8"])
    third = await harness.documents.list(scope, IdempotentTurn, limit=4, cursor=second.next_cursor)
    equal((keys(third), third.next_cursor), (["s2", "s1", "s0"], None), "the third page")


@case("documents")
async def records_of_one_timestamp_are_paged_without_loss(harness: Harness) -> None:
    """Records created in the same microsecond appear once each, whatever the page size."""
    scope = harness.scope()
    names = [f"s{number}" for number in range(11)]
    for name in names:
        await harness.documents.put(scope, small_record(name))
    for limit in (1, 2, 5):
        listed = [name for page in await _all_pages(harness, scope, limit) for name in page]
        equal(sorted(listed), sorted(names), f"the keys in pages of {limit}")


@case("documents")
async def filters_apply_before_the_limit(harness: Harness) -> None:
    """``where`` selects records equal in all given fields, and pages are filled from these."""
    scope = harness.scope()
    for number in range(12):
        npc, mode = ("elder", "ancestor")[number % 2], ("normal", "refuse")[number % 3 == 0]
        await harness.documents.put(scope, trace(f"t{number}", persona_id=npc, policy_mode=mode))
        harness.clock.advance(timedelta(seconds=1))
    where = {"npc_id": "elder"}
    first = await harness.documents.list(scope, TraceRecord, where=where, limit=4)
    equal(keys(first), ["t10", "t8", "t6", "t4"], "the first page")
    rest = await harness.documents.list(scope, TraceRecord, where=where, limit=4, cursor=first.next_cursor)
    equal((keys(rest), rest.next_cursor), (["t2", "t0"], None), "the second page")
    both = await harness.documents.list(scope, TraceRecord, where={"npc_id": "elder", "policy_mode": "refuse"})
    equal(keys(both), ["t6", "t0"], "two filters")
    for none in ("elde", "Elder", "elder ", "%", "*", ""):
        page = await harness.documents.list(scope, TraceRecord, where={"npc_id": none})
        equal(keys(page), [], f"records with npc_id {none!r}")


@case("documents")
async def a_filter_matches_the_current_value(harness: Harness) -> None:
    """After a record has changed, it is found by its new value and no longer by the old one."""
    scope = harness.scope()
    await harness.documents.put(scope, evidence("e", source_ref="卷一"))
    await harness.documents.put(scope, evidence("e", source_ref="卷二"))
    old = await harness.documents.list(scope, EvidenceRecord, where={"source_ref": "卷一"})
    new = await harness.documents.list(scope, EvidenceRecord, where={"source_ref": "卷二"})
    equal((keys(old), keys(new)), ([], ["e"]), "found by the old and by the new value")


@case("documents")
async def undeclared_filters_are_refused(harness: Harness) -> None:
    """Filtering by a field that the record type does not declare raises InvalidInput, whatever its name."""
    scope = harness.scope()
    for field in ("answer", "trace_id", "user_id", "nothing", "", "npc_id = npc_id OR 'a'", "npc_id; --"):
        with raises(InvalidInput, f"filter by {field!r}"):
            await harness.documents.list(scope, TraceRecord, where={field: "x"})
    with raises(InvalidInput, "filter of a type that declares none"):
        await harness.documents.list(scope, IdempotentTurn, where={"holder": "h"})


@case("documents")
async def page_limits_are_1_to_500(harness: Harness) -> None:
    """Limits 1 and 500 are allowed, 0, -1 and 501 raise InvalidInput; the default is 20."""
    scope = harness.scope()
    for number in range(21):
        await harness.documents.put(scope, small_record(f"s{number}"))
    for limit in (0, -1, 501):
        with raises(InvalidInput, f"limit {limit}"):
            await harness.documents.list(scope, IdempotentTurn, limit=limit)
    sizes = [len((await harness.documents.list(scope, IdempotentTurn, limit=limit)).items) for limit in (1, 500)]
    equal(sizes, [1, 21], "records at limits 1 and 500")
    equal(len((await harness.documents.list(scope, IdempotentTurn)).items), 20, "records without a limit")


@case("documents")
async def forged_cursors_are_refused(harness: Harness) -> None:
    """Anything but the backend's own cursors raises InvalidInput."""
    scope = harness.scope()
    await harness.documents.put(scope, small_record("s"))
    for cursor in FORGED_CURSORS:
        with raises(InvalidInput, f"cursor {cursor[:40]!r}"):
            await harness.documents.list(scope, IdempotentTurn, cursor=cursor)


@case("documents")
async def a_foreign_cursor_leaks_nothing(harness: Harness) -> None:
    """With the cursor of another scope's listing, a scope sees at most its own records."""
    owner = harness.scope()
    await _put_in_order(harness, owner, [f"owner-{number}" for number in range(4)])
    cursor = (await harness.documents.list(owner, IdempotentTurn, limit=1)).next_cursor
    require(cursor, "a page of 1 of 4 records has no next_cursor")
    for who, stranger in harness.foreign_scopes().items():
        await harness.documents.put(stranger, small_record(f"own-{who}"))
        try:
            page = await harness.documents.list(stranger, IdempotentTurn, cursor=cursor)
        except InvalidInput:
            continue
        require(set(keys(page)) <= {f"own-{who}"}, f"{who} saw {keys(page)}")
