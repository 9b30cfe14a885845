"""The whole turn over the engine, on each store: stored data, shared data, and prompts."""

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
from wenmai.chat.turn import StepEnded, Token, TurnAnswer, TurnEvent, TurnRequest, TurnStarted
from wenmai.clock import MovableClock
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.errors import (
    IdempotencyMismatch,
    InvalidInput,
    PersonaNotFound,
    StoreUnavailable,
    ThreadBusy,
)
from wenmai.grounding.types import PolicyMode
from wenmai.memory.library import Memory
from wenmai.memory.preferences import PreferenceChange
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.lease import HeldLease, lease_name
from wenmai.stores.records import IdempotentTurn, Lease, TraceRecord

USER = Scope("default", "default", "visitor")


async def ask(
    engine: Engine,
    query: str,
    *,
    session_id: str | None = None,
    persona_id: str = "ancestor_yan",
    scope: Scope = USER,
    idempotency_key: str | None = None,
) -> TurnAnswer:
    """One question of the user."""
    return await engine.chat.ask(
        TurnRequest(
            scope=scope, persona_id=persona_id, query=query, session_id=session_id, idempotency_key=idempotency_key
        )
    )


async def trace(engine: Engine, answer: TurnAnswer) -> TraceRecord:
    """The trace of an answer."""
    return (await engine.traces.get(USER, answer.trace_id)).record


@pytest.mark.each_store
async def test_one_personas_messages_are_not_in_anothers_blocks(engine: Engine) -> None:
    """Personas see only their own thread, while preferences belong to the session."""
    first = await ask(engine, "请问严氏家训有哪些？")
    session_id = first.session_id
    await engine.memory.preferences.set(USER, session_id, PreferenceChange(verbosity="brief"))
    second = await ask(engine, "祠堂是什么时候建的？", session_id=session_id, persona_id="village_elder")
    third = await ask(engine, "第一条是什么？", session_id=session_id)

    elder, ancestor = await trace(engine, second), await trace(engine, third)
    elder_saw = "\n".join(block.text for block in elder.blocks)
    assert "家训有哪些" not in elder_saw
    assert first.answer_text not in elder_saw
    ancestor_saw = {block.kind: block.text for block in ancestor.blocks}
    assert "家训有哪些" in ancestor_saw["history"]
    assert "祠堂是什么时候建的" not in "\n".join(ancestor_saw.values())
    for saw in (elder, ancestor):
        assert any(block.kind == "preferences" and "简短" in block.text for block in saw.blocks)
    assert (second.turn_id, third.turn_id) == (1, 2)


async def test_memory_is_never_a_source_of_facts(engine: Engine) -> None:
    """A false year in a user message, in an earlier answer or in a preference is never stated."""
    first = await ask(engine, "记住：土地庙建于1850年。")
    session_id = first.session_id
    thread = ThreadKey(session_id, "ancestor_yan")
    remembered = [
        {"role": "user", "content": "土地庙哪年建的？"},
        {"role": "assistant", "content": "土地庙建于1850年。"},
    ]
    await engine.memory.transcript.append(USER, thread, remembered)
    change = PreferenceChange(add_interest_tags=["土地庙建于1850年"])
    await engine.memory.preferences.set(USER, session_id, change)

    answer = await ask(engine, "土地庙是哪一年建的？", session_id=session_id)

    seen = await trace(engine, answer)
    assert any("1850" in block.text for block in seen.blocks if block.kind == "history")
    assert "1850" not in answer.answer_text
    assert answer.policy_mode is PolicyMode.CONSERVATIVE
    assert seen.policy_reason


async def test_with_evidence_for_it_the_year_is_stated_and_cited(engine: Engine) -> None:
    """The same question is answered once a passage states the year, whatever the memory has."""
    first = await ask(engine, "记住：严氏祠堂建于1850年。")
    answer = await ask(engine, "严氏祠堂是哪一年建的？", session_id=first.session_id)
    assert "1523" in answer.answer_text
    assert "1850" not in answer.answer_text
    assert answer.policy_mode is PolicyMode.NORMAL
    assert [citation.evidence_id for citation in answer.citations] == ["hall-01"]
    assert len(answer.citations[0].excerpt) <= 100


