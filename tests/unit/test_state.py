"""The business state: what users say advances it, corrections change it, every version stays."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

import wenmai
from wenmai import Conflict, InvalidInput, MemoryPolicy, MovableClock, Scope
from wenmai.business.rules import BusinessRules
from wenmai.errors import SessionNotFound
from wenmai.memory.library import Memory
from wenmai.memory.session_memory import SessionMemory
from wenmai.memory.state_audit import ARCHIVED
from wenmai.stores.records import BusinessState, StateAudit

RULES = msgspec.convert(
    {
        "intents": {
            "how_to": {"words": ["怎么", "how"], "domains": ["manual"]},
            "price": {"words": ["多少钱", "价格"]},
        },
        "domains": {"manual": [], "prices": ["价目"]},
        "objects": {"台灯": {"words": ["lamp"]}, "风扇": {}},
        "stages": {"报修": [], "检测": [], "维修": ["修理"], "取件": []},
        "customers": ["单号\\s*(\\d{4})"],
    },
    BusinessRules,
)
"""A repair shop."""


async def opened(memory: Memory, session_id: str = "s1") -> SessionMemory:
    """The session of that id."""
    return await memory.session(session_id)


def memory_with_rules(url: str = "memory://") -> AbstractAsyncContextManager[Memory]:
    """A memory that knows the repair shop's rules."""
    return wenmai.open(url, policy=MemoryPolicy(business=RULES), clock=MovableClock())


async def test_the_second_question_inherits_what_it_does_not_name() -> None:
    """Object, domain and intent come from the current operation; the search gets the object."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        await session.understand("台灯怎么报修？", turn_id=1)
        asked = await session.understand("那维修呢？", turn_id=2)
        current = (await session.state()).current
        assert current is not None
        assert (current.intent, current.active_domain, current.business_object) == ("how_to", ["manual"], "台灯")
        assert current.operation_stage == "维修"
        assert asked.carried == ["台灯", "维修"]
        assert [(change.version, change.rule, change.turn) for change in await session.state_changes()] == [
            (1, "first", "assistant#1"),
            (2, "inherited", "assistant#2"),
        ]


async def test_another_intent_without_an_object_is_searched_with_the_latest_one() -> None:
    """The state carries nothing over, but the question is probably about the same thing."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        await session.understand("台灯怎么报修？")
        asked = await session.understand("多少钱？")
        current = (await session.state()).current
        assert current is not None
        assert (current.intent, current.business_object) == ("price", "")
        assert asked.carried == ["台灯"]


async def test_a_question_word_counts_less_than_another_word_of_an_intent() -> None:
    """怎么 is in many questions for a price."""
    async with memory_with_rules() as memory:
        asked = await (await opened(memory)).understand("台灯的价格怎么查？")
        assert asked.recognized.intent == "price"


async def test_a_message_that_names_nothing_writes_nothing() -> None:
    """Thanks make no version, and without rules nothing does."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        assert (await session.understand("谢谢你")).changes == []
        assert await memory.states._documents.get(Scope(), BusinessState, "s1") is None
    async with wenmai.open("memory://") as memory:
        session = await opened(memory)
        assert (await session.understand("台灯怎么报修？")).state == BusinessState(
            session_id="s1", incarnation=(await session.record()).incarnation
        )


async def test_a_repeated_turn_takes_its_step_once() -> None:
    """A turn that is run again after a crash does not go two stages further."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        await session.understand("台灯怎么报修？", turn_id=1)
        for _ in range(2):
            asked = await session.understand("下一步呢？", turn_id=2)
            assert asked.state.current is not None
            assert asked.state.current.operation_stage == "检测"
            assert (asked.carried, asked.state.state_version) == (["台灯", "检测"], 2)


async def test_of_concurrent_messages_none_is_lost(tmp_path: object) -> None:
    """Of two processes; the loser of a compare-and-set applies its message to what the other wrote."""
    url = f"sqlite:///{tmp_path}/state.db"
    async with memory_with_rules(url) as memory, memory_with_rules(url) as other:
        session, theirs = await opened(memory), await opened(other)
        orders = [f"单号{number}的台灯" for number in range(1000, 1012)]
        await asyncio.gather(*((session, theirs)[at % 2].understand(order) for at, order in enumerate(orders)))
        changes = await session.state_changes()
        assert [change.version for change in changes] == list(range(1, 13))
        assert {change.current_customer_id for change in changes} == {str(number) for number in range(1000, 1012)}


async def test_many_corrections_at_once_cost_no_more_than_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a process each is written once: they do not compete for the record."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        documents = memory.states._documents
        written, put = [], documents.put

        async def counting(*given: Any, **options: Any) -> Any:
            written.append(given)
            await asyncio.sleep(0)
            return await put(*given, **options)

        monkeypatch.setattr(documents, "put", counting)
        await asyncio.gather(*(session.correct_state(current_customer_id=str(number)) for number in range(10)))
        assert (len(written), (await session.state()).state_version) == (10, 10)


