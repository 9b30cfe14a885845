"""Logs: the enumeration of the threads of all scopes, for maintenance."""

from datetime import datetime

from wenmai.errors import InvalidInput
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises
from wenmai.stores.conformance.harness import HOUR, Harness, make_messages
from wenmai.stores.records import Session
from wenmai.stores.structs import ActiveThread

SESSIONS = 7


async def enumerated(
    harness: Harness, *, since: datetime | None = None, limit: int = 2, gone_after_first: str = ""
) -> dict[tuple[Scope, ThreadKey], ActiveThread]:
    """The threads of the case, enumerated page by page; a session may be deleted after the first page of threads."""
    tenant, found, cursor = harness.scope().tenant_id, {}, None
    while True:
        page = await harness.logs.active_threads(since=since, cursor=cursor, limit=limit)
        mine = [one for one in page.items if one.scope.tenant_id.startswith(tenant)]
        found.update({(one.scope, one.thread): one for one in mine})
        if mine and gone_after_first:
            await harness.documents.delete(harness.scope(), Session, gone_after_first)
            gone_after_first = ""
        cursor = page.next_cursor
        if cursor is None:
            return found


@case("logs")
async def the_threads_of_all_scopes_are_enumerated(harness: Harness) -> None:
    """Page by page, with owner, incarnation and last number; none without messages, erased, or of a deleted session."""
    scopes = [harness.scope(), harness.scope("another"), harness.scope(site="a:b"), harness.scope(tenant=":other")]
    wanted = {}
    for number, scope in enumerate(scopes, 1):
        session = await harness.open_session(scope, f"session:{number}")
        for persona_id in ("elder", "*"):
            await harness.logs.append(scope, session.thread(persona_id), make_messages(number))
            wanted[scope, session.thread(persona_id)] = number
    scope = scopes[0]
    await harness.open_session(scope, "without messages")
    for session_id in ("erased", "deleted"):
        await harness.thread(scope, session_id, messages=2)
    await harness.logs.erase(scope, "erased")
    await harness.documents.delete(scope, Session, "deleted")
    found = await enumerated(harness)
    equal({key: one.last_seq for key, one in found.items()}, wanted, "the threads and their last numbers")


@case("logs")
async def a_delete_hides_no_other_thread_from_an_enumeration(harness: Harness) -> None:
    """A session that is deleted between two pages moves no other one out of the enumeration."""
    scope = harness.scope()
    for number in range(SESSIONS):
        await harness.thread(scope, f"session-{number}", messages=1)
    found = await enumerated(harness, gone_after_first="session-0")
    seen = {thread.session_id for _, thread in found}
    equal(
        seen - {"session-0"},
        {f"session-{number}" for number in range(1, SESSIONS)},
        "the threads of the other sessions",
    )


@case("logs")
async def threads_can_be_enumerated_by_their_last_activity(harness: Harness) -> None:
    """``since`` leaves out the sessions that have not changed later; an append counts, and is ``active_at``."""
    scope = harness.scope()
    for session_id in ("quiet", "active"):
        await harness.thread(scope, session_id, messages=1)
    before = harness.clock()
    harness.clock.advance(HOUR / 2)
    equal(await enumerated(harness, since=before), {}, "threads before any was active again")
    await harness.logs.append(scope, ThreadKey("active", "elder"), make_messages(2))
    found = (await enumerated(harness, since=before)).values()
    seen = [(one.thread.session_id, one.last_seq, one.active_at) for one in found]
    equal(seen, [("active", 3, harness.clock())], "threads since then")
    harness.clock.advance(HOUR)
    imported = ThreadKey("quiet", "elder")
    await harness.logs.append(scope, imported, make_messages(2), slide=False)
    numbers = {thread.session_id: one.last_seq for (_, thread), one in (await enumerated(harness)).items()}
    equal(numbers, {"quiet": 3, "active": 3}, "all threads, with those of expired sessions")


@case("logs")
async def an_enumeration_checks_its_arguments(harness: Harness) -> None:
    """A page examines 1 to 500 sessions, and follows one that the store returned."""
    for limit in (0, 501):
        with raises(InvalidInput, f"a limit of {limit}"):
            await harness.logs.active_threads(limit=limit)
    for cursor in ("", "no cursor", "-1", "1" * 30):
        with raises(InvalidInput, f"the cursor {cursor!r}"):
            await harness.logs.active_threads(cursor=cursor)
