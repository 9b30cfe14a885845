"""Documents: what is foreign is absent, what is shared is the site's, what has ended is gone."""

from datetime import timedelta

from wenmai.errors import VersionConflict
from wenmai.scope import Scope
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.ground import HOUR, Ground, keys
from wenmai.stores.conformance.samples import HOSTILE_KEYS, SEPARATORS, evidence, small, trace
from wenmai.stores.records import EvidenceRecord, IdempotentTurn, TraceRecord

MICROSECOND = timedelta(microseconds=1)


@case("documents")
async def what_is_foreign_is_absent(ground: Ground) -> None:
    """To another user, site or tenant a record cannot be read, listed or deleted; nothing says it exists."""
    owner = ground.scope()
    mine = await ground.documents.put(owner, trace("trace-1"))
    for who, stranger in ground.strangers().items():
        equal(await ground.documents.get(stranger, TraceRecord, "trace-1"), None, f"get by {who}")
        equal(await ground.documents.get_many(stranger, TraceRecord, ["trace-1"]), {}, f"get_many by {who}")
        equal(await ground.documents.delete(stranger, TraceRecord, "trace-1"), False, f"delete by {who}")
        unmoved = await ground.documents.delete(stranger, TraceRecord, "trace-1", expected=1)
        equal(unmoved, False, f"delete of version 1 by {who}")
        equal(
            await ground.documents.delete(stranger, TraceRecord, "trace-1", expected=9),
            False,
            f"delete of version 9 by {who}",
        )
        for where in (None, {"session_id": "session-1"}):
            page = await ground.documents.list(stranger, TraceRecord, where=where)
            equal((keys(page), page.next_cursor), ([], None), f"listing by {who}")
    equal(await ground.documents.get(owner, TraceRecord, "trace-1"), mine, "the record afterwards")


@case("documents")
async def a_key_of_another_user_cannot_be_taken(ground: Ground) -> None:
    """Any put on a key that another user of the site owns raises VersionConflict and changes nothing."""
    owner, stranger = ground.scope(), ground.scope("stranger")
    mine = await ground.documents.put(owner, small("s", holder="casual"))
    for expected in (0, None, 1, 2):
        with raises(VersionConflict, f"a stranger's put with expected={expected}"):
            await ground.documents.put(stranger, small("s", holder="respectful"), expected=expected)
    equal(await ground.documents.get(owner, IdempotentTurn, "s"), mine, "the owner's record")
    equal(await ground.documents.get(stranger, IdempotentTurn, "s"), None, "the stranger's view")
    equal(keys(await ground.documents.list(stranger, IdempotentTurn)), [], "the stranger's listing")


@case("documents")
async def a_deleted_key_is_free_for_anyone(ground: Ground) -> None:
    """After its owner has deleted a record another user can have the key, and the first does not see it."""
    owner, other = ground.scope(), ground.scope("other")
    await ground.documents.put(owner, small("s"))
    await ground.documents.delete(owner, IdempotentTurn, "s")
    taken = await ground.documents.put(other, small("s"), expected=0)
    equal((taken.user_id, taken.version), ("other", 1), "owner and version")
    equal(await ground.documents.get(owner, IdempotentTurn, "s"), None, "the first owner's view")


@case("documents")
async def each_site_and_tenant_has_its_own_keys(ground: Ground) -> None:
    """The same key in another site or tenant is another record, with its own version, and deletes alone."""
    scopes = [ground.scope(), ground.scope(site="elsewhere"), ground.scope(tenant="-other")]
    for number, scope in enumerate(scopes):
        put = await ground.documents.put(scope, small("s", holder=str(number)), expected=0)
        equal(put.version, 1, "version of an insert")
    await ground.documents.delete(scopes[0], IdempotentTurn, "s")
    seen = [await ground.documents.get(scope, IdempotentTurn, "s") for scope in scopes]
    equal([got and got.record.holder for got in seen], [None, "1", "2"], "records after deleting the first")


