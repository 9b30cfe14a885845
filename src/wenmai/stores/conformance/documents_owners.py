"""Documents: foreign records are absent, shared records belong to the site, expired records are absent."""

from datetime import timedelta

from wenmai.errors import VersionConflict
from wenmai.scope import Scope
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.harness import HOUR, Harness, keys
from wenmai.stores.conformance.samples import HOSTILE_KEYS, SEPARATORS, evidence, small_record, trace
from wenmai.stores.records import EvidenceRecord, IdempotentTurn, TraceRecord

MICROSECOND = timedelta(microseconds=1)


@case("documents")
async def foreign_records_are_absent(harness: Harness) -> None:
    """Another user, site or tenant cannot read, list or delete a record, and nothing reveals that it exists."""
    owner = harness.scope()
    mine = await harness.documents.put(owner, trace("trace-1"))
    for who, stranger in harness.foreign_scopes().items():
        equal(await harness.documents.get(stranger, TraceRecord, "trace-1"), None, f"get by {who}")
        equal(await harness.documents.get_many(stranger, TraceRecord, ["trace-1"]), {}, f"get_many by {who}")
        equal(await harness.documents.delete(stranger, TraceRecord, "trace-1"), False, f"delete by {who}")
        deleted = await harness.documents.delete(stranger, TraceRecord, "trace-1", expected=1)
        equal(deleted, False, f"delete of version 1 by {who}")
        equal(
            await harness.documents.delete(stranger, TraceRecord, "trace-1", expected=9),
            False,
            f"delete of version 9 by {who}",
        )
        for where in (None, {"session_id": "session-1"}):
            page = await harness.documents.list(stranger, TraceRecord, where=where)
            equal((keys(page), page.next_cursor), ([], None), f"listing by {who}")
    equal(await harness.documents.get(owner, TraceRecord, "trace-1"), mine, "the record afterwards")


@case("documents")
async def a_key_of_another_user_cannot_be_taken(harness: Harness) -> None:
    """Any put on a key that another user of the site owns raises VersionConflict and changes nothing."""
    owner, stranger = harness.scope(), harness.scope("stranger")
    mine = await harness.documents.put(owner, small_record("s", holder="casual"))
    for expected in (0, None, 1, 2):
        with raises(VersionConflict, f"a stranger's put with expected={expected}"):
            await harness.documents.put(stranger, small_record("s", holder="respectful"), expected=expected)
    equal(await harness.documents.get(owner, IdempotentTurn, "s"), mine, "the owner's record")
    equal(await harness.documents.get(stranger, IdempotentTurn, "s"), None, "the stranger's view")
    equal(keys(await harness.documents.list(stranger, IdempotentTurn)), [], "the stranger's listing")


@case("documents")
async def a_deleted_key_is_free_for_anyone(harness: Harness) -> None:
    """After a delete another user can use the key, and the former owner does not see the new record."""
    owner, other = harness.scope(), harness.scope("other")
    await harness.documents.put(owner, small_record("s"))
    await harness.documents.delete(owner, IdempotentTurn, "s")
    taken = await harness.documents.put(other, small_record("s"), expected=0)
    equal((taken.user_id, taken.version), ("other", 1), "owner and version")
    equal(await harness.documents.get(owner, IdempotentTurn, "s"), None, "the first owner's view")


@case("documents")
async def each_site_and_tenant_has_its_own_keys(harness: Harness) -> None:
    """The same key in another site or tenant is another record, with its own version, deleted separately."""
    scopes = [harness.scope(), harness.scope(site="elsewhere"), harness.scope(tenant="-other")]
    for number, scope in enumerate(scopes):
        put = await harness.documents.put(scope, small_record("s", holder=str(number)), expected=0)
        equal(put.version, 1, "version of an insert")
    await harness.documents.delete(scopes[0], IdempotentTurn, "s")
    seen = [await harness.documents.get(scope, IdempotentTurn, "s") for scope in scopes]
    equal([got and got.record.holder for got in seen], [None, "1", "2"], "records after deleting the first")


