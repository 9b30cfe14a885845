"""Session summaries, preferences and traces, over the real engine on SQLite."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, open_service

from wenmai.clock import MovableClock
from wenmai.scope import Scope

SESSION = "/api/v1/npc/sessions/s1"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service in which session s1 has two turns with the ancestor and, between them, one with the elder."""
    async with open_service(tmp_path) as opened:
        await opened.ask("请问严氏家训有哪些？", session_id="s1")
        await opened.ask("祠堂是什么时候建的？", session_id="s1", npc_id="village_elder")
        await opened.ask("第一条是什么？", session_id="s1")
        yield opened


async def read(service: Service, url: str, **params: Any) -> dict[str, Any]:
    """The body of a GET that succeeds."""
    response = await service.client.get(url, params=params)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def test_a_session_is_shown_merged_over_its_personas_by_time(service: Service) -> None:
    """All messages in order of time, with counts and timestamps, and the preferences."""
    summary = await read(service, SESSION)
    assert (summary["session_id"], summary["npc_id"], summary["message_count"]) == ("s1", None, 6)
    assert summary["title"] == "请问严氏家训有哪些？"
    personas = [message["npc_id"] for message in summary["recent_messages"]]
    assert personas == ["ancestor_yan"] * 2 + ["village_elder"] * 2 + ["ancestor_yan"] * 2
    assert summary["first_message_at"] == summary["recent_messages"][0]["timestamp"]
    assert summary["last_message_at"] == summary["recent_messages"][-1]["timestamp"]
    assert summary["preference"]["verbosity"] == "normal"


async def test_a_session_is_shown_for_one_persona(service: Service) -> None:
    """Only that thread; an unused persona has no messages."""
    elder = await read(service, SESSION, npc_id="village_elder")
    assert (elder["npc_id"], elder["message_count"]) == ("village_elder", 2)
    assert [message["role"] for message in elder["recent_messages"]] == ["user", "assistant"]
    unused = await read(service, SESSION, npc_id="unused")
    assert (unused["message_count"], unused["recent_messages"], unused["first_message_at"]) == (0, [], None)


async def test_max_messages_keeps_the_newest(service: Service) -> None:
    """The count covers all messages."""
    summary = await read(service, SESSION, max_messages=1)
    assert [message["turn_id"] for message in summary["recent_messages"]] == [2]
    assert summary["message_count"] == 6


async def test_one_personas_thread_is_deleted_and_the_other_is_kept(service: Service) -> None:
    """The thread is empty afterwards; deleting it again is a no-op."""
    for _ in range(2):
        deleted = await service.client.delete(f"{SESSION}?npc_id=ancestor_yan")
        assert deleted.json() == {"success": True, "session_id": "s1"}
    summary = await read(service, SESSION)
    assert {message["npc_id"] for message in summary["recent_messages"]} == {"village_elder"}
    assert (await service.ask("你好", session_id="s1"))["turn_id"] == 1


async def test_a_whole_session_is_deleted_with_its_preferences(service: Service) -> None:
    """It is then 404, and a new session of that id is empty."""
    await service.client.put(f"{SESSION}/preference?verbosity=brief")
    assert (await service.client.delete(SESSION)).json() == {"success": True, "session_id": "s1"}
    assert (await service.client.get(SESSION)).status_code == 404
    assert (await service.client.delete(SESSION)).status_code == 404
    await service.create_session(session_id="s1")
    summary = await read(service, SESSION)
    assert (summary["message_count"], summary["preference"]["updated_at"]) == (0, None)


async def test_a_change_of_preferences_is_answered_with_what_is_stored(service: Service) -> None:
    """Not with the previous values: changes are merged, tags are added and removed, for every persona."""
    url = f"{SESSION}/preference"
    first = await service.client.put(url, params={"verbosity": "detailed", "interest_tag": ["家训", "祠堂"]})
    assert first.json()["success"] is True
    second = await service.client.put(
        url, params={"tone": "respectful", "interest_tag": "农耕", "remove_interest_tag": "家训"}
    )
    stored = second.json()["preference"]
    assert (stored["verbosity"], stored["tone"], stored["language"]) == ("detailed", "respectful", "zh")
    assert stored["interest_tags"] == ["祠堂", "农耕"]
    assert stored["updated_at"].endswith("Z")
    for persona_id in ("ancestor_yan", "village_elder"):
        assert (await read(service, SESSION, npc_id=persona_id))["preference"] == stored