@case("documents")
async def shared_records_belong_to_the_site(ground: Ground) -> None:
    """Any user of the site reads, lists, changes and deletes a shared record; it knows who put it first."""
    author, colleague = ground.scope("author"), ground.scope("colleague")
    first = await ground.documents.put(author, evidence("e"))
    equal(await ground.documents.get(colleague, EvidenceRecord, "e"), first, "the colleague's view")
    equal(keys(await ground.documents.list(colleague, EvidenceRecord)), ["e"], "the colleague's listing")
    changed = await ground.documents.put(colleague, evidence("e", title="卷一"), expected=1)
    equal((changed.user_id, changed.version), ("author", 2), "first author and version")
    with raises(VersionConflict, "insert of a taken shared key"):
        await ground.documents.put(colleague, evidence("e"), expected=0)
    for who in ("another site", "another tenant"):
        stranger = ground.strangers()[who]
        equal(await ground.documents.get(stranger, EvidenceRecord, "e"), None, f"get by {who}")
        equal(keys(await ground.documents.list(stranger, EvidenceRecord)), [], f"listing by {who}")
        equal(await ground.documents.delete(stranger, EvidenceRecord, "e"), False, f"delete by {who}")
    equal(await ground.documents.delete(colleague, EvidenceRecord, "e"), True, "the colleague's delete")
    equal(await ground.documents.get(author, EvidenceRecord, "e"), None, "the author's view afterwards")


@case("documents")
async def scopes_do_not_run_together(ground: Ground) -> None:
    """Tenant, site and user are three names: whatever separator they hold, moving it makes another owner."""
    for mark in SEPARATORS:
        for mine, other in ground.confusable_scopes(mark):
            await ground.documents.put(mine, small(f"s{mark}"))
            await ground.documents.put(mine, evidence(f"e{mark}"))
            equal(await ground.documents.get(other, IdempotentTurn, f"s{mark}"), None, f"{other} sees {mine}")
            equal(await ground.documents.get(other, EvidenceRecord, f"e{mark}"), None, f"{other} sees {mine}")
            equal(keys(await ground.documents.list(other, IdempotentTurn)), [], f"{other} lists {mine}")
            await ground.documents.delete(mine, IdempotentTurn, f"s{mark}")
            await ground.documents.delete(mine, EvidenceRecord, f"e{mark}")


@case("documents")
async def any_text_names_an_owner(ground: Ground) -> None:
    """Tenants, sites and users may have any name that a key may have; each sees its own records alone."""
    for name in HOSTILE_KEYS:
        tenant = f"-{name}"[:400]
        for scope in (ground.scope(name), ground.scope(site=name), ground.scope(tenant=tenant)):
            await _put_and_check_alone(ground, scope)


async def _put_and_check_alone(ground: Ground, scope: Scope) -> None:
    await ground.documents.put(scope, small(scope.user_id, holder=scope.site_id))
    got = await ground.documents.get(scope, IdempotentTurn, scope.user_id)
    equal(got and (got.record.holder, got.user_id), (scope.site_id, scope.user_id), f"record of {scope}")
    equal(keys(await ground.documents.list(scope, IdempotentTurn)), [scope.user_id], f"listing of {scope}")
    equal(await ground.documents.delete(scope, IdempotentTurn, scope.user_id), True, f"delete by {scope}")


