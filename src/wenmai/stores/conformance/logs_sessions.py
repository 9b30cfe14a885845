"""Logs: a thread hangs on its session, which must be there, be one's own, and be alive."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import SLIDE_STEP
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.ground import HOUR, Ground, talk, texts
from wenmai.stores.conformance.samples import SEPARATORS
from wenmai.stores.records import NewMessage, Session

MICROSECOND = timedelta(microseconds=1)


@case("logs")
async def appends_need_a_session(ground: Ground) -> None:
    """An append without a session raises SessionNotFound, also with ``slide=False``, and stores nothing."""
    scope = ground.scope()
    key = ThreadKey("session-1", "elder")
    for slide in (True, False):
        with raises(SessionNotFound, f"append without a session, slide={slide}"):
            await ground.logs.append(scope, key, talk(2), slide=slide)
    await ground.open_session(scope)
    equal(await ground.logs.read(scope, key), [], "messages after the session was made")


@case("logs")
async def a_foreign_thread_is_absent(ground: Ground) -> None:
    """For another user, site or tenant each method behaves as if the session were absent; nothing changes."""
    owner = ground.scope()
    key = await ground.thread(owner, messages=3)
    open_message = NewMessage(role="assistant", content="", completed=False)
    await ground.logs.append(owner, key, [open_message])
    before = await ground.logs.read(owner, key)
    for who, stranger in ground.strangers().items():
        for slide in (True, False):
            with raises(SessionNotFound, f"append by {who}, slide={slide}"):
                await ground.logs.append(stranger, key, talk(1), tail=5, slide=slide)
        reads: dict[str, Callable[[Scope], Awaitable[object]]] = {
            "latest": lambda scope: ground.logs.latest(scope, key, 5),
            "latest before": lambda scope: ground.logs.latest(scope, key, 5, before=3, whole_turns=True),
            "read": lambda scope: ground.logs.read(scope, key),
            "threads": lambda scope: ground.logs.threads(scope, key.session_id),
        }
        for name, read in reads.items():
            equal(await read(stranger), [], f"{name} by {who}")
        equal(await ground.logs.settle(stranger, key, before[3], content="x"), None, f"settle by {who}")
        equal(await ground.logs.erase(stranger, key.session_id), 0, f"erase by {who}")
        equal(await ground.logs.erase(stranger, key.session_id, key.npc_id), 0, f"erase of a thread by {who}")
    equal(await ground.logs.read(owner, key), before, "the thread afterwards")


@case("logs")
async def sites_have_threads_of_the_same_name(ground: Ground) -> None:
    """The same session and persona ids in another site or tenant are another thread, erased apart."""
    scopes = [ground.scope(), ground.scope(site="elsewhere"), ground.scope(tenant="-other")]
    key = ThreadKey("session-1", "elder")
    for scope in scopes:
        await ground.open_session(scope)
        appended = await ground.logs.append(
            scope, key, [NewMessage(role="user", content=scope.tenant_id + scope.site_id, id="m1")]
        )
        equal((appended.repeated, appended.messages[0].seq), (0, 1), "repeated, and the number")
    await ground.logs.erase(scopes[0], "session-1")
    left = [texts(await ground.logs.read(scope, key)) for scope in scopes]
    wanted = [[], *([scope.tenant_id + scope.site_id] for scope in scopes[1:])]
    equal(left, wanted, "the threads after erasing the first")


@case("logs")
async def names_of_threads_do_not_run_together(ground: Ground) -> None:
    """Wherever a separator stands in owner, session or persona, threads of different names are different."""
    scope = ground.scope()
    for mark in SEPARATORS:
        for session, npc in ((f"a{mark}b", "c"), ("a", f"b{mark}c"), (f"a{mark}", "b"), ("a", f"{mark}b")):
            await ground.open_session(scope, session)
            await ground.logs.append(scope, ThreadKey(session, npc), talk(1, mark=f"{session}&{npc}"))
            stored = await ground.logs.read(scope, ThreadKey(session, npc))
            equal(texts(stored), [f"{session}&{npc}1"], f"thread of {session!r} and {npc!r}")
        for mine, other in ground.confusable_scopes(mark):
            key = await ground.thread(mine, messages=2)
            await ground.open_session(other)
            equal(await ground.logs.read(other, key), [], f"what {other} reads of {mine}")
            equal(await ground.logs.erase(other, key.session_id), 0, f"what {other} erases of {mine}")
            for owner in (mine, other):
                await ground.logs.erase(owner, key.session_id)
                await ground.documents.delete(owner, Session, key.session_id)


@case("logs", "extended")
async def a_session_id_taken_over_shows_nothing_of_before(ground: Ground) -> None:
    """A user who takes a session id that another gave up finds no message of the other's, and begins at 1."""
    former, later = ground.scope("former"), ground.scope("later")
    key = await ground.thread(former, messages=4)
    said = await ground.message(former, key, 1)
    await ground.documents.delete(former, Session, "session-1")
    await ground.open_session(later)
    equal(await ground.logs.read(later, key), [], "read by the later owner")
    equal(await ground.logs.latest(later, key, 5), [], "latest by the later owner")
    equal(await ground.logs.threads(later, "session-1"), [], "threads of the later owner")
    equal(await ground.logs.settle(later, key, said, content="x"), None, "settle by the later owner")
    appended = await ground.logs.append(later, key, talk(1, mark="mine "), tail=10)
    equal(
        (appended.messages[0].seq, texts(appended.tail)),
        (1, ["mine 1"]),
        "number and tail of the first append",
    )
    equal(await ground.logs.read(former, key), [], "read by the former owner")