@case("documents")
async def shared_records_belong_to_the_site(harness: Harness) -> None:
    """Any user of the site reads, lists, changes and deletes a shared record; its first author is kept."""
    author, colleague = harness.scope("author"), harness.scope("colleague")
    first = await harness.documents.put(author, evidence("e"))
    equal(await harness.documents.get(colleague, EvidenceRecord, "e"), first, "the colleague's view")
    equal(keys(await harness.documents.list(colleague, EvidenceRecord)), ["e"], "the colleague's listing")
    changed = await harness.documents.put(colleague, evidence("e", title="卷一"), expected=1)
    equal((changed.user_id, changed.version), ("author", 2), "first author and version")
    with raises(VersionConflict, "insert of a taken shared key"):
        await harness.documents.put(colleague, evidence("e"), expected=0)
    for who in ("another site", "another tenant"):
        stranger = harness.foreign_scopes()[who]
        equal(await harness.documents.get(stranger, EvidenceRecord, "e"), None, f"get by {who}")
        equal(keys(await harness.documents.list(stranger, EvidenceRecord)), [], f"listing by {who}")
        equal(await harness.documents.delete(stranger, EvidenceRecord, "e"), False, f"delete by {who}")
    equal(await harness.documents.delete(colleague, EvidenceRecord, "e"), True, "the colleague's delete")
    equal(await harness.documents.get(author, EvidenceRecord, "e"), None, "the author's view afterwards")


@case("documents")
async def separators_in_scopes_do_not_collide(harness: Harness) -> None:
    """Tenant, site and user are separate names: moving a separator between them makes another owner."""
    for mark in SEPARATORS:
        for mine, other in harness.colliding_scopes(mark):
            await harness.documents.put(mine, small_record(f"s{mark}"))
            await harness.documents.put(mine, evidence(f"e{mark}"))
            equal(await harness.documents.get(other, IdempotentTurn, f"s{mark}"), None, f"{other} sees {mine}")
            equal(await harness.documents.get(other, EvidenceRecord, f"e{mark}"), None, f"{other} sees {mine}")
            equal(keys(await harness.documents.list(other, IdempotentTurn)), [], f"{other} lists {mine}")
            await harness.documents.delete(mine, IdempotentTurn, f"s{mark}")
            await harness.documents.delete(mine, EvidenceRecord, f"e{mark}")


@case("documents")
async def any_text_names_an_owner(harness: Harness) -> None:
    """Tenants, sites and users may have any name that a key may have; each sees only its own records."""
    for name in HOSTILE_KEYS:
        tenant = f"-{name}"[:400]
        for scope in (harness.scope(name), harness.scope(site=name), harness.scope(tenant=tenant)):
            await _put_and_check_alone(harness, scope)


async def _put_and_check_alone(harness: Harness, scope: Scope) -> None:
    await harness.documents.put(scope, small_record(scope.user_id, holder=scope.site_id))
    got = await harness.documents.get(scope, IdempotentTurn, scope.user_id)
    equal(got and (got.record.holder, got.user_id), (scope.site_id, scope.user_id), f"record of {scope}")
    equal(keys(await harness.documents.list(scope, IdempotentTurn)), [scope.user_id], f"listing of {scope}")
    equal(await harness.documents.delete(scope, IdempotentTurn, scope.user_id), True, f"delete by {scope}")


