"""Imports keep all data without duplicates; exports round-trip."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import wenmai
from clinic import RULES
from wenmai import Conflict, InvalidInput, Memory, MemoryPolicy, NewMessage, Scope, SessionNotFound
from wenmai.business.rules import BusinessRules
from wenmai.chat.turn import TurnRequest
from wenmai.engine import Engine
from wenmai.interchange import Report, export_lines, import_files
from wenmai.memory.preferences import PreferenceChange
from wenmai.memory.sessions import OpenedSession
from wenmai.memory.state_audit import ARCHIVED
from wenmai.scope import ThreadKey
from wenmai.stores.conformance.samples import without_incarnation
from wenmai.stores.records import Message

OWNER = Scope("village", "hall", "u1")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    """An empty store."""
    async with wenmai.open(f"sqlite:///{tmp_path}/store.db") as opened:
        yield opened


def lines(path: Path, *values: object) -> Path:
    """A file with these values, one per line; bytes are written unchanged."""
    path.write_bytes(
        b"".join(
            (value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()) + b"\n"
            for value in values
        )
    )
    return path


def message_line(content: str, role: str = "user", session_id: str = "s1", **more: object) -> dict[str, Any]:
    """A message line."""
    return {"session_id": session_id, "role": role, "content": content, **more}


async def exported(memory: Memory, scope: Scope = OWNER) -> bytes:
    """The whole export."""
    return b"".join([line async for line in export_lines(memory, scope)])


async def thread(memory: Memory, session_id: str, persona_id: str = "assistant") -> list[Message]:
    """All messages of a thread."""
    return [each async for each in memory.transcript.read_all(OWNER, ThreadKey(session_id, persona_id))]


def counts(report: Report) -> tuple[int, int, int, int, int]:
    """Sessions, created, messages, repeated, skipped."""
    return report.sessions, report.created, report.messages, report.repeated, report.skipped_count


LOCOMO = {
    "speaker_a": "Mei",
    "speaker_b": "Ken",
    "session_1_date_time": "1:56 pm on 8 May, 2023",
    "session_1": [
        {"speaker": "Ken", "dia_id": "D1:1", "text": "Morning, Mei."},
        {
            "speaker": "Mei",
            "dia_id": "D1:2",
            "text": "Look at my kite!",
            "img_url": ["https://example.org/kite.jpg"],
            "blip_caption": "a red kite",
            "query": "kite",
        },
        {"speaker": "Ken", "dia_id": "D1:3", "text": "Lovely."},
    ],
    "session_2_date_time": "12:05 am on 1 June, 2023",
    "session_2": [{"speaker": "Mei", "dia_id": "D2:1", "text": "It tore."}],
    "session_10_date_time": "3:00 pm on 2 July, 2023",
    "qa": [],
    "session_1_summary": "Mei shows her kite.",
}


async def test_json_lines_keep_ids_timestamps_names_and_personas(memory: Memory, tmp_path: Path) -> None:
    """The fields of a line are stored unchanged; a timestamp with an offset is converted to UTC."""
    file = lines(
        tmp_path / "talk.jsonl",
        message_line("你好", id="m:1", name="小梅", timestamp="2024-02-29T08:00:00+08:00", npc_id="ancestor_yan"),
        message_line("后生好", role="assistant", id="m:2", timestamp=1709164801, npc_id="ancestor_yan"),
        message_line("hi", npc_id="village_elder", mood="glad"),
    )
    assert counts(await import_files(memory, OWNER, [file])) == (1, 1, 3, 0, 0)
    first, second = await thread(memory, "s1", "ancestor_yan")
    assert (first.id, first.name, first.timestamp) == ("m:1", "小梅", datetime(2024, 2, 29, tzinfo=UTC))
    assert (second.id, second.timestamp) == ("m:2", datetime(2024, 2, 29, 0, 0, 1, tzinfo=UTC))
    (elder,) = await thread(memory, "s1", "village_elder")
    assert elder.metadata == {"mood": "glad"}
    record = (await memory.sessions.get(OWNER, "s1")).record
    assert (record.title, record.title_by, record.first_question) == ("你好", "rule", "你好")


async def test_second_import_changes_nothing(memory: Memory, tmp_path: Path) -> None:
    """Messages without ids are recognised, including equal ones."""
    file = lines(
        tmp_path / "talk.jsonl", *(message_line("好的", role) for role in ("user", "assistant", "user", "user"))
    )
    assert counts(await import_files(memory, OWNER, [file])) == (1, 1, 4, 0, 0)
    before = await exported(memory)
    assert counts(await import_files(memory, OWNER, [file, file])) == (1, 0, 0, 8, 0)
    assert await exported(memory) == before


async def test_grown_and_fixed_file_adds_only_new_messages(memory: Memory, tmp_path: Path) -> None:
    """A fixed line and lines at the end are added; the others are not duplicated."""
    file = lines(tmp_path / "talk.jsonl", message_line("one"), b"{broken", message_line("three"))
    assert counts(await import_files(memory, OWNER, [file])) == (1, 1, 2, 0, 1)
    lines(file, message_line("one"), message_line("two"), message_line("three"), message_line("four"))
    assert counts(await import_files(memory, OWNER, [file])) == (1, 0, 2, 2, 0)
    assert sorted(each.content for each in await thread(memory, "s1")) == ["four", "one", "three", "two"]


async def test_bad_lines_are_named_and_the_rest_is_imported(memory: Memory, tmp_path: Path) -> None:
    """Each unusable line is reported with its number and reason; valid lines of the batch are kept."""
    file = lines(
        tmp_path / "talk.jsonl",
        message_line("first"),
        b'{"session_id": "s1", "role": "user"',
        message_line("x", session_id="../etc"),
        message_line("x", role="wizard"),
        {"session_id": "s1", "role": "user"},
        b"",
        b'{"session_id": "s1", "role": "user", "content": "\xff"}',
        message_line("x", timestamp="2024-01-01T00:00:00"),
        message_line("nul \0"),
        message_line("x", id="with space"),
        b"[1, 2]",
        {"colour": "red"},
        {"role": "user", "content": "whose?", "type": "message"},
        message_line("x", name=""),
        message_line("last"),
    )
    report = await import_files(memory, OWNER, [file])
    named = {bad.line: bad.reason for bad in report.skipped}
    expected = {
        2: "not JSON", 3: "session_id: '../etc'", 4: "role: Invalid enum value", 5: "content is missing",
        7: "not UTF-8", 8: "timestamp: '2024-01-01T00:00:00'", 9: "content:", 10: "id: 'with space'",
        11: "not a JSON object", 12: "neither a message", 13: "session_id is missing", 14: "name:",
    }  # fmt: skip
    assert named.keys() == expected.keys()
    assert [line for line, start in expected.items() if start not in named[line]] == []
    assert str(report.skipped[0]).startswith("talk.jsonl:2: ")
    assert [each.content for each in await thread(memory, "s1")] == ["first", "last"]
    assert report.skipped_count == 13


async def test_another_users_session_is_an_error_line(memory: Memory, tmp_path: Path) -> None:
    """Another user's session id is reported, nothing is written, and no other session is created."""
    stranger = OWNER._replace(user_id="u2")
    await memory.sessions.open(stranger, "s1")
    file = lines(tmp_path / "talk.jsonl", message_line("mine?"), message_line("free", session_id="s2"))
    report = await import_files(memory, OWNER, [file])
    assert counts(report) == (1, 1, 1, 0, 1)
    assert (report.skipped[0].line, "'s1'" in report.skipped[0].reason) == (1, True)
    assert [s.record.session_id for s in (await memory.sessions.list(OWNER)).items] == ["s2"]
    assert await memory.transcript.threads(stranger, "s1") == []


