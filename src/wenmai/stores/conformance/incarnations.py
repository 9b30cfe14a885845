"""A session id can be deleted and taken again; what belongs to the former session is absent under it."""

import asyncio

from msgspec.structs import replace

from wenmai.errors import SessionNotFound, VersionConflict
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.ground import HOUR, Ground, keys, talk, texts
from wenmai.stores.conformance.samples import small, trace
from wenmai.stores.records import IdempotentTurn, NewMessage, Preferences, Record, Session, TraceRecord, TurnLease

LEAST_IDENTITY = 16
APPENDS = 6


async def taken_again(ground: Ground, former: Scope, later: Scope) -> tuple[Session, Session]:
    """``session-1`` of one owner, deleted and taken by another or by the same."""
    before = await ground.open_session(former)
    await ground.documents.delete(former, Session, "session-1")
    return before, await ground.open_session(later)


def parts(session: Session) -> list[Record]:
    """A record of every kind that hangs on a session, naming its incarnation."""
    id_, incarnation = session.session_id, session.incarnation
    lease = TurnLease(
        thread=f"{incarnation}/elder",
        session_id=id_,
        incarnation=incarnation,
        holder="h",
        expires_at=session.expires_at,
    )
    return [
        Preferences(session_id=id_, incarnation=incarnation, tone="casual"),
        lease,
        trace("trace-1", session_id=id_, incarnation=incarnation, answer="an answer"),
        small("key-1", session_id=id_, incarnation=incarnation, response={"answer": "an answer"}),
    ]


@case("documents")
async def a_session_has_an_identity_of_its_own(ground: Ground) -> None:
    """The store makes one with the record; changes keep it; a session that takes the id again has another."""
    scope = ground.scope()
    first = await ground.open_session(scope)
    require(len(first.incarnation) >= LEAST_IDENTITY, "the store made no incarnation")
    renamed = await ground.documents.put(scope, replace(first, title="t", incarnation=""), expected=1)
    equal(renamed.record.incarnation, first.incarnation, "the incarnation after a change")
    got = await ground.documents.get(scope, Session, "session-1")
    equal(got, renamed, "what get returned, against what put returned")
    before, after = await taken_again(ground, scope, scope)
    equal(before.incarnation, first.incarnation, "the incarnation before the delete")
    require(after.incarnation != before.incarnation, "the incarnation came back")


@case("documents")
async def a_late_delete_removes_no_other_session(ground: Ground) -> None:
    """A delete that names the former incarnation leaves the one that has the id now, at the same version too."""
    scope = ground.scope()
    before, after = await taken_again(ground, scope, scope)
    for expected in (None, 1, 7):
        late = await ground.documents.delete(
            scope, Session, "session-1", expected=expected, identity=before.incarnation
        )
        equal(late, False, f"the late delete, expected={expected}")
    with raises(VersionConflict, "a delete of the present one at another version"):
        await ground.documents.delete(scope, Session, "session-1", expected=7, identity=after.incarnation)
    kept = await ground.documents.get(scope, Session, "session-1")
    equal(kept and kept.record, after, "the session that has the id")
    equal(await ground.documents.delete(scope, Session, "session-1", identity=after.incarnation), True, "the delete")


@case("documents")
async def a_change_of_a_deleted_session_is_refused(ground: Ground) -> None:
    """A put of a record read before the delete raises VersionConflict, whether the id is free or taken again."""
    scope = ground.scope()
    before = await ground.open_session(scope)
    await ground.documents.delete(scope, Session, "session-1")
    for expected in (None, 0, 1):
        with raises(VersionConflict, f"a put over a free id, expected={expected}"):
            await ground.documents.put(scope, replace(before, title="late"), expected=expected)
    await ground.open_session(scope)
    for expected in (None, 1):
        with raises(VersionConflict, f"a put over a taken id, expected={expected}"):
            await ground.documents.put(scope, replace(before, title="late"), expected=expected)
    got = await ground.documents.get(scope, Session, "session-1")
    equal(got and got.record.title, "", "the title afterwards")


