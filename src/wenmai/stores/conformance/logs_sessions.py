"""Logs: a thread belongs to its session, which must exist, belong to the caller, and not be expired."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.harness import HOUR, Harness, make_messages, texts
from wenmai.stores.conformance.samples import SEPARATORS
from wenmai.stores.contracts import SLIDE_STEP
from wenmai.stores.records import NewMessage, Session

MICROSECOND = timedelta(microseconds=1)


@case("logs")
async def appends_need_a_session(harness: Harness) -> None:
    """An append without a session raises SessionNotFound, also with ``slide=False``, and stores nothing."""
    scope = harness.scope()
    key = ThreadKey("session-1", "elder")
    for slide in (True, False):
        with raises(SessionNotFound, f"append without a session, slide={slide}"):
            await harness.logs.append(scope, key, make_messages(2), slide=slide)
    await harness.open_session(scope)
    equal(await harness.logs.read(scope, key), [], "messages after the session was made")


@case("logs")
async def a_foreign_thread_is_absent(harness: Harness) -> None:
    """For another user, site or tenant each method behaves as if the session were absent; nothing changes."""
    owner = harness.scope()
    key = await harness.thread(owner, messages=3)
    open_message = NewMessage(role="assistant", content="", completed=False)
    await harness.logs.append(owner, key, [open_message])
    before = await harness.logs.read(owner, key)
    for who, stranger in harness.foreign_scopes().items():
        for slide in (True, False):
            with raises(SessionNotFound, f"append by {who}, slide={slide}"):
                await harness.logs.append(stranger, key, make_messages(1), tail=5, slide=slide)
        reads: dict[str, Callable[[Scope], Awaitable[object]]] = {
            "latest": lambda scope: harness.logs.latest(scope, key, 5),
            "latest before": lambda scope: harness.logs.latest(scope, key, 5, before=3, whole_turns=True),
            "read": lambda scope: harness.logs.read(scope, key),
            "threads": lambda scope: harness.logs.threads(scope, key.session_id),
        }
        for name, read in reads.items():
            equal(await read(stranger), [], f"{name} by {who}")
        equal(await harness.logs.complete(stranger, key, before[3], content="x"), None, f"complete by {who}")
        equal(await harness.logs.erase(stranger, key.session_id), 0, f"erase by {who}")
        equal(await harness.logs.erase(stranger, key.session_id, key.persona_id), 0, f"erase of a thread by {who}")
    equal(await harness.logs.read(owner, key), before, "the thread afterwards")


@case("logs")
async def threads_of_different_sites_are_separate(harness: Harness) -> None:
    """The same session and persona ids in another site or tenant are another thread, erased separately."""
    scopes = [harness.scope(), harness.scope(site="elsewhere"), harness.scope(tenant="-other")]
    key = ThreadKey("session-1", "elder")
    for scope in scopes:
        await harness.open_session(scope)
        appended = await harness.logs.append(
            scope, key, [NewMessage(role="user", content=scope.tenant_id + scope.site_id, id="m1")]
        )
        equal((appended.repeated, appended.messages[0].seq), (0, 1), "repeated, and the number")
    await harness.logs.erase(scopes[0], "session-1")
    left = [texts(await harness.logs.read(scope, key)) for scope in scopes]
    wanted = [[], *([scope.tenant_id + scope.site_id] for scope in scopes[1:])]
    equal(left, wanted, "the threads after erasing the first")


@case("logs")
async def separators_in_thread_names_do_not_collide(harness: Harness) -> None:
    """Wherever a separator stands in owner, session or persona, different names are different threads."""
    scope = harness.scope()
    for mark in SEPARATORS:
        for session, npc in ((f"a{mark}b", "c"), ("a", f"b{mark}c"), (f"a{mark}", "b"), ("a", f"{mark}b")):
            await harness.open_session(scope, session)
            await harness.logs.append(scope, ThreadKey(session, npc), make_messages(1, mark=f"{session}&{npc}"))
            stored = await harness.logs.read(scope, ThreadKey(session, npc))
            equal(texts(stored), [f"{session}&{npc}1"], f"thread of {session!r} and {npc!r}")
        for mine, other in harness.colliding_scopes(mark):
            key = await harness.thread(mine, messages=2)
            await harness.open_session(other)
            equal(await harness.logs.read(other, key), [], f"what {other} reads of {mine}")
            equal(await harness.logs.erase(other, key.session_id), 0, f"what {other} erases of {mine}")
            for owner in (mine, other):
                await harness.logs.erase(owner, key.session_id)
                await harness.documents.delete(owner, Session, key.session_id)


@case("logs", "extended")
async def a_reused_session_id_shows_no_old_messages(harness: Harness) -> None:
    """A user who reuses another user's deleted session id finds none of its messages, and starts at 1."""
    former, later = harness.scope("former"), harness.scope("later")
    key = await harness.thread(former, messages=4)
    make_message = await harness.message(former, key, 1)
    await harness.documents.delete(former, Session, "session-1")
    await harness.open_session(later)
    equal(await harness.logs.read(later, key), [], "read by the later owner")
    equal(await harness.logs.latest(later, key, 5), [], "latest by the later owner")
    equal(await harness.logs.threads(later, "session-1"), [], "threads of the later owner")
    equal(await harness.logs.complete(later, key, make_message, content="x"), None, "complete by the later owner")
    appended = await harness.logs.append(later, key, make_messages(1, mark="mine "), tail=10)
    equal(
        (appended.messages[0].seq, texts(appended.tail)),
        (1, ["mine 1"]),
        "number and tail of the first append",
    )
    equal(await harness.logs.read(former, key), [], "read by the former owner")