async def test_the_conversation_continues_after_a_restart(tmp_path: object) -> None:
    """A second process finds the session, and resolves its next question from the first."""
    url = f"sqlite:///{tmp_path}/wenmai.db"
    async with engine_at(url) as engine:
        first = await ask(engine, "请问严氏家训有哪些？")
    async with engine_at(url) as engine:
        second = await ask(engine, "第一条是什么？", session_id=first.session_id)
    assert second.session_id == first.session_id
    assert second.turn_id == 2
    assert "孝悌为本" in second.answer_text


async def test_a_trace_records_everything_about_its_turn(engine: Engine) -> None:
    """Steps with status and duration, the search query, blocks with tokens, versions, and the policy reason."""
    first = await ask(engine, "请问严氏家训有哪些？")
    answer = await ask(engine, "第一条是什么？", session_id=first.session_id)
    seen = await trace(engine, answer)
    assert [step.name for step in seen.tool_calls] == [
        "open", "recall", "state", "rewrite", "classify", "retrieve", "gate", "prompt", "generate", "check",
    ]  # fmt: skip
    assert {step.status for step in seen.tool_calls} == {"ok", "skipped"}
    assert seen.request_input.query == "第一条是什么？"
    assert "家训" in seen.request_input.rewritten_query
    assert seen.request_input.persona_version == 1
    assert seen.request_input.prompt_source == "npc_profile"
    assert [block.kind for block in seen.blocks] == ["system", "preferences", "history", "evidence", "question"]
    assert all(block.tokens > 0 for block in seen.blocks)
    assert seen.evidence_ids == [citation.evidence_id for citation in answer.citations]
    assert (seen.intent, seen.policy_mode, seen.model) == ("fact_seeking", "normal", "offline")
    assert seen.completed_at >= seen.started_at


async def test_a_registered_prompt_is_used_and_named(engine: Engine) -> None:
    """The active prompt of the registry replaces the persona's own."""
    await engine.prompts.create(USER, "ancestor_yan", {"text": "说话务必只用七个字。"})
    seen = await trace(engine, await ask(engine, "请问严氏家训有哪些？"))
    assert seen.request_input.prompt_source == "prompt_registry"
    assert seen.request_input.prompt_version == 1
    assert "只用七个字" in seen.blocks[0].text


async def test_a_replay_gives_the_same_answer(engine: Engine) -> None:
    """The same blocks give the same answer, next to the original."""
    answer = await ask(engine, "请问严氏家训有哪些？")
    replay = await engine.chat.replay(USER, answer.trace_id)
    assert replay.replayed.answer == replay.original.answer == answer.answer_text
    assert replay.replayed.replay_of == answer.trace_id


async def test_events_are_in_order_and_contain_the_answer(engine: Engine) -> None:
    """Begin, start, steps and tokens; the joined tokens are the answer."""
    events: list[TurnEvent] = []

    async def listen(event: TurnEvent) -> None:
        events.append(event)

    request = TurnRequest(scope=USER, persona_id="ancestor_yan", query="请问严氏家训有哪些？")
    answer = await engine.chat.ask(request, on_event=listen)
    assert [event.kind for event in events[:2]] == ["begin", "start"]
    assert events[1] == TurnStarted(answer.trace_id, answer.session_id, 1, answer.persona_id)
    assert "".join(event.text for event in events if isinstance(event, Token)) == answer.answer_text
    assert "complete" in [event.name for event in events if isinstance(event, StepEnded)]