async def test_batches_keep_the_order_of_interleaved_sessions(memory: Memory, tmp_path: Path) -> None:
    """4 300 lines over three sessions, more than the buffer: each session has its lines in the order of the file."""
    file = lines(tmp_path / "talk.jsonl", *(message_line(str(at), session_id=f"s{at % 3}") for at in range(4300)))
    report = await import_files(memory, OWNER, [file])
    assert counts(report) == (3, 3, 4300, 0, 0)
    assert [each.content for each in await thread(memory, "s2")] == [str(at) for at in range(2, 4300, 3)]


async def test_import_does_not_change_records_of_existing_sessions(memory: Memory, tmp_path: Path) -> None:
    """An existing session keeps its title and metadata."""
    await memory.sessions.open(OWNER, "s1", title="Mine", metadata={"kept": True})
    session = {"type": "session", "session_id": "s1", "title": "Theirs"}
    await import_files(memory, OWNER, [lines(tmp_path / "talk.jsonl", session, message_line("one"))])
    record = (await memory.sessions.get(OWNER, "s1")).record
    assert (record.title, record.metadata) == ("Mine", {"kept": True})


async def test_locomo_sessions_are_imported(memory: Memory, tmp_path: Path) -> None:
    """Each session with turns becomes a session, with speakers, timestamps a second apart, ids and captions."""
    file = tmp_path / "kites.json"
    file.write_text(json.dumps(LOCOMO, indent=2), encoding="utf-8")
    report = await import_files(memory, OWNER, [file])
    assert counts(report) == (2, 2, 4, 0, 0)
    assert report.notes == ["kites.json: dates without turns, left out: session_10"]
    messages = await thread(memory, "kites-session_1")
    assert [(each.id, each.role, each.name) for each in messages] == [
        ("D1:1", "assistant", "Ken"),
        ("D1:2", "user", "Mei"),
        ("D1:3", "assistant", "Ken"),
    ]
    assert messages[2].timestamp == datetime(2023, 5, 8, 13, 56, 2, tzinfo=UTC)
    assert messages[1].metadata["blip_caption"] == messages[1].metadata["caption"] == "a red kite"
    record = (await memory.sessions.get(OWNER, "kites-session_2")).record
    assert record.title == "Mei & Ken, session 2"
    assert record.metadata["date_time"] == "12:05 am on 1 June, 2023"
    assert counts(await import_files(memory, OWNER, [file])) == (2, 0, 0, 4, 0)


