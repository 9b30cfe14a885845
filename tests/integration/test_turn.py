"""The whole turn over the engine, on each store: what is kept, what is shared, what is shown to a model."""

import asyncio
import dataclasses
import logging
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from support import engine_at
from wenmai.chat.pipeline import Chat
from wenmai.chat.turn import TurnAnswer, TurnEvent, TurnRequest
from wenmai.chat.types import PolicyMode
from wenmai.clock import MovableClock
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.errors import (
    IdempotencyMismatch,
    InvalidInput,
    PersonaNotFound,
    StoreUnavailable,
    ThreadBusy,
)
from wenmai.memory.manager import Memory
from wenmai.memory.preferences import PreferenceChange
from wenmai.memory.turns import _Lease, lease_key
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import IdempotentTurn, TraceRecord, TurnLease

VISITOR = Scope("default", "default", "visitor")


async def ask(
    engine: Engine,
    query: str,
    *,
    session_id: str | None = None,
    npc_id: str = "ancestor_yan",
    scope: Scope = VISITOR,
    idempotency_key: str | None = None,
) -> TurnAnswer:
    """One question of the visitor."""
    return await engine.chat.ask(
        TurnRequest(scope=scope, npc_id=npc_id, query=query, session_id=session_id, idempotency_key=idempotency_key)
    )


async def trace(engine: Engine, answer: TurnAnswer) -> TraceRecord:
    """The trace of an answer."""
    return (await engine.traces.get(VISITOR, answer.trace_id)).record


async def test_no_word_of_one_personas_thread_is_in_the_others_blocks(engine: Engine) -> None:
    """Personas remember their own talk alone, while preferences follow the visitor."""
    first = await ask(engine, "请问严氏家训有哪些？")
    session_id = first.session_id
    await engine.memory.preferences.set(VISITOR, session_id, PreferenceChange(verbosity="brief"))
    second = await ask(engine, "祠堂是什么时候建的？", session_id=session_id, npc_id="village_elder")
    third = await ask(engine, "第一条是什么？", session_id=session_id)

    elder, ancestor = await trace(engine, second), await trace(engine, third)
    elder_saw = "\n".join(block["text"] for block in elder.blocks)
    assert "家训有哪些" not in elder_saw
    assert first.answer_text not in elder_saw
    ancestor_saw = {block["kind"]: block["text"] for block in ancestor.blocks}
    assert "家训有哪些" in ancestor_saw["history"]
    assert "祠堂是什么时候建的" not in "\n".join(ancestor_saw.values())
    for saw in (elder, ancestor):
        assert any(block["kind"] == "preferences" and "简短" in block["text"] for block in saw.blocks)
    assert (second.turn_id, third.turn_id) == (1, 2)


async def test_what_was_told_is_no_source_whoever_told_it(engine: Engine) -> None:
    """A false year in the visitor's words, in an earlier answer and in a preference is never stated."""
    first = await ask(engine, "记住：土地庙建于1850年。")
    session_id = first.session_id
    thread = ThreadKey(session_id, "ancestor_yan")
    told = [{"role": "user", "content": "土地庙哪年建的？"}, {"role": "assistant", "content": "土地庙建于1850年。"}]
    await engine.memory.transcript.append(VISITOR, thread, told)
    change = PreferenceChange(add_interest_tags=["土地庙建于1850年"])
    await engine.memory.preferences.set(VISITOR, session_id, change)

    answer = await ask(engine, "土地庙是哪一年建的？", session_id=session_id)

    seen = await trace(engine, answer)
    assert any("1850" in block["text"] for block in seen.blocks if block["kind"] == "history")
    assert "1850" not in answer.answer_text
    assert answer.policy_mode is PolicyMode.CONSERVATIVE
    assert seen.policy_reason


async def test_with_evidence_for_it_the_year_is_stated_and_cited(engine: Engine) -> None:
    """The same question is answered once a passage says it, whatever was told before."""
    first = await ask(engine, "记住：严氏祠堂建于1850年。")
    answer = await ask(engine, "严氏祠堂是哪一年建的？", session_id=first.session_id)
    assert "1523" in answer.answer_text
    assert "1850" not in answer.answer_text
    assert answer.policy_mode is PolicyMode.NORMAL
    assert [citation.evidence_id for citation in answer.citations] == ["hall-01"]
    assert len(answer.citations[0].excerpt) <= 100


