"""Logs: messages are numbered by the store, in turns, and a batch is appended whole or not at all."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from wenmai.errors import InvalidInput
from wenmai.scope import ThreadKey
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.ground import Ground, talk, texts
from wenmai.stores.conformance.samples import AWKWARD_TEXT, FORBIDDEN_KEYS, HOSTILE_KEYS, NESTED
from wenmai.stores.records import NewMessage, Role, Session

CALLS: list[dict[str, Any]] = [{"id": "call-1", "name": "族谱", "args": {"代": [1, None, {"x": "“"}]}}]


def _of_roles(*roles: Role) -> list[NewMessage]:
    return [NewMessage(role=role, content=role) for role in roles]


@case("logs")
async def turns_begin_with_user_messages(ground: Ground) -> None:
    """A user message begins the next turn, everything else joins the turn before it, across batches too."""
    scope = ground.scope()
    key = await ground.thread(scope)
    first = await ground.logs.append(scope, key, _of_roles("user", "assistant", "user", "tool", "assistant"))
    second = await ground.logs.append(scope, key, _of_roles("tool", "system"))
    third = await ground.logs.append(scope, key, _of_roles("user", "user"))
    stored = [*first.messages, *second.messages, *third.messages]
    equal([message.turn_id for message in stored], [1, 1, 2, 2, 2, 2, 2, 3, 4], "turn ids")
    equal([message.seq for message in stored], list(range(1, 10)), "sequence numbers")
    equal(await ground.logs.read(scope, key), stored, "what read returned, against what append returned")


@case("logs")
async def the_first_message_begins_turn_1(ground: Ground) -> None:
    """The first message of a thread begins turn 1, whatever its role; a user message after it begins 2."""
    scope = ground.scope()
    await ground.open_session(scope)
    for role in ("assistant", "system", "tool", "user"):
        key = ThreadKey("session-1", role)
        appended = await ground.logs.append(scope, key, _of_roles(role, "assistant", "user"))
        equal([message.turn_id for message in appended.messages], [1, 1, 2], f"turn ids after {role}")


@case("logs")
async def threads_are_numbered_apart(ground: Ground) -> None:
    """Each persona of each session has its own numbers and its own talk."""
    scope = ground.scope()
    keys = [ThreadKey(session, npc) for session in ("session-1", "session-10") for npc in ("a", "b")]
    for session in ("session-1", "session-10"):
        await ground.open_session(scope, session)
    for _ in range(2):
        for key in keys:
            await ground.logs.append(scope, key, talk(2, mark=f"{key} "))
    for key in keys:
        stored = await ground.logs.read(scope, key)
        equal([(m.seq, m.turn_id) for m in stored], [(1, 1), (2, 1), (3, 2), (4, 2)], f"numbers of {key}")
        equal({m.npc_id for m in stored}, {key.npc_id}, f"persona of {key}")
        equal(texts(stored), [f"{key} 1", f"{key} 2"] * 2, f"texts of {key}")


@case("logs")
async def every_field_of_a_message_round_trips(ground: Ground) -> None:
    """Every field that is given comes back equal: text, moment, id, tool calls, metadata and all others."""
    scope = ground.scope()
    key = await ground.thread(scope)
    moment = datetime(1999, 12, 31, 23, 59, 59, 1, tzinfo=UTC)
    full = NewMessage(
        role="tool",
        content=AWKWARD_TEXT,
        id="given",
        timestamp=moment,
        name="严先生",
        tool_calls=CALLS,
        tool_call_id="call-1",
        tokens=2**31,
        completed=False,
        metadata=NESTED,
    )
    appended = await ground.logs.append(scope, key, [full, NewMessage(role="assistant", content="")])
    stored = await ground.logs.read(scope, key)
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
async def ids_and_moments_are_given_where_missing(ground: Ground) -> None:
    """Messages without an id get one that is unique in the session; without a moment, the clock's."""
    scope = ground.scope()
    await ground.open_session(scope)
    ids = []
    for npc in ("a", "b"):
        for _ in range(3):
            ground.clock.advance(timedelta(microseconds=7))
            appended = await ground.logs.append(scope, ThreadKey("session-1", npc), talk(5))
            moments = {message.timestamp for message in appended.messages}
            equal(moments, {ground.clock()}, "timestamps of a batch")
            equal(appended.messages[0].timestamp.utcoffset(), timedelta(0), "the offset of a timestamp")
            ids += [message.id for message in appended.messages]
    equal((len(set(ids)), all(ids)), (30, True), "different ids, none empty")