async def test_bad_locomo_turns_are_named_by_their_position(memory: Memory, tmp_path: Path) -> None:
    """An unknown speaker, a missing text and an undated session are reported; the other turns are imported."""
    broken = {
        "speaker_a": "Mei",
        "speaker_b": "Ken",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ann", "text": "hi"}, {"speaker": "Mei"}, {"speaker": "Mei", "text": "ok"}],
        "session_2_date_time": "some day",
        "session_2": [{"speaker": "Mei", "text": "when?"}],
    }
    report = await import_files(memory, OWNER, [lines(tmp_path / "kites.json", {"conversation": broken})])
    reasons = [bad.reason for bad in report.skipped]
    assert [reason.split(":")[0] for reason in reasons] == ["session_1[0]", "session_1[1]", "session_2"]
    assert report.messages == 1


async def test_openai_chat_keeps_parts_and_tool_calls(memory: Memory, tmp_path: Path) -> None:
    """Text parts are joined, others kept in the metadata; tool calls keep their results; roles are renamed."""
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    chat = {
        "id": "chat-1",
        "model": "some-model",
        "messages": [
            {"role": "developer", "content": "Be kind."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}},
                    {"type": "text", "text": "Tell me."},
                ],
            },
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            {"role": "assistant", "content": "A sunny day.", "create_time": 1709164800.5},
        ],
    }
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(chat, indent=1), encoding="utf-8")
    assert counts(await import_files(memory, OWNER, [file])) == (1, 1, 5, 0, 0)
    messages = await thread(memory, "chat-1")
    assert [each.role for each in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[0].metadata == {"role": "developer"}
    assert messages[1].content == "What is this?\nTell me."
    assert messages[1].metadata["parts"][0]["image_url"]["url"].endswith("(5022 characters left out)")
    assert (messages[2].content, messages[2].tool_calls) == ("", [call])
    assert messages[3].tool_call_id == "call_1"
    assert messages[4].timestamp == datetime(2024, 2, 29, 0, 0, 0, 500_000, tzinfo=UTC)
    record = (await memory.sessions.get(OWNER, "chat-1")).record
    assert record.metadata == {"source": "chat.json", "model": "some-model"}
    assert record.title == "What is this?"
    assert counts(await import_files(memory, OWNER, [file])) == (1, 0, 0, 5, 0)


async def test_openai_chats_without_ids_get_stable_ones(memory: Memory, tmp_path: Path) -> None:
    """One chat per line: chats with the same beginning are separate, a grown one continues its session."""
    hello = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    more = [*hello, {"role": "user", "content": "and now?"}]
    other = [{"role": "user", "content": "你好"}]
    file = lines(tmp_path / "对话 1.jsonl", {"messages": hello}, {"messages": hello}, {"messages": other})
    assert counts(await import_files(memory, OWNER, [file])) == (3, 3, 5, 0, 0)
    lines(file, {"messages": more}, {"messages": hello}, {"messages": other})
    assert counts(await import_files(memory, OWNER, [file])) == (3, 0, 1, 5, 0)


async def test_bare_list_of_messages_is_one_chat(memory: Memory, tmp_path: Path) -> None:
    """A document that is only a list of messages is one chat."""
    file = tmp_path / "list.json"
    file.write_text(json.dumps([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], indent=2))
    assert counts(await import_files(memory, OWNER, [file])) == (1, 1, 2, 0, 0)


async def test_forced_format_rejects_other_formats(memory: Memory, tmp_path: Path) -> None:
    """With a given format nothing is detected; an unknown one is rejected before anything is read."""
    file = lines(tmp_path / "talk.jsonl", message_line("one"))
    report = await import_files(memory, OWNER, [file], format_name="locomo")
    assert counts(report) == (0, 0, 0, 0, 1)
    with pytest.raises(InvalidInput, match="jsonl"):
        await import_files(memory, OWNER, [file], format_name="xml")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff\xfe{\x00", "UTF-16"), (b"[", "not JSON")],
)
async def test_unusable_file_is_one_bad_line(memory: Memory, tmp_path: Path, content: bytes, reason: str) -> None:
    """A file in another encoding, or with a truncated value."""
    file = tmp_path / "odd.jsonl"
    file.write_bytes(content)
    report = await import_files(memory, OWNER, [file])
    assert [reason in bad.reason for bad in report.skipped] == [True]


@pytest.mark.parametrize("content", [b"", b"\n\n"])
async def test_an_empty_file_is_no_error(memory: Memory, tmp_path: Path, content: bytes) -> None:
    """The export of a user without sessions is imported: nothing is added or skipped, and a note says so."""
    assert [line async for line in export_lines(memory, OWNER)] == []
    file = tmp_path / "export.jsonl"
    file.write_bytes(content)
    report = await import_files(memory, OWNER, [file])
    assert counts(report) == (0, 0, 0, 0, 0)
    assert report.notes == ["export.jsonl: the file is empty"]


async def test_byte_order_mark_and_crlf_are_accepted(memory: Memory, tmp_path: Path) -> None:
    """As in files written on Windows."""
    file = tmp_path / "talk.jsonl"
    file.write_bytes(
        b"\xef\xbb\xbf" + json.dumps(message_line("one")).encode() + b"\r\n" + json.dumps(message_line("two")).encode()
    )
    assert counts(await import_files(memory, OWNER, [file])) == (1, 1, 2, 0, 0)


async def fill(memory: Memory) -> None:
    """Two sessions, three threads, with all fields of messages and sessions."""
    session = await memory.session("talk-1", scope=OWNER, persona_id="ancestor_yan", title="家训")
    await session.append(
        [
            {
                "role": "user",
                "content": "第一条是什么？",
                "name": "小梅",
                "metadata": {"tags": ["训", 1.5, None]},
            },
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "find"}}]},
            {"role": "tool", "content": "孝", "tool_call_id": "c"},
            NewMessage(role="assistant", content="half", completed=False),
        ]
    )
    await session.with_persona("village_elder").append([{"role": "user", "content": 'line\nbreak \u2028 "quote"'}])
    await session.append([{"role": "user", "content": "再说一遍", "id": "own.id"}])
    plain = await memory.session("talk-0", scope=OWNER)
    await plain.append([{"role": "user", "content": "later session, smaller id"}])
    await memory.sessions.open(OWNER, "empty", metadata={"kept": [1, {"a": "b"}]})