async def test_the_talk_goes_on_after_a_restart(tmp_path: object) -> None:
    """A second process finds the session, and its next question is understood from the first."""
    url = f"sqlite:///{tmp_path}/wenmai.db"
    async with engine_at(url) as engine:
        first = await ask(engine, "请问严氏家训有哪些？")
    async with engine_at(url) as engine:
        second = await ask(engine, "第一条是什么？", session_id=first.session_id)
    assert second.session_id == first.session_id
    assert second.turn_id == 2
    assert "孝悌为本" in second.answer_text


async def test_a_trace_tells_everything_about_its_turn(engine: Engine) -> None:
    """Steps with status and time, what was searched for, the blocks with tokens, versions, and why."""
    first = await ask(engine, "请问严氏家训有哪些？")
    answer = await ask(engine, "第一条是什么？", session_id=first.session_id)
    seen = await trace(engine, answer)
    assert [step["name"] for step in seen.tool_calls] == [
        "open", "recall", "rewrite", "classify", "retrieve", "gate", "prompt", "generate", "check",
    ]  # fmt: skip
    assert {step["status"] for step in seen.tool_calls} == {"ok", "skipped"}
    assert seen.request_input["query"] == "第一条是什么？"
    assert "家训" in seen.request_input["rewritten_query"]
    assert seen.request_input["persona_version"] == 1
    assert seen.request_input["prompt_source"] == "npc_profile"
    assert [block["kind"] for block in seen.blocks] == ["system", "preferences", "history", "evidence", "question"]
    assert all(block["tokens"] > 0 for block in seen.blocks)
    assert seen.evidence_ids == [citation.evidence_id for citation in answer.citations]
    assert (seen.intent, seen.policy_mode, seen.model) == ("fact_seeking", "normal", "offline")
    assert seen.completed_at >= seen.started_at


async def test_a_registered_prompt_is_used_and_named(engine: Engine) -> None:
    """The active prompt of the registry takes the place of the persona's own."""
    await engine.prompts.create(VISITOR, "ancestor_yan", {"text": "说话务必只用七个字。"})
    seen = await trace(engine, await ask(engine, "请问严氏家训有哪些？"))
    assert seen.request_input["prompt_source"] == "prompt_registry"
    assert seen.request_input["prompt_version"] == 1
    assert "只用七个字" in seen.blocks[0]["text"]


async def test_a_replay_gives_the_answer_again(engine: Engine) -> None:
    """The same blocks compose the same answer, beside the original."""
    answer = await ask(engine, "请问严氏家训有哪些？")
    replay = await engine.chat.replay(VISITOR, answer.trace_id)
    assert replay.replayed.answer == replay.original.answer == answer.answer_text
    assert replay.replayed.replay_of == answer.trace_id


async def test_events_come_in_order_and_spell_the_answer(engine: Engine) -> None:
    """Begin, start, steps and pieces of the answer; the pieces joined are the answer."""
    events: list[TurnEvent] = []

    async def listen(event: TurnEvent) -> None:
        events.append(event)

    request = TurnRequest(scope=VISITOR, npc_id="ancestor_yan", query="请问严氏家训有哪些？")
    answer = await engine.chat.ask(request, on_event=listen)
    assert [event.kind for event in events[:2]] == ["begin", "start"]
    assert events[1].data["session_id"] == answer.session_id
    assert "".join(event.data["text"] for event in events if event.kind == "token") == answer.answer_text
    assert "complete" in [event.data["name"] for event in events if event.kind == "step"]