@case("documents")
async def a_put_never_moves_a_sessions_end_back(ground: Ground) -> None:
    """A change made from a record read before an append keeps the end to which the append moved it."""
    scope = ground.scope()
    read = await ground.open_session(scope)
    if ground.store.logs is None:
        await ground.documents.put(scope, replace(read, expires_at=read.expires_at + HOUR / 2), expected=1)
        put = await ground.documents.put(scope, replace(read, title="t"), expected=2)
    else:
        ground.clock.advance(HOUR / 2)
        await ground.logs.append(scope, ThreadKey("session-1", "elder"), talk(1))
        put = await ground.documents.put(scope, replace(read, title="t"), expected=1)
    got = await ground.documents.get(scope, Session, "session-1")
    equal(got, put, "what get returned, against what put returned")
    equal((put.record.title, put.record.expires_at), ("t", read.expires_at + HOUR / 2), "title and end")


@case("documents")
async def what_hangs_on_a_session_goes_with_it(ground: Ground) -> None:
    """Bound records are absent to every read once their session is deleted, and stay so when the id is taken."""
    scope = ground.scope()
    records = parts(await ground.open_session(scope))
    for record in records:
        put = await ground.documents.put(scope, record)
        equal(await ground.documents.get(scope, type(record), record.key), put, f"the {type(record).__name__}")
    await ground.documents.delete(scope, Session, "session-1")
    for taken in (False, True):
        for record in records:
            of = type(record)
            equal(await ground.documents.get(scope, of, record.key), None, f"{of.__name__}, taken={taken}")
            equal(await ground.documents.get_many(scope, of, [record.key]), {}, f"{of.__name__} among many")
            equal(keys(await ground.documents.list(scope, of)), [], f"listing of {of.__name__}, taken={taken}")
            equal(await ground.documents.delete(scope, of, record.key), False, f"delete of {of.__name__}")
        filtered = await ground.documents.list(scope, TraceRecord, where={"session_id": "session-1"})
        equal(keys(filtered), [], f"filtered listing, taken={taken}")
        await ground.open_session(scope)


@case("documents")
async def late_writes_of_a_deleted_session_are_refused(ground: Ground) -> None:
    """A bound record that names a session that is gone raises SessionNotFound, whoever has the id now."""
    owner = ground.scope()
    records = parts(await ground.open_session(owner))
    for record in records:
        await ground.documents.put(owner, record)
    await ground.documents.delete(owner, Session, "session-1")
    for taker in (None, owner, ground.scope("another")):
        if taker is not None:
            await ground.open_session(taker)
        for record, expected in ((record, expected) for record in records for expected in (None, 0, 1)):
            with raises(SessionNotFound, f"late {type(record).__name__}, expected={expected}"):
                await ground.documents.put(owner, record, expected=expected)
        for scope in (owner, taker or owner):
            found = [await ground.documents.get(scope, type(record), record.key) for record in records]
            equal(found, [None] * len(records), "what the late writes left")
        if taker is not None:
            await ground.documents.delete(taker, Session, "session-1")


@case("documents")
async def the_next_owner_is_not_locked_out(ground: Ground) -> None:
    """The next owner of an id puts bound records under the former's keys, at version 1, and reads its own."""
    former, later = ground.scope("former"), ground.scope("later")
    for record in parts(await ground.open_session(former)):
        await ground.documents.put(former, record)
    await ground.documents.delete(former, Session, "session-1")
    for record in parts(await ground.open_session(later)):
        put = await ground.documents.put(later, record, expected=0)
        equal((put.version, put.user_id), (1, later.user_id), f"version and owner of {type(record).__name__}")
        equal(await ground.documents.get(later, type(record), record.key), put, f"{type(record).__name__}")
        equal(await ground.documents.get(former, type(record), record.key), None, "what the former sees")


@case("documents")
async def a_bound_record_needs_its_session(ground: Ground) -> None:
    """Bound records of an absent or foreign session are refused; without an incarnation they get the present one."""
    owner = ground.scope()
    with raises(SessionNotFound, "preferences of no session"):
        await ground.documents.put(owner, Preferences(session_id="session-1"))
    session = await ground.open_session(owner)
    for who, stranger in ground.strangers().items():
        for record in (Preferences(session_id="session-1"), parts(session)[2]):
            with raises(SessionNotFound, f"{type(record).__name__} by {who}"):
                await ground.documents.put(stranger, record)
    put = await ground.documents.put(owner, Preferences(session_id="session-1"))
    equal(put.record.incarnation, session.incarnation, "the incarnation that the store filled in")
    unbound = await ground.documents.put(owner, small("key-1"))
    await ground.documents.delete(owner, Session, "session-1")
    equal(await ground.documents.get(owner, IdempotentTurn, "key-1"), unbound, "a record bound to no session")