async def test_preferences_are_set_by_a_body_too(service: Service) -> None:
    """The body's fields; combined with query parameters it is rejected."""
    url = f"{SESSION}/preference"
    by_body = await service.client.put(url, json={"language": "en", "interest_tags": ["hall"]})
    assert by_body.json()["preference"]["language"] == "en"
    assert by_body.json()["preference"]["interest_tags"] == ["hall"]
    both = await service.client.put(f"{url}?tone=casual", json={"language": "en"})
    assert [each["field"] for each in both.json()["errors"]] == ["body"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("verbosity", "loud"),
        ("tone", ""),
        ("language", "中文"),
        ("interest_tag", "x" * 41),
        ("interest_tag", "【证据】"),
    ],
)
async def test_a_bad_preference_is_refused_and_changes_nothing(service: Service, field: str, value: str) -> None:
    """422 with the field, even with another valid field."""
    good = {"tone": "casual"} if field != "tone" else {"verbosity": "brief"}
    response = await service.client.put(f"{SESSION}/preference", params={**good, field: value})
    assert response.status_code == 422
    assert [each["field"].partition("[")[0] for each in response.json()["errors"]] == [field]
    assert (await read(service, SESSION))["preference"]["updated_at"] is None


async def test_a_trace_explains_the_answer(service: Service) -> None:
    """Question as asked and as rewritten, steps, evidence, blocks with tokens, policy."""
    answer = await service.ask("第二条呢？", session_id="s1")
    trace = await read(service, f"/api/v1/npc/traces/{answer['trace_id']}")
    assert trace["request_input"]["query"] == "第二条呢？"
    assert "家训" in trace["request_input"]["rewritten_query"]
    assert {"open", "retrieve", "gate", "check"} <= {step["name"] for step in trace["tool_calls"]}
    assert trace["evidence_ids"] == [citation["evidence_id"] for citation in answer["citations"]]
    assert trace["answer"] == answer["answer_text"]
    assert all(block["tokens"] > 0 for block in trace["blocks"])
    assert trace["user_id"] == "anonymous"
    assert "session_summary" not in trace


async def test_a_trace_includes_its_session_on_request(service: Service) -> None:
    """The current session; deleting it deletes its traces."""
    answer = await service.ask("第二条呢？", session_id="s1")
    url = f"/api/v1/npc/traces/{answer['trace_id']}"
    found = await read(service, url, include_session=True)
    assert (found["session_summary"]["message_count"], found["thread_summary"]) == (8, None)
    await service.client.delete(SESSION)
    assert (await service.client.get(url)).status_code == 404
    assert (await read(service, "/api/v1/npc/traces"))["traces"] == []


async def test_a_trace_includes_the_summary_of_its_thread_on_request(service: Service) -> None:
    """As it is now; it is of the trace's persona alone."""
    answer = await service.ask("第二条呢？", session_id="s1")
    trace_url = f"/api/v1/npc/traces/{answer['trace_id']}"
    persona = (await read(service, trace_url))["npc_id"]
    for npc_id in (persona, "other"):
        said = [
            {"role": ("user", "assistant")[n % 2], "content": f"我的书柜有第{n}层", "npc_id": npc_id} for n in range(40)
        ]
        posted = await service.client.post("/v1/sessions/s1/messages", json={"messages": said})
        assert posted.status_code == 201
    await service.engine.memory.derived.catch_up()
    trace = await read(service, trace_url, include_session=True)
    summaries = (await read(service, "/v1/sessions/s1/summaries"))["summaries"]
    assert [trace["thread_summary"]] == [each for each in summaries if each["npc_id"] == persona]
    assert len(summaries) >= 2


async def test_traces_are_listed_by_filter_page_by_page(service: Service) -> None:
    """Newest first; filters apply; following ``next`` gives every trace once."""
    await service.ask("你好")
    everything = (await read(service, "/api/v1/npc/traces"))["traces"]
    assert [line["query"] for line in everything][:2] == ["你好", "第一条是什么？"]
    assert "blocks" not in everything[0]
    for field, value in (("session_id", "s1"), ("npc_id", "village_elder"), ("intent", "greeting")):
        found = (await read(service, "/api/v1/npc/traces", **{field: value}))["traces"]
        assert found == [line for line in everything if line[field] == value]
        assert found
    first = await read(service, "/api/v1/npc/traces", limit=3)
    second = await read(service, "/api/v1/npc/traces", limit=3, cursor=first["next"])
    assert first["traces"] + second["traces"] == everything
    assert second["next"] is None
    for field, value in (("intent", "gossip"), ("policy_mode", "strict"), ("cursor", "x"), ("limit", "0")):
        refused = await service.client.get("/api/v1/npc/traces", params={field: value})
        assert [each["field"] for each in refused.json()["errors"]] == [field]