@case("logs")
async def given_moments_are_kept(ground: Ground) -> None:
    """A given timestamp is kept to the microsecond, out of order too: the order is that of arrival."""
    scope = ground.scope()
    key = await ground.thread(scope)
    east = timezone(timedelta(hours=8))
    moments = [
        datetime(2023, 5, 8, 13, 56, 0, 250_001, tzinfo=UTC),
        datetime(2020, 2, 29, 8, 0, tzinfo=east),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
    messages = [NewMessage(role="user", content=str(moment), timestamp=moment) for moment in moments]
    await ground.logs.append(scope, key, messages, slide=False)
    stored = await ground.logs.read(scope, key)
    equal([message.timestamp for message in stored], moments, "timestamps")
    equal({message.timestamp.utcoffset() for message in stored}, {timedelta(0)}, "their offsets")


@case("logs")
async def batches_are_1_to_1000_messages(ground: Ground) -> None:
    """A batch of 1 000 is appended; an empty one and one of 1 001 raise InvalidInput and write nothing."""
    scope = ground.scope()
    key = await ground.thread(scope)
    for size in (0, 1_001):
        with raises(InvalidInput, f"a batch of {size}"):
            await ground.logs.append(scope, key, talk(size))
    equal(await ground.logs.read(scope, key), [], "messages after the refused batches")
    appended = await ground.logs.append(scope, key, talk(1_000))
    equal([message.seq for message in appended.messages], list(range(1, 1_001)), "sequence numbers")
    equal(appended.messages[-1].turn_id, 500, "the last turn")


@case("logs")
async def a_batch_that_fails_writes_nothing(ground: Ground) -> None:
    """A batch with one message that cannot be stored raises, writes none and moves no number or lifetime."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=2)
    unstorable = [
        *(NewMessage(role="user", content="x", id=forbidden) for forbidden in FORBIDDEN_KEYS),
        NewMessage(role="user", content="x", metadata={"object": object()}),
        NewMessage(role="user", content="x", tool_calls=[{"object": object()}]),
    ]
    before = await ground.documents.get(scope, Session, key.session_id)
    ground.clock.advance(timedelta(minutes=10))
    for bad in unstorable:
        with raises(Exception, f"a batch with {bad!r:.80}"):
            await ground.logs.append(scope, key, [*talk(2, mark="lost "), bad])
    equal(texts(await ground.logs.read(scope, key)), ["1", "2"], "messages after the refused batches")
    after = await ground.documents.get(scope, Session, key.session_id)
    equal(after and after.record, before and before.record, "the session after the refused batches")
    appended = await ground.logs.append(scope, key, talk(1))
    equal((appended.messages[0].seq, appended.messages[0].turn_id), (3, 2), "the next numbers")


@case("logs")
async def a_repeated_batch_changes_nothing(ground: Ground) -> None:
    """Messages whose ids the thread has are returned as they are stored, counted, and not appended again."""
    scope = ground.scope()
    key = await ground.thread(scope)
    batch = [
        NewMessage(role="user", content="first", id="m1"),
        NewMessage(role="assistant", content="x", id="m2"),
    ]
    first = await ground.logs.append(scope, key, batch)
    ground.clock.advance(timedelta(minutes=1))
    changed = [NewMessage(role="user", content="other text", id="m1", metadata={"a": 1}), batch[1]]
    again = await ground.logs.append(scope, key, changed)
    equal((first.repeated, again.repeated), (0, 2), "how many were repeated")
    equal(again.messages, first.messages, "what the repeat returned")
    equal(await ground.logs.read(scope, key), first.messages, "the thread")


@case("logs")
async def a_half_repeated_batch_appends_the_rest(ground: Ground) -> None:
    """Of a batch that overlaps what is there the new messages are appended; all come in the order given."""
    scope = ground.scope()
    key = await ground.thread(scope)
    named = [NewMessage(role="user", content=f"q{number}", id=f"m{number}") for number in range(4)]
    await ground.logs.append(scope, key, named[:2])
    mixed = await ground.logs.append(scope, key, [named[2], named[0], named[3], named[1]])
    equal((mixed.repeated, texts(mixed.messages)), (2, ["q2", "q0", "q3", "q1"]), "repeated, and the answer")
    equal([(m.seq, m.turn_id) for m in mixed.messages], [(3, 3), (1, 1), (4, 4), (2, 2)], "their numbers")
    equal(texts(await ground.logs.read(scope, key)), ["q0", "q1", "q2", "q3"], "the thread")
    joined = await ground.logs.append(scope, key, [named[0], NewMessage(role="assistant", content="a")])
    equal(joined.messages[1].turn_id, 4, "the turn of an answer after a repeated question")


@case("logs")
async def an_id_of_another_thread_is_no_repeat(ground: Ground) -> None:
    """Given ids count within their thread: another persona's or session's message may have the same."""
    scope = ground.scope()
    message = [NewMessage(role="user", content="x", id="m1")]
    for session in ("session-1", "session-2"):
        await ground.open_session(scope, session)
        for npc in ("a", "b"):
            appended = await ground.logs.append(scope, ThreadKey(session, npc), message)
            found = (appended.repeated, appended.messages[0].id, appended.messages[0].npc_id)
            equal(found, (0, "m1", npc), f"{session} with {npc}")


@case("logs", "extended")
async def an_id_twice_in_a_batch_is_one_message(ground: Ground) -> None:
    """A batch that names an id twice appends its first message; the second is reported as a repeat of it."""
    scope = ground.scope()
    key = await ground.thread(scope)
    twice = [NewMessage(role="user", content=text, id="m1") for text in ("first", "second")]
    appended = await ground.logs.append(scope, key, twice)
    equal((appended.repeated, texts(appended.messages)), (1, ["first", "first"]), "what append returned")
    equal(texts(await ground.logs.read(scope, key)), ["first"], "the thread")


@case("logs", "extended")
async def own_ids_are_recognised_again(ground: Ground) -> None:
    """A message that is appended again under the id that the store gave it is a repeat."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=3)
    second = (await ground.logs.read(scope, key))[1]
    again = await ground.logs.append(scope, key, [NewMessage(role="user", content="imported again", id=second.id)])
    equal((again.repeated, again.messages), (1, [second]), "what append returned")


@case("logs", "extended")
async def a_given_id_is_never_made_again(ground: Ground) -> None:
    """An id that looks like the thread's next ones is taken as given; the store makes it for no other message."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=1)
    first = (await ground.logs.read(scope, key))[0]
    name = first.id.rpartition("-")[0]
    for given in (f"{name}-3", f"{name}-2"):
        message = NewMessage(role="assistant", content=given, id=given, completed=False)
        appended = await ground.logs.append(scope, key, [message])
        equal((appended.repeated, appended.messages[0].id), (0, given), "what append returned")
        again = await ground.logs.append(scope, key, [message])
        equal((again.repeated, again.messages), (1, appended.messages), f"{given} again")
        settled = await ground.logs.settle(scope, key, appended.messages[0], content="filled")
        equal(settled and settled.content, "filled", f"{given} filled")
        await ground.logs.append(scope, key, [NewMessage(role="user", content="own")])
    found = await ground.logs.read(scope, key)
    equal(len({message.id for message in found}), 5, "how many ids five messages have")
    equal(found[0], first, "the message before")
    equal(await ground.logs.truncate(scope, key, 4), 1, "what truncate removed")
    equal(await ground.logs.read(scope, key), found[:4], "what it left")


@case("logs")
async def any_text_is_an_id(ground: Ground) -> None:
    """Awkward session, persona and message ids are ordinary and distinct, and threads of them do not mix."""
    scope = ground.scope()
    for name in HOSTILE_KEYS:
        await ground.open_session(scope, name)
        message = NewMessage(role="user", content=name, id=name)
        await ground.logs.append(scope, ThreadKey(name, name), [message])
    await ground.open_session(scope, "all")
    everything = [NewMessage(role="user", content=name, id=name) for name in HOSTILE_KEYS]
    await ground.logs.append(scope, ThreadKey("all", "elder"), everything)
    for name in HOSTILE_KEYS:
        await ground.logs.append(scope, ThreadKey("all", name), [NewMessage(role="user", content=name)])
    for name in HOSTILE_KEYS:
        for key in (ThreadKey(name, name), ThreadKey("all", name)):
            equal(texts(await ground.logs.read(scope, key)), [name], f"texts of {key}")
    listed = [info.npc_id for info in await ground.logs.threads(scope, "all")]
    equal(listed, ["elder", *HOSTILE_KEYS], "the threads of one session")
    again = await ground.logs.append(scope, ThreadKey("all", "elder"), everything)
    equal((again.repeated, texts(again.messages)), (len(everything), list(HOSTILE_KEYS)), "the repeats")


@case("logs", "extended")
async def large_messages_are_kept_whole(ground: Ground) -> None:
    """A message of 200 kB comes back equal, Chinese and with awkward characters, and in a tail too."""
    scope = ground.scope()
    key = await ground.thread(scope)
    large = AWKWARD_TEXT + "严" * 66_000 + AWKWARD_TEXT
    appended = await ground.logs.append(scope, key, [NewMessage(role="user", content=large)], tail=1)
    for where, messages in (("tail", appended.tail), ("read", await ground.logs.read(scope, key))):
        require([message.content for message in messages] == [large], f"the large message in {where} differs")


@case("logs", "extended")
async def stored_messages_are_nobodys_variables(ground: Ground) -> None:
    """Changing metadata or tool calls after they were appended or read does not change what is stored."""
    scope = ground.scope()
    key = await ground.thread(scope)
    metadata: dict[str, Any] = {"tags": ["a"]}
    calls: list[dict[str, Any]] = [{"args": {}}]
    message = NewMessage(role="assistant", content="x", metadata=metadata, tool_calls=calls)
    appended = await ground.logs.append(scope, key, [message])
    metadata["tags"].append("b")
    calls[0]["args"]["x"] = 1
    appended.messages[0].metadata["tags"].append("c")
    for _ in range(2):
        stored = (await ground.logs.read(scope, key))[0]
        equal((stored.metadata, stored.tool_calls), ({"tags": ["a"]}, [{"args": {}}]), "the stored values")
        stored.metadata["tags"].append("d")
