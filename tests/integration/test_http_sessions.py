"""The plain memory API over the real memory on SQLite."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, open_service

from wenmai.clock import MovableClock


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service over a new file."""
    async with open_service(tmp_path) as opened:
        yield opened


async def append(service: Service, session_id: str, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The stored messages of a successful append."""
    response = await service.client.post(f"/v1/sessions/{session_id}/messages", json={"messages": messages})
    assert response.status_code == 201, response.text
    stored: list[dict[str, Any]] = response.json()["messages"]
    return stored


def conversation(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Messages numbered from 1, user and assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"m{n + 1}", **fields} for n in range(count)]


async def contents(service: Service, url: str) -> tuple[list[str], str | None]:
    """The contents of a page of messages, and its ``next``."""
    page = (await service.client.get(url)).json()
    return [message["content"] for message in page["messages"]], page["next"]


async def test_a_created_session_is_read_back_with_what_was_given(service: Service) -> None:
    """201 with the record; scope, title, metadata and persona are returned by a later read."""
    given = {"session_id": "trip", "title": "Planning", "metadata": {"a": [1]}, "npc_id": "guide"}
    created = await service.client.post("/v1/sessions", json=given)
    assert created.status_code == 201
    record = created.json()
    assert {name: record[name] for name in given} == given
    assert (record["tenant_id"], record["site_id"], record["user_id"]) == ("default", "default", "anonymous")
    assert record["created_at"].endswith("Z")
    read = (await service.client.get("/v1/sessions/trip")).json()
    assert read == record | {"threads": []}


async def test_creating_an_own_session_again_changes_nothing(service: Service) -> None:
    """200 instead of 201, with the existing record."""
    first = (await service.client.post("/v1/sessions", json={"session_id": "s", "title": "First"})).json()
    again = await service.client.post("/v1/sessions", json={"session_id": "s", "title": "Second"})
    assert (again.status_code, again.json()) == (200, first)


async def test_a_strangers_id_gives_a_fresh_session(service: Service) -> None:
    """Insert-if-absent: the owner keeps the session, the other user gets another id."""
    await service.create_session(session_id="mine", title="Mine")
    stranger = service.client_of(X_User_ID="stranger")
    fresh = await stranger.post("/v1/sessions", json={"session_id": "mine"})
    assert fresh.status_code == 201
    assert fresh.json()["session_id"] != "mine"
    assert (await service.client.get("/v1/sessions/mine")).json()["title"] == "Mine"


async def test_sessions_are_listed_newest_first_page_by_page(service: Service) -> None:
    """Following ``next`` gives every session once."""
    created = [await service.create_session() for _ in range(5)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await service.client.get(f"/v1/sessions?limit=2{cursor}")).json()
        seen += [session["session_id"] for session in page["sessions"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == created[::-1]


async def test_a_renamed_session_keeps_its_name(service: Service) -> None:
    """The response and later reads have the stripped title; an invalid one is rejected."""
    session_id = await service.create_session(title="Old")
    renamed = await service.client.patch(f"/v1/sessions/{session_id}", json={"title": "  New name "})
    assert renamed.json()["title"] == "New name"
    assert (await service.client.get(f"/v1/sessions/{session_id}")).json()["title"] == "New name"
    for title in ("", "  ", "x" * 61, "two\nlines", "a\0b"):
        refused = await service.client.patch(f"/v1/sessions/{session_id}", json={"title": title})
        assert [each["field"] for each in refused.json()["errors"]] == ["title"]


async def test_appended_messages_come_back_with_ids_and_turns(service: Service) -> None:
    """The caller's id and timestamp are kept, turns are numbered, all fields are returned."""
    session_id = await service.create_session()
    stored = await append(
        service,
        session_id,
        {"role": "user", "content": "问", "id": "q-1", "timestamp": "2023-05-08T13:56:00+02:00", "name": "Ann"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1"}]},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
        {"role": "assistant", "content": "答", "metadata": {"k": "v"}},
        {"role": "user", "content": "again"},
    )
    assert stored[0]["id"] == "q-1"
    assert stored[0]["timestamp"] == "2023-05-08T11:56:00Z"
    assert stored[0]["name"] == "Ann"
    assert stored[1]["tool_calls"] == [{"id": "c1"}]
    assert stored[2]["tool_call_id"] == "c1"
    assert stored[3]["metadata"] == {"k": "v"}
    assert [message["turn_id"] for message in stored] == [1, 1, 1, 1, 2]
    listed = (await service.client.get(f"/v1/sessions/{session_id}/messages")).json()
    assert listed == {"messages": stored, "next": None}


async def test_messages_in_openai_format_are_accepted(service: Service) -> None:
    """Null with tool calls, parts, the role developer and refusals are normalized, as in an import."""
    session_id = await service.create_session()
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    stored = await append(
        service,
        session_id,
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": "this?"}]},
        {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": "A bell."}], "tool_call_id": "c1"},
        {"role": "assistant", "content": None, "refusal": "I may not say."},
    )
    assert [(message["role"], message["content"]) for message in stored] == [
        ("system", "Be kind."),
        ("user", "What is\nthis?"),
        ("assistant", ""),
        ("tool", "A bell."),
        ("assistant", "I may not say."),
    ]
    assert [message["tool_calls"] for message in stored] == [None, None, [call], None, None]
    assert [message["metadata"] for message in stored] == [
        {"role": "developer"},
        {},
        {},
        {},
        {"refusal": "I may not say."},
    ]


async def test_the_first_user_message_becomes_question_and_title(service: Service) -> None:
    """The first one over all threads, once; a given title is kept."""
    session_id = await service.create_session()
    await append(service, session_id, {"role": "assistant", "content": "你好。"})
    await append(service, session_id, {"role": "user", "content": " 祠堂是哪一年建的？ ", "npc_id": "elder"})
    await append(service, session_id, {"role": "user", "content": "Later."})
    record = (await service.client.get(f"/v1/sessions/{session_id}")).json()
    assert (record["first_question"], record["title"]) == ("祠堂是哪一年建的？", "祠堂是哪一年建的？")
    named = (await service.client.post("/v1/sessions", json={"title": "Mine"})).json()["session_id"]
    await append(service, named, {"role": "user", "content": "Where were we?"})
    record = (await service.client.get(f"/v1/sessions/{named}")).json()
    assert (record["first_question"], record["title"]) == ("Where were we?", "Mine")


async def test_a_repeated_message_id_changes_nothing(service: Service) -> None:
    """The stored message is returned, and it is stored once."""
    session_id = await service.create_session()
    (first,) = await append(service, session_id, {"role": "user", "content": "one", "id": "m"})
    (again,) = await append(service, session_id, {"role": "user", "content": "two", "id": "m"})
    assert again == first
    assert (await contents(service, f"/v1/sessions/{session_id}/messages"))[0] == ["one"]


async def test_messages_go_to_the_threads_of_their_personas(service: Service) -> None:
    """``npc_id`` selects the thread, default is the session's persona; each thread numbers its own turns."""
    session_id = await service.create_session(npc_id="guide")
    stored = await append(
        service,
        session_id,
        {"role": "user", "content": "to the guide"},
        {"role": "user", "content": "to the cook", "npc_id": "cook"},
        {"role": "assistant", "content": "the guide answers", "npc_id": "guide"},
    )
    assert [(message["npc_id"], message["turn_id"]) for message in stored] == [("guide", 1), ("cook", 1), ("guide", 1)]
    cooks = await contents(service, f"/v1/sessions/{session_id}/messages?npc_id=cook")
    assert cooks == (["to the cook"], None)
    threads = (await service.client.get(f"/v1/sessions/{session_id}")).json()["threads"]
    assert {thread["npc_id"]: thread["message_count"] for thread in threads} == {"guide": 2, "cook": 1}


async def test_one_thread_is_listed_page_by_page_from_the_newest(service: Service) -> None:
    """Pages are oldest first, ``before`` takes ``next``, and the last page has no ``next``."""
    session_id = await service.create_session()
    await append(service, session_id, *conversation(5))
    url = f"/v1/sessions/{session_id}/messages?limit=2&npc_id=assistant"
    newest, place = await contents(service, url)
    middle, second = await contents(service, f"{url}&before={place}")
    oldest, end = await contents(service, f"{url}&before={second}")
    assert (newest, middle, oldest, end) == (["m4", "m5"], ["m2", "m3"], ["m1"], None)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 20])
async def test_all_threads_are_merged_and_paged_without_loss(service: Service, limit: int) -> None:
    """Every message once, each thread in its own order whatever its timestamps; new messages do not shift pages."""
    session_id = await service.create_session()
    await append(service, session_id, *conversation(4, npc_id="a"))
    await append(service, session_id, *conversation(3, npc_id="b", timestamp="2020-01-01T00:00:00Z"))
    backwards = [f"20{20 - n:02}-01-01T00:00:00Z" for n in range(6)]
    old = [
        message | {"timestamp": moment} for message, moment in zip(conversation(6, npc_id="c"), backwards, strict=True)
    ]
    await append(service, session_id, *old)
    url = f"/v1/sessions/{session_id}/messages?limit={limit}"
    seen: list[dict[str, Any]] = []
    place = ""
    while True:
        page = (await service.client.get(url + place)).json()
        assert len(page["messages"]) <= limit
        seen = page["messages"] + seen
        if page["next"] is None:
            break
        place = f"&before={page['next']}"
        await append(service, session_id, {"role": "user", "content": "later", "npc_id": "d"})
    assert "later" not in [message["content"] for message in seen]
    for persona_id, count in (("a", 4), ("b", 3), ("c", 6)):
        assert [each["seq"] for each in seen if each["npc_id"] == persona_id] == list(range(1, count + 1))


async def test_answers_are_rendered_on_request(service: Service) -> None:
    """Beside the messages, which stay as they were written; questions are not rendered."""
    session_id = await service.create_session()
    await append(service, session_id, *({"role": role, "content": "**a** <b>"} for role in ("user", "assistant")))
    url = f"/v1/sessions/{session_id}/messages"
    plain = (await service.client.get(url)).json()
    rendered = (await service.client.get(url, params={"html": True})).json()
    assert rendered.pop("html") == [None, "<p><strong>a</strong> &lt;b&gt;</p>\n"]
    assert rendered == plain


@pytest.mark.parametrize("before", ["x", "0", "-1", "a:0", "a", "a:1;b:2", "²", "a:99999999999999999999"])
async def test_an_invalid_cursor_is_rejected(service: Service, before: str) -> None:
    """422 with the field, with and without a persona."""
    session_id = await service.create_session()
    for thread in ({}, {"npc_id": "assistant"}):
        response = await service.client.get(f"/v1/sessions/{session_id}/messages", params={"before": before, **thread})
        assert [each["field"] for each in response.json()["errors"]] == ["before"]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "robot", "content": "x"}, "role"),
        ({"role": "user"}, "content"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "user", "content": 7}, "content"),
        ({"role": "user", "content": {"type": "text", "text": "x"}}, "content"),
        ({"role": "user", "content": ["x", 7]}, "content"),
        ({"role": "user", "content": "a\0b"}, "content"),
        ({"role": "user", "content": [{"type": "text", "text": "a\0b"}]}, "content"),
        ({"role": "user", "content": "x" * 1_000_001}, "content"),
        ({"role": "user", "content": "x", "metadata": {"a": [2**63]}}, "metadata.a[0]"),
        ({"role": "user", "content": "x", "text": "y"}, "text"),
        ({"role": "user", "content": "x", "id": "a b"}, "id"),
        ({"role": "user", "content": "x", "npc_id": ""}, "npc_id"),
        ({"role": "user", "content": "x", "timestamp": "2026-01-05T14:00:00"}, "timestamp"),
        ({"role": "user", "content": "x", "timestamp": 1700000000}, "timestamp"),
        ({"role": "user", "content": "x", "timestamp": "0001-01-01T00:00:00+01:00"}, "timestamp"),
        ({"role": "user", "content": "x", "name": ""}, "name"),
    ],
)
async def test_an_invalid_message_is_rejected_with_its_position(
    service: Service, message: dict[str, Any], field: str
) -> None:
    """The append is atomic: the valid message is not stored either."""
    session_id = await service.create_session()
    url = f"/v1/sessions/{session_id}/messages"
    good = {"role": "user", "content": "good", "npc_id": "other"}
    response = await service.client.post(url, json={"messages": [good, message]})
    assert response.status_code == 422
    assert [each["field"] for each in response.json()["errors"]] == [f"messages[1].{field}"]
    assert await contents(service, url) == ([], None)


