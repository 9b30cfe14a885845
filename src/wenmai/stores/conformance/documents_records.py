"""Documents: records round-trip, versions increment, and only the expected version is replaced."""

import asyncio
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from wenmai.errors import InvalidInput, VersionConflict
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.harness import Harness
from wenmai.stores.conformance.samples import (
    AWKWARD_TEXT,
    FORBIDDEN_KEYS,
    FULL_DETAILS,
    HOSTILE_KEYS,
    SIMILAR_KEYS,
    bare_records,
    evidence,
    full_records,
    small_record,
    trace,
    without_incarnation,
)
from wenmai.stores.records import Block, IdempotentTurn, Record, Session, TraceRecord
from wenmai.stores.structs import Stored

SECOND = timedelta(seconds=1)


@case("documents")
async def every_record_type_round_trips(harness: Harness) -> None:
    """A record of every type is read back equal, with every field set and with none."""
    scope = harness.scope()
    for record in [*full_records(), *bare_records()]:
        put = await harness.documents.put(scope, record)
        got = await harness.documents.get(scope, type(record), record.key)
        equal(without_incarnation(put.record), record, f"what put of {type(record).__name__} returned")
        equal(got and without_incarnation(got.record), record, f"what get of {type(record).__name__} returned")
        equal(got and type(got.record), type(record), "type of what get returned")
        equal(got, put, "what get returned, against what put returned")


@case("documents")
async def a_first_put_returns_owner_version_and_timestamp(harness: Harness) -> None:
    """A new record has version 1, the scope's user, and the clock's time to the microsecond, in UTC."""
    scope, timestamp = harness.scope(), harness.clock()
    stored = await harness.documents.put(scope, small_record("session-1"))
    equal(stored, Stored(small_record("session-1"), 1, scope.user_id, timestamp, timestamp), "what put returned")
    equal(stored.created_at.utcoffset(), timedelta(0), "the offset of created_at")


@case("documents")
async def many_keys_are_read_at_once(harness: Harness) -> None:
    """Reading several keys returns what get returns for each, omitting absent, expired and foreign records."""
    scope, stranger = harness.scope(), harness.foreign_scopes()["another user"]
    mine = await harness.documents.put(scope, small_record("session-1"))
    await harness.documents.put(scope, small_record("session-2"), keep_until=harness.clock())
    await harness.documents.put(stranger, small_record("session-3"))
    keys = ["session-3", "session-2", "session-1", "session-10", "session-1"]
    equal(await harness.documents.get_many(scope, IdempotentTurn, keys), {"session-1": mine}, "get_many")
    equal(await harness.documents.get_many(scope, IdempotentTurn, []), {}, "get_many of no keys")
    with raises(InvalidInput, "more than 500 keys"):
        await harness.documents.get_many(scope, IdempotentTurn, [f"session-{n}" for n in range(501)])


@case("documents")
async def an_absent_key_reads_none_and_deletes_nothing(harness: Harness) -> None:
    """A key that was never put reads as None, deletes as False whatever is expected, and is not listed."""
    scope = harness.scope()
    equal(await harness.documents.get(scope, IdempotentTurn, "session-1"), None, "get")
    equal(await harness.documents.delete(scope, IdempotentTurn, "session-1"), False, "delete")
    equal(await harness.documents.delete(scope, IdempotentTurn, "session-1", expected=3), False, "delete expected")
    page = await harness.documents.list(scope, IdempotentTurn)
    equal((page.items, page.next_cursor), ([], None), "list")


@case("documents")
async def a_put_replaces_the_whole_record(harness: Harness) -> None:
    """A put increments the version, changes only updated_at, and keeps no field of the old record."""
    scope, first = harness.scope(), harness.clock()
    full = trace("trace-full", answer=AWKWARD_TEXT, error="timeout", replay_of="trace-0", details=FULL_DETAILS)
    for version, record in enumerate((full, trace("trace-full"), full), start=1):
        put = await harness.documents.put(scope, record)
        got = await harness.documents.get(scope, TraceRecord, "trace-full")
        equal(got, put, "what get returned, against what put returned")
        equal((put.record, put.version), (record, version), "record and version")
        equal((put.created_at, put.updated_at), (first, harness.clock()), "created_at and updated_at")
        harness.clock.advance(SECOND)