async def test_a_session_of_somebody_else_gives_a_fresh_one(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A stranger's id is not continued, nothing of it is seen, and the log warns once."""
    mine = await ask(engine, "请问严氏家训有哪些？")
    stranger = Scope("default", "default", "stranger")
    with caplog.at_level(logging.WARNING):
        theirs = await ask(engine, "第一条是什么？", session_id=mine.session_id, scope=stranger)
    assert theirs.session_id != mine.session_id
    assert theirs.turn_id == 1
    assert sum("belongs to another user" in record.message for record in caplog.records) == 1
    thread = ThreadKey(mine.session_id, "ancestor_yan")
    assert len(await engine.memory.transcript.latest(VISITOR, thread, 10)) == 2


async def test_an_expired_session_is_not_continued_but_stays_listed(store_url: str) -> None:
    """Its lifetime slides with activity; past it the answer carries a new session's id."""
    clock = MovableClock()
    loaded = load_engine_settings(flags={"store": store_url, "session_lifetime_seconds": 1000}, environment={})
    async with open_engine(loaded.values, clock=clock) as engine:
        first = await ask(engine, "请问严氏家训有哪些？")
        clock.advance(timedelta(seconds=900))
        kept = await ask(engine, "第一条是什么？", session_id=first.session_id)
        clock.advance(timedelta(seconds=900))
        slid = await ask(engine, "有什么具体的故事吗？", session_id=first.session_id)
        clock.advance(timedelta(seconds=1001))
        fresh = await ask(engine, "请问严氏家训有哪些？", session_id=first.session_id)
        assert kept.session_id == slid.session_id == first.session_id
        assert fresh.session_id != first.session_id
        assert fresh.turn_id == 1
        listed = await engine.memory.sessions.list(VISITOR)
        ids = [stored.record.session_id for stored in listed.items]
        assert ids == [fresh.session_id, first.session_id]


async def test_64_questions_at_once_make_64_whole_turns(engine: Engine) -> None:
    """Turn numbers 1 to 64, each with its own answer behind its question."""
    session = await engine.memory.session(scope=VISITOR)
    queries = [f"祠堂第{number}进是什么？" for number in range(64)]
    answers = await asyncio.gather(*(ask(engine, query, session_id=session.session_id) for query in queries))
    assert sorted(answer.turn_id for answer in answers) == list(range(1, 65))
    thread = ThreadKey(session.session_id, "ancestor_yan")
    messages = await engine.memory.transcript.latest(VISITOR, thread, 200)
    assert [message.seq for message in messages] == list(range(1, 129))
    asked = {answer.turn_id: query for answer, query in zip(answers, queries, strict=True)}
    given = {answer.turn_id: answer.answer_text for answer in answers}
    for question, reply in zip(messages[::2], messages[1::2], strict=True):
        assert (question.role, reply.role) == ("user", "assistant")
        assert question.turn_id == reply.turn_id
        assert question.content == asked[question.turn_id]
        assert reply.content == given[reply.turn_id]
        assert reply.completed


async def test_one_idempotency_key_makes_one_turn(engine: Engine) -> None:
    """Sent eight times at once: one turn, eight equal answers; with another question: refused."""
    session = await engine.memory.session(scope=VISITOR)
    answers = await asyncio.gather(
        *(
            ask(engine, "请问严氏家训有哪些？", session_id=session.session_id, idempotency_key="retry-1")
            for _ in range(8)
        )
    )
    assert all(answer == answers[0] for answer in answers)
    thread = ThreadKey(session.session_id, "ancestor_yan")
    assert len(await engine.memory.transcript.latest(VISITOR, thread, 10)) == 2
    with pytest.raises(IdempotencyMismatch):
        await ask(engine, "第一条是什么？", session_id=session.session_id, idempotency_key="retry-1")


async def test_an_attempt_that_lost_its_key_while_it_waited_asks_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key went with its session, and another attempt answers in the session that took the id: one question."""
    session = await engine.memory.sessions.open(VISITOR, "s-1")
    monkeypatch.setattr("wenmai.memory.idempotency.RENEW_SECONDS", 3600.0)
    documents, query = engine.store.documents, "请问严氏家训有哪些？"
    assert documents is not None
    async with engine.memory.turns.turn(VISITOR, session.thread("ancestor_yan")):
        waiting = asyncio.create_task(ask(engine, query, session_id="s-1", idempotency_key="key"))
        while not (claims := (await documents.list(VISITOR, IdempotentTurn)).items):  # noqa: ASYNC110 — no event says so
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await documents.delete(VISITOR, IdempotentTurn, claims[0].record.key)
        await engine.memory.sessions.delete(VISITOR, "s-1")
        assert engine.store.logs is not None
        memory = Memory(documents, engine.store.logs, policy=engine.memory.policy)
        other = Chat(dataclasses.replace(engine.chat._services, memory=memory))
        request = TurnRequest(
            scope=VISITOR, npc_id="ancestor_yan", query=query, session_id="s-1", idempotency_key="key"
        )
        answer = await other.ask(request)
        await other.drain()
    assert (await waiting).trace_id == answer.trace_id
    thread = ThreadKey("s-1", "ancestor_yan")
    said = [message async for message in engine.memory.transcript.read_all(VISITOR, thread)]
    assert [message.content for message in said if message.role == "user"] == [query]


async def test_reject_refuses_while_a_turn_runs(engine: Engine) -> None:
    """With ``on_conflict=reject`` a second turn of the thread does not wait."""
    session = await engine.memory.session(scope=VISITOR)
    thread = ThreadKey(session.session_id, "ancestor_yan")
    async with engine.memory.turns.turn(VISITOR, thread):
        with pytest.raises(ThreadBusy):
            await engine.chat.ask(
                TurnRequest(
                    scope=VISITOR,
                    npc_id="ancestor_yan",
                    query="在吗",
                    session_id=session.session_id,
                    on_conflict="reject",
                )
            )


async def test_a_turn_that_fails_stays_with_its_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is in the transcript, its answer unfinished, out of every window, with a trace that says why."""
    first = await ask(engine, "请问严氏家训有哪些？")

    async def broken(*_: object, **__: object) -> None:
        raise StoreUnavailable("documents", "gone")

    monkeypatch.setattr(engine.prompts, "active", broken)
    with pytest.raises(StoreUnavailable):
        await ask(engine, "第一条是什么？", session_id=first.session_id)
    thread = ThreadKey(first.session_id, "ancestor_yan")
    messages = await engine.memory.transcript.latest(VISITOR, thread, 10)
    assert [message.content for message in messages[2:]] == ["第一条是什么？", ""]
    assert not messages[-1].completed
    assert "gone" in messages[-1].metadata["error"]
    window = await engine.memory.transcript.window(VISITOR, thread, engine.memory.policy.window)
    assert [message.turn_id for message in window.messages] == [1, 1]
    failed = (await engine.traces.list(VISITOR, limit=1)).items[0].record
    assert failed.error is not None
    assert failed.tool_calls[-1]["name"] == "prompt"
    assert failed.tool_calls[-1]["status"] == "error"


async def test_incognito_leaves_preferences_alone(engine: Engine) -> None:
    """Neither shown nor inferred; the transcript is kept."""
    session = await engine.memory.session(scope=VISITOR)
    await engine.memory.preferences.set(VISITOR, session.session_id, PreferenceChange(verbosity="brief"))
    before = await engine.memory.preferences.get(VISITOR, session.session_id)
    answer = await engine.chat.ask(
        TurnRequest(
            scope=VISITOR,
            npc_id="ancestor_yan",
            query="请详细一点：严氏家训有哪些？",
            session_id=session.session_id,
            incognito=True,
        )
    )
    await engine.chat.drain()
    assert await engine.memory.preferences.get(VISITOR, session.session_id) == before
    assert "preferences" not in [block["kind"] for block in (await trace(engine, answer)).blocks]
    assert len(await session.messages()) == 0
    thread = ThreadKey(session.session_id, "ancestor_yan")
    assert len(await engine.memory.transcript.latest(VISITOR, thread, 10)) == 2


async def test_incognito_infers_nothing(engine: Engine) -> None:
    """A wish that would be remembered leaves no preferences behind."""
    request = TurnRequest(scope=VISITOR, npc_id="ancestor_yan", query="请说得详细一点", incognito=True)
    answer = await engine.chat.ask(request)
    await engine.chat.drain()
    assert (await engine.memory.preferences.get(VISITOR, answer.session_id)).updated_at is None


async def test_a_lease_that_runs_out_frees_the_thread_for_another_user(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process left that died while it held the thread stands in the way of no later session of the id."""
    monkeypatch.setattr("wenmai.memory.turns.LEASE", timedelta(seconds=0.2))
    documents = engine.store.documents
    assert documents is not None
    gone = Scope("default", "default", "gone")
    opened = await engine.memory.sessions.open(gone, "session-1")
    await _Lease(documents, engine.clock, gone, opened.thread("ancestor_yan")).acquire("wait")
    await engine.memory.sessions.delete(gone, "session-1")
    answer = await asyncio.wait_for(ask(engine, "请问严氏家训有哪些？", session_id="session-1"), timeout=5)
    assert answer.session_id == "session-1"


async def test_preferences_are_inferred_and_name_their_turns(engine: Engine) -> None:
    """Asking for more detail makes later answers detailed; a choice beats it."""
    first = await ask(engine, "请说得详细一点")
    await engine.chat.drain()
    inferred = (await engine.memory.preferences.get(VISITOR, first.session_id)).values
    assert inferred.verbosity == "detailed"
    assert inferred.sources["verbosity"] == ["ancestor_yan#1"]
    await engine.memory.preferences.set(VISITOR, first.session_id, PreferenceChange(verbosity="brief"))
    await ask(engine, "请说得详细一点", session_id=first.session_id)
    await engine.chat.drain()
    assert (await engine.memory.preferences.get(VISITOR, first.session_id)).values.verbosity == "brief"


@pytest.mark.parametrize(
    ("field", "request_"),
    [
        ("query", {"query": ""}),
        ("query", {"query": "   "}),
        ("query", {"query": "问" * 4001}),
        ("npc_id", {"npc_id": "no/slash"}),
        ("session_id", {"session_id": "../etc"}),
        ("trace_id", {"trace_id": "a b"}),
    ],
)
async def test_bad_input_names_its_field(engine: Engine, field: str, request_: dict[str, str]) -> None:
    """Nothing is stored of a request that is not allowed."""
    fields = {"npc_id": "ancestor_yan", "query": "在吗"} | request_
    with pytest.raises(InvalidInput) as refused:
        await engine.chat.ask(msgspec.convert({"scope": VISITOR, **fields}, TurnRequest))
    assert refused.value.field == field
    assert (await engine.memory.sessions.list(VISITOR)).items == []


async def test_an_unknown_persona_is_not_found(engine: Engine) -> None:
    """Nothing is stored for it either."""
    with pytest.raises(PersonaNotFound):
        await ask(engine, "在吗", npc_id="nobody")
    assert (await engine.memory.sessions.list(VISITOR)).items == []


async def test_a_deleted_session_leaves_nothing_anywhere(engine: Engine) -> None:
    """Messages, preferences, traces and stored answers go with it; the twin session-10 stays."""
    for session_id in ("session-1", "session-10"):
        await ask(engine, "请问严氏家训有哪些？", session_id=session_id, idempotency_key=f"key-{session_id}")
        await engine.memory.preferences.set(VISITOR, session_id, PreferenceChange(verbosity="brief"))
    assert await engine.memory.sessions.delete(VISITOR, "session-1")
    assert not await engine.memory.sessions.delete(VISITOR, "session-1")

    left = [stored.record.session_id for stored in (await engine.memory.sessions.list(VISITOR)).items]
    assert left == ["session-10"]
    assert [stored.record.session_id for stored in (await engine.traces.list(VISITOR)).items] == ["session-10"]
    assert (await engine.memory.preferences.get(VISITOR, "session-1")).updated_at is None
    assert await engine.memory.transcript.threads(VISITOR, "session-1") == []
    documents = engine.store.documents
    assert documents is not None
    kept = await documents.list(VISITOR, IdempotentTurn)
    assert [stored.record.session_id for stored in kept.items] == ["session-10"]


async def test_forgetting_one_persona_leaves_the_other(engine: Engine) -> None:
    """Its thread and its traces go; the session, the preferences and the other thread stay."""
    first = await ask(engine, "请问严氏家训有哪些？")
    await ask(engine, "祠堂是什么时候建的？", session_id=first.session_id, npc_id="village_elder")
    assert await engine.memory.sessions.forget_persona(VISITOR, first.session_id, "ancestor_yan") == 2
    threads = await engine.memory.transcript.threads(VISITOR, first.session_id)
    assert [info.npc_id for info in threads] == ["village_elder"]
    assert [stored.record.npc_id for stored in (await engine.traces.list(VISITOR)).items] == ["village_elder"]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_turn_whose_thread_is_erased_meanwhile_keeps_no_trace(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """The visitor has the answer; what was asked and answered is gone with the thread, also if the turn fails."""
    active = engine.prompts.active

    async def erasing(*of: Any, **fields: Any) -> Any:
        await engine.memory.sessions.forget_persona(VISITOR, "session-1", "ancestor_yan")
        if fails:
            raise StoreUnavailable("documents", "gone")
        return await active(*of, **fields)

    monkeypatch.setattr(engine.prompts, "active", erasing)
    with pytest.raises(StoreUnavailable) if fails else nullcontext():
        await ask(engine, "请问严氏家训有哪些？", session_id="session-1")
    assert await engine.memory.transcript.threads(VISITOR, "session-1") == []
    assert (await engine.traces.list(VISITOR)).items == []


async def test_a_trace_id_that_is_taken_is_not_noticed(engine: Engine) -> None:
    """A caller's own trace id is honoured once for each user: another one notices nothing of it."""
    stranger = Scope("default", "default", "stranger")

    async def asked(scope: Scope) -> str:
        request = TurnRequest(scope=scope, npc_id="ancestor_yan", query="请问严氏家训有哪些？", trace_id="mine-1")
        return (await engine.chat.ask(request)).trace_id

    assert await asked(VISITOR) == "mine-1"
    first = (await engine.traces.get(VISITOR, "mine-1")).record
    assert await asked(stranger) == "mine-1"
    assert await asked(VISITOR) != "mine-1"
    assert (await engine.traces.get(VISITOR, "mine-1")).record == first
    assert (await engine.traces.get(stranger, "mine-1")).record != first


@pytest.mark.parametrize("stranger", [False, True])
async def test_a_keyed_turn_that_fails_in_a_session_of_its_own_is_repeated_there(
    store_url: str, monkeypatch: pytest.MonkeyPatch, *, stranger: bool
) -> None:
    """The session that was asked for is expired, or somebody else's: one question in one other session all the same."""
    clock = MovableClock()
    settings = load_engine_settings(flags={"store": store_url, "session_lifetime_seconds": 1000}, environment={})
    async with open_engine(settings.values, clock=clock) as engine:
        owner = Scope("default", "default", "stranger") if stranger else VISITOR
        await ask(engine, "你好！", session_id="session-1", scope=owner)
        if not stranger:
            clock.advance(timedelta(seconds=1001))

        async def broken(*_: object, **__: object) -> None:
            raise StoreUnavailable("documents", "gone")

        with monkeypatch.context() as breaking:
            breaking.setattr(engine.prompts, "active", broken)
            with pytest.raises(StoreUnavailable):
                await ask(engine, "请问严氏家训有哪些？", session_id="session-1", idempotency_key="key")
        answer = await ask(engine, "请问严氏家训有哪些？", session_id="session-1", idempotency_key="key")
        mine = [each.record.session_id for each in (await engine.memory.sessions.list(VISITOR)).items]
        assert [each for each in mine if each != "session-1"] == [answer.session_id]
        assert answer.turn_id == 1


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_keyed_turn_that_ends_while_its_answer_is_stored_gives_that_answer_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, *, cancelled: bool
) -> None:
    """Its caller goes, or its usage cannot be counted, when the answer is in the transcript; the trace keeps it too."""
    settle = engine.memory.transcript.settle

    async def stored_and_cancelled(*of: Any, **fields: Any) -> Any:
        settled = await settle(*of, **fields)
        if cancelled:
            asking.cancel()
        await asyncio.sleep(0.01)
        return settled

    async def uncounted(*_: object, **__: object) -> None:
        raise StoreUnavailable("documents", "gone")

    with monkeypatch.context() as breaking:
        breaking.setattr(engine.memory.transcript, "settle", stored_and_cancelled)
        if not cancelled:
            breaking.setattr(engine.memory.usage, "add", uncounted)
        asking = asyncio.create_task(ask(engine, "请问严氏家训有哪些？", session_id="session-1", idempotency_key="key"))
        with pytest.raises(asyncio.CancelledError if cancelled else StoreUnavailable):
            await asking
    answer = await ask(engine, "请问严氏家训有哪些？", session_id="session-1", idempotency_key="key")
    messages = await engine.memory.transcript.latest(VISITOR, ThreadKey("session-1", "ancestor_yan"), 10)
    assert [message.content for message in messages] == ["请问严氏家训有哪些？", answer.answer_text]
    assert answer.citations
    kept = await trace(engine, answer)
    assert (kept.error, kept.answer) == (None, answer.answer_text)


async def test_a_lease_from_a_clock_that_was_ahead_blocks_no_longer_than_any(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder is dead, its end an hour away: the thread is free once the lease was not renewed for its length."""
    monkeypatch.setattr("wenmai.memory.turns.LEASE", timedelta(seconds=0.3))
    documents = engine.store.documents
    assert documents is not None
    thread = (await engine.memory.sessions.open(VISITOR, "session-1")).thread("ancestor_yan")
    dead = TurnLease(
        thread=lease_key(thread),
        session_id=thread.session_id,
        incarnation=thread.incarnation or "",
        holder="dead",
        expires_at=engine.clock() + timedelta(hours=1),
    )
    await documents.put(VISITOR, dead)
    answer = await asyncio.wait_for(ask(engine, "请问严氏家训有哪些？", session_id="session-1"), timeout=5)
    assert answer.session_id == "session-1"


async def test_a_turn_waits_for_its_thread_no_longer_than_its_bound(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that never ends refuses the next one instead of holding it for ever."""
    monkeypatch.setattr("wenmai.memory.turns.WAIT_SECONDS", 0.1)
    thread = (await engine.memory.sessions.open(VISITOR, "session-1")).thread("ancestor_yan")
    async with engine.memory.turns.turn(VISITOR, thread):
        with pytest.raises(ThreadBusy):
            await asyncio.wait_for(ask(engine, "请问严氏家训有哪些？", session_id="session-1"), timeout=5)