@case("documents")
async def a_session_past_its_retention_takes_its_parts_along(ground: Ground) -> None:
    """From its ``keep_until`` on, before and after the sweep, and under a taken id, its bound records are absent."""
    scope = ground.scope()
    session = Session(session_id="session-1", expires_at=ground.clock() + HOUR, lifetime_seconds=3600)
    stored = await ground.documents.put(scope, session, keep_until=ground.clock() + HOUR)
    records = parts(stored.record)
    for record in records:
        await ground.documents.put(scope, record)
    ground.clock.advance(HOUR)
    for step in ("past its end", "swept", "taken again"):
        if step == "swept":
            await ground.documents.sweep()
        if step == "taken again":
            await ground.open_session(scope)
        found = [await ground.documents.get(scope, type(record), record.key) for record in records]
        equal(found, [None] * len(records), f"bound records, {step}")
        with raises(SessionNotFound, f"a late put, {step}"):
            await ground.documents.put(scope, records[0])


@case("logs")
async def a_key_of_a_deleted_session_reaches_no_other(ground: Ground) -> None:
    """With the former incarnation in the key nothing is appended to, read from or removed from the successor."""
    scope = ground.scope()
    before, after = await taken_again(ground, scope, scope)
    late, key = (ThreadKey("session-1", "elder", each.incarnation) for each in (before, after))
    for slide in (True, False):
        with raises(SessionNotFound, f"a late append, slide={slide}"):
            await ground.logs.append(scope, late, talk(1), tail=5, slide=slide)
    appended = await ground.logs.append(scope, key, talk(3))
    equal(appended.incarnation, after.incarnation, "the incarnation that was appended to")
    with raises(SessionNotFound, "a late append to a thread"):
        await ground.logs.append(scope, late, talk(1))
    equal(await ground.logs.threads(scope, "session-1", incarnation=before.incarnation), [], "late threads")
    own = await ground.logs.threads(scope, "session-1", incarnation=after.incarnation)
    equal([info.npc_id for info in own], ["elder"], "the own threads")
    equal(await ground.logs.read(scope, late), [], "a late read")
    equal(await ground.logs.latest(scope, late, 5), [], "a late read of the newest")
    equal(await ground.logs.latest(scope, late, 5, whole_turns=True), [], "a late read of whole turns")
    equal(await ground.logs.erase(scope, "session-1", incarnation=before.incarnation), 0, "a late erase")
    equal(await ground.logs.erase(scope, "session-1", "elder", incarnation=before.incarnation), 0, "of a thread")
    equal(await ground.logs.truncate(scope, late, 0), 0, "a late truncate")
    for thread in (key, key._replace(incarnation=None)):
        equal(texts(await ground.logs.read(scope, thread)), ["1", "2", "3"], "the thread")
    equal(await ground.logs.erase(scope, "session-1", "elder", incarnation=after.incarnation), 3, "the own erase")


@case("logs")
async def a_late_answer_fills_no_other_message(ground: Ground) -> None:
    """An answer's record of a deleted session, erased thread or cut end is not found in what took its place."""
    scope = ground.scope()
    await ground.open_session(scope)
    key = ThreadKey("session-1", "elder")
    open_turn = [NewMessage(role="user", content="q"), NewMessage(role="assistant", content="", completed=False)]
    for step in ("deleted", "erased", "cut"):
        late = (await ground.logs.append(scope, key, open_turn)).messages[1]
        if step == "deleted":
            await ground.documents.delete(scope, Session, "session-1")
            await ground.open_session(scope)
        elif step == "erased":
            await ground.logs.erase(scope, "session-1", "elder")
        else:
            await ground.logs.truncate(scope, key, 0)
        now = (await ground.logs.append(scope, key, open_turn)).messages[1]
        equal(now.seq, late.seq, f"the number, {step}")
        equal(await ground.logs.settle(scope, key, late, content="late"), None, f"the late answer, {step}")
        filled = await ground.logs.settle(scope, key, now, content="answer")
        equal(filled and (filled.id, filled.content), (now.id, "answer"), f"the own answer, {step}")
        await ground.logs.erase(scope, "session-1")


