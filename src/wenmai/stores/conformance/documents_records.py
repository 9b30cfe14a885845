"""Documents: what is put is what is got, versions count, and only the expected version is replaced."""

import asyncio
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from wenmai.errors import InvalidInput, VersionConflict
from wenmai.stores.base import Stored
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.ground import Ground
from wenmai.stores.conformance.samples import (
    AWKWARD_TEXT,
    FORBIDDEN_KEYS,
    HOSTILE_KEYS,
    NESTED,
    TWINS,
    bare_records,
    evidence,
    full_records,
    small,
    trace,
    unplaced,
)
from wenmai.stores.records import IdempotentTurn, Record, Session, TraceRecord

SECOND = timedelta(seconds=1)


@case("documents")
async def every_record_type_round_trips(ground: Ground) -> None:
    """A record of every type is read back equal, with every field set and with none."""
    scope = ground.scope()
    for record in [*full_records(), *bare_records()]:
        put = await ground.documents.put(scope, record)
        got = await ground.documents.get(scope, type(record), record.key)
        equal(unplaced(put.record), record, f"what put of {type(record).__name__} returned")
        equal(got and unplaced(got.record), record, f"what get of {type(record).__name__} returned")
        equal(got and type(got.record), type(record), "type of what get returned")
        equal(got, put, "what get returned, against what put returned")


@case("documents")
async def a_first_put_tells_owner_version_and_moment(ground: Ground) -> None:
    """A new record has version 1, the scope's user, and the clock's moment to the microsecond, in UTC."""
    scope, moment = ground.scope(), ground.clock()
    stored = await ground.documents.put(scope, small("session-1"))
    equal(stored, Stored(small("session-1"), 1, scope.user_id, moment, moment), "what put returned")
    equal(stored.created_at.utcoffset(), timedelta(0), "the offset of created_at")


@case("documents")
async def many_keys_are_read_at_once(ground: Ground) -> None:
    """Reading several keys gives what get gives for each, and leaves out the absent, the ended and the foreign."""
    scope, stranger = ground.scope(), ground.strangers()["another user"]
    mine = await ground.documents.put(scope, small("session-1"))
    await ground.documents.put(scope, small("session-2"), keep_until=ground.clock())
    await ground.documents.put(stranger, small("session-3"))
    keys = ["session-3", "session-2", "session-1", "session-10", "session-1"]
    equal(await ground.documents.get_many(scope, IdempotentTurn, keys), {"session-1": mine}, "get_many")
    equal(await ground.documents.get_many(scope, IdempotentTurn, []), {}, "get_many of no keys")
    with raises(InvalidInput, "more than 500 keys"):
        await ground.documents.get_many(scope, IdempotentTurn, [f"session-{n}" for n in range(501)])


@case("documents")
async def an_absent_key_reads_none_and_deletes_nothing(ground: Ground) -> None:
    """A key that was never put reads as None, deletes as False whatever is expected, and is not listed."""
    scope = ground.scope()
    equal(await ground.documents.get(scope, IdempotentTurn, "session-1"), None, "get")
    equal(await ground.documents.delete(scope, IdempotentTurn, "session-1"), False, "delete")
    equal(await ground.documents.delete(scope, IdempotentTurn, "session-1", expected=3), False, "delete expected")
    page = await ground.documents.list(scope, IdempotentTurn)
    equal((page.items, page.next_cursor), ([], None), "list")


@case("documents")
async def a_put_replaces_the_whole_record(ground: Ground) -> None:
    """A put adds one to the version, moves updated_at alone, and keeps nothing of the old record."""
    scope, first = ground.scope(), ground.clock()
    full = trace("trace-full", answer=AWKWARD_TEXT, error="timeout", replay_of="trace-0", details=NESTED)
    for version, record in enumerate((full, trace("trace-full"), full), start=1):
        put = await ground.documents.put(scope, record)
        got = await ground.documents.get(scope, TraceRecord, "trace-full")
        equal(got, put, "what get returned, against what put returned")
        equal((put.record, put.version), (record, version), "record and version")
        equal((put.created_at, put.updated_at), (first, ground.clock()), "created_at and updated_at")
        ground.clock.advance(SECOND)