@pytest.mark.each_store
async def test_another_users_session_gives_a_new_one(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Another user's session is not continued, none of its data is visible, and the log warns once."""
    mine = await ask(engine, "请问严氏家训有哪些？")
    stranger = Scope("default", "default", "stranger")
    with caplog.at_level(logging.WARNING):
        theirs = await ask(engine, "第一条是什么？", session_id=mine.session_id, scope=stranger)
    assert theirs.session_id != mine.session_id
    assert theirs.turn_id == 1
    assert sum("belongs to another user" in record.message for record in caplog.records) == 1
    thread = ThreadKey(mine.session_id, "ancestor_yan")
    assert len(await engine.memory.transcript.latest(USER, thread, 10)) == 2


@pytest.mark.each_store
async def test_an_expired_session_is_not_continued_but_still_listed(store_url: str) -> None:
    """Its lifetime slides with activity; after it the answer has a new session id."""
    clock = MovableClock()
    loaded = load_engine_settings(
        flags={"embedder": "none", "store": store_url, "session_lifetime_seconds": 1000}, environment={}
    )
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
        listed = await engine.memory.sessions.list(USER)
        ids = [stored.record.session_id for stored in listed.items]
        assert ids == [fresh.session_id, first.session_id]


@pytest.mark.each_store
async def test_64_concurrent_questions_make_64_whole_turns(engine: Engine) -> None:
    """Turn numbers 1 to 64, each answer right after its question."""
    session = await engine.memory.session(scope=USER)
    queries = [f"祠堂第{number}进是什么？" for number in range(64)]
    answers = await asyncio.gather(*(ask(engine, query, session_id=session.session_id) for query in queries))
    assert sorted(answer.turn_id for answer in answers) == list(range(1, 65))
    thread = ThreadKey(session.session_id, "ancestor_yan")
    messages = await engine.memory.transcript.latest(USER, thread, 200)
    assert [message.seq for message in messages] == list(range(1, 129))
    asked = {answer.turn_id: query for answer, query in zip(answers, queries, strict=True)}
    given = {answer.turn_id: answer.answer_text for answer in answers}
    for question, reply in zip(messages[::2], messages[1::2], strict=True):
        assert (question.role, reply.role) == ("user", "assistant")
        assert question.turn_id == reply.turn_id
        assert question.content == asked[question.turn_id]
        assert reply.content == given[reply.turn_id]
        assert reply.completed


@pytest.mark.each_store
async def test_one_idempotency_key_makes_one_turn(engine: Engine) -> None:
    """Sent eight times concurrently: one turn, eight equal answers; with another question: rejected."""
    session = await engine.memory.session(scope=USER)
    answers = await asyncio.gather(
        *(
            ask(engine, "请问严氏家训有哪些？", session_id=session.session_id, idempotency_key="retry-1")
            for _ in range(8)
        )
    )
    assert all(answer == answers[0] for answer in answers)
    thread = ThreadKey(session.session_id, "ancestor_yan")
    assert len(await engine.memory.transcript.latest(USER, thread, 10)) == 2
    with pytest.raises(IdempotencyMismatch):
        await ask(engine, "第一条是什么？", session_id=session.session_id, idempotency_key="retry-1")


@pytest.mark.each_store
async def test_an_attempt_that_lost_its_key_while_it_waited_asks_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key was deleted with its session, and another attempt answers in the session that reuses the id."""
    session = await engine.memory.sessions.open(USER, "s-1")
    monkeypatch.setattr("wenmai.memory.idempotency.RENEW_SECONDS", 3600.0)
    documents, query = engine.store.documents, "请问严氏家训有哪些？"
    assert documents is not None
    async with engine.memory.thread_lock.hold(USER, session.thread("ancestor_yan")):
        waiting = asyncio.create_task(ask(engine, query, session_id="s-1", idempotency_key="key"))
        while not (claims := (await documents.list(USER, IdempotentTurn)).items):  # noqa: ASYNC110 — no event says so
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await documents.delete(USER, IdempotentTurn, claims[0].record.key)
        await engine.memory.sessions.delete(USER, "s-1")
        assert engine.store.logs is not None
        memory = Memory(documents, engine.store.logs, policy=engine.memory.policy)
        other = Chat(dataclasses.replace(engine.chat._services, memory=memory))
        request = TurnRequest(
            scope=USER, persona_id="ancestor_yan", query=query, session_id="s-1", idempotency_key="key"
        )
        answer = await other.ask(request)
    assert (await waiting).trace_id == answer.trace_id
    thread = ThreadKey("s-1", "ancestor_yan")
    stored = [message async for message in engine.memory.transcript.read_all(USER, thread)]
    assert [message.content for message in stored if message.role == "user"] == [query]


@pytest.mark.each_store
async def test_reject_raises_while_a_turn_runs(engine: Engine) -> None:
    """With ``on_conflict=reject`` a second turn of the thread does not wait."""
    session = await engine.memory.session(scope=USER)
    thread = ThreadKey(session.session_id, "ancestor_yan")
    async with engine.memory.thread_lock.hold(USER, thread):
        with pytest.raises(ThreadBusy):
            await engine.chat.ask(
                TurnRequest(
                    scope=USER,
                    persona_id="ancestor_yan",
                    query="在吗",
                    session_id=session.session_id,
                    on_conflict="reject",
                )
            )


async def test_a_failed_turn_is_kept_with_its_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is in the transcript with an unfinished answer, in no window, and its trace has the error."""
    first = await ask(engine, "请问严氏家训有哪些？")

    async def broken(*_: object, **__: object) -> None:
        raise StoreUnavailable("documents", "gone")

    monkeypatch.setattr(engine.prompts, "active", broken)
    with pytest.raises(StoreUnavailable):
        await ask(engine, "第一条是什么？", session_id=first.session_id)
    thread = ThreadKey(first.session_id, "ancestor_yan")
    messages = await engine.memory.transcript.latest(USER, thread, 10)
    assert [message.content for message in messages[2:]] == ["第一条是什么？", ""]
    assert not messages[-1].completed
    assert "gone" in messages[-1].metadata["error"]
    window = await engine.memory.transcript.window(USER, thread, engine.memory.policy.window)
    assert [message.turn_id for message in window.messages] == [1, 1]
    failed = (await engine.traces.list(USER, limit=1)).items[0].record
    assert failed.error is not None
    assert failed.tool_calls[-1].name == "prompt"
    assert failed.tool_calls[-1].status == "error"


async def test_incognito_does_not_use_or_change_preferences(engine: Engine) -> None:
    """Neither in the prompt nor inferred; the transcript is kept."""
    session = await engine.memory.session(scope=USER)
    await engine.memory.preferences.set(USER, session.session_id, PreferenceChange(verbosity="brief"))
    before = await engine.memory.preferences.get(USER, session.session_id)
    answer = await engine.chat.ask(
        TurnRequest(
            scope=USER,
            persona_id="ancestor_yan",
            query="请详细一点：严氏家训有哪些？",
            session_id=session.session_id,
            incognito=True,
        )
    )
    await engine.memory.derived.catch_up()
    assert await engine.memory.preferences.get(USER, session.session_id) == before
    assert "preferences" not in [block.kind for block in (await trace(engine, answer)).blocks]
    assert len(await session.messages()) == 0
    thread = ThreadKey(session.session_id, "ancestor_yan")
    assert len(await engine.memory.transcript.latest(USER, thread, 10)) == 2


async def test_incognito_infers_nothing(engine: Engine) -> None:
    """A request that would otherwise be inferred changes no preferences."""
    request = TurnRequest(scope=USER, persona_id="ancestor_yan", query="请说得详细一点", incognito=True)
    answer = await engine.chat.ask(request)
    await engine.memory.derived.catch_up()
    assert (await engine.memory.preferences.get(USER, answer.session_id)).updated_at is None


@pytest.mark.each_store
async def test_an_expired_lease_frees_the_thread_for_another_user(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease of a process that died holding the thread does not block a later session of the id."""
    monkeypatch.setattr("wenmai.stores.lease.LEASE", timedelta(seconds=0.2))
    documents = engine.store.documents
    assert documents is not None
    gone = Scope("default", "default", "gone")
    opened = await engine.memory.sessions.open(gone, "session-1")
    await HeldLease(documents, engine.clock, gone, "turn", opened.thread("ancestor_yan")).acquire(wait=True)
    await engine.memory.sessions.delete(gone, "session-1")
    answer = await asyncio.wait_for(ask(engine, "请问严氏家训有哪些？", session_id="session-1"), timeout=5)
    assert answer.session_id == "session-1"


async def test_preferences_are_inferred_with_their_source_turns(engine: Engine) -> None:
    """A request for more detail makes later answers detailed; a choice overrides it."""
    first = await ask(engine, "请说得详细一点")
    await engine.memory.derived.catch_up()
    inferred = (await engine.memory.preferences.get(USER, first.session_id)).values
    assert inferred.verbosity == "detailed"
    assert inferred.sources["verbosity"] == ["ancestor_yan#1"]
    await engine.memory.preferences.set(USER, first.session_id, PreferenceChange(verbosity="brief"))
    await ask(engine, "请说得详细一点", session_id=first.session_id)
    await engine.memory.derived.catch_up()
    assert (await engine.memory.preferences.get(USER, first.session_id)).values.verbosity == "brief"


@pytest.mark.parametrize(
    ("field", "request_"),
    [
        ("query", {"query": ""}),
        ("query", {"query": "   "}),
        ("query", {"query": "问" * 4001}),
        ("persona_id", {"persona_id": "no/slash"}),
        ("session_id", {"session_id": "../etc"}),
        ("trace_id", {"trace_id": "a b"}),
    ],
)
async def test_bad_input_names_its_field(engine: Engine, field: str, request_: dict[str, str]) -> None:
    """Nothing of an invalid request is stored."""
    fields = {"persona_id": "ancestor_yan", "query": "在吗"} | request_
    with pytest.raises(InvalidInput) as refused:
        await engine.chat.ask(msgspec.convert({"scope": USER, **fields}, TurnRequest))
    assert refused.value.field == field
    assert (await engine.memory.sessions.list(USER)).items == []


async def test_an_unknown_persona_is_not_found(engine: Engine) -> None:
    """Nothing is stored."""
    with pytest.raises(PersonaNotFound):
        await ask(engine, "在吗", persona_id="nobody")
    assert (await engine.memory.sessions.list(USER)).items == []


@pytest.mark.each_store
async def test_a_deleted_session_leaves_nothing_anywhere(engine: Engine) -> None:
    """Messages, preferences, traces and stored answers are deleted with it; session-10 is kept."""
    for session_id in ("session-1", "session-10"):
        await ask(engine, "请问严氏家训有哪些？", session_id=session_id, idempotency_key=f"key-{session_id}")
        await engine.memory.preferences.set(USER, session_id, PreferenceChange(verbosity="brief"))
    assert await engine.memory.sessions.delete(USER, "session-1")
    assert not await engine.memory.sessions.delete(USER, "session-1")

    left = [stored.record.session_id for stored in (await engine.memory.sessions.list(USER)).items]
    assert left == ["session-10"]
    assert [stored.record.session_id for stored in (await engine.traces.list(USER)).items] == ["session-10"]
    assert (await engine.memory.preferences.get(USER, "session-1")).updated_at is None
    assert await engine.memory.transcript.threads(USER, "session-1") == []
    documents = engine.store.documents
    assert documents is not None
    kept = await documents.list(USER, IdempotentTurn)
    assert [stored.record.session_id for stored in kept.items] == ["session-10"]


@pytest.mark.each_store
async def test_deleting_one_personas_thread_keeps_the_other(engine: Engine) -> None:
    """Its thread and traces are deleted; the session, the preferences and the other thread are kept."""
    first = await ask(engine, "请问严氏家训有哪些？")
    await ask(engine, "祠堂是什么时候建的？", session_id=first.session_id, persona_id="village_elder")
    assert await engine.memory.sessions.delete_thread(USER, first.session_id, "ancestor_yan") == 2
    threads = await engine.memory.transcript.threads(USER, first.session_id)
    assert [info.persona_id for info in threads] == ["village_elder"]
    assert [stored.record.persona_id for stored in (await engine.traces.list(USER)).items] == ["village_elder"]


@pytest.mark.each_store
@pytest.mark.parametrize("fails", [False, True])
async def test_a_turn_whose_thread_is_erased_meanwhile_keeps_no_trace(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """The user has the answer; its trace is deleted with the thread, also if the turn fails."""
    active = engine.prompts.active

    async def erasing(*of: Any, **fields: Any) -> Any:
        await engine.memory.sessions.delete_thread(USER, "session-1", "ancestor_yan")
        if fails:
            raise StoreUnavailable("documents", "gone")
        return await active(*of, **fields)

    monkeypatch.setattr(engine.prompts, "active", erasing)
    with pytest.raises(StoreUnavailable) if fails else nullcontext():
        await ask(engine, "请问严氏家训有哪些？", session_id="session-1")
    assert await engine.memory.transcript.threads(USER, "session-1") == []
    assert (await engine.traces.list(USER)).items == []


@pytest.mark.each_store
async def test_a_trace_id_of_another_user_does_not_collide(engine: Engine) -> None:
    """A caller's own trace id is used once per user; other users are not affected."""
    stranger = Scope("default", "default", "stranger")

    async def asked(scope: Scope) -> str:
        request = TurnRequest(scope=scope, persona_id="ancestor_yan", query="请问严氏家训有哪些？", trace_id="mine-1")
        return (await engine.chat.ask(request)).trace_id

    assert await asked(USER) == "mine-1"
    first = (await engine.traces.get(USER, "mine-1")).record
    assert await asked(stranger) == "mine-1"
    assert await asked(USER) != "mine-1"
    assert (await engine.traces.get(USER, "mine-1")).record == first
    assert (await engine.traces.get(stranger, "mine-1")).record != first


@pytest.mark.each_store
@pytest.mark.parametrize("stranger", [False, True])
async def test_a_keyed_turn_that_fails_in_a_session_of_its_own_is_repeated_there(
    store_url: str, monkeypatch: pytest.MonkeyPatch, *, stranger: bool
) -> None:
    """The requested session is expired, or another user's: still one question in one other session."""
    clock = MovableClock()
    settings = load_engine_settings(
        flags={"embedder": "none", "store": store_url, "session_lifetime_seconds": 1000}, environment={}
    )
    async with open_engine(settings.values, clock=clock) as engine:
        owner = Scope("default", "default", "stranger") if stranger else USER
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
        mine = [each.record.session_id for each in (await engine.memory.sessions.list(USER)).items]
        assert [each for each in mine if each != "session-1"] == [answer.session_id]
        assert answer.turn_id == 1


@pytest.mark.each_store
@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_keyed_turn_that_ends_while_its_answer_is_stored_gives_that_answer_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, *, cancelled: bool
) -> None:
    """Its caller disconnects, or its usage is not recorded, after the answer was stored; the trace has it too."""
    complete = engine.memory.transcript.complete

    async def stored_and_cancelled(*of: Any, **fields: Any) -> Any:
        completed = await complete(*of, **fields)
        if cancelled:
            asking.cancel()
        await asyncio.sleep(0.01)
        return completed

    async def uncounted(*_: object, **__: object) -> None:
        raise StoreUnavailable("documents", "gone")

    with monkeypatch.context() as breaking:
        breaking.setattr(engine.memory.transcript, "complete", stored_and_cancelled)
        if not cancelled:
            breaking.setattr(engine.memory.usage, "add", uncounted)
        asking = asyncio.create_task(ask(engine, "请问严氏家训有哪些？", session_id="session-1", idempotency_key="key"))
        with pytest.raises(asyncio.CancelledError if cancelled else StoreUnavailable):
            await asking
    answer = await ask(engine, "请问严氏家训有哪些？", session_id="session-1", idempotency_key="key")
    messages = await engine.memory.transcript.latest(USER, ThreadKey("session-1", "ancestor_yan"), 10)
    assert [message.content for message in messages] == ["请问严氏家训有哪些？", answer.answer_text]
    assert answer.citations
    kept = await trace(engine, answer)
    assert (kept.error, kept.answer) == (None, answer.answer_text)


@pytest.mark.each_store
async def test_a_lease_from_a_clock_ahead_blocks_no_longer_than_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder is dead, its expiry an hour away: the thread is free once the lease was not renewed that long."""
    monkeypatch.setattr("wenmai.stores.lease.LEASE", timedelta(seconds=0.3))
    documents = engine.store.documents
    assert documents is not None
    thread = (await engine.memory.sessions.open(USER, "session-1")).thread("ancestor_yan")
    dead = Lease(
        name=lease_name("turn", thread),
        session_id=thread.session_id,
        incarnation=thread.incarnation or "",
        holder="dead",
        expires_at=engine.clock() + timedelta(hours=1),
    )
    await documents.put(USER, dead)
    answer = await asyncio.wait_for(ask(engine, "请问严氏家训有哪些？", session_id="session-1"), timeout=5)
    assert answer.session_id == "session-1"


async def test_a_turn_waits_for_its_thread_with_a_timeout(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a turn that never ends, the next one is refused instead of waiting for ever."""
    monkeypatch.setattr("wenmai.memory.thread_lock.WAIT_SECONDS", 0.1)
    thread = (await engine.memory.sessions.open(USER, "session-1")).thread("ancestor_yan")
    async with engine.memory.thread_lock.hold(USER, thread):
        with pytest.raises(ThreadBusy):
            await asyncio.wait_for(ask(engine, "请问严氏家训有哪些？", session_id="session-1"), timeout=5)
