"""Questions that name no persona: answers, streams, sessions, history and roles, with the profile `assistant`."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, open_service, profile_settings

from wenmai.clock import MovableClock
from wenmai.errors import InvalidInput, StoreUnavailable
from wenmai.scope import Scope
from wenmai.stores.records import NewMessage
from wenmai.stores.sqlite import query_readonly

CLERK = Scope(user_id="10000")


@pytest.fixture
async def service(tmp_path: Path, clock: MovableClock) -> AsyncIterator[Service]:
    """A service with the profile `assistant`, over a new file."""
    async with open_service(tmp_path, clock=clock, **profile_settings("assistant")) as opened:
        yield opened


@pytest.fixture
def clock() -> MovableClock:
    """The clock of the service."""
    return MovableClock()


async def ask(service: Service, question: str, status: int = 200, **fields: Any) -> Any:
    """The body of the response to a question."""
    answer = await service.client.post("/api/query", json={"question": question, **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


def events_in(text: str) -> list[tuple[str, Any]]:
    """Name and data of each event."""
    lines = [block.split("\n") for block in text.split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in lines]


async def tables_with(url: str, text: str) -> list[str]:
    """The tables of the database that have a row with the text."""
    tables = await query_readonly(url, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for (name,) in tables if text in str(await query_readonly(url, f"SELECT * FROM {name}"))]  # noqa: S608


async def test_the_version_in_force_is_quoted_and_the_earlier_one_named(service: Service) -> None:
    """The sample has two versions of one policy."""
    said = (await ask(service, "住宅押品的抵押率上限是多少？"))["answer"]
    assert "住宅为70%" in said
    assert "65%" not in said
    assert "取代“信贷管理制度汇编，押品管理办法，2022年1月1日起施行”" in said


async def test_an_elliptic_question_is_answered_from_the_right_manual(service: Service) -> None:
    """The answer says how it was understood; user ids are texts or integers, by default 10000."""
    first = await ask(service, "怎么创建押品？")
    assert re.fullmatch(r"sess_10000_1767621600_[0-9a-f]{4}", first["session_id"])
    second = await ask(service, "那入库呢？", session_id=first["session_id"], user_id=10000)
    assert {key: second[key] for key in ("success", "session_id", "turn_id", "notice", "rewritten_query")} == {
        "success": True,
        "session_id": first["session_id"],
        "turn_id": 2,
        "notice": "",
        "rewritten_query": "押品 入库",
    }
    operation = [second[key] for key in ("intent", "active_domain", "business_object", "operation_stage")]
    assert operation == ["system_query", ["system"], "押品", "入库"]
    assert "押品操作 · 押品入库" in [citation["title"] for citation in second["citations"]]
    third = await ask(service, "您好", user_id="10000", session_id=first["session_id"])
    assert (third["turn_id"], third["citations"]) == (3, [])
    assert (await ask(service, "您好"))["intent"] == "greeting"
    await ask(service, "您好", status=422, user_id=True)


async def test_a_stream_says_how_the_question_was_understood_before_the_answer(service: Service) -> None:
    """start, metadata, chunks that make the answer, done; a repeated key has the same, without another turn."""
    for repeat in range(2):
        response = await service.client.post(
            "/api/query/stream", json={"question": "合同怎么审批？"}, headers={"Idempotency-Key": "k"}
        )
        events = events_in(response.text)
        names = [name for name, _ in events]
        assert names[:3] == ["start", "metadata", "chunk"]
        assert set(names[3:-1]) <= {"chunk"}
        assert names[-1] == "done"
        done = events[-1][1]
        assert "".join(data["text"] for name, data in events if name == "chunk") == done["answer"]
        assert events[1][1].items() <= done.items()
        assert (done["turn_id"], done["business_object"], repeat) == (1, "合同", repeat)
    unknown = await service.client.post("/api/query/stream", json={"question": "合同", "role": "nobody"})
    assert (unknown.status_code, unknown.headers["content-type"]) == (422, "application/problem+json")


async def test_after_half_an_hour_a_new_session_says_so(service: Service, clock: MovableClock) -> None:
    """The lifetime slides with every question; the new session inherits nothing, the old one stays listed."""
    first = await ask(service, "怎么创建押品？")
    for _ in range(2):
        clock.advance(timedelta(minutes=29))
        kept = await ask(service, "那入库呢？", session_id=first["session_id"])
        assert (kept["session_id"], kept["notice"]) == (first["session_id"], "")
    clock.advance(timedelta(minutes=30))
    renewed = await ask(service, "那入库呢？", session_id=first["session_id"])
    assert renewed["session_id"] != first["session_id"]
    assert "会话已经结束" in renewed["notice"]
    assert (renewed["turn_id"], renewed["business_object"]) == (1, "")
    assert (await ask(service, "您好", session_id=renewed["session_id"]))["notice"] == ""
    listed = (await service.client.get("/api/session-list")).json()["sessions"]
    assert [each["session_id"] for each in listed] == [renewed["session_id"], first["session_id"]]
    assert listed[1]["title"] == listed[1]["first_question"] == "怎么创建押品？"


async def test_the_history_of_a_long_session_is_its_latest_turns(service: Service) -> None:
    """Of 300 turns the latest 50, ascending, also if a turn has more than two messages; strangers see nothing."""
    memory = service.engine.memory
    thread = (await memory.sessions.open(CLERK, "long")).thread("assistant")
    turns = [
        [NewMessage(role="user", content=f"q{turn}")]
        + [NewMessage(role="assistant", content=f"a{turn}")] * (3 if turn > 290 else 1)
        for turn in range(1, 301)
    ]
    for turn in turns:
        await memory.transcript.append(CLERK, thread, turn)
    history = (await service.client.get("/api/conversation-history", params={"session_id": "long"})).json()["history"]
    assert [(each["turn_id"], each["content"]) for each in history if each["role"] == "user"] == [
        (turn, f"q{turn}") for turn in range(251, 301)
    ]
    assert [each["content"] for each in history][-4:] == ["q300", "a300", "a300", "a300"]
    few = await service.client.get("/api/conversation-history", params={"session_id": "long", "limit": 1})
    assert {each["turn_id"] for each in few.json()["history"]} == {300}
    absent = await service.client.get("/api/conversation-history", params={"session_id": "long", "user_id": "other"})
    assert absent.status_code == 404


async def test_a_deleted_session_leaves_nothing(service: Service, tmp_path: Path) -> None:
    """No row of any table of the database has its id or its words."""
    session = (await ask(service, "客户C9091的押品怎么创建？"))["session_id"]
    kept = (await ask(service, "合同怎么创建？"))["session_id"]
    for question in ("那入库呢？", "不是押品，是合同"):
        await ask(service, question, session_id=session)
    await service.engine.memory.derived.catch_up(5)
    url = f"sqlite:///{tmp_path / 'wenmai.db'}"
    assert len(await tables_with(url, session)) > 5
    deleted = await service.client.post("/api/session-delete", json={"session_id": session})
    assert deleted.json() == {"success": True, "session_id": session}
    assert await tables_with(url, session) == await tables_with(url, "C9091") == []
    listed = (await service.client.get("/api/session-list")).json()["sessions"]
    assert [each["session_id"] for each in listed] == [kept]
    for again in ("/api/session-delete", "/api/conversation-history"):
        body = {"session_id": session}
        gone = await (
            service.client.post(again, json=body) if "delete" in again else service.client.get(again, params=body)
        )
        assert (gone.status_code, gone.json()["detail"]) == (404, "no such session")


async def test_a_role_chooses_tone_scope_and_quick_questions(service: Service) -> None:
    """The president's answers begin in their own way and never cite the system's manuals; unknown roles are named."""
    clerk, president = [await ask(service, "押品怎么创建？", role=role) for role in ("客户经理", "行长")]
    assert clerk["answer"].startswith("经办须知：")
    assert any("押品操作" in citation["title"] for citation in clerk["citations"])
    assert not any("操作" in citation["title"] for citation in president["citations"])
    trace = (await service.engine.traces.get(CLERK, president["trace_id"])).record
    assert trace.request_input.role == "行长"
    limit = await ask(service, "住宅押品的抵押率上限是多少？", role="行长")
    assert limit["answer"].startswith("结论：")
    quick = [
        (await service.client.get("/api/quick-questions", params=params)).json()
        for params in ({}, {"role": "客户经理"}, {"role": "行长"})
    ]
    assert quick[0]["roles"] == ["客户经理", "团队负责人", "行长"]
    assert len({tuple(each["questions"]) for each in quick}) == 3
    assert all(len(each["questions"]) == 4 for each in quick)
    for response in (
        await service.client.get("/api/quick-questions", params={"role": "clerk"}),
        await service.client.post("/api/query", json={"question": "押品怎么创建？", "role": "clerk"}),
    ):
        assert response.status_code == 422
        assert response.json()["errors"] == [{"field": "role", "allowed": "one of 客户经理, 团队负责人, 行长"}]


async def test_a_question_that_cannot_be_stored_is_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After and no session id, by JSON and by stream; what fails in the middle is an error event."""

    async def down(*_: object, **__: object) -> None:
        raise StoreUnavailable("sqlite", "out of order")

    session = (await ask(service, "押品怎么创建？"))["session_id"]
    with monkeypatch.context() as patched:
        patched.setattr(service.engine.memory.transcript, "append", down)
        for path in ("/api/query", "/api/query/stream"):
            refused = await service.client.post(path, json={"question": "那入库呢？", "session_id": session})
            assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
            assert int(refused.headers["retry-after"]) > 0
            assert "session_id" not in refused.json()
    with monkeypatch.context() as patched:
        patched.setattr(service.engine.memory.transcript, "complete", down)
        broken = await service.client.post("/api/query/stream", json={"question": "那入库呢？", "session_id": session})
    name, problem = events_in(broken.text)[-1]
    assert (name, problem["status"]) == ("error", 503)
    with monkeypatch.context() as patched:
        patched.setattr(service.engine.memory.states, "understand", down)
        without_state = await ask(service, "合同怎么创建？", session_id=session)
    assert without_state["degraded"] == ["state"]
    assert (await ask(service, "那审批呢？", session_id=session))["business_object"] == "押品"