@case("documents")
async def a_record_is_absent_once_it_expires(harness: Harness) -> None:
    """A record exists until just before ``keep_until``; from that timestamp on it is absent in every way."""
    scope = harness.scope()
    await harness.documents.put(scope, trace("trace-1"), keep_until=harness.clock() + HOUR)
    await harness.documents.put(scope, trace("trace-2"))
    harness.clock.advance(HOUR - MICROSECOND)
    require(await harness.documents.get(scope, TraceRecord, "trace-1"), "absent a microsecond early")
    equal(len((await harness.documents.list(scope, TraceRecord)).items), 2, "records a microsecond early")
    harness.clock.advance(MICROSECOND)
    equal(await harness.documents.get(scope, TraceRecord, "trace-1"), None, "get at the timestamp itself")
    equal(keys(await harness.documents.list(scope, TraceRecord)), ["trace-2"], "listing at the timestamp itself")
    filtered = await harness.documents.list(scope, TraceRecord, where={"npc_id": "elder"}, limit=1)
    equal((keys(filtered), filtered.next_cursor), (["trace-2"], None), "a full page at the timestamp itself")
    with raises(VersionConflict, "expecting version 1 of an expired record"):
        await harness.documents.put(scope, trace("trace-1"), expected=1)
    equal(await harness.documents.delete(scope, TraceRecord, "trace-1", expected=7), False, "delete expected")
    equal(await harness.documents.delete(scope, TraceRecord, "trace-1"), False, "delete of an expired record")


@case("documents")
async def an_expired_key_can_be_reused(harness: Harness) -> None:
    """After expiry a key is free: the next put, by any user, creates version 1 with a new creation time."""
    owner, other = harness.scope(), harness.scope("other")
    for _ in range(2):
        await harness.documents.put(owner, small_record("a"), keep_until=harness.clock() + HOUR)
        await harness.documents.put(owner, small_record("b"), keep_until=harness.clock() + HOUR)
    harness.clock.advance(HOUR)
    mine = await harness.documents.put(owner, small_record("a"), expected=0)
    theirs = await harness.documents.put(other, small_record("b"))
    for stored, user in ((mine, owner.user_id), (theirs, "other")):
        found = (stored.version, stored.created_at, stored.user_id)
        equal(found, (1, harness.clock(), user), "version, creation and owner")
    equal(await harness.documents.get(owner, IdempotentTurn, "b"), None, "what the former owner sees")
    equal(await harness.documents.get(owner, IdempotentTurn, "a"), mine, "what the new record is")


@case("documents")
async def each_put_resets_the_expiry(harness: Harness) -> None:
    """A put with a later ``keep_until`` extends the record; one without it removes the expiry."""
    scope = harness.scope()
    for key in ("extended", "kept", "shortened"):
        await harness.documents.put(scope, small_record(key), keep_until=harness.clock() + HOUR)
    await harness.documents.put(scope, small_record("extended"), keep_until=harness.clock() + 2 * HOUR)
    await harness.documents.put(scope, small_record("kept"))
    await harness.documents.put(scope, small_record("shortened"), keep_until=harness.clock() + HOUR / 2)
    seen = []
    for _ in range(4):
        seen.append(sorted(keys(await harness.documents.list(scope, IdempotentTurn))))
        harness.clock.advance(HOUR / 2)
    wanted = [
        ["extended", "kept", "shortened"],
        ["extended", "kept"],
        ["extended", "kept"],
        ["extended", "kept"],
    ]
    equal(seen, wanted, "records at each half hour")
    equal(keys(await harness.documents.list(scope, IdempotentTurn)), ["kept"], "records after two hours")


@case("documents")
async def a_sweep_removes_expired_records(harness: Harness) -> None:
    """``sweep`` removes and counts the expired records of all scopes and types; a second sweep finds none."""
    scope, other = harness.scope(), harness.scope(tenant="-other")
    await harness.documents.sweep()
    end = harness.clock() + HOUR
    for owner in (scope, other):
        await harness.documents.put(owner, small_record("s"), keep_until=end)
        await harness.documents.put(owner, trace("t"), keep_until=end)
        await harness.documents.put(owner, evidence("e"), keep_until=end)
        await harness.documents.put(owner, small_record("later"), keep_until=end + MICROSECOND)
        await harness.documents.put(owner, small_record("kept"))
    equal(await harness.documents.sweep(), 0, "removed before the expiry")
    harness.clock.advance(HOUR)
    equal(await harness.documents.sweep(), 6, "removed at the expiry")
    equal(await harness.documents.sweep(), 0, "removed by a second sweep")
    for owner in (scope, other):
        left = sorted(keys(await harness.documents.list(owner, IdempotentTurn)))
        equal(left, ["kept", "later"], "what is left")
