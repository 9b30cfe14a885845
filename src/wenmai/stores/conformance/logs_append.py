"""Logs: the store numbers messages and turns, and appends a batch completely or not at all."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from wenmai.errors import InvalidInput
from wenmai.scope import ThreadKey
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.harness import Harness, make_messages, texts
from wenmai.stores.conformance.samples import AWKWARD_TEXT, FORBIDDEN_KEYS, HOSTILE_KEYS, NESTED
from wenmai.stores.records import NewMessage, Role, Session

CALLS: list[dict[str, Any]] = [{"id": "call-1", "name": "族谱", "args": {"代": [1, None, {"x": "“"}]}}]


def _of_roles(*roles: Role) -> list[NewMessage]:
    return [NewMessage(role=role, content=role) for role in roles]


@case("logs")
async def turns_begin_with_user_messages(harness: Harness) -> None:
    """A user message begins the next turn, any other joins the turn before it, also across batches."""
    scope = harness.scope()
    key = await harness.thread(scope)
    first = await harness.logs.append(scope, key, _of_roles("user", "assistant", "user", "tool", "assistant"))
    second = await harness.logs.append(scope, key, _of_roles("tool", "system"))
    third = await harness.logs.append(scope, key, _of_roles("user", "user"))
    stored = [*first.messages, *second.messages, *third.messages]
    equal([message.turn_id for message in stored], [1, 1, 2, 2, 2, 2, 2, 3, 4], "turn ids")
    equal([message.seq for message in stored], list(range(1, 10)), "sequence numbers")
    equal(await harness.logs.read(scope, key), stored, "what read returned, against what append returned")


@case("logs")
async def the_first_message_begins_turn_1(harness: Harness) -> None:
    """The first message of a thread begins turn 1, whatever its role; a user message after it begins 2."""
    scope = harness.scope()
    await harness.open_session(scope)
    for role in ("assistant", "system", "tool", "user"):
        key = ThreadKey("session-1", role)
        appended = await harness.logs.append(scope, key, _of_roles(role, "assistant", "user"))
        equal([message.turn_id for message in appended.messages], [1, 1, 2], f"turn ids after {role}")


@case("logs")
async def threads_are_numbered_separately(harness: Harness) -> None:
    """Each persona of each session has its own numbers and its own messages."""
    scope = harness.scope()
    keys = [ThreadKey(session, npc) for session in ("session-1", "session-10") for npc in ("a", "b")]
    for session in ("session-1", "session-10"):
        await harness.open_session(scope, session)
    for _ in range(2):
        for key in keys:
            await harness.logs.append(scope, key, make_messages(2, mark=f"{key} "))
    for key in keys:
        stored = await harness.logs.read(scope, key)
        equal([(m.seq, m.turn_id) for m in stored], [(1, 1), (2, 1), (3, 2), (4, 2)], f"numbers of {key}")
        equal({m.persona_id for m in stored}, {key.persona_id}, f"persona of {key}")
        equal(texts(stored), [f"{key} 1", f"{key} 2"] * 2, f"texts of {key}")


@case("logs")
async def every_field_of_a_message_round_trips(harness: Harness) -> None:
    """Every given field round-trips: text, timestamp, id, tool calls, metadata and all others."""
    scope = harness.scope()
    key = await harness.thread(scope)
    timestamp = datetime(1999, 12, 31, 23, 59, 59, 1, tzinfo=UTC)
    full = NewMessage(
        role="tool",
        content=AWKWARD_TEXT,
        id="given",
        timestamp=timestamp,
        name="严先生",
        tool_calls=CALLS,
        tool_call_id="call-1",
        tokens=2**31,
        completed=False,
        metadata=NESTED,
    )
    appended = await harness.logs.append(scope, key, [full, NewMessage(role="assistant", content="")])
    stored = await harness.logs.read(scope, key)
    equal(stored, appended.messages, "what read returned, against what append returned")
    for field in NewMessage.__struct_fields__:
        equal(getattr(stored[0], field), getattr(full, field), f"the field {field}")
    bare = (
        stored[1].name,
        stored[1].tool_calls,
        stored[1].tool_call_id,
        stored[1].tokens,
        stored[1].metadata,
    )
    equal(bare, (None, None, None, 0, {}), "the fields that were not given")
    equal((stored[1].content, stored[1].completed), ("", True), "content and completion of the bare one")


@case("logs")
async def missing_ids_and_timestamps_are_generated(harness: Harness) -> None:
    """Messages without an id get one that is unique in the session; without a timestamp, the clock's."""
    scope = harness.scope()
    await harness.open_session(scope)
    ids = []
    for npc in ("a", "b"):
        for _ in range(3):
            harness.clock.advance(timedelta(microseconds=7))
            appended = await harness.logs.append(scope, ThreadKey("session-1", npc), make_messages(5))
            timestamps = {message.timestamp for message in appended.messages}
            equal(timestamps, {harness.clock()}, "timestamps of a batch")
            equal(appended.messages[0].timestamp.utcoffset(), timedelta(0), "the offset of a timestamp")
            ids += [message.id for message in appended.messages]
    equal((len(set(ids)), all(ids)), (30, True), "different ids, none empty")