async def test_of_two_tabs_both_are_answered(service: Service) -> None:
    """Two questions of one session at once: turns 2 and 3, one chain of both operations."""
    session = (await ask(service, "押品怎么创建？"))["session_id"]
    answers = await asyncio.gather(
        ask(service, "押品怎么入库？", session_id=session), ask(service, "合同怎么审批？", session_id=session)
    )
    assert sorted(each["turn_id"] for each in answers) == [2, 3]
    assert "押品操作 · 押品入库" in [citation["title"] for citation in answers[0]["citations"]]
    assert "合同操作 · 合同审批" in [citation["title"] for citation in answers[1]["citations"]]
    state = await service.engine.memory.states.get(CLERK, session)
    assert [change.version for change in state.changes] == [1, 2, 3]
    assert {each.business_object for each in state.operation_chain} == {"押品", "合同"}


async def test_one_process_serves_two_profiles(tmp_path: Path, clock: MovableClock) -> None:
    """Each persona answers with evidence, words, rules and session terms of its own profile, at its own sites."""
    async with open_service(tmp_path, clock=clock, **profile_settings("npc,assistant")) as service:
        npc = await service.ask("请问严氏家训有哪些？")
        assert (npc["policy_mode"], npc["session_id"][:8]) == ("normal", "session-")
        assert (await service.ask("押品怎么创建？"))["citations"] == []
        clerk = await ask(service, "押品怎么创建？", role="客户经理")
        assert re.fullmatch(r"sess_10000_1767621600_[0-9a-f]{4}", clerk["session_id"])
        assert "押品操作 · 创建押品" in [citation["title"] for citation in clerk["citations"]]
        assert (await ask(service, "请问严氏家训有哪些？"))["citations"] == []
        clock.advance(timedelta(minutes=31))
        assert (await ask(service, "那入库呢？", session_id=clerk["session_id"]))["notice"]
        kept = await service.ask("第一条是什么？", session_id=npc["session_id"])
        assert kept["session_id"] == npc["session_id"]
        assert (await service.engine.memory.states.get(Scope(), kept["session_id"])).state_version == 0
        elsewhere = await service.engine.evidence.list(Scope("yantian", "yantian-main"), limit=500)
        assert not any("policy" in stored.record.domains for stored in elsewhere.items)


