"""Sessions: ownership, lifetime, deletion."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, cast

import pytest
from msgspec.structs import replace

from wenmai.clock import MovableClock
from wenmai.errors import InvalidInput, SessionNotFound, StoreUnavailable
from wenmai.memory.ids import new_trace_id
from wenmai.memory.library import Memory, MemoryPolicy, open_memory
from wenmai.memory.preferences import PreferenceChange
from wenmai.memory.sessions import Sessions, SessionTerms
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.inprocess.logs import InProcessLogs
from wenmai.stores.records import Record, Session
from wenmai.stores.structs import Stored
from wenmai.text.id_template import SESSION_IDS, new_id

R = TypeVar("R", bound=Record)

MINE = Scope("tenant", "site", "me")
STRANGERS = [
    Scope("tenant", "site", "stranger"),
    Scope("tenant", "elsewhere", "me"),
    Scope("other", "site", "me"),
]
LIFETIME = timedelta(hours=1)
NOW = MovableClock()()
TURN = [{"role": "user", "content": "祠堂何年建？"}, {"role": "assistant", "content": "记载不详。"}]


@pytest.fixture
def clock() -> MovableClock:
    """A clock that only moves on request."""
    return MovableClock()


@pytest.fixture
async def memory(clock: MovableClock) -> AsyncIterator[Memory]:
    """A memory with a session lifetime of an hour."""
    async with open_memory("memory://", clock=clock, policy=MemoryPolicy(session_lifetime=LIFETIME)) as opened:
        yield opened


async def test_a_session_gets_an_id_of_16_hex_digits(memory: Memory) -> None:
    """By default; the record belongs to the owner and has the full lifetime."""
    opened = await memory.sessions.open(MINE)
    assert re.fullmatch(r"session-[0-9a-f]{16}", opened.session_id)
    assert (opened.created, opened.instead_of, opened.stored.user_id) == (True, None, "me")
    assert opened.stored.record.expires_at == opened.stored.created_at + LIFETIME


def test_ten_thousand_ids_are_distinct() -> None:
    """No collisions among ids made at once."""
    assert len({new_id(SESSION_IDS, "me", NOW) for _ in range(10_000)}) == 10_000
    assert re.fullmatch(r"trace-[0-9a-f]{16}", new_trace_id())


async def test_sessions_of_one_second_have_ids_of_their_own(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that was drawn before is drawn again, so that no two conversations are merged."""
    drawn = iter(["s-ab12", "s-ab12", "s-cd34"])
    monkeypatch.setattr("wenmai.memory.sessions.new_id", lambda *_: next(drawn))
    opened = [await memory.sessions.open(MINE) for _ in range(2)]
    assert [(each.session_id, each.created) for each in opened] == [("s-ab12", True), ("s-cd34", True)]


def test_a_template_gives_ids_their_format(clock: MovableClock) -> None:
    """User, second and random digits; characters that ids cannot have are replaced."""
    made = new_id("sess_{user}_{seconds}_{hex4}", "me@home", clock())
    assert re.fullmatch(r"sess_me-home_1767621600_[0-9a-f]{4}", made)


@pytest.mark.parametrize("session_id", ["a", "A-z_0.9:x", "x" * 128, "..", "sess_10000_1767621600_ab12"])
async def test_the_caller_may_choose_the_id(memory: Memory, session_id: str) -> None:
    """1 to 128 characters that need no escaping anywhere."""
    opened = await memory.sessions.open(MINE, session_id)
    assert (opened.session_id, opened.created) == (session_id, True)


@pytest.mark.parametrize("session_id", ["", "x" * 129, "a b", "a/b", "a\n", "会话", "a*", "a\0"])
async def test_an_id_with_other_characters_is_rejected(memory: Memory, session_id: str) -> None:
    """By every method; the error names the field."""
    for call in (memory.sessions.open, memory.sessions.get, memory.sessions.delete):
        with pytest.raises(InvalidInput) as refused:
            await call(MINE, session_id)
        assert refused.value.field == "session_id"


async def test_opening_again_continues_and_changes_nothing(memory: Memory) -> None:
    """Insert if absent: title and metadata of the second call do not overwrite those of the first."""
    first = await memory.sessions.open(MINE, "s", title="one", metadata={"from": "first"})
    again = await memory.sessions.open(MINE, "s", title="two", metadata={"from": "second"})
    assert (again.created, again.instead_of) == (False, None)
    assert again.stored == first.stored


async def test_an_invalid_title_is_rejected_for_a_known_session_too(memory: Memory) -> None:
    """Validation does not depend on stored data."""
    await memory.sessions.open(MINE, "s")
    for session_id in (None, "s", "new"):
        with pytest.raises(InvalidInput, match="title"):
            await memory.sessions.open(MINE, session_id, title="x" * 61)
    assert len((await memory.sessions.list(MINE)).items) == 1