async def test_export_import_export_is_byte_equal(memory: Memory, tmp_path: Path) -> None:
    """An export imported into an empty store, SQLite or in-process, exports the same bytes."""
    await fill(memory)
    first = await exported(memory)
    assert first.count(b"\n") == 3 + 7
    file = tmp_path / "export.jsonl"
    file.write_bytes(first)
    for url in (f"sqlite:///{tmp_path}/other.db", "memory://"):
        async with wenmai.open(url) as other:
            report = await import_files(other, OWNER, [file])
            assert counts(report) == (3, 3, 7, 0, 0)
            assert await exported(other) == first
            mine, theirs = (
                await memory.sessions.get(OWNER, "talk-1"),
                await other.sessions.get(OWNER, "talk-1"),
            )
            began = msgspec.structs.replace(mine.record, began_at=mine.created_at)
            assert without_incarnation(theirs.record) == without_incarnation(began)


async def test_the_export_of_a_user_imports_back_equal(engine: Engine, tmp_path: Path) -> None:
    """With preferences, also inferred ones, times and, on request, traces; under another user's name too."""
    session_id = ""
    for query in ("请问严氏家训有哪些？", "详细一点，第一条是什么？"):
        request = TurnRequest(scope=OWNER, persona_id="ancestor_yan", query=query, session_id=session_id or None)
        session_id = (await engine.chat.ask(request)).session_id
    await engine.memory.preferences.set(OWNER, session_id, PreferenceChange(tone="casual"))
    await engine.memory.derived.catch_up(10)

    async def whole(memory: Memory, scope: Scope) -> bytes:
        return b"".join([line async for line in export_lines(memory, scope, traces=True)])

    first = await whole(engine.memory, OWNER)
    kinds = [json.loads(line)["type"] for line in first.splitlines()]
    assert kinds == ["session", "preferences", *["message"] * 4, "trace", "trace"]
    assert b'"type":"trace"' not in await exported(engine.memory)
    file = tmp_path / "export.jsonl"
    file.write_bytes(first)
    for scope in (OWNER, OWNER._replace(user_id="another")):
        async with wenmai.open(f"sqlite:///{tmp_path}/{scope.user_id}.db") as other:
            for repeated in (0, 4):
                assert counts(await import_files(other, scope, [file]))[3:] == (repeated, 0)
                await other.derived.catch_up(10)
                assert await whole(other, scope) == first
            assert [
                trace
                async for trace in other.traces.of_session(scope, (await other.sessions.get(scope, session_id)).record)
            ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"type": "preferences", "session_id": "s", "tone": "loud"}, "tone: Invalid enum value 'loud'"),
        ({"type": "preferences", "session_id": "s", "language": "?"}, "language"),
        ({"type": "preferences", "session_id": "s", "incarnation": "i"}, "incarnation: no field of such a line"),
        ({"type": "trace", "session_id": "s", "trace_id": "t"}, "missing required field"),
        ({"type": "dream", "session_id": "s"}, "type: 'dream' is not one of session, message, state, preferences"),
    ],
)
async def test_a_bad_line_of_a_record_is_skipped(
    memory: Memory, tmp_path: Path, line: dict[str, Any], reason: str
) -> None:
    """The reason names the field; the rest is imported."""
    file = tmp_path / "records.jsonl"
    good = {"type": "preferences", "session_id": "s", "tone": "casual"}
    file.write_text(f"{json.dumps(line)}\n{json.dumps(good)}\n", encoding="utf-8")
    report = await import_files(memory, OWNER, [file])
    assert [reason in bad.reason for bad in report.skipped] == [True], report.skipped
    assert (await memory.preferences.get(OWNER, "s")).values.tone == "casual"