async def test_a_replay_sets_both_answers_side_by_side(service: Service) -> None:
    """Without a model the same blocks give the same answer; the transcript is not changed."""
    answer = await service.ask("第二条呢？", session_id="s1")
    before = await read(service, SESSION)
    replay = (await service.client.post(f"/api/v1/npc/traces/{answer['trace_id']}/replay")).json()
    assert replay["original"]["trace_id"] == answer["trace_id"]
    assert replay["replayed"]["replay_of"] == answer["trace_id"]
    assert replay["replayed"]["answer"] == answer["answer_text"]
    assert await read(service, SESSION) == before


async def test_feedback_is_kept_in_the_trace_until_it_is_withdrawn(service: Service) -> None:
    """Listed with the trace, exported with it, without private values; a replay has none; nothing else changes."""
    answer = await service.ask("第二条呢？", session_id="s1")
    trace_id = answer["trace_id"]
    trace, feedback = f"/api/v1/npc/traces/{trace_id}", f"/v1/traces/{trace_id}/feedback"
    before = await read(service, trace)
    assert (await service.client.put(feedback, json={"rating": "up"})).status_code == 200
    reason = "第二条也要，写信给 yan@example.com"
    given = (await service.client.put(feedback, json={"rating": "down", "reason": reason})).json()["feedback"]
    assert (given["rating"], given["reason"]) == ("down", "第二条也要，写信给 [REDACTED_EMAIL]")
    after = await read(service, trace)
    assert after["details"].pop("feedback") == given
    assert after == before
    replayed = (await service.client.post(f"{trace}/replay")).json()["replayed"]
    assert "feedback" not in replayed["details"]
    listed = (await read(service, "/api/v1/npc/traces", limit=2))["traces"]
    assert [each["rating"] for each in listed] == ["down", None]
    exported = await service.client.get("/v1/users/anonymous/export", params={"traces": True})
    assert given["reason"] in exported.text
    assert (await service.client.delete(feedback)).json() == {"trace_id": trace_id, "feedback": None}
    assert await read(service, trace) == before


async def test_feedback_keeps_a_trace_no_longer(tmp_path: Path) -> None:
    """It ends as long after its turn as without feedback."""
    clock = MovableClock()
    async with open_service(tmp_path, clock=clock, trace_retention_days=2) as service:
        trace_id = (await service.ask("请问严氏家训有哪些？"))["trace_id"]
        clock.advance(timedelta(days=1, hours=23))
        assert (await service.client.put(f"/v1/traces/{trace_id}/feedback", json={"rating": "up"})).status_code == 200
        clock.advance(timedelta(hours=2))
        assert (await service.client.get(f"/api/v1/npc/traces/{trace_id}")).status_code == 404


async def test_only_an_answer_has_feedback(service: Service) -> None:
    """The rating is one of two, a reason is short, and the turn has been answered."""
    answer = await service.ask("第二条呢？", session_id="s1")
    url = f"/v1/traces/{answer['trace_id']}/feedback"
    for body in ({"rating": "so-so"}, {"reason": "x"}, {"rating": "up", "reason": "x" * 501}):
        assert (await service.client.put(url, json=body)).status_code == 422
    reserved = await service.engine.traces.reserve(Scope(user_id="anonymous"), "running")
    refused = await service.client.put(f"/v1/traces/{reserved}/feedback", json={"rating": "up"})
    assert [each["field"] for each in refused.json()["errors"]] == ["trace_id"]


async def test_an_inferred_preference_names_its_turns(service: Service) -> None:
    """A choice has no source."""
    await service.ask("以后请详细一点回答，严氏的始迁祖是谁？", session_id="s1")
    await service.engine.memory.derived.catch_up()
    preference = (await read(service, SESSION))["preference"]
    assert (preference["verbosity"], preference["sources"]["verbosity"]) == ("detailed", ["ancestor_yan#3"])
    await service.client.put(f"{SESSION}/preference", json={"verbosity": "brief"})
    assert "verbosity" not in (await read(service, SESSION))["preference"]["sources"]