@case("documents")
async def stored_values_are_nobodys_variables(ground: Ground) -> None:
    """Changing a list or mapping after it was put, or after it was got, does not change what is stored."""
    scope = ground.scope()
    metadata: dict[str, Any] = {"tags": ["a"]}
    session = Session(session_id="s", expires_at=ground.clock(), lifetime_seconds=1, metadata=metadata)
    await ground.documents.put(scope, session)
    metadata["tags"].append("b")
    for _ in range(2):
        got = await ground.documents.get(scope, Session, "s")
        equal(got and got.record.metadata, {"tags": ["a"]}, "the stored metadata")
        if got is not None:
            got.record.metadata["tags"].append("c")


@case("documents")
async def insert_if_absent_never_overwrites(ground: Ground) -> None:
    """``expected=0`` writes a free key; on a taken one it raises VersionConflict and changes nothing."""
    scope = ground.scope()
    first = await ground.documents.put(scope, small("s", holder="casual"), expected=0)
    equal(first.version, 1, "version of the insert")
    with raises(VersionConflict, "a second insert"):
        await ground.documents.put(scope, small("s", holder="respectful"), expected=0)
    equal(await ground.documents.get(scope, IdempotentTurn, "s"), first, "the record after the refused insert")


@case("documents")
async def only_the_expected_version_is_replaced(ground: Ground) -> None:
    """``expected=n`` writes version n+1 over version n; on any other it raises and changes nothing."""
    scope = ground.scope()
    with raises(VersionConflict, "expecting version 1 of an absent record"):
        await ground.documents.put(scope, small("s"), expected=1)
    equal(await ground.documents.get(scope, IdempotentTurn, "s"), None, "the absent record")
    await ground.documents.put(scope, small("s"), expected=0)
    second = await ground.documents.put(scope, small("s", holder="casual"), expected=1)
    equal(second.version, 2, "version after the exchange")
    for stale in (0, 1, 3, -1):
        with raises(VersionConflict, f"expecting version {stale} of version 2"):
            await ground.documents.put(scope, small("s"), expected=stale)
    equal(await ground.documents.get(scope, IdempotentTurn, "s"), second, "the record after the refused ones")


@case("documents")
async def only_the_expected_version_is_deleted(ground: Ground) -> None:
    """Delete with another version raises VersionConflict and deletes nothing; with the stored one it does."""
    scope = ground.scope()
    await ground.documents.put(scope, small("s"))
    second = await ground.documents.put(scope, small("s"))
    for stale in (0, 1, 3):
        with raises(VersionConflict, f"deleting version {stale} of version 2"):
            await ground.documents.delete(scope, IdempotentTurn, "s", expected=stale)
    equal(await ground.documents.get(scope, IdempotentTurn, "s"), second, "the record after the refused ones")
    equal(await ground.documents.delete(scope, IdempotentTurn, "s", expected=2), True, "delete")
    equal(await ground.documents.get(scope, IdempotentTurn, "s"), None, "the deleted record")


@case("documents")
async def delete_is_exact_and_idempotent(ground: Ground) -> None:
    """Delete removes that key and no twin, is True once and then False; the key begins anew at version 1."""
    scope = ground.scope()
    for twin in TWINS:
        await ground.documents.put(scope, small(twin))
        await ground.documents.put(scope, small(twin))
    equal(await ground.documents.delete(scope, IdempotentTurn, "session-1"), True, "the first delete")
    equal(await ground.documents.delete(scope, IdempotentTurn, "session-1"), False, "the second delete")
    for twin in TWINS[1:]:
        require(await ground.documents.get(scope, IdempotentTurn, twin), f"{twin!r} went with 'session-1'")
    ground.clock.advance(SECOND)
    again = await ground.documents.put(scope, small("session-1"), expected=0)
    equal((again.version, again.created_at), (1, ground.clock()), "version and created_at of the new record")


@case("documents")
async def collections_do_not_mix(ground: Ground) -> None:
    """Records of different types with the same key are different records."""
    scope = ground.scope()
    records: list[Record] = [
        small("same"),
        Session(session_id="same", expires_at=ground.clock(), lifetime_seconds=1),
        trace("same"),
        evidence("same"),
    ]
    for record in records:
        equal((await ground.documents.put(scope, record, expected=0)).version, 1, "version of an insert")
    await ground.documents.delete(scope, IdempotentTurn, "same")
    for record in records[1:]:
        got = await ground.documents.get(scope, type(record), "same")
        equal(got and unplaced(got.record), record, f"{type(record).__name__} after deleting the IdempotentTurn")


