"""Reuse of a deleted session id: data of the former session is absent under it."""

import asyncio

from msgspec.structs import replace

from wenmai.errors import SessionNotFound, VersionConflict
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.harness import HOUR, Harness, keys, make_messages, texts
from wenmai.stores.conformance.samples import STATE_CHANGE, small_record, summary_record, trace
from wenmai.stores.records import (
    BusinessState,
    IdempotentTurn,
    Lease,
    NewMessage,
    Preferences,
    Record,
    Session,
    StateAudit,
    TraceRecord,
    Watermark,
)

MIN_IDENTITY_LENGTH = 16
APPENDS = 6


async def reuse_session_id(harness: Harness, former: Scope, later: Scope) -> tuple[Session, Session]:
    """``session-1`` of one owner, deleted and reused by another or the same."""
    before = await harness.open_session(former)
    await harness.documents.delete(former, Session, "session-1")
    return before, await harness.open_session(later)


def bound_records(session: Session) -> list[Record]:
    """A record of every type that is bound to a session, naming its incarnation."""
    id_, incarnation = session.session_id, session.incarnation
    lease = Lease(
        name=f"turn/{incarnation}/elder",
        session_id=id_,
        incarnation=incarnation,
        holder="h",
        expires_at=session.expires_at,
    )
    return [
        Preferences(session_id=id_, incarnation=incarnation, tone="casual"),
        lease,
        trace("trace-1", session_id=id_, incarnation=incarnation, answer="an answer"),
        small_record("key-1", session_id=id_, incarnation=incarnation, response={"answer": "an answer"}),
        Watermark(
            ref=f"title/{incarnation}/elder",
            session_id=id_,
            incarnation=incarnation,
            function="title",
            persona_id="elder",
            seq=3,
        ),
        summary_record(f"{incarnation}/elder", session_id=id_, incarnation=incarnation, summary="a summary"),
        BusinessState(session_id=id_, incarnation=incarnation, current_customer_id="C-1", state_version=1),
        StateAudit(ref=f"{incarnation}/1", session_id=id_, incarnation=incarnation, changes=[STATE_CHANGE]),
    ]


@case("documents")
async def a_session_has_a_unique_incarnation(harness: Harness) -> None:
    """The store generates it with the record; changes keep it; a session that reuses the id has another."""
    scope = harness.scope()
    first = await harness.open_session(scope)
    require(len(first.incarnation) >= MIN_IDENTITY_LENGTH, "the store generated no incarnation")
    renamed = await harness.documents.put(scope, replace(first, title="t", incarnation=""), expected=1)
    equal(renamed.record.incarnation, first.incarnation, "the incarnation after a change")
    got = await harness.documents.get(scope, Session, "session-1")
    equal(got, renamed, "what get returned, against what put returned")
    before, after = await reuse_session_id(harness, scope, scope)
    equal(before.incarnation, first.incarnation, "the incarnation before the delete")
    require(after.incarnation != before.incarnation, "the incarnation was reused")


@case("documents")
async def a_late_delete_removes_no_other_session(harness: Harness) -> None:
    """A delete that names the former incarnation keeps the session that has the id now, even at the same version."""
    scope = harness.scope()
    before, after = await reuse_session_id(harness, scope, scope)
    for expected in (None, 1, 7):
        late = await harness.documents.delete(
            scope, Session, "session-1", expected=expected, identity=before.incarnation
        )
        equal(late, False, f"the late delete, expected={expected}")
    with raises(VersionConflict, "a delete of the current one at another version"):
        await harness.documents.delete(scope, Session, "session-1", expected=7, identity=after.incarnation)
    kept = await harness.documents.get(scope, Session, "session-1")
    equal(kept and kept.record, after, "the session that has the id")
    equal(await harness.documents.delete(scope, Session, "session-1", identity=after.incarnation), True, "the delete")


@case("documents")
async def a_change_of_a_deleted_session_is_refused(harness: Harness) -> None:
    """A put of a record read before the delete raises VersionConflict, whether the id is free or reused."""
    scope = harness.scope()
    before = await harness.open_session(scope)
    await harness.documents.delete(scope, Session, "session-1")
    for expected in (None, 0, 1):
        with raises(VersionConflict, f"a put over a free id, expected={expected}"):
            await harness.documents.put(scope, replace(before, title="late"), expected=expected)
    await harness.open_session(scope)
    for expected in (None, 1):
        with raises(VersionConflict, f"a put over a taken id, expected={expected}"):
            await harness.documents.put(scope, replace(before, title="late"), expected=expected)
    got = await harness.documents.get(scope, Session, "session-1")
    equal(got and got.record.title, "", "the title afterwards")


