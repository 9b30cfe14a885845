"""Sessions of callers that append messages themselves: first question and title, finding, clearing, metadata."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TypeVar

import pytest

from wenmai.clock import MovableClock
from wenmai.errors import SessionExpired, SessionNotFound, StoreUnavailable
from wenmai.memory.first_question import FIRST_QUESTION_LIMIT
from wenmai.memory.library import Memory, MemoryPolicy, open_memory
from wenmai.scope import Scope
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.inprocess.logs import InProcessLogs
from wenmai.stores.records import Record
from wenmai.stores.structs import Stored

R = TypeVar("R", bound=Record)

MINE, STRANGER = Scope("tenant", "site", "me"), Scope("tenant", "site", "stranger")


class CountingDocuments(InProcessDocuments):
    """Counts its calls, and fails on request."""

    calls = 0
    failing = False

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """As in the store, counted."""
        self.calls += 1
        if self.failing:
            raise StoreUnavailable("memory", "failing")
        return await super().get(scope, of, key)


@pytest.fixture
def clock() -> MovableClock:
    """A clock that only moves on request."""
    return MovableClock()


@pytest.fixture
def documents(clock: MovableClock) -> CountingDocuments:
    """The documents of the memory."""
    return CountingDocuments(clock)


@pytest.fixture
def memory(documents: CountingDocuments, clock: MovableClock) -> Memory:
    """A memory with a session lifetime of an hour."""
    policy = MemoryPolicy(session_lifetime=timedelta(hours=1))
    return Memory(documents, InProcessLogs(documents, clock), clock=clock, policy=policy)


@pytest.fixture
async def stored(store_url: str) -> AsyncIterator[Memory]:
    """A memory over each store."""
    async with open_memory(store_url) as opened:
        yield opened


def user(content: str) -> dict[str, str]:
    """A message of the user."""
    return {"role": "user", "content": content}


async def test_the_first_user_message_becomes_question_and_title(stored: Memory) -> None:
    """Of any thread, stripped; earlier and later messages change nothing."""
    session = await stored.session("s", scope=MINE)
    await session.append([{"role": "assistant", "content": "你好。"}])
    assert (await session.record()).first_question == ""
    await session.with_persona("elder").append_and_window([user(" \n"), user("\n 祠堂是哪一年建的？\n请详细说。 ")])
    await session.append([user("Later.")])
    again = await stored.session("s", scope=MINE)
    await again.append([user("Later still.")])
    record = await session.record()
    assert record.first_question == "祠堂是哪一年建的？\n请详细说。"
    assert (record.title, record.title_by) == ("祠堂是哪一年建的？", "rule")


async def test_a_chosen_title_is_kept(memory: Memory) -> None:
    """Chosen at creation, or by renaming before or after the first question."""
    given = await memory.session("given", title="Mine")
    before = await memory.session("before")
    await before.rename("Mine")
    after = await memory.session("after")
    for session in (given, before, after):
        await session.append([user("Where were we?")])
    await after.rename("Mine")
    await after.append([user("And then?")])
    for session in (given, before, after):
        record = await session.record()
        assert (record.title, record.title_by, record.first_question) == ("Mine", "user", "Where were we?")


async def test_a_pasted_document_is_truncated(memory: Memory) -> None:
    """A list of sessions shows the first question, so it has a limit; the transcript has all of it."""
    session = await memory.session()
    [message] = await session.append([user("x" * 100_000)])
    assert len((await session.record()).first_question) == FIRST_QUESTION_LIMIT
    assert len(message.content) == 100_000


async def test_later_appends_make_no_further_store_calls(memory: Memory, documents: CountingDocuments) -> None:
    """The record is read and written only for the first question, in whichever thread."""
    session = await memory.session("s")
    elder = session.with_persona("elder")
    await session.append([user("one")])
    documents.calls = 0
    for _ in range(3):
        await session.append([user("more")])
        await elder.append([user("more")])
        await session.with_persona("cook").append([user("more")])
    continued = await memory.session("s")
    documents.calls = 0
    await continued.append([user("more")])
    assert documents.calls == 0


async def test_an_append_succeeds_though_its_first_question_is_not_stored(
    memory: Memory, documents: CountingDocuments
) -> None:
    """The messages are stored by then: the store error is logged, and the next append retries."""
    session = await memory.session("s")
    documents.failing = True
    [message] = await session.append([user("one")])
    documents.failing = False
    assert (message.seq, (await session.record()).first_question) == (1, "")
    await session.append([user("two")])
    assert (await session.record()).first_question == "two"


async def test_a_session_is_found_without_being_created(memory: Memory, clock: MovableClock) -> None:
    """None for absent and foreign ones; an expired one can be read, but is not continued."""
    assert await memory.find("s", scope=MINE) is None
    assert (await memory.sessions.list(MINE)).items == []
    session = await memory.session("s", scope=MINE, persona_id="elder")
    await session.append([user("one")])
    assert await memory.find("s", scope=STRANGER) is None
    assert await memory.find("s") is None
    found = await memory.find("s", scope=MINE, persona_id="elder")
    assert found is not None
    assert (found.session_id, found.created) == ("s", False)
    assert [message.content for message in await found.messages()] == ["one"]
    clock.advance(timedelta(hours=2))
    expired = await memory.find("s", scope=MINE, persona_id="elder")
    assert expired is not None
    assert len(await expired.messages()) == 1
    with pytest.raises(SessionExpired):
        await expired.append([user("two")])


async def test_metadata_is_set_when_a_session_is_created(memory: Memory) -> None:
    """A session that is continued keeps its own."""
    session = await memory.session("s", metadata={"source": "widget", "n": [1, None]})
    assert (await session.record()).metadata == {"source": "widget", "n": [1, None]}
    again = await memory.session("s", metadata={"source": "other"})
    assert (await again.record()).metadata == {"source": "widget", "n": [1, None]}


async def test_clearing_a_thread_keeps_the_session_and_other_threads(memory: Memory) -> None:
    """Its messages are deleted, the session and other threads are kept, and the next message starts turn 1."""
    session = await memory.session("s", title="Mine")
    elder = session.with_persona("elder")
    await session.append([user("one"), {"role": "assistant", "content": "1"}])
    await elder.append([user("two")])
    assert (await session.clear(), await session.clear()) == (2, 0)
    assert (await session.messages(), len(await elder.messages())) == ([], 1)
    [message] = await session.append([user("again")])
    assert (message.seq, message.turn_id, (await session.record()).title) == (1, 1, "Mine")
    await session.delete()
    with pytest.raises(SessionNotFound):
        await session.clear()


async def test_truncating_a_thread_keeps_earlier_messages(memory: Memory) -> None:
    """The next message follows the last one kept, in a new turn; a deleted session has nothing to truncate."""
    session = await memory.session("s")
    stored = await session.append(
        [{"role": role, "content": f"{role} {number}"} for number in (1, 2) for role in ("user", "assistant")]
    )
    assert await session.truncate(stored[1].seq) == 2
    [again] = await session.append([{"role": "user", "content": "instead"}])
    assert (again.seq, again.turn_id) == (3, 2)
    assert again.id not in {message.id for message in stored}
    assert [message.content for message in (await session.window()).messages] == ["user 1", "assistant 1", "instead"]
    assert (await session.truncate(0), await session.truncate(0)) == (3, 0)
    await session.delete()
    assert await session.truncate(0) == 0


async def test_a_session_object_never_reaches_another_session_of_its_id(memory: Memory) -> None:
    """The object of a deleted session neither reads, writes, renames nor deletes a session that reuses its id."""
    former = await memory.session("s")
    await former.append([{"role": "user", "content": "former"}])
    await former.prefer(tone="casual")
    await memory.sessions.delete(Scope(), "s")
    later = await memory.session("s")
    await later.append([{"role": "user", "content": "later"}])
    for late in (
        lambda: former.append([{"role": "user", "content": "late"}]),
        lambda: former.rename("late"),
        lambda: former.prefer(tone="respectful"),
        former.clear,
    ):
        with pytest.raises(SessionNotFound):
            await late()
    assert await former.messages() == []
    assert (await former.window()).messages == []
    assert [message async for message in former.history()] == []
    assert await former.delete() is False
    assert [message.content for message in await later.messages()] == ["later"]
    assert (await later.preferences()).updated_at is None


async def test_a_session_object_reads_nothing_of_another_session_of_its_id(stored: Memory) -> None:
    """Its reads answer as they do while no session has the id: as absent, or as empty."""
    former = await stored.session("s", scope=MINE)
    await former.delete()
    later = await stored.session("s", scope=MINE)
    await later.append([user("The later ruby is in the casket.")])
    await later.prefer(tone="casual")
    await stored.derived.catch_up()
    for read in (
        former.record,
        former.overview,
        former.page,
        lambda: former.recall("ruby"),
        lambda: former.recall("What did I just say?"),
    ):
        with pytest.raises(SessionNotFound):
            await read()
    assert (await former.preferences()).updated_at is None
    assert [block.text for block in (await former.context("Where?", related_turns=False)).blocks] == []
    assert await former.state_changes() == []
    assert len(await later.recall("ruby")) == len(await former.recall("ruby", session_id=None)) == 1
    other = await stored.session("other", scope=MINE)
    assert len(await other.recall("ruby", session_id="s")) == 1
    assert (await later.overview()).preference.values.tone == "casual"