async def test_the_context_keeps_to_its_budget_and_ends_with_the_question(service: Service) -> None:
    """Blocks, messages, tokens and what was cut; a budget smaller than the question is rejected."""
    session_id = await service.create_session()
    await append(service, session_id, *conversation(40))
    url = f"/v1/sessions/{session_id}/context"
    whole = (await service.client.post(url, json={"query": "Where were we?"})).json()
    assert whole["messages"][-1] == {"role": "user", "content": "Where were we?"}
    assert [message["content"] for message in whole["messages"][-3:-1]] == ["m39", "m40"]
    small = (await service.client.post(url, json={"query": "Where were we?", "budget_tokens": 20})).json()
    assert small["tokens"] <= 20
    assert small["cut"]["history"]["turns_left_out"]
    refused = await service.client.post(url, json={"query": "Where were we?", "budget_tokens": 1})
    assert [each["field"] for each in refused.json()["errors"]] == ["budget_tokens"]


async def test_an_export_has_the_record_and_every_message_in_order(service: Service) -> None:
    """JSON lines: the session, then each thread in order, over more than one store page."""
    session_id = await service.create_session(title="Long")
    await append(service, session_id, *conversation(700))
    await append(service, session_id, *conversation(3, npc_id="other"))
    export = await service.client.get(f"/v1/sessions/{session_id}/export")
    assert export.headers["content-type"] == "application/jsonl"
    record, *messages = [json.loads(line) for line in export.text.splitlines()]
    assert (record["session_id"], record["title"]) == (session_id, "Long")
    expected = [f"m{n + 1}" for n in range(700)] + ["m1", "m2", "m3"]
    assert [message["content"] for message in messages] == expected
    assert [message["npc_id"] for message in messages[-3:]] == ["other"] * 3