@case("documents")
async def any_text_is_a_key(ground: Ground) -> None:
    """Punctuation, paths, globs, case twins, blanks and 512 characters of Chinese are ordinary keys."""
    scope = ground.scope()
    for key in HOSTILE_KEYS:
        put = await ground.documents.put(scope, small(key, holder=key), expected=0)
        equal(put.version, 1, f"version of {key!r}")
    listed = await ground.documents.list(scope, IdempotentTurn, limit=500)
    equal(sorted(stored.record.key for stored in listed.items), sorted(HOSTILE_KEYS), "the keys listed")
    for key in HOSTILE_KEYS:
        got = await ground.documents.get(scope, IdempotentTurn, key)
        equal(got and (got.record.key, got.record.holder), (key, key), f"the record of {key!r}")
        equal(await ground.documents.delete(scope, IdempotentTurn, key), True, f"delete of {key!r}")
        equal(await ground.documents.get(scope, IdempotentTurn, key), None, f"{key!r} after its delete")


@case("documents", "extended")
async def what_is_no_key_is_refused(ground: Ground) -> None:
    """An empty key, one of 513 characters and one with NUL raise InvalidInput and store nothing."""
    scope = ground.scope()
    for key in FORBIDDEN_KEYS:
        with raises(InvalidInput, f"put of a key of {len(key)} characters"):
            await ground.documents.put(scope, small(key))
    equal((await ground.documents.list(scope, IdempotentTurn)).items, [], "what was stored")


@case("documents")
async def one_of_fifty_racing_changes_wins(ground: Ground) -> None:
    """Of 50 concurrent puts that expect the same version exactly one succeeds, and its record is stored."""
    scope = ground.scope()
    for expected in (0, 1, 2):
        outcomes = await asyncio.gather(
            *(ground.documents.put(scope, small("s", holder=str(number)), expected=expected) for number in range(50)),
            return_exceptions=True,
        )
        winners = [outcome for outcome in outcomes if isinstance(outcome, Stored)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, VersionConflict)]
        equal((len(winners), len(losers)), (1, 49), f"winners and losers at version {expected}")
        equal(await ground.documents.get(scope, IdempotentTurn, "s"), winners[0], "the record after the race")


@case("documents")
async def fifty_racing_users_make_one_owner(ground: Ground) -> None:
    """Of 50 users who insert the same key at once exactly one owns it; it stays absent for the others."""
    scopes = [ground.scope(f"user-{number}") for number in range(50)]
    outcomes = await asyncio.gather(
        *(ground.documents.put(scope, small("s", holder=scope.user_id)) for scope in scopes),
        return_exceptions=True,
    )
    owners = [outcome.user_id for outcome in outcomes if isinstance(outcome, Stored)]
    conflicts = [outcome for outcome in outcomes if isinstance(outcome, VersionConflict)]
    equal((len(owners), len(conflicts)), (1, 49), "owners and conflicts")
    seen = [scope.user_id for scope in scopes if await ground.documents.get(scope, IdempotentTurn, "s")]
    equal(seen, owners, "who sees the record")


@case("documents", "extended")
async def racing_changes_all_land_when_retried(ground: Ground) -> None:
    """20 tasks that read, add one and put with the version they read, until that succeeds, lose nothing."""
    scope = ground.scope()
    session = Session(session_id="s", expires_at=ground.clock(), lifetime_seconds=1)
    await ground.documents.put(scope, session)

    async def add_one() -> None:
        while True:
            read = await ground.documents.get(scope, Session, "s")
            if read is None:
                return
            changed = replace(read.record, total_tokens_used=read.record.total_tokens_used + 1)
            try:
                await ground.documents.put(scope, changed, expected=read.version)
            except VersionConflict:
                continue
            return

    await asyncio.gather(*(add_one() for _ in range(20)))
    got = await ground.documents.get(scope, Session, "s")
    equal(got and (got.record.total_tokens_used, got.version), (20, 21), "additions and version")


@case("documents", "extended")
async def large_records_are_kept_whole(ground: Ground) -> None:
    """A trace with 200 000 Chinese characters and 2 000 nested blocks is read back equal."""
    scope = ground.scope()
    blocks = [{"kind": "history", "text": f"第{number}段", "tokens": number} for number in range(2_000)]
    record = trace("trace-1", answer="严" * 200_000, blocks=blocks)
    await ground.documents.put(scope, record)
    got = await ground.documents.get(scope, TraceRecord, "trace-1")
    require(got is not None and got.record == record, "the large record is not what was put")