@case("logs")
async def given_timestamps_are_stored(harness: Harness) -> None:
    """A given timestamp is stored to the microsecond, even out of order: messages are ordered by arrival."""
    scope = harness.scope()
    key = await harness.thread(scope)
    east = timezone(timedelta(hours=8))
    timestamps = [
        datetime(2023, 5, 8, 13, 56, 0, 250_001, tzinfo=UTC),
        datetime(2020, 2, 29, 8, 0, tzinfo=east),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
    messages = [NewMessage(role="user", content=str(timestamp), timestamp=timestamp) for timestamp in timestamps]
    await harness.logs.append(scope, key, messages, slide=False)
    stored = await harness.logs.read(scope, key)
    equal([message.timestamp for message in stored], timestamps, "timestamps")
    equal({message.timestamp.utcoffset() for message in stored}, {timedelta(0)}, "their offsets")


@case("logs")
async def batches_are_1_to_1000_messages(harness: Harness) -> None:
    """A batch of 1 000 is appended; an empty one and one of 1 001 raise InvalidInput and write nothing."""
    scope = harness.scope()
    key = await harness.thread(scope)
    for size in (0, 1_001):
        with raises(InvalidInput, f"a batch of {size}"):
            await harness.logs.append(scope, key, make_messages(size))
    equal(await harness.logs.read(scope, key), [], "messages after the refused batches")
    appended = await harness.logs.append(scope, key, make_messages(1_000))
    equal([message.seq for message in appended.messages], list(range(1, 1_001)), "sequence numbers")
    equal(appended.messages[-1].turn_id, 500, "the last turn")


@case("logs")
async def a_batch_that_fails_writes_nothing(harness: Harness) -> None:
    """A batch with an unstorable message raises, writes nothing and changes no number or expiry."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=2)
    unstorable = [
        *(NewMessage(role="user", content="x", id=forbidden) for forbidden in FORBIDDEN_KEYS),
        NewMessage(role="user", content="x", metadata={"object": object()}),
        NewMessage(role="user", content="x", tool_calls=[{"object": object()}]),
    ]
    before = await harness.documents.get(scope, Session, key.session_id)
    harness.clock.advance(timedelta(minutes=10))
    for bad in unstorable:
        with raises(Exception, f"a batch with {bad!r:.80}"):
            await harness.logs.append(scope, key, [*make_messages(2, mark="lost "), bad])
    equal(texts(await harness.logs.read(scope, key)), ["1", "2"], "messages after the refused batches")
    after = await harness.documents.get(scope, Session, key.session_id)
    equal(after and after.record, before and before.record, "the session after the refused batches")
    appended = await harness.logs.append(scope, key, make_messages(1))
    equal((appended.messages[0].seq, appended.messages[0].turn_id), (3, 2), "the next numbers")


@case("logs")
async def a_repeated_batch_changes_nothing(harness: Harness) -> None:
    """Messages whose ids the thread has are returned as stored, counted, and not appended again."""
    scope = harness.scope()
    key = await harness.thread(scope)
    batch = [
        NewMessage(role="user", content="first", id="m1"),
        NewMessage(role="assistant", content="x", id="m2"),
    ]
    first = await harness.logs.append(scope, key, batch)
    harness.clock.advance(timedelta(minutes=1))
    changed = [NewMessage(role="user", content="other text", id="m1", metadata={"a": 1}), batch[1]]
    again = await harness.logs.append(scope, key, changed)
    equal((first.repeated, again.repeated), (0, 2), "how many were repeated")
    equal(again.messages, first.messages, "what the repeat returned")
    equal(await harness.logs.read(scope, key), first.messages, "the thread")


@case("logs")
async def a_partly_repeated_batch_appends_the_rest(harness: Harness) -> None:
    """Of a partly repeated batch the new messages are appended; all are returned in the order given."""
    scope = harness.scope()
    key = await harness.thread(scope)
    named = [NewMessage(role="user", content=f"q{number}", id=f"m{number}") for number in range(4)]
    await harness.logs.append(scope, key, named[:2])
    mixed = await harness.logs.append(scope, key, [named[2], named[0], named[3], named[1]])
    equal((mixed.repeated, texts(mixed.messages)), (2, ["q2", "q0", "q3", "q1"]), "repeated, and the answer")
    equal([(m.seq, m.turn_id) for m in mixed.messages], [(3, 3), (1, 1), (4, 4), (2, 2)], "their numbers")
    equal(texts(await harness.logs.read(scope, key)), ["q0", "q1", "q2", "q3"], "the thread")
    joined = await harness.logs.append(scope, key, [named[0], NewMessage(role="assistant", content="a")])
    equal(joined.messages[1].turn_id, 4, "the turn of an answer after a repeated question")


@case("logs")
async def message_ids_are_unique_per_thread(harness: Harness) -> None:
    """Given ids are scoped to their thread: a message of another persona or session may have the same."""
    scope = harness.scope()
    message = [NewMessage(role="user", content="x", id="m1")]
    for session in ("session-1", "session-2"):
        await harness.open_session(scope, session)
        for npc in ("a", "b"):
            appended = await harness.logs.append(scope, ThreadKey(session, npc), message)
            found = (appended.repeated, appended.messages[0].id, appended.messages[0].persona_id)
            equal(found, (0, "m1", npc), f"{session} with {npc}")


@case("logs", "extended")
async def a_duplicate_id_in_a_batch_is_one_message(harness: Harness) -> None:
    """A batch with a duplicate id appends the first message; the second is reported as its repeat."""
    scope = harness.scope()
    key = await harness.thread(scope)
    twice = [NewMessage(role="user", content=text, id="m1") for text in ("first", "second")]
    appended = await harness.logs.append(scope, key, twice)
    equal((appended.repeated, texts(appended.messages)), (1, ["first", "first"]), "what append returned")
    equal(texts(await harness.logs.read(scope, key)), ["first"], "the thread")


@case("logs", "extended")
async def generated_ids_are_recognised(harness: Harness) -> None:
    """A message that is appended again under its generated id is a repeat."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=3)
    second = (await harness.logs.read(scope, key))[1]
    again = await harness.logs.append(scope, key, [NewMessage(role="user", content="imported again", id=second.id)])
    equal((again.repeated, again.messages), (1, [second]), "what append returned")


@case("logs", "extended")
async def a_given_id_is_never_generated(harness: Harness) -> None:
    """An id in the format of the thread's next ones is stored as given; the store never generates it for another."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=1)
    first = (await harness.logs.read(scope, key))[0]
    name = first.id.rpartition("-")[0]
    for given in (f"{name}-3", f"{name}-2"):
        message = NewMessage(role="assistant", content=given, id=given, completed=False)
        appended = await harness.logs.append(scope, key, [message])
        equal((appended.repeated, appended.messages[0].id), (0, given), "what append returned")
        again = await harness.logs.append(scope, key, [message])
        equal((again.repeated, again.messages), (1, appended.messages), f"{given} again")
        filled = await harness.logs.complete(scope, key, appended.messages[0], content="filled")
        equal(filled and filled.content, "filled", f"{given} filled")
        await harness.logs.append(scope, key, [NewMessage(role="user", content="own")])
    found = await harness.logs.read(scope, key)
    equal(len({message.id for message in found}), 5, "how many ids five messages have")
    equal(found[0], first, "the message before")
    equal(await harness.logs.truncate(scope, key, 4), 1, "what truncate removed")
    equal(await harness.logs.read(scope, key), found[:4], "what it left")


@case("logs")
async def any_text_is_an_id(harness: Harness) -> None:
    """Awkward session, persona and message ids are ordinary and distinct, and their threads do not mix."""
    scope = harness.scope()
    for name in HOSTILE_KEYS:
        await harness.open_session(scope, name)
        message = NewMessage(role="user", content=name, id=name)
        await harness.logs.append(scope, ThreadKey(name, name), [message])
    await harness.open_session(scope, "all")
    everything = [NewMessage(role="user", content=name, id=name) for name in HOSTILE_KEYS]
    await harness.logs.append(scope, ThreadKey("all", "elder"), everything)
    for name in HOSTILE_KEYS:
        await harness.logs.append(scope, ThreadKey("all", name), [NewMessage(role="user", content=name)])
    for name in HOSTILE_KEYS:
        for key in (ThreadKey(name, name), ThreadKey("all", name)):
            equal(texts(await harness.logs.read(scope, key)), [name], f"texts of {key}")
    listed = [info.persona_id for info in await harness.logs.threads(scope, "all")]
    equal(listed, ["elder", *HOSTILE_KEYS], "the threads of one session")
    again = await harness.logs.append(scope, ThreadKey("all", "elder"), everything)
    equal((again.repeated, texts(again.messages)), (len(everything), list(HOSTILE_KEYS)), "the repeats")


@case("logs", "extended")
async def large_messages_round_trip(harness: Harness) -> None:
    """A message of 200 kB, Chinese with awkward characters, round-trips, also in a tail."""
    scope = harness.scope()
    key = await harness.thread(scope)
    large = AWKWARD_TEXT + "严" * 66_000 + AWKWARD_TEXT
    appended = await harness.logs.append(scope, key, [NewMessage(role="user", content=large)], tail=1)
    for where, messages in (("tail", appended.tail), ("read", await harness.logs.read(scope, key))):
        require([message.content for message in messages] == [large], f"the large message in {where} differs")


@case("logs", "extended")
async def stored_messages_are_not_aliased(harness: Harness) -> None:
    """Changing metadata or tool calls after an append or a read does not change the stored message."""
    scope = harness.scope()
    key = await harness.thread(scope)
    metadata: dict[str, Any] = {"tags": ["a"]}
    calls: list[dict[str, Any]] = [{"args": {}}]
    message = NewMessage(role="assistant", content="x", metadata=metadata, tool_calls=calls)
    appended = await harness.logs.append(scope, key, [message])
    metadata["tags"].append("b")
    calls[0]["args"]["x"] = 1
    appended.messages[0].metadata["tags"].append("c")
    for _ in range(2):
        stored = (await harness.logs.read(scope, key))[0]
        equal((stored.metadata, stored.tool_calls), ({"tags": ["a"]}, [{"args": {}}]), "the stored values")
        stored.metadata["tags"].append("d")