@case("logs")
async def a_deleted_session_takes_no_messages(ground: Ground) -> None:
    """After its session record is deleted, a thread cannot be appended to or read."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=2)
    await ground.documents.delete(scope, Session, key.session_id)
    with raises(SessionNotFound, "append after the delete"):
        await ground.logs.append(scope, key, talk(1))
    equal(await ground.logs.read(scope, key), [], "read after the delete")
    equal(await ground.logs.latest(scope, key, 5), [], "latest after the delete")
    equal(await ground.logs.threads(scope, key.session_id), [], "threads after the delete")


@case("logs")
async def a_session_past_its_keeping_is_absent(ground: Ground) -> None:
    """Once the session record's ``keep_until`` has come, its threads are absent like the record itself."""
    scope = ground.scope()
    session = await ground.open_session(scope, "s", lifetime=9 * HOUR)
    await ground.documents.put(scope, session, keep_until=ground.clock() + HOUR)
    key = ThreadKey("s", "elder")
    await ground.logs.append(scope, key, talk(2))
    ground.clock.advance(HOUR)
    with raises(SessionNotFound, "append past the keeping"):
        await ground.logs.append(scope, key, talk(1), slide=False)
    equal(await ground.logs.read(scope, key), [], "read past the keeping")
    equal(await ground.logs.threads(scope, "s"), [], "threads past the keeping")


@case("logs")
async def an_expired_session_is_not_continued(ground: Ground) -> None:
    """From ``expires_at`` on an append raises SessionExpired and stores nothing; reading still works."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=2)
    ground.clock.advance(HOUR)
    with raises(SessionExpired, "append at the end of the lifetime"):
        await ground.logs.append(scope, key, talk(1))
    equal(texts(await ground.logs.read(scope, key)), ["1", "2"], "the thread after the refused append")
    equal(len(await ground.logs.threads(scope, key.session_id)), 1, "its threads")


@case("logs")
async def imports_go_into_expired_sessions(ground: Ground) -> None:
    """With ``slide=False`` an append goes into an expired session too, and never moves ``expires_at``."""
    scope = ground.scope()
    key = await ground.thread(scope)
    session = await ground.documents.get(scope, Session, "session-1")
    for _ in range(3):
        await ground.logs.append(scope, key, talk(2), slide=False)
        ground.clock.advance(HOUR * 0.75)
    again = await ground.documents.get(scope, Session, "session-1")
    equal(again and again.record, session and session.record, "the session afterwards")
    equal(len(await ground.logs.read(scope, key)), 6, "messages")


@case("logs")
async def activity_keeps_a_session_alive(ground: Ground) -> None:
    """Each append moves ``expires_at`` to one lifetime from now, up to 1 s less; an idle session ends."""
    scope = ground.scope()
    busy = await ground.thread(scope, "busy")
    idle = await ground.thread(scope, "idle", messages=1)
    for _ in range(5):
        ground.clock.advance(HOUR * 0.75)
        await ground.logs.append(scope, busy, talk(2))
        stored = await ground.documents.get(scope, Session, "busy")
        require(stored, "the busy session is gone")
        if stored is not None:
            lag = ground.clock() + HOUR - stored.record.expires_at
            require(timedelta(0) <= lag <= SLIDE_STEP, f"expires_at lags {lag} behind now plus lifetime")
    with raises(SessionExpired, "append to the idle session"):
        await ground.logs.append(scope, idle, talk(1))


@case("logs", "extended")
async def the_slide_lags_less_than_a_hundredth(ground: Ground) -> None:
    """Under many quick appends ``expires_at`` never lags by 1 s, nor by a hundredth of a short lifetime."""
    scope = ground.scope()
    for name, lifetime in (("short", timedelta(seconds=30)), ("long", timedelta(days=30))):
        await ground.open_session(scope, name, lifetime=lifetime)
        for _ in range(12):
            ground.clock.advance(timedelta(seconds=0.11))
            await ground.logs.append(scope, ThreadKey(name, "elder"), talk(1))
            stored = await ground.documents.get(scope, Session, name)
            lag = ground.clock() + lifetime - stored.record.expires_at if stored else lifetime
            require(timedelta(0) <= lag < min(SLIDE_STEP, lifetime / 100), f"{name}: the slide lags {lag}")


@case("logs", "extended")
async def a_slide_changes_nothing_else(ground: Ground) -> None:
    """Appending leaves every other field of the session as it is, its place in the listing too."""
    scope = ground.scope()
    session = Session(
        session_id="s",
        expires_at=ground.clock() + HOUR,
        lifetime_seconds=3_600,
        title="家训",
        title_by="user",
        context={"客户": ["A-1"]},
    )
    session = (await ground.documents.put(scope, session)).record
    ground.clock.advance(MICROSECOND)
    await ground.open_session(scope, "newer")
    ground.clock.advance(HOUR / 2)
    await ground.logs.append(scope, ThreadKey("s", "elder"), talk(2))
    listed = (await ground.documents.list(scope, Session)).items
    equal([stored.record.session_id for stored in listed], ["newer", "s"], "the listing")
    changed = listed[1].record
    for field in Session.__struct_fields__:
        if field != "expires_at":
            equal(getattr(changed, field), getattr(session, field), f"the field {field}")
    equal(listed[1].created_at, ground.clock() - HOUR / 2 - MICROSECOND, "created_at")
