"""The chat route over the real engine on SQLite: answers, validation, concurrent turns."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, open_service

from wenmai.scope import Scope, ThreadKey

CHAT = "/api/v1/npc/chat"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service over a new file."""
    async with open_service(tmp_path) as opened:
        yield opened


async def rejected_fields(service: Service, status: int = 422, /, **body: Any) -> set[str]:
    """The fields named when a chat request is rejected with that status."""
    response = await service.client.post(CHAT, json={"npc_id": "ancestor_yan", "query": "你好", **body})
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return {each["field"] for each in response.json().get("errors", [])}


async def test_an_answer_has_every_field_and_its_time_in_utc(service: Service) -> None:
    """All documented fields, a timestamp ending in Z, and citations."""
    answer = await service.ask("请问严氏家训有哪些？")
    assert answer["turn_id"] == 1
    assert answer["policy_mode"] == "normal"
    assert answer["npc_name"] == "严氏先祖"
    assert answer["citations"]
    assert len(answer["followup_questions"]) <= 3
    assert answer["timestamp"].endswith("Z")
    assert datetime.fromisoformat(answer["timestamp"]).utcoffset() is not None
    assert answer["degraded"] == []


async def test_a_conversation_continues_in_its_session(service: Service) -> None:
    """With the session id of the first answer, the next turn is 2 and understands the context."""
    first = await service.ask("请问严氏家训有哪些？")
    second = await service.ask("第一条是什么？", session_id=first["session_id"])
    assert (second["session_id"], second["turn_id"]) == (first["session_id"], 2)
    assert "孝悌" in second["answer_text"]


async def test_an_unknown_persona_is_not_found(service: Service) -> None:
    """404 as a problem, and nothing is stored."""
    assert await rejected_fields(service, 404, npc_id="unknown") == set()
    assert (await service.client.get("/v1/sessions")).json()["sessions"] == []


@pytest.mark.parametrize("query", ["", "   \n", "字" * 4001, "a\0b", 5, None])
async def test_a_query_that_is_empty_too_long_or_no_text_is_refused(service: Service, query: Any) -> None:
    """422 with the field; nothing is stored."""
    assert await rejected_fields(service, query=query) == {"query"}
    assert (await service.client.get("/v1/sessions")).json()["sessions"] == []


async def test_whitespace_around_a_query_does_not_count(service: Service) -> None:
    """4000 characters with surrounding whitespace are allowed."""
    answer = await service.ask(f"  {'字' * 4000}\n")
    assert answer["turn_id"] == 1


async def test_unknown_fields_are_refused_by_name(service: Service) -> None:
    """A misspelt field is an error."""
    assert await rejected_fields(service, sesion_id="s1", npc="x") == {"sesion_id", "npc"}


@pytest.mark.parametrize("malformed", ["", "a b", "é", "a/b", "x" * 129, "a\n"])
@pytest.mark.parametrize("field", ["npc_id", "session_id"])
async def test_malformed_ids_are_refused(service: Service, field: str, malformed: str) -> None:
    """422 with the field."""
    assert await rejected_fields(service, **{field: malformed}) == {field}


@pytest.mark.parametrize("header", ["X-Tenant-ID", "X-Site-ID", "X-User-ID", "X-Trace-ID", "Idempotency-Key"])
async def test_malformed_headers_are_refused_by_name(service: Service, header: str) -> None:
    """422 with the header's name."""
    body = {"npc_id": "ancestor_yan", "query": "你好"}
    response = await service.client.post(CHAT, json=body, headers={header: "a\tb"})
    assert response.status_code == 422
    assert [each["field"] for each in response.json()["errors"]] == [header]


@pytest.mark.parametrize("field", ["tenant_id", "site_id", "user_id"])
async def test_a_body_that_contradicts_its_header_is_refused(service: Service, field: str) -> None:
    """Either may give the scope; different values are an error."""
    header = {"tenant_id": "X-Tenant-ID", "site_id": "X-Site-ID", "user_id": "X-User-ID"}[field]
    body = {"npc_id": "ancestor_yan", "query": "你好", field: "one"}
    different = await service.client.post(CHAT, json=body, headers={header: "two"})
    assert [each["field"] for each in different.json()["errors"]] == [field]
    assert (await service.client.post(CHAT, json=body, headers={header: "one"})).status_code == 200