@case("logs")
async def a_thread_is_cut_after_a_message(ground: Ground) -> None:
    """Truncating removes what comes after; ids stay; numbers go on behind the cut; made ids do not come back."""
    scope = ground.scope()
    key = await ground.thread(scope)
    named = NewMessage(role="user", content="named", id="m5")
    stored = (await ground.logs.append(scope, key, [*talk(4), named, *talk(1)])).messages
    equal(await ground.logs.truncate(scope, key, 6), 0, "a cut behind the end")
    equal(await ground.logs.truncate(scope, key, 3), 3, "how many were removed")
    equal(await ground.logs.read(scope, key), stored[:3], "what is left")
    equal(await ground.logs.latest(scope, key, 9), stored[:3], "the newest")
    again = await ground.logs.append(scope, key, [*talk(2)[1:], named, *talk(1)], tail=9)
    equal([m.seq for m in again.messages], [4, 5, 6], "the next numbers")
    equal([m.turn_id for m in again.messages], [2, 3, 4], "the next turns")
    equal(again.tail, [*stored[:3], *again.messages], "the tail")
    ids = [message.id for message in [*stored, *again.messages] if message.id != "m5"]
    equal(len(set(ids)), len(ids), "ids that the store made")
    repeated = await ground.logs.append(scope, key, [NewMessage(role="user", content="x", id=stored[1].id)])
    equal((repeated.repeated, repeated.messages), (1, [stored[1]]), "an id from before the cut")
    filled = await ground.logs.append(scope, key, [NewMessage(role="assistant", content="", completed=False)])
    done = await ground.logs.settle(scope, key, filled.messages[0], content="answer")
    equal(done and done.content, "answer", "an answer after the cut")
    equal(await ground.logs.truncate(scope, key, 0), 7, "a cut of everything")
    equal((await ground.logs.append(scope, key, talk(1))).messages[0].turn_id, 1, "the first turn again")
    for who, stranger in ground.strangers().items():
        equal(await ground.logs.truncate(stranger, key, 0), 0, f"a cut by {who}")
    equal(len(await ground.logs.read(scope, key)), 1, "messages afterwards")


@case("logs", "extended")
async def a_reader_never_sees_a_successors_rows(ground: Ground) -> None:
    """While a session is deleted and its place in the store taken by others, its owner reads its own or nothing."""
    owner, other = ground.scope("owner"), ground.scope("other", tenant="-other")
    mine = ThreadKey("session-mine", "elder")
    seen: set[str] = set()

    async def reading() -> None:
        for _ in range(40):
            for read in (ground.logs.latest(owner, mine, 5), ground.logs.read(owner, mine)):
                seen.update(texts(await read))

    async def taking_turns() -> None:
        for number in range(20):
            await ground.open_session(owner, "session-mine")
            await ground.logs.append(owner, mine, talk(2, mark="mine "))
            await ground.documents.delete(owner, Session, "session-mine")
            session_id = f"session-{number}"
            await ground.open_session(other, session_id)
            await ground.logs.append(other, ThreadKey(session_id, "elder"), talk(2, mark="secret "))
            await ground.documents.delete(other, Session, session_id)

    await asyncio.gather(taking_turns(), *(reading() for _ in range(8)))
    equal(sorted(text for text in seen if "secret" in text), [], "another tenant's messages that the owner read")


@case("logs", "extended")
async def a_successor_keeps_what_it_was_acknowledged(ground: Ground) -> None:
    """Appends to a session that takes the id while the former is still being removed are all there afterwards."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=600)
    session = await ground.documents.get(scope, Session, "session-1")
    here = session.record if session else await ground.open_session(scope)
    hanging = {"session_id": "session-1", "incarnation": here.incarnation}
    await asyncio.gather(*(ground.documents.put(scope, trace(f"trace-{n}", **hanging)) for n in range(60)))
    deleting = asyncio.ensure_future(ground.documents.delete(scope, Session, "session-1"))
    acknowledged: list[str] = []
    while len(acknowledged) < APPENDS:
        await asyncio.sleep(0)
        try:
            await ground.logs.append(scope, key, talk(1, mark=f"{len(acknowledged)}-"))
        except SessionNotFound:
            await ground.open_session(scope)
            continue
        acknowledged.append(f"{len(acknowledged)}-1")
    equal(await deleting, True, "the delete")
    left = texts(await ground.logs.read(scope, key, limit=10_000))
    kept = [text for text in left if text in acknowledged]
    require(len(left) == len(kept), "messages of the former session are left")
    equal(kept, acknowledged[len(acknowledged) - len(kept) :], "the successor's messages, without a gap")
    require(acknowledged[-1] in kept, "the successor's last message is gone")