async def test_a_deleted_session_is_gone_and_deleting_it_again_is_not_found(service: Service) -> None:
    """A session with a similar id is not affected."""
    for session_id in ("session-1", "session-10"):
        await service.create_session(session_id=session_id)
        await append(service, session_id, *conversation(2))
    gone = await service.client.delete("/v1/sessions/session-1")
    assert gone.json() == {"success": True, "session_id": "session-1"}
    assert (await service.client.get("/v1/sessions/session-1/messages")).status_code == 404
    assert (await service.client.delete("/v1/sessions/session-1")).status_code == 404
    assert (await contents(service, "/v1/sessions/session-10/messages"))[0] == ["m1", "m2"]


async def test_nothing_is_appended_to_an_expired_session(tmp_path: Path) -> None:
    """404 with its own type; the transcript can still be read."""
    clock = MovableClock()
    async with open_service(tmp_path, clock=clock, session_lifetime_seconds=60) as service:
        session_id = await service.create_session()
        await append(service, session_id, *conversation(2))
        clock.advance(timedelta(seconds=61))
        url = f"/v1/sessions/{session_id}/messages"
        late = await service.client.post(url, json={"messages": conversation(1)})
        assert late.status_code == 404
        assert late.json()["type"].endswith("session-expired")
        assert (await contents(service, url))[0] == ["m1", "m2"]