async def test_the_scope_of_the_body_is_that_of_the_headers(service: Service) -> None:
    """A session created with the scope in the body is visible with that scope in the headers only."""
    answer = await service.ask("你好", tenant_id="t1", site_id="s1", user_id="u1")
    url = f"/api/v1/npc/sessions/{answer['session_id']}"
    owner = service.client_of(X_Tenant_ID="t1", X_Site_ID="s1", X_User_ID="u1")
    assert (await owner.get(url)).json()["message_count"] == 2
    assert (await service.client.get(url)).status_code == 404


async def test_the_callers_trace_id_is_used(service: Service) -> None:
    """The answer has it, and the trace is stored under it."""
    body = {"npc_id": "ancestor_yan", "query": "你好"}
    answer = (await service.client.post(CHAT, json=body, headers={"X-Trace-ID": "order-66"})).json()
    assert answer["trace_id"] == "order-66"
    assert (await service.client.get("/api/v1/npc/traces/order-66")).json()["session_id"] == answer["session_id"]


async def test_the_same_key_eight_times_at_once_gives_one_turn_and_eight_equal_answers(service: Service) -> None:
    """All eight bodies are the same bytes, and the thread has one turn."""
    body = {"npc_id": "ancestor_yan", "query": "请问严氏家训有哪些？", "session_id": "s1"}
    posts = [service.client.post(CHAT, json=body, headers={"Idempotency-Key": "k1"}) for _ in range(8)]
    answers = await asyncio.gather(*posts)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    messages = (await service.client.get("/v1/sessions/s1/messages")).json()["messages"]
    assert [message["turn_id"] for message in messages] == [1, 1]


async def test_a_key_used_for_another_question_conflicts(service: Service) -> None:
    """409, without a second turn."""
    headers = {"Idempotency-Key": "k1"}
    for query, status in (("你好", 200), ("请问严氏家训有哪些？", 409)):
        body = {"npc_id": "ancestor_yan", "query": query}
        assert (await service.client.post(CHAT, json=body, headers=headers)).status_code == status


async def test_two_users_may_use_the_same_key(service: Service) -> None:
    """Keys are scoped to the user: each gets an own answer."""
    body = {"npc_id": "ancestor_yan", "query": "你好"}
    clients = [service.client_of(X_User_ID=user, Idempotency_Key="k1") for user in ("u1", "u2")]
    answers = [await asyncio.wait_for(client.post(CHAT, json=body), 10) for client in clients]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert len({answer.json()["session_id"] for answer in answers}) == 2


async def test_64_turns_at_once_on_one_thread_are_64_whole_turns(service: Service) -> None:
    """Turns 1 to 64, each a question directly followed by its completed answer."""
    await service.ask("你好", session_id="s1", npc_id="village_elder")
    answers = await asyncio.gather(*(service.ask(f"祠堂是什么时候建的？（{n}）", session_id="s1") for n in range(64)))
    assert sorted(answer["turn_id"] for answer in answers) == list(range(1, 65))
    listed = await service.client.get("/v1/sessions/s1/messages?npc_id=ancestor_yan&limit=200")
    messages = listed.json()["messages"]
    assert [message["turn_id"] for message in messages] == [turn for turn in range(1, 65) for _ in (0, 1)]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 64
    assert all(message["completed"] for message in messages)
    assert Counter(answer["answer_text"] for answer in answers) == Counter(
        message["content"] for message in messages if message["role"] == "assistant"
    )


async def test_a_turn_with_reject_gets_409_while_the_thread_is_busy(service: Service) -> None:
    """``on_conflict: reject`` gets 409 while the thread is locked, otherwise an answer."""
    body = {"npc_id": "ancestor_yan", "query": "你好", "session_id": "s1", "on_conflict": "reject"}
    assert (await service.client.post(CHAT, json=body)).status_code == 200
    async with service.engine.memory.thread_lock.hold(Scope(), ThreadKey("s1", "ancestor_yan")):
        busy = await service.client.post(CHAT, json=body)
    assert busy.status_code == 409
    assert busy.json()["type"].endswith("thread-busy")