@case("documents")
async def a_record_is_absent_from_its_end_on(ground: Ground) -> None:
    """Until just before ``keep_until`` the record is there; at that very moment it is absent in every way."""
    scope = ground.scope()
    await ground.documents.put(scope, trace("trace-1"), keep_until=ground.clock() + HOUR)
    await ground.documents.put(scope, trace("trace-2"))
    ground.clock.advance(HOUR - MICROSECOND)
    require(await ground.documents.get(scope, TraceRecord, "trace-1"), "absent a microsecond early")
    equal(len((await ground.documents.list(scope, TraceRecord)).items), 2, "records a microsecond early")
    ground.clock.advance(MICROSECOND)
    equal(await ground.documents.get(scope, TraceRecord, "trace-1"), None, "get at the moment itself")
    equal(keys(await ground.documents.list(scope, TraceRecord)), ["trace-2"], "listing at the moment itself")
    filtered = await ground.documents.list(scope, TraceRecord, where={"npc_id": "elder"}, limit=1)
    equal((keys(filtered), filtered.next_cursor), (["trace-2"], None), "a full page at the moment itself")
    with raises(VersionConflict, "expecting version 1 of what has ended"):
        await ground.documents.put(scope, trace("trace-1"), expected=1)
    equal(await ground.documents.delete(scope, TraceRecord, "trace-1", expected=7), False, "delete expected")
    equal(await ground.documents.delete(scope, TraceRecord, "trace-1"), False, "delete of what has ended")


@case("documents")
async def an_ended_key_begins_again(ground: Ground) -> None:
    """After its end a key is free: the next put, by whichever user, makes version 1, created then."""
    owner, other = ground.scope(), ground.scope("other")
    for _ in range(2):
        await ground.documents.put(owner, small("a"), keep_until=ground.clock() + HOUR)
        await ground.documents.put(owner, small("b"), keep_until=ground.clock() + HOUR)
    ground.clock.advance(HOUR)
    mine = await ground.documents.put(owner, small("a"), expected=0)
    theirs = await ground.documents.put(other, small("b"))
    for stored, user in ((mine, owner.user_id), (theirs, "other")):
        found = (stored.version, stored.created_at, stored.user_id)
        equal(found, (1, ground.clock(), user), "version, creation and owner")
    equal(await ground.documents.get(owner, IdempotentTurn, "b"), None, "what the former owner sees")
    equal(await ground.documents.get(owner, IdempotentTurn, "a"), mine, "what the new record is")


@case("documents")
async def each_put_sets_the_end_anew(ground: Ground) -> None:
    """A put with a later ``keep_until`` extends the record, one without keeps it for good."""
    scope = ground.scope()
    for key in ("extended", "kept", "shortened"):
        await ground.documents.put(scope, small(key), keep_until=ground.clock() + HOUR)
    await ground.documents.put(scope, small("extended"), keep_until=ground.clock() + 2 * HOUR)
    await ground.documents.put(scope, small("kept"))
    await ground.documents.put(scope, small("shortened"), keep_until=ground.clock() + HOUR / 2)
    seen = []
    for _ in range(4):
        seen.append(sorted(keys(await ground.documents.list(scope, IdempotentTurn))))
        ground.clock.advance(HOUR / 2)
    wanted = [
        ["extended", "kept", "shortened"],
        ["extended", "kept"],
        ["extended", "kept"],
        ["extended", "kept"],
    ]
    equal(seen, wanted, "records at each half hour")
    equal(keys(await ground.documents.list(scope, IdempotentTurn)), ["kept"], "records after two hours")


@case("documents")
async def a_sweep_removes_what_has_ended(ground: Ground) -> None:
    """``sweep`` removes the ended records of all scopes and types and counts them; a second finds none."""
    scope, other = ground.scope(), ground.scope(tenant="-other")
    await ground.documents.sweep()
    end = ground.clock() + HOUR
    for owner in (scope, other):
        await ground.documents.put(owner, small("s"), keep_until=end)
        await ground.documents.put(owner, trace("t"), keep_until=end)
        await ground.documents.put(owner, evidence("e"), keep_until=end)
        await ground.documents.put(owner, small("later"), keep_until=end + MICROSECOND)
        await ground.documents.put(owner, small("kept"))
    equal(await ground.documents.sweep(), 0, "removed before the end")
    ground.clock.advance(HOUR)
    equal(await ground.documents.sweep(), 6, "removed at the end")
    equal(await ground.documents.sweep(), 0, "removed by a second sweep")
    for owner in (scope, other):
        left = sorted(keys(await ground.documents.list(owner, IdempotentTurn)))
        equal(left, ["kept", "later"], "what is left")