@case("documents")
async def stored_values_are_not_aliased(harness: Harness) -> None:
    """Changing a list or mapping after a put or a get does not change the stored record."""
    scope = harness.scope()
    metadata: dict[str, Any] = {"tags": ["a"]}
    session = Session(session_id="s", expires_at=harness.clock(), lifetime_seconds=1, metadata=metadata)
    await harness.documents.put(scope, session)
    metadata["tags"].append("b")
    for _ in range(2):
        got = await harness.documents.get(scope, Session, "s")
        equal(got and got.record.metadata, {"tags": ["a"]}, "the stored metadata")
        if got is not None:
            got.record.metadata["tags"].append("c")


@case("documents")
async def insert_if_absent_never_overwrites(harness: Harness) -> None:
    """``expected=0`` writes a free key; on a taken one it raises VersionConflict and changes nothing."""
    scope = harness.scope()
    first = await harness.documents.put(scope, small_record("s", holder="casual"), expected=0)
    equal(first.version, 1, "version of the insert")
    with raises(VersionConflict, "a second insert"):
        await harness.documents.put(scope, small_record("s", holder="respectful"), expected=0)
    equal(await harness.documents.get(scope, IdempotentTurn, "s"), first, "the record after the refused insert")


@case("documents")
async def only_the_expected_version_is_replaced(harness: Harness) -> None:
    """``expected=n`` replaces version n with n+1; on any other version it raises and changes nothing."""
    scope = harness.scope()
    with raises(VersionConflict, "expecting version 1 of an absent record"):
        await harness.documents.put(scope, small_record("s"), expected=1)
    equal(await harness.documents.get(scope, IdempotentTurn, "s"), None, "the absent record")
    await harness.documents.put(scope, small_record("s"), expected=0)
    second = await harness.documents.put(scope, small_record("s", holder="casual"), expected=1)
    equal(second.version, 2, "version after the exchange")
    for stale in (0, 1, 3, -1):
        with raises(VersionConflict, f"expecting version {stale} of version 2"):
            await harness.documents.put(scope, small_record("s"), expected=stale)
    equal(await harness.documents.get(scope, IdempotentTurn, "s"), second, "the record after the refused ones")


@case("documents")
async def only_the_expected_version_is_deleted(harness: Harness) -> None:
    """Delete with another version raises VersionConflict and deletes nothing; with the stored version it deletes."""
    scope = harness.scope()
    await harness.documents.put(scope, small_record("s"))
    second = await harness.documents.put(scope, small_record("s"))
    for stale in (0, 1, 3):
        with raises(VersionConflict, f"deleting version {stale} of version 2"):
            await harness.documents.delete(scope, IdempotentTurn, "s", expected=stale)
    equal(await harness.documents.get(scope, IdempotentTurn, "s"), second, "the record after the refused ones")
    equal(await harness.documents.delete(scope, IdempotentTurn, "s", expected=2), True, "delete")
    equal(await harness.documents.get(scope, IdempotentTurn, "s"), None, "the deleted record")


@case("documents")
async def delete_is_exact_and_idempotent(harness: Harness) -> None:
    """Delete removes exactly that key, returns True once and then False; the key restarts at version 1."""
    scope = harness.scope()
    for similar in SIMILAR_KEYS:
        await harness.documents.put(scope, small_record(similar))
        await harness.documents.put(scope, small_record(similar))
    equal(await harness.documents.delete(scope, IdempotentTurn, "session-1"), True, "the first delete")
    equal(await harness.documents.delete(scope, IdempotentTurn, "session-1"), False, "the second delete")
    for similar in SIMILAR_KEYS[1:]:
        require(
            await harness.documents.get(scope, IdempotentTurn, similar), f"{similar!r} was deleted with 'session-1'"
        )
    harness.clock.advance(SECOND)
    again = await harness.documents.put(scope, small_record("session-1"), expected=0)
    equal((again.version, again.created_at), (1, harness.clock()), "version and created_at of the new record")


@case("documents")
async def collections_do_not_mix(harness: Harness) -> None:
    """Records of different types with the same key are different records."""
    scope = harness.scope()
    records: list[Record] = [
        small_record("same"),
        Session(session_id="same", expires_at=harness.clock(), lifetime_seconds=1),
        trace("same"),
        evidence("same"),
    ]
    for record in records:
        equal((await harness.documents.put(scope, record, expected=0)).version, 1, "version of an insert")
    await harness.documents.delete(scope, IdempotentTurn, "same")
    for record in records[1:]:
        got = await harness.documents.get(scope, type(record), "same")
        equal(
            got and without_incarnation(got.record),
            record,
            f"{type(record).__name__} after deleting the IdempotentTurn",
        )