@case("documents")
async def a_put_never_moves_expires_at_back(harness: Harness) -> None:
    """A put of a record read before an append keeps the ``expires_at`` that the append set."""
    scope = harness.scope()
    read = await harness.open_session(scope)
    if harness.store.logs is None:
        await harness.documents.put(scope, replace(read, expires_at=read.expires_at + HOUR / 2), expected=1)
        put = await harness.documents.put(scope, replace(read, title="t"), expected=2)
    else:
        harness.clock.advance(HOUR / 2)
        await harness.logs.append(scope, ThreadKey("session-1", "elder"), make_messages(1))
        put = await harness.documents.put(scope, replace(read, title="t"), expected=1)
    got = await harness.documents.get(scope, Session, "session-1")
    equal(got, put, "what get returned, against what put returned")
    equal((put.record.title, put.record.expires_at), ("t", read.expires_at + HOUR / 2), "title and expiry")


@case("documents")
async def bound_records_are_deleted_with_their_session(harness: Harness) -> None:
    """Bound records are absent from every read once their session is deleted, also when the id is reused."""
    scope = harness.scope()
    records = bound_records(await harness.open_session(scope))
    for record in records:
        put = await harness.documents.put(scope, record)
        equal(await harness.documents.get(scope, type(record), record.key), put, f"the {type(record).__name__}")
    await harness.documents.delete(scope, Session, "session-1")
    for reused in (False, True):
        for record in records:
            of = type(record)
            equal(await harness.documents.get(scope, of, record.key), None, f"{of.__name__}, reused={reused}")
            equal(await harness.documents.get_many(scope, of, [record.key]), {}, f"{of.__name__} among many")
            equal(keys(await harness.documents.list(scope, of)), [], f"listing of {of.__name__}, reused={reused}")
            equal(await harness.documents.delete(scope, of, record.key), False, f"delete of {of.__name__}")
        filtered = await harness.documents.list(scope, TraceRecord, where={"session_id": "session-1"})
        equal(keys(filtered), [], f"filtered listing, reused={reused}")
        await harness.open_session(scope)


@case("documents")
async def late_writes_of_a_deleted_session_are_refused(harness: Harness) -> None:
    """A put of a bound record of a deleted session raises SessionNotFound, whoever has the id now."""
    owner = harness.scope()
    records = bound_records(await harness.open_session(owner))
    for record in records:
        await harness.documents.put(owner, record)
    await harness.documents.delete(owner, Session, "session-1")
    for taker in (None, owner, harness.scope("another")):
        if taker is not None:
            await harness.open_session(taker)
        for record, expected in ((record, expected) for record in records for expected in (None, 0, 1)):
            with raises(SessionNotFound, f"late {type(record).__name__}, expected={expected}"):
                await harness.documents.put(owner, record, expected=expected)
        for scope in (owner, taker or owner):
            found = [await harness.documents.get(scope, type(record), record.key) for record in records]
            equal(found, [None] * len(records), "records of the late writes")
        if taker is not None:
            await harness.documents.delete(taker, Session, "session-1")


@case("documents")
async def the_next_owner_is_not_locked_out(harness: Harness) -> None:
    """The next owner of an id creates bound records under the former owner's keys, at version 1, and reads its own."""
    former, later = harness.scope("former"), harness.scope("later")
    for record in bound_records(await harness.open_session(former)):
        await harness.documents.put(former, record)
    await harness.documents.delete(former, Session, "session-1")
    for record in bound_records(await harness.open_session(later)):
        put = await harness.documents.put(later, record, expected=0)
        equal((put.version, put.user_id), (1, later.user_id), f"version and owner of {type(record).__name__}")
        equal(await harness.documents.get(later, type(record), record.key), put, f"{type(record).__name__}")
        equal(await harness.documents.get(former, type(record), record.key), None, "what the former sees")


@case("documents")
async def a_bound_record_needs_its_session(harness: Harness) -> None:
    """Bound records of an absent or foreign session are refused; without an incarnation they get the current one."""
    owner = harness.scope()
    with raises(SessionNotFound, "preferences of no session"):
        await harness.documents.put(owner, Preferences(session_id="session-1"))
    session = await harness.open_session(owner)
    for who, stranger in harness.foreign_scopes().items():
        for record in (Preferences(session_id="session-1"), bound_records(session)[2]):
            with raises(SessionNotFound, f"{type(record).__name__} by {who}"):
                await harness.documents.put(stranger, record)
    put = await harness.documents.put(owner, Preferences(session_id="session-1"))
    equal(put.record.incarnation, session.incarnation, "the incarnation that the store filled in")
    unbound = await harness.documents.put(owner, small_record("key-1"))
    await harness.documents.delete(owner, Session, "session-1")
    equal(await harness.documents.get(owner, IdempotentTurn, "key-1"), unbound, "a record bound to no session")


