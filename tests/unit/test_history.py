"""The history of a session for library users: pages over all threads, summaries, appends to several threads."""

from datetime import timedelta

import pytest

from wenmai import Memory, MovableClock, Scope
from wenmai import open as open_memory
from wenmai.errors import InvalidInput, SessionNotFound
from wenmai.memory.history import PERSONA_VARIABLE

SCOPE = Scope()


async def talk(memory: Memory, clock: MovableClock) -> None:
    """Six messages, by turns to two personas, a second apart."""
    for number in range(6):
        session = await memory.session("s", persona_id=("elder", "guide")[number % 2])
        await session.append([{"role": "user", "content": f"m{number}"}])
        clock.advance(timedelta(seconds=1))


async def test_pages_merge_all_threads_by_time_and_are_stable() -> None:
    """Every message is on exactly one page; messages that arrive meanwhile shift no older page."""
    clock = MovableClock()
    async with open_memory("memory://", clock=clock) as memory:
        await talk(memory, clock)
        session = await memory.session("s", persona_id="elder")
        newest = await session.page(4)
        await session.append([{"role": "user", "content": "later"}])
        oldest = await session.page(4, before=newest.next)
    assert [message.content for message in newest.messages] == ["m2", "m3", "m4", "m5"]
    assert [message.content for message in oldest.messages] == ["m0", "m1"]
    assert oldest.next is None


async def test_a_page_of_one_persona_holds_its_thread_alone() -> None:
    """Its cursor is one of that list; a cursor of neither is refused."""
    clock = MovableClock()
    async with open_memory("memory://", clock=clock) as memory:
        await talk(memory, clock)
        page = await memory.history.page(SCOPE, "s", 2, persona_id="guide")
        rest = await memory.history.page(SCOPE, "s", 2, persona_id="guide", before=page.next)
        with pytest.raises(InvalidInput, match="before"):
            await memory.history.page(SCOPE, "s", before="elder:0")
        with pytest.raises(SessionNotFound):
            await memory.history.page(SCOPE, "none")
    assert [message.content for message in [*rest.messages, *page.messages]] == ["m1", "m3", "m5"]


async def test_a_summary_counts_all_threads_and_shows_the_newest_messages() -> None:
    """With the preferences, and the timestamps of the first and last message."""
    clock = MovableClock()
    async with open_memory("memory://", clock=clock) as memory:
        await talk(memory, clock)
        session = await memory.session("s")
        await session.prefer(tone="casual")
        whole = await session.overview(3)
        guide = await memory.history.overview(SCOPE, "s", persona_id="guide")
    assert (whole.message_count, whole.preference.values.tone) == (6, "casual")
    assert [message.content for message in whole.recent_messages] == ["m3", "m4", "m5"]
    assert whole.last_message_at == whole.recent_messages[-1].timestamp
    assert (guide.message_count, guide.persona_id) == (3, "guide")
    assert guide.first_message_at == guide.recent_messages[0].timestamp


async def test_messages_go_to_the_threads_of_their_personas() -> None:
    """Those that name none go to the session's persona; the stored messages are in the given order."""
    async with open_memory("memory://") as memory:
        await memory.sessions.open(SCOPE, "s", context={PERSONA_VARIABLE: "guide"})
        given = [(None, {"role": "user", "content": "a"}), ("elder", {"role": "user", "content": "b"})]
        stored = await memory.history.append(SCOPE, "s", [*given, (None, {"role": "assistant", "content": "c"})])
        record = (await memory.sessions.get(SCOPE, "s")).record
        with pytest.raises(InvalidInput, match="role"):
            await memory.history.append(SCOPE, "s", [*given, (None, {"role": "wizard", "content": "d"})])
        page = await memory.history.page(SCOPE, "s")
    assert [(message.persona_id, message.content) for message in stored] == [
        ("guide", "a"),
        ("elder", "b"),
        ("guide", "c"),
    ]
    assert record.first_question == "a"
    assert len(page.messages) == 3