def test_profiles_served_together_have_different_personas() -> None:
    """The error names the persona."""
    with pytest.raises(InvalidInput, match="assistant is in two"):
        profile_settings("assistant,assistant")


async def test_the_assistant_says_what_it_helps_with(service: Service, tmp_path: Path) -> None:
    """Roles of the profile; objects with their own stages in order. A profile without rules has neither."""
    described = (await service.client.get("/api/assistant")).json()
    assert (described["npc_id"], described["roles"]) == ("assistant", ["客户经理", "团队负责人", "行长"])
    stages = {each["name"]: each["stages"] for each in described["objects"]}
    assert stages["押品"] == ["创建", "入库", "审批", "放款", "结清"]
    assert (stages["授信"], stages["客户"]) == (["创建", "审批", "结清"], [])
    assert "system_query" in described["intents"]
    (tmp_path / "npc").mkdir()
    async with open_service(tmp_path / "npc") as plain:
        described = (await plain.client.get("/api/assistant")).json()
    assert [described[field] for field in ("roles", "intents", "objects")] == [[], [], []]


async def test_a_turn_with_the_persona_has_a_role_and_suggests_what_comes_next(service: Service) -> None:
    """The role's words; first the questions of the stage, about the object; an unknown role is refused."""
    body = {"npc_id": "assistant", "query": "押品怎么创建？", "role": "团队负责人"}
    answer = (await service.client.post("/api/v1/npc/chat", json=body)).json()
    assert answer["answer_text"].startswith("复核要点：")
    assert answer["followup_questions"][:2] == ["押品怎么审批？", "押品怎么入库？"]
    refused = await service.client.post("/api/v1/npc/chat", json=body | {"role": "nobody"})
    assert refused.status_code == 422