async def test_every_version_is_kept_while_the_record_stays_small() -> None:
    """Old changes move into audit records, and can be paged; other sessions' are not among them."""
    async with memory_with_rules() as memory:
        session, other = await opened(memory), await opened(memory, "s2")
        for number in range(100):
            await session.understand(f"单号{1000 + number}", turn_id=number + 1)
        await other.understand("台灯")
        state = await session.state()
        assert len(state.changes) <= 2 * ARCHIVED
        changes = await session.state_changes(200)
        assert [change.version for change in changes] == list(range(1, 101))
        assert changes[9].saw.customer == changes[9].current_customer_id == "1009"
        assert [change.version for change in await session.state_changes(3, before=50)] == [47, 48, 49]
        await session.delete()
        assert (await memory.states._documents.list(Scope(), StateAudit)).items == []


async def test_the_state_is_deleted_with_its_session_and_an_id_taken_again_starts_anew() -> None:
    """Nothing of the former session is seen under its id, nor written by its late work."""
    async with memory_with_rules() as memory:
        former = await opened(memory)
        await former.understand("台灯怎么报修？")
        await former.delete()
        session = await opened(memory)
        assert (await session.state()).current is None
        with pytest.raises(SessionNotFound):
            await former.understand("风扇怎么报修？")
        assert (await session.state()).current is None
        assert await session.state_changes() == []


async def test_another_user_neither_sees_nor_changes_a_state() -> None:
    """Foreign is absent."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        await session.understand("台灯怎么报修？")
        stranger = Scope(user_id="stranger")
        assert (await memory.states.get(stranger, "s1")).current is None
        assert await memory.states.changes(stranger, "s1") == []
        with pytest.raises(SessionNotFound):
            await memory.states.understand(stranger, "s1", "风扇怎么报修？")
        assert (await session.state()).state_version == 1


async def test_a_correction_may_go_back_and_names_its_version() -> None:
    """The user's word overrides the order of stages; a stale version is refused, an unknown value too."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        await session.understand("台灯怎么维修？")
        state = await session.correct_state(operation_stage="报修", current_customer_id="7", version=1)
        assert state.current is not None
        assert (state.current.operation_stage, state.current.business_object) == ("报修", "台灯")
        assert (state.current_customer_id, state.changes[-1].rule, state.state_version) == ("7", "set", 2)
        assert (await session.correct_state(operation_stage="报修")).state_version == 2
        with pytest.raises(Conflict):
            await session.correct_state(business_object="风扇", version=1)
        with pytest.raises(InvalidInput, match="business_object"):
            await session.correct_state(business_object="冰箱")
        moved = (await session.correct_state(business_object="风扇", current_customer_id="")).current
        assert moved is not None
        assert (moved.business_object, moved.operation_stage) == ("风扇", "报修")


async def test_a_reset_forgets_and_the_audit_says_so() -> None:
    """The next message begins a first operation; versions go on."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        await session.understand("单号1000的台灯怎么维修？")
        state = await session.reset_state()
        assert (state.current, state.current_customer_id) == (None, None)
        assert (await session.reset_state()).state_version == 2
        await session.understand("那检测呢？")
        changes = await session.state_changes()
        assert [(change.version, change.rule) for change in changes] == [(1, "first"), (2, "reset"), (3, "first")]


async def test_a_newly_named_customer_replaces_the_current_one() -> None:
    """And begins an operation with the same object, at its first stage; the first customer does not stick."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        await session.understand("单号1000的台灯怎么维修？")
        state = (await session.understand("单号2000呢？")).state
        assert state.current_customer_id == "2000"
        assert [(each.business_object, each.operation_stage) for each in state.operation_chain] == [
            ("台灯", "维修"),
            ("台灯", "报修"),
        ]
        assert (await session.understand("它多少钱")).state.current_customer_id == "2000"


async def test_another_object_begins_at_its_own_first_stage() -> None:
    """The stage of the object before is not inherited, and an earlier stage of the same object is kept out."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        await session.understand("台灯怎么维修？")
        back = await session.understand("那报修呢？")
        assert (back.changes[0].kept_out, back.carried) == ("报修", ["台灯", "报修"])
        state = (await session.understand("风扇呢？")).state
        assert [(each.business_object, each.operation_stage) for each in state.operation_chain] == [
            ("台灯", "维修"),
            ("风扇", "报修"),
        ]


async def test_what_the_user_did_not_mean_is_corrected_in_place() -> None:
    """不是台灯，是风扇 keeps the stage, which the user had said of the fan."""
    async with memory_with_rules() as memory:
        session = await opened(memory)
        await session.understand("台灯怎么维修？")
        state = (await session.understand("不是台灯，是风扇")).state
        assert [(each.business_object, each.operation_stage) for each in state.operation_chain] == [("风扇", "维修")]
        assert [change.rule for change in state.changes] == ["first", "corrected"]


async def test_a_session_made_again_by_another_process_has_a_state_of_its_own(tmp_path: object) -> None:
    """Also where the state of the deleted session with its id is still known."""
    url = f"sqlite:///{tmp_path}/state.db"
    async with memory_with_rules(url) as one, memory_with_rules(url) as other:
        await (await opened(one)).understand("台灯怎么报修？")
        await other.sessions.delete(Scope(), "s1")
        await opened(other)
        understood = await (await opened(one)).understand("风扇怎么报修？")
        assert understood.state.current is not None
        assert (understood.state.current.business_object, understood.state.state_version) == ("风扇", 1)