@case("documents")
async def bound_records_expire_with_their_session(harness: Harness) -> None:
    """From the session's ``keep_until`` on, also after the sweep and under a reused id, bound records are absent."""
    scope = harness.scope()
    session = Session(session_id="session-1", expires_at=harness.clock() + HOUR, lifetime_seconds=3600)
    stored = await harness.documents.put(scope, session, keep_until=harness.clock() + HOUR)
    records = bound_records(stored.record)
    for record in records:
        await harness.documents.put(scope, record)
    harness.clock.advance(HOUR)
    for step in ("expired", "swept", "reused"):
        if step == "swept":
            await harness.documents.sweep()
        if step == "reused":
            await harness.open_session(scope)
        found = [await harness.documents.get(scope, type(record), record.key) for record in records]
        equal(found, [None] * len(records), f"bound records, {step}")
        with raises(SessionNotFound, f"a late put, {step}"):
            await harness.documents.put(scope, records[0])


@case("logs")
async def a_stale_thread_key_reaches_no_other_session(harness: Harness) -> None:
    """With the former incarnation in the key, nothing is appended to, read from or removed from the successor."""
    scope = harness.scope()
    before, after = await reuse_session_id(harness, scope, scope)
    late, key = (ThreadKey("session-1", "elder", each.incarnation) for each in (before, after))
    for slide in (True, False):
        with raises(SessionNotFound, f"a late append, slide={slide}"):
            await harness.logs.append(scope, late, make_messages(1), tail=5, slide=slide)
    appended = await harness.logs.append(scope, key, make_messages(3))
    equal(appended.incarnation, after.incarnation, "the incarnation that was appended to")
    with raises(SessionNotFound, "a late append to a thread"):
        await harness.logs.append(scope, late, make_messages(1))
    equal(await harness.logs.threads(scope, "session-1", incarnation=before.incarnation), [], "late threads")
    own = await harness.logs.threads(scope, "session-1", incarnation=after.incarnation)
    equal([info.persona_id for info in own], ["elder"], "the own threads")
    equal(await harness.logs.read(scope, late), [], "a late read")
    equal(await harness.logs.latest(scope, late, 5), [], "a late read of the newest")
    equal(await harness.logs.latest(scope, late, 5, whole_turns=True), [], "a late read of whole turns")
    equal(await harness.logs.erase(scope, "session-1", incarnation=before.incarnation), 0, "a late erase")
    equal(await harness.logs.erase(scope, "session-1", "elder", incarnation=before.incarnation), 0, "of a thread")
    equal(await harness.logs.truncate(scope, late, 0), 0, "a late truncate")
    for thread in (key, key._replace(incarnation=None)):
        equal(texts(await harness.logs.read(scope, thread)), ["1", "2", "3"], "the thread")
    equal(await harness.logs.erase(scope, "session-1", "elder", incarnation=after.incarnation), 3, "the own erase")


@case("logs")
async def a_late_answer_completes_no_other_message(harness: Harness) -> None:
    """A message of a deleted session, erased thread or truncated end cannot be completed in its replacement."""
    scope = harness.scope()
    await harness.open_session(scope)
    key = ThreadKey("session-1", "elder")
    open_turn = [NewMessage(role="user", content="q"), NewMessage(role="assistant", content="", completed=False)]
    for step in ("deleted", "erased", "truncated"):
        late = (await harness.logs.append(scope, key, open_turn)).messages[1]
        if step == "deleted":
            await harness.documents.delete(scope, Session, "session-1")
            await harness.open_session(scope)
        elif step == "erased":
            await harness.logs.erase(scope, "session-1", "elder")
        else:
            await harness.logs.truncate(scope, key, 0)
        now = (await harness.logs.append(scope, key, open_turn)).messages[1]
        equal(now.seq, late.seq, f"the number, {step}")
        equal(await harness.logs.complete(scope, key, late, content="late"), None, f"the late answer, {step}")
        filled = await harness.logs.complete(scope, key, now, content="answer")
        equal(filled and (filled.id, filled.content), (now.id, "answer"), f"the own answer, {step}")
        await harness.logs.erase(scope, "session-1")