@case("logs")
async def a_deleted_session_accepts_no_messages(harness: Harness) -> None:
    """After its session is deleted, a thread cannot be appended to or read."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=2)
    await harness.documents.delete(scope, Session, key.session_id)
    with raises(SessionNotFound, "append after the delete"):
        await harness.logs.append(scope, key, make_messages(1))
    equal(await harness.logs.read(scope, key), [], "read after the delete")
    equal(await harness.logs.latest(scope, key, 5), [], "latest after the delete")
    equal(await harness.logs.threads(scope, key.session_id), [], "threads after the delete")


@case("logs")
async def a_session_past_keep_until_is_absent(harness: Harness) -> None:
    """From the session's ``keep_until`` on, its threads are absent like the record itself."""
    scope = harness.scope()
    session = await harness.open_session(scope, "s", lifetime=9 * HOUR)
    await harness.documents.put(scope, session, keep_until=harness.clock() + HOUR)
    key = ThreadKey("s", "elder")
    await harness.logs.append(scope, key, make_messages(2))
    harness.clock.advance(HOUR)
    with raises(SessionNotFound, "append past keep_until"):
        await harness.logs.append(scope, key, make_messages(1), slide=False)
    equal(await harness.logs.read(scope, key), [], "read past keep_until")
    equal(await harness.logs.threads(scope, "s"), [], "threads past keep_until")


@case("logs")
async def an_expired_session_is_not_continued(harness: Harness) -> None:
    """From ``expires_at`` on an append raises SessionExpired and stores nothing; reading still works."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=2)
    harness.clock.advance(HOUR)
    with raises(SessionExpired, "append at the end of the lifetime"):
        await harness.logs.append(scope, key, make_messages(1))
    equal(texts(await harness.logs.read(scope, key)), ["1", "2"], "the thread after the refused append")
    equal(len(await harness.logs.threads(scope, key.session_id)), 1, "its threads")


@case("logs")
async def imports_append_to_expired_sessions(harness: Harness) -> None:
    """With ``slide=False`` an append to an expired session succeeds, and never moves ``expires_at``."""
    scope = harness.scope()
    key = await harness.thread(scope)
    session = await harness.documents.get(scope, Session, "session-1")
    for _ in range(3):
        await harness.logs.append(scope, key, make_messages(2), slide=False)
        harness.clock.advance(HOUR * 0.75)
    again = await harness.documents.get(scope, Session, "session-1")
    equal(again and again.record, session and session.record, "the session afterwards")
    equal(len(await harness.logs.read(scope, key)), 6, "messages")


@case("logs")
async def activity_keeps_a_session_alive(harness: Harness) -> None:
    """Each append moves ``expires_at`` to one lifetime from now, up to 1 s less; an idle session expires."""
    scope = harness.scope()
    busy = await harness.thread(scope, "busy")
    idle = await harness.thread(scope, "idle", messages=1)
    for _ in range(5):
        harness.clock.advance(HOUR * 0.75)
        await harness.logs.append(scope, busy, make_messages(2))
        stored = await harness.documents.get(scope, Session, "busy")
        require(stored, "the busy session is gone")
        if stored is not None:
            lag = harness.clock() + HOUR - stored.record.expires_at
            require(timedelta(0) <= lag <= SLIDE_STEP, f"expires_at lags {lag} behind now plus lifetime")
    with raises(SessionExpired, "append to the idle session"):
        await harness.logs.append(scope, idle, make_messages(1))


@case("logs", "extended")
async def the_slide_lags_less_than_a_hundredth(harness: Harness) -> None:
    """Under frequent appends ``expires_at`` never lags by 1 s, nor by a hundredth of a short lifetime."""
    scope = harness.scope()
    for name, lifetime in (("short", timedelta(seconds=30)), ("long", timedelta(days=30))):
        await harness.open_session(scope, name, lifetime=lifetime)
        for _ in range(12):
            harness.clock.advance(timedelta(seconds=0.11))
            await harness.logs.append(scope, ThreadKey(name, "elder"), make_messages(1))
            stored = await harness.documents.get(scope, Session, name)
            lag = harness.clock() + lifetime - stored.record.expires_at if stored else lifetime
            require(timedelta(0) <= lag < min(SLIDE_STEP, lifetime / 100), f"{name}: the slide lags {lag}")


@case("logs", "extended")
async def a_slide_changes_nothing_else(harness: Harness) -> None:
    """Appending changes no other field of the session, nor its position in the listing."""
    scope = harness.scope()
    session = Session(
        session_id="s",
        expires_at=harness.clock() + HOUR,
        lifetime_seconds=3_600,
        title="家训",
        title_by="user",
        context={"客户": ["A-1"]},
    )
    session = (await harness.documents.put(scope, session)).record
    harness.clock.advance(MICROSECOND)
    await harness.open_session(scope, "newer")
    harness.clock.advance(HOUR / 2)
    await harness.logs.append(scope, ThreadKey("s", "elder"), make_messages(2))
    listed = (await harness.documents.list(scope, Session)).items
    equal([stored.record.session_id for stored in listed], ["newer", "s"], "the listing")
    changed = listed[1].record
    for field in Session.__struct_fields__:
        if field != "expires_at":
            equal(getattr(changed, field), getattr(session, field), f"the field {field}")
    equal(listed[1].created_at, harness.clock() - HOUR / 2 - MICROSECOND, "created_at")