@case("documents")
async def any_text_is_a_key(harness: Harness) -> None:
    """Punctuation, paths, globs, keys that differ in case, blanks and 512 characters of Chinese are ordinary keys."""
    scope = harness.scope()
    for key in HOSTILE_KEYS:
        put = await harness.documents.put(scope, small_record(key, holder=key), expected=0)
        equal(put.version, 1, f"version of {key!r}")
    listed = await harness.documents.list(scope, IdempotentTurn, limit=500)
    equal(sorted(stored.record.key for stored in listed.items), sorted(HOSTILE_KEYS), "the keys listed")
    for key in HOSTILE_KEYS:
        got = await harness.documents.get(scope, IdempotentTurn, key)
        equal(got and (got.record.key, got.record.holder), (key, key), f"the record of {key!r}")
        equal(await harness.documents.delete(scope, IdempotentTurn, key), True, f"delete of {key!r}")
        equal(await harness.documents.get(scope, IdempotentTurn, key), None, f"{key!r} after its delete")


@case("documents", "extended")
async def invalid_keys_are_refused(harness: Harness) -> None:
    """An empty key, one of 513 characters and one with NUL raise InvalidInput and store nothing."""
    scope = harness.scope()
    for key in FORBIDDEN_KEYS:
        with raises(InvalidInput, f"put of a key of {len(key)} characters"):
            await harness.documents.put(scope, small_record(key))
    equal((await harness.documents.list(scope, IdempotentTurn)).items, [], "what was stored")


@case("documents")
async def one_of_fifty_racing_changes_wins(harness: Harness) -> None:
    """Of 50 concurrent puts that expect the same version exactly one succeeds, and its record is stored."""
    scope = harness.scope()
    for expected in (0, 1, 2):
        outcomes = await asyncio.gather(
            *(
                harness.documents.put(scope, small_record("s", holder=str(number)), expected=expected)
                for number in range(50)
            ),
            return_exceptions=True,
        )
        winners = [outcome for outcome in outcomes if isinstance(outcome, Stored)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, VersionConflict)]
        equal((len(winners), len(losers)), (1, 49), f"winners and losers at version {expected}")
        equal(await harness.documents.get(scope, IdempotentTurn, "s"), winners[0], "the record after the race")


@case("documents")
async def fifty_racing_users_make_one_owner(harness: Harness) -> None:
    """Of 50 users who insert the same key at once exactly one owns it; it stays absent for the others."""
    scopes = [harness.scope(f"user-{number}") for number in range(50)]
    outcomes = await asyncio.gather(
        *(harness.documents.put(scope, small_record("s", holder=scope.user_id)) for scope in scopes),
        return_exceptions=True,
    )
    owners = [outcome.user_id for outcome in outcomes if isinstance(outcome, Stored)]
    conflicts = [outcome for outcome in outcomes if isinstance(outcome, VersionConflict)]
    equal((len(owners), len(conflicts)), (1, 49), "owners and conflicts")
    seen = [scope.user_id for scope in scopes if await harness.documents.get(scope, IdempotentTurn, "s")]
    equal(seen, owners, "who sees the record")


@case("documents", "extended")
async def racing_changes_succeed_when_retried(harness: Harness) -> None:
    """20 tasks that read, increment and put with the version they read, until that succeeds, lose no update."""
    scope = harness.scope()
    session = Session(session_id="s", expires_at=harness.clock(), lifetime_seconds=1)
    await harness.documents.put(scope, session)

    async def add_one() -> None:
        while True:
            read = await harness.documents.get(scope, Session, "s")
            if read is None:
                return
            changed = replace(read.record, total_tokens_used=read.record.total_tokens_used + 1)
            try:
                await harness.documents.put(scope, changed, expected=read.version)
            except VersionConflict:
                continue
            return

    await asyncio.gather(*(add_one() for _ in range(20)))
    got = await harness.documents.get(scope, Session, "s")
    equal(got and (got.record.total_tokens_used, got.version), (20, 21), "additions and version")


@case("documents", "extended")
async def large_records_round_trip(harness: Harness) -> None:
    """A trace with 200 000 Chinese characters and 2 000 blocks is read back equal."""
    scope = harness.scope()
    blocks = [Block("history", f"第{number}段", number) for number in range(2_000)]
    record = trace("trace-1", answer="严" * 200_000, blocks=blocks)
    await harness.documents.put(scope, record)
    got = await harness.documents.get(scope, TraceRecord, "trace-1")
    require(got is not None and got.record == record, "the large record is not what was put")