async def test_a_business_state_is_exported_with_its_audit(tmp_path: Path) -> None:
    """States with few and many changes, one of them reset, and the versions of each; a session's own state is kept."""
    rules = msgspec.convert(yaml.safe_load(RULES), BusinessRules)
    policy = MemoryPolicy(business=rules)
    said = ("核磁怎么预约？", "那取报告呢？", "超声多少钱？", "病历号12345的超声怎么检查？")
    async with wenmai.open(f"sqlite:///{tmp_path}/mine.db", policy=policy) as memory:
        for session_id, count in (("few", 1), ("many", 53), ("reset", 9), ("none", 0)):
            session = await memory.session(session_id, scope=OWNER)
            for number in range(count):
                await session.understand(said[number % len(said)], turn_id=number + 1)
        await (await memory.session("reset", scope=OWNER)).reset_state()
        first = await exported(memory)
        assert [each["type"] for each in map(json.loads, first.splitlines())].count("state") == 3
        file = tmp_path / "export.jsonl"
        file.write_bytes(first)
        assert counts(await import_files(memory, OWNER, [file])) == (4, 0, 0, 0, 0)
        assert await exported(memory) == first
    for url in (f"sqlite:///{tmp_path}/other.db", "memory://"):
        async with wenmai.open(url, policy=policy) as other:
            assert counts(await import_files(other, OWNER, [file])) == (4, 4, 0, 0, 0)
            assert await exported(other) == first
            session = await other.session("many", scope=OWNER)
            assert len((await session.state()).changes) < 2 * ARCHIVED
            assert [change.version for change in await session.state_changes(limit=200)] == [*range(1, 54)]
            assert (await session.understand(said[2])).state.state_version == 54
            assert counts(await import_files(other, OWNER, [file])) == (4, 0, 0, 0, 0)
            assert (await session.state()).state_version == 54


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"changes": [{"version": 2, "at": "2026-01-05T14:00:00Z", "rule": "first"}]}, "versions are not 1, 2"),
        ({"changes": [{"version": 1, "at": "2026-01-05T14:00:00", "rule": "first"}]}, "without a time zone"),
        ({"changes": [{"version": 1, "at": "2026-01-05T14:00:00Z", "rule": "guess"}]}, "rule"),
        ({"session_id": "a/b"}, "session_id"),
    ],
)
async def test_a_wrong_state_is_a_bad_line(memory: Memory, tmp_path: Path, broken: dict[str, Any], reason: str) -> None:
    """It is named and nothing of it is stored."""
    state: dict[str, Any] = {
        "type": "state",
        "session_id": "s1",
        "current_customer_id": None,
        "operation_chain": [],
        "changes": [],
    }
    report = await import_files(memory, OWNER, [lines(tmp_path / "x.jsonl", state | broken)])
    assert [reason in each.reason for each in report.skipped] == [True]
    assert (await memory.sessions.list(OWNER)).items == []