@case("logs")
async def a_thread_is_truncated_after_a_message(harness: Harness) -> None:
    """Truncating removes later messages; remaining ids are kept, numbers continue, generated ids are never reused."""
    scope = harness.scope()
    key = await harness.thread(scope)
    named = NewMessage(role="user", content="named", id="m5")
    stored = (await harness.logs.append(scope, key, [*make_messages(4), named, *make_messages(1)])).messages
    equal(await harness.logs.truncate(scope, key, 6), 0, "a truncate past the end")
    equal(await harness.logs.truncate(scope, key, 3), 3, "how many were removed")
    equal(await harness.logs.read(scope, key), stored[:3], "what is left")
    equal(await harness.logs.latest(scope, key, 9), stored[:3], "the newest")
    again = await harness.logs.append(scope, key, [*make_messages(2)[1:], named, *make_messages(1)], tail=9)
    equal([m.seq for m in again.messages], [4, 5, 6], "the next numbers")
    equal([m.turn_id for m in again.messages], [2, 3, 4], "the next turns")
    equal(again.tail, [*stored[:3], *again.messages], "the tail")
    ids = [message.id for message in [*stored, *again.messages] if message.id != "m5"]
    equal(len(set(ids)), len(ids), "ids that the store generated")
    repeated = await harness.logs.append(scope, key, [NewMessage(role="user", content="x", id=stored[1].id)])
    equal((repeated.repeated, repeated.messages), (1, [stored[1]]), "an id from before the truncate")
    filled = await harness.logs.append(scope, key, [NewMessage(role="assistant", content="", completed=False)])
    done = await harness.logs.complete(scope, key, filled.messages[0], content="answer")
    equal(done and done.content, "answer", "an answer after the truncate")
    equal(await harness.logs.truncate(scope, key, 0), 7, "a truncate of everything")
    equal((await harness.logs.append(scope, key, make_messages(1))).messages[0].turn_id, 1, "the first turn again")
    for who, stranger in harness.foreign_scopes().items():
        equal(await harness.logs.truncate(stranger, key, 0), 0, f"a truncate by {who}")
    equal(len(await harness.logs.read(scope, key)), 1, "messages afterwards")


@case("logs", "extended")
async def a_reader_never_sees_a_successors_rows(harness: Harness) -> None:
    """While a session is deleted and recreated among others, its owner reads its own messages or nothing."""
    owner, other = harness.scope("owner"), harness.scope("other", tenant="-other")
    mine = ThreadKey("session-mine", "elder")
    seen: set[str] = set()

    async def reading() -> None:
        for _ in range(40):
            for read in (harness.logs.latest(owner, mine, 5), harness.logs.read(owner, mine)):
                seen.update(texts(await read))

    async def replacing() -> None:
        for number in range(20):
            await harness.open_session(owner, "session-mine")
            await harness.logs.append(owner, mine, make_messages(2, mark="mine "))
            await harness.documents.delete(owner, Session, "session-mine")
            session_id = f"session-{number}"
            await harness.open_session(other, session_id)
            await harness.logs.append(other, ThreadKey(session_id, "elder"), make_messages(2, mark="secret "))
            await harness.documents.delete(other, Session, session_id)

    await asyncio.gather(replacing(), *(reading() for _ in range(8)))
    equal(sorted(text for text in seen if "secret" in text), [], "another tenant's messages that the owner read")


@case("logs", "extended")
async def a_successor_keeps_acknowledged_appends(harness: Harness) -> None:
    """Appends to a session that reuses the id while the former is being removed are all stored."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=600)
    session = await harness.documents.get(scope, Session, "session-1")
    here = session.record if session else await harness.open_session(scope)
    hanging = {"session_id": "session-1", "incarnation": here.incarnation}
    await asyncio.gather(*(harness.documents.put(scope, trace(f"trace-{n}", **hanging)) for n in range(60)))
    deleting = asyncio.ensure_future(harness.documents.delete(scope, Session, "session-1"))
    acknowledged: list[str] = []
    while len(acknowledged) < APPENDS:
        await asyncio.sleep(0)
        try:
            await harness.logs.append(scope, key, make_messages(1, mark=f"{len(acknowledged)}-"))
        except SessionNotFound:
            await harness.open_session(scope)
            continue
        acknowledged.append(f"{len(acknowledged)}-1")
    equal(await deleting, True, "the delete")
    left = texts(await harness.logs.read(scope, key, limit=10_000))
    kept = [text for text in left if text in acknowledged]
    require(len(left) == len(kept), "messages of the former session are left")
    equal(kept, acknowledged[len(acknowledged) - len(kept) :], "the successor's messages, without a gap")
    require(acknowledged[-1] in kept, "the successor's last message is gone")