async def test_twenty_concurrent_openings_create_one_session(memory: Memory) -> None:
    """One of them creates it, the others continue it."""
    opened = await asyncio.gather(*(memory.sessions.open(MINE, "s") for _ in range(20)))
    assert sum(each.created for each in opened) == 1
    assert {each.session_id for each in opened} == {"s"}


async def test_another_users_id_gives_a_new_id_and_one_warning(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner's record is unchanged, and there is one log line."""
    await memory.session("s", scope=MINE, title="mine")
    before = await memory.sessions.get(MINE, "s")
    with caplog.at_level(logging.WARNING):
        opened = await memory.sessions.open(STRANGERS[0], "s", title="theirs")
    assert opened.created
    assert opened.session_id != "s"
    assert opened.instead_of == "s"
    assert len(caplog.records) == 1
    assert await memory.sessions.get(MINE, "s") == before


async def test_a_session_id_fixed_by_an_attacker_holds_nothing_of_its_victim(memory: Memory) -> None:
    """Who is led to use the attacker's id gets a session of their own, which the attacker cannot reach."""
    attacker = STRANGERS[0]
    await memory.session("fixed", scope=attacker)
    opened = await memory.sessions.open(MINE, "fixed")
    session = await memory.session(opened.session_id, scope=MINE)
    await session.append(TURN)
    assert opened.session_id != "fixed"
    assert await (await memory.session("fixed", scope=attacker)).messages() == []
    with pytest.raises(SessionNotFound):
        await memory.sessions.get(attacker, opened.session_id)


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_a_foreign_session_reads_as_absent(memory: Memory, stranger: Scope) -> None:
    """Another user cannot read, rename, list or delete a session, nor see that it exists."""
    session = await memory.session("mine-1", scope=MINE)
    await session.append(TURN)
    foreign: list[str] = []
    absent: list[str] = []
    for session_id, raised in (("mine-1", foreign), ("nowhere", absent)):
        with pytest.raises(SessionNotFound) as read:
            await memory.sessions.get(stranger, session_id)
        with pytest.raises(SessionNotFound) as renamed:
            await memory.sessions.rename(stranger, session_id, "x")
        with pytest.raises(SessionNotFound) as forgotten:
            await memory.sessions.delete_thread(stranger, session_id, "assistant")
        raised += [str(each.value).replace(session_id, "?") for each in (read, renamed, forgotten)]
        assert not await memory.sessions.delete(stranger, session_id)
    assert foreign == absent
    assert (await memory.sessions.list(stranger)).items == []
    assert len(await session.messages()) == 2


async def test_an_expired_session_is_not_continued_but_can_be_read(memory: Memory, clock: MovableClock) -> None:
    """The next question opens a new one with ``instead_of``; the old one is still listed."""
    await memory.sessions.open(MINE, "s")
    clock.advance(LIFETIME - timedelta(microseconds=1))
    assert not (await memory.sessions.open(MINE, "s")).created
    clock.advance(timedelta(microseconds=1))
    fresh = await memory.sessions.open(MINE, "s")
    assert fresh.created
    assert fresh.instead_of == "s"
    assert (await memory.sessions.get(MINE, "s")).record.session_id == "s"
    listed = [stored.record.session_id for stored in (await memory.sessions.list(MINE)).items]
    assert listed == [fresh.session_id, "s"]


async def test_the_lifetime_slides_with_activity(memory: Memory, clock: MovableClock) -> None:
    """Each message extends the session to its full lifetime."""
    session = await memory.session("s", scope=MINE)
    for _ in range(3):
        clock.advance(LIFETIME - timedelta(minutes=1))
        await session.append(TURN)
    assert not (await memory.sessions.open(MINE, "s")).created


async def test_a_renamed_session_keeps_its_name(memory: Memory) -> None:
    """Renaming strips the title, marks it as the user's, and can be repeated."""
    await memory.sessions.open(MINE, "s")
    renamed = await memory.sessions.rename(MINE, "s", "  家训  ")
    assert (renamed.record.title, renamed.record.title_by) == ("家训", "user")
    assert (await memory.sessions.rename(MINE, "s", "祠堂")).record.title == "祠堂"
    for title in ("", " ", "x" * 61, "a\nb"):
        with pytest.raises(InvalidInput):
            await memory.sessions.rename(MINE, "s", title)
    assert (await memory.sessions.get(MINE, "s")).record.title == "祠堂"


async def test_concurrent_changes_are_all_applied(memory: Memory) -> None:
    """Compare-and-set with retries: of fifty additions none is lost."""
    await memory.sessions.open(MINE, "s")
    await asyncio.gather(
        *(
            memory.sessions.change(MINE, "s", lambda old: replace(old, total_tokens_used=old.total_tokens_used + 1))
            for _ in range(50)
        )
    )
    assert (await memory.sessions.get(MINE, "s")).record.total_tokens_used == 50


async def test_listing_goes_page_by_page(memory: Memory, clock: MovableClock) -> None:
    """Newest first, every session once, whatever the size of the page."""
    ids = [f"session-{number}" for number in range(25)]
    for session_id in ids:
        await memory.sessions.open(MINE, session_id)
        clock.advance(timedelta(seconds=1))
    for size in (1, 7, 25, 500):
        found, cursor = [], None
        while True:
            page = await memory.sessions.list(MINE, limit=size, cursor=cursor)
            found += [stored.record.session_id for stored in page.items]
            if (cursor := page.next_cursor) is None:
                break
        assert found == ids[::-1]


async def test_deleting_is_exact_complete_and_idempotent(memory: Memory) -> None:
    """Messages of every persona and the preferences are deleted; session-10 is not affected by session-1."""
    for session_id in ("session-1", "session-10"):
        session = await memory.session(session_id, scope=MINE)
        await session.append(TURN)
        await session.with_persona("village_elder").append(TURN)
        await session.prefer(verbosity="brief")
    assert await memory.sessions.delete(MINE, "session-1")
    assert not await memory.sessions.delete(MINE, "session-1")

    assert await memory.transcript.threads(MINE, "session-1") == []
    assert await memory.transcript.latest(MINE, ThreadKey("session-1", "assistant"), 10) == []
    assert (await memory.preferences.get(MINE, "session-1")).updated_at is None
    with pytest.raises(SessionNotFound):
        await memory.sessions.get(MINE, "session-1")
    assert len(await memory.transcript.threads(MINE, "session-10")) == 2
    assert (await memory.preferences.get(MINE, "session-10")).values.verbosity == "brief"


async def test_a_deleted_id_can_be_reused(memory: Memory) -> None:
    """Any user may take it, and sees no earlier data."""
    session = await memory.session("s", scope=MINE)
    await session.append(TURN)
    await session.prefer(tone="casual")
    await session.delete()
    other = await memory.session("s", scope=STRANGERS[0])
    assert (other.session_id, other.created) == ("s", True)
    assert await other.messages() == []
    await other.prefer(verbosity="detailed")
    assert (await other.preferences()).values.tone == "formal"


async def test_preferences_of_a_foreign_session_cannot_be_set(memory: Memory) -> None:
    """The call fails with the error of an absent session."""
    session = await memory.session("s", scope=MINE)
    await session.prefer(tone="casual")
    with pytest.raises(SessionNotFound):
        await memory.preferences.set(STRANGERS[0], "s", PreferenceChange(tone="respectful"))
    assert (await session.preferences()).values.tone == "casual"


class UnreadableDocuments(InProcessDocuments):
    """A store that can be written but not read."""

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """Fail."""
        raise StoreUnavailable("memory", f"cannot read {of.__name__} {key} of {scope}")


async def test_a_failed_ownership_check_creates_no_session(clock: MovableClock) -> None:
    """If only the check fails, neither that session nor another is created."""
    documents = UnreadableDocuments(clock)
    sessions = Sessions(documents, InProcessLogs(documents, clock), clock, terms=SessionTerms(LIFETIME))
    with pytest.raises(StoreUnavailable):
        await sessions.open(MINE, "s")
    assert (await sessions.list(MINE)).items == []


class StaleDocuments(InProcessDocuments):
    """Returns a session as it was before it was deleted and its id reused, as a stale cache may."""

    before: Stored[Session] | None = None

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """The stale session, if one is set."""
        return cast("Stored[R] | None", self.before) if self.before else await super().get(scope, of, key)


async def test_a_session_read_before_its_id_was_reused_deletes_no_other(clock: MovableClock) -> None:
    """Both are at version 1; the incarnation is compared at the deletion, not at the read."""
    documents = StaleDocuments(clock)
    sessions = Sessions(documents, InProcessLogs(documents, clock), clock, terms=SessionTerms(LIFETIME))
    before = (await sessions.open(MINE, "s")).stored
    await sessions.delete(MINE, "s")
    after = (await sessions.open(MINE, "s")).stored
    documents.before = before
    assert not await sessions.delete(MINE, "s", incarnation=before.record.incarnation)
    documents.before = None
    assert (await sessions.get(MINE, "s")).record == after.record


@pytest.mark.parametrize("session_id", [None, "s"])
async def test_a_store_that_fails_is_an_error_and_never_a_new_session(tmp_path: Path, session_id: str | None) -> None:
    """The ownership check fails closed: an error, not a random id."""
    async with open_memory(f"sqlite:///{tmp_path}/wenmai.db") as memory:
        await memory.sessions.open(MINE, "s")
    sessions = memory.sessions  # over a closed store
    with pytest.raises(StoreUnavailable):
        await sessions.open(MINE, session_id)
    for call in (sessions.get, sessions.delete):
        with pytest.raises(StoreUnavailable):
            await call(MINE, "s")
    with pytest.raises(StoreUnavailable):
        await sessions.list(MINE)