async def test_export_imported_into_its_own_store_changes_nothing(memory: Memory, tmp_path: Path) -> None:
    """Ids that the store generated are recognised too."""
    await fill(memory)
    first = await exported(memory)
    file = tmp_path / "export.jsonl"
    file.write_bytes(first)
    assert counts(await import_files(memory, OWNER, [file])) == (3, 0, 0, 7, 0)
    assert await exported(memory) == first


async def test_export_is_in_order_and_only_of_the_owner(memory: Memory) -> None:
    """Sessions oldest first, record before messages, threads by start, messages by seq."""
    await fill(memory)
    await (await memory.session(scope=OWNER._replace(user_id="u2"))).append([{"role": "user", "content": "no"}])
    seen = [json.loads(line) for line in (await exported(memory)).splitlines()]
    order = [(each["type"], each["session_id"], each.get("npc_id"), each.get("seq")) for each in seen]
    talk = [("message", "talk-1", "ancestor_yan", seq) for seq in (1, 2, 3, 4, 5)]
    assert order == [
        ("session", "talk-1", None, None),
        *talk,
        ("message", "talk-1", "village_elder", 1),
        ("session", "talk-0", None, None),
        ("message", "talk-0", "assistant", 1),
        ("session", "empty", None, None),
    ]


async def test_export_of_one_session(memory: Memory) -> None:
    """Only the requested session; an absent or foreign one is not found."""
    await fill(memory)
    only = [json.loads(line) async for line in export_lines(memory, OWNER, ["talk-0"])]
    assert {each["session_id"] for each in only} == {"talk-0"}
    with pytest.raises(SessionNotFound):
        [line async for line in export_lines(memory, OWNER._replace(user_id="u2"), ["talk-0"])]


async def test_import_does_not_extend_sessions(memory: Memory, tmp_path: Path) -> None:
    """An expired session accepts imports and remains expired."""
    ended = {
        "type": "session",
        "session_id": "s1",
        "expires_at": "2020-01-01T00:00:00Z",
        "lifetime_seconds": 60,
    }
    file = lines(tmp_path / "old.jsonl", ended, message_line("one"))
    assert counts(await import_files(memory, OWNER, [file])) == (1, 1, 1, 0, 0)
    assert counts(await import_files(memory, OWNER, [file])) == (1, 0, 0, 1, 0)
    assert (await memory.sessions.open(OWNER, "s1")).instead_of == "s1"


async def test_import_does_not_change_preferences(memory: Memory, tmp_path: Path) -> None:
    """Preferences are not part of the transcript; an import neither writes nor resets them."""
    await memory.sessions.open(OWNER, "s1")
    await memory.preferences.set(OWNER, "s1", PreferenceChange(tone="casual"))
    await import_files(memory, OWNER, [lines(tmp_path / "talk.jsonl", message_line("please be formal"))])
    assert (await memory.preferences.get(OWNER, "s1")).values.tone == "casual"


async def test_timestamps_are_in_utc_in_every_store(tmp_path: Path) -> None:
    """An export does not have the offset of the imported line."""
    file = lines(tmp_path / "talk.jsonl", message_line("hi", timestamp="2024-02-29T08:00:00+08:00"))
    async with wenmai.open("memory://") as memory:
        await import_files(memory, OWNER, [file])
        assert b'"timestamp":"2024-02-29T00:00:00Z"' in await exported(memory)


async def test_messages_rejected_by_the_transcript_are_named_by_their_position(memory: Memory, tmp_path: Path) -> None:
    """The message of the chat is reported, and the others are imported."""
    chat = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "\0"}]}
    report = await import_files(memory, OWNER, [lines(tmp_path / "chat.jsonl", chat)])
    assert (report.messages, report.skipped[0].line) == (1, 1)
    assert report.skipped[0].reason.startswith("messages[1]: content: ")


async def test_an_import_gives_an_untitled_session_its_question(memory: Memory, tmp_path: Path) -> None:
    """An existing session without a first question gets one from the import; one with a question keeps it."""
    await memory.sessions.open(OWNER, "empty")
    await (await memory.session("asked", scope=OWNER)).append([{"role": "user", "content": "Mine?"}])
    file = lines(
        tmp_path / "talk.jsonl",
        *(
            {"session_id": session_id, "role": "user", "content": "Theirs?"}
            for session_id in ("empty", "asked", "fresh")
        ),
    )
    await import_files(memory, OWNER, [file])
    questions = {
        session_id: (await memory.sessions.get(OWNER, session_id)).record.first_question
        for session_id in ("empty", "asked", "fresh")
    }
    assert questions == {"empty": "Theirs?", "asked": "Mine?", "fresh": "Theirs?"}


async def test_an_import_ends_when_its_user_is_erased(memory: Memory, tmp_path: Path) -> None:
    """It leaves nothing, also of the sessions that it had not reached."""
    files = [lines(tmp_path / f"{name}.jsonl", message_line("Hi", session_id=name)) for name in ("s1", "s2", "s3")]
    insert_session = memory.sessions.insert

    async def insert(scope: Scope, session_id: str, **fields: Any) -> OpenedSession | None:
        if session_id == "s2":
            await memory.erasures.erase(OWNER)
        return await insert_session(scope, session_id, **fields)

    memory.sessions.insert = insert  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="u1 was erased"):
        await import_files(memory, OWNER, files)
    assert (await memory.sessions.list(OWNER)).items == []
