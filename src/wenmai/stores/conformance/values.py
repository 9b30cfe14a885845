"""Boundary values: every backend stores the same ones unchanged, and refuses the same others.

A refused value raises :class:`~wenmai.errors.InvalidInput`, which names its field, before anything is queued, so it
does not affect concurrent writes of other callers.
"""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from typing import Any

from msgspec.structs import replace

from wenmai.errors import InvalidInput
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.harness import Harness, make_messages, texts
from wenmai.stores.conformance.samples import TIMESTAMP, small_record, trace, without_incarnation
from wenmai.stores.contracts import Logs
from wenmai.stores.records import IdempotentTurn, NewMessage, Session, TraceRecord

LONE_SURROGATE = "\ud83c"
"""Half of an emoji, as in a text that was cut inside one."""

_CALL = {"id": "c1", "type": "function", "function": {"name": "f"}}


def nested(levels: int) -> dict[str, Any]:
    """Objects nested to this depth."""
    return reduce(lambda inner, _: {"in": inner}, range(levels - 1), {})


INVALID_JSON: dict[str, dict[str, Any]] = {
    "a lone surrogate": {"a": [LONE_SURROGATE]},
    "a lone surrogate in a name": {"a": {LONE_SURROGATE: 1}},
    "an integer above 63 bits": {"a": 2**63},
    "an integer above 64 bits": {"a": {"b": 2**70}},
    "an integer below 63 bits": {"a": -(2**63) - 1},
    "not a number": {"a": float("nan")},
    "infinity": {"a": [0, float("inf")]},
    "a Python object": {"a": object()},
    "a name that is a list": {"a": {(1, 2): 3}},
    "objects nested too deeply": nested(501),
}
"""JSON values that every backend refuses, by defect."""

BOUNDARY_JSON: dict[str, Any] = {
    "numbers": [2**63 - 1, -(2**63), 2**53 + 1, 1.7976931348623157e308, 5e-324, -0.5],
    "texts": ["\x00", "a\x00b", "\U0010ffff", "\ufffe", "\u0378", "\ud7ff\ue000", "ϿϏ\x7f", "👩\u200d👩\u200d👧"],
    "\x00": "",
    "nested": nested(450),
}
"""JSON values that every backend stores, similar to those above."""

BOUNDARY_TIMESTAMPS: tuple[datetime, ...] = (
    datetime(2, 1, 1, tzinfo=UTC),
    datetime(1582, 10, 4, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2242, 3, 16, 12, 56, 31, 999_999, tzinfo=UTC),
    datetime(2300, 1, 1, 0, 0, 0, 3, tzinfo=UTC),
    datetime(9998, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
)
INVALID_TIMESTAMPS: tuple[datetime, ...] = (
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=8))),
    datetime(1, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(9999, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(-timedelta(hours=8))),
    datetime(2031, 2, 28),  # noqa: DTZ001 — the missing time zone is the defect
)


def make_message(**fields: Any) -> NewMessage:
    """A message with these fields, of any type."""
    return replace(NewMessage(role="assistant", content="x"), **fields)


def invalid_messages() -> dict[str, tuple[NewMessage, str]]:
    """Messages that every backend refuses, with the field that the error names, by defect."""
    wrong = {
        "content with a lone surrogate": (make_message(content=LONE_SURROGATE), "content"),
        "content that is not text": (make_message(content=None), "content"),
        "a name with a lone surrogate": (make_message(name=LONE_SURROGATE), "name"),
        "an id with a lone surrogate": (make_message(id=f"id-{LONE_SURROGATE}"), "id"),
        "a tool call id with a lone surrogate": (make_message(tool_call_id=LONE_SURROGATE), "tool_call_id"),
        "an id in the store's format with too large a number": (
            make_message(id="msg-0a1b2c3d-99999999999999999999"),
            "id",
        ),
        "an unknown role": (make_message(role='"}'), "role"),
        "tokens above 63 bits": (make_message(tokens=2**63), "tokens"),
        "tokens that are text": (make_message(tokens="7"), "tokens"),
        "calls that are not objects": (make_message(tool_calls=["f"]), "tool_calls"),
    }
    for what, value in INVALID_JSON.items():
        wrong[f"{what} in metadata"] = (make_message(metadata=value), "metadata")
        wrong[f"{what} in a tool call"] = (make_message(tool_calls=[_CALL | {"args": value}]), "tool_calls")
    for timestamp in INVALID_TIMESTAMPS:
        wrong[f"the timestamp {timestamp!r}"] = (make_message(timestamp=timestamp), "timestamp")
    return wrong


async def refused_field(harness: Harness, scope: Scope, key: ThreadKey, message: NewMessage, what: str) -> str:
    """The field named by the error of an append with the invalid message."""
    try:
        await harness.logs.append(scope, key, [*make_messages(1), message])
    except InvalidInput as refusal:
        return refusal.field
    require(condition=False, what=f"{what}: InvalidInput was not raised")
    return ""


@case("logs")
async def unstorable_messages_are_refused(harness: Harness) -> None:
    """A message with an invalid value raises InvalidInput, which names its field; nothing is stored."""
    scope = harness.scope()
    key = await harness.thread(scope, messages=2)
    for what, (message, field) in invalid_messages().items():
        found = await refused_field(harness, scope, key, message, what)
        require(found.startswith(f"messages[1].{field}"), f"{what}: the field is {found}, wanted messages[1].{field}")
    equal(texts(await harness.logs.read(scope, key)), ["1", "2"], "messages after the refusals")
    appended = await harness.logs.append(scope, key, make_messages(1))
    equal(appended.messages[0].seq, 3, "the next number")


@case("logs")
async def boundary_values_round_trip(harness: Harness) -> None:
    """The largest numbers, the first and last timestamps, NUL and rare characters round-trip in every read."""
    scope = harness.scope()
    key = await harness.thread(scope)
    messages = [
        *(NewMessage(role="user", content="x", timestamp=timestamp) for timestamp in BOUNDARY_TIMESTAMPS),
        NewMessage(role="tool", content="\x00\U0010ffff", name="\x00", tool_call_id="a\x00b", tokens=2**63 - 1),
        NewMessage(role="assistant", content="", metadata=BOUNDARY_JSON, tool_calls=[_CALL | {"args": BOUNDARY_JSON}]),
        NewMessage(role="assistant", content="", id="msg-0a1b2c3d-999999999999999"),
    ]
    appended = await harness.logs.append(scope, key, messages, tail=len(messages))
    stored = await harness.logs.read(scope, key)
    for where, found in (("append", appended.messages), ("tail", appended.tail), ("read", stored)):
        for message, given in zip(found, messages, strict=True):
            for field in ("content", "name", "tool_call_id", "tokens", "metadata", "tool_calls"):
                equal(getattr(message, field), getattr(given, field), f"{field} of {where}")
        equal(
            [message.timestamp for message in found[: len(BOUNDARY_TIMESTAMPS)]],
            [*BOUNDARY_TIMESTAMPS],
            f"timestamps of {where}",
        )
        equal({message.timestamp.utcoffset() for message in found}, {timedelta(0)}, f"offsets of {where}")
    equal(stored[-1].id, "msg-0a1b2c3d-999999999999999", "an id in the store's format")


@case("logs")
async def unstorable_completions_are_refused(harness: Harness) -> None:
    """Completing with an invalid value raises InvalidInput, and the message can still be completed."""
    scope = harness.scope()
    key = await harness.thread(scope)
    unfinished = NewMessage(role="assistant", content="", completed=False)
    [answer] = (await harness.logs.append(scope, key, [unfinished])).messages
    with raises(InvalidInput, "content with a lone surrogate"):
        await harness.logs.complete(scope, key, answer, content=LONE_SURROGATE)
    with raises(InvalidInput, "tokens above 63 bits"):
        await harness.logs.complete(scope, key, answer, content="x", tokens=2**63)
    for what, value in INVALID_JSON.items():
        with raises(InvalidInput, f"metadata with {what}"):
            await harness.logs.complete(scope, key, answer, content="x", metadata=value)
    filled = await harness.logs.complete(scope, key, answer, content="done", metadata=BOUNDARY_JSON)
    equal(filled and (filled.content, filled.metadata), ("done", BOUNDARY_JSON), "the completed message")


@case("documents")
async def unstorable_records_are_refused(harness: Harness) -> None:
    """A record with an invalid value raises InvalidInput, which names its field; nothing is stored."""
    scope = harness.scope()
    session = Session(session_id="hostile", expires_at=TIMESTAMP, lifetime_seconds=60)
    wrong: list[tuple[Session | TraceRecord | IdempotentTurn, str]] = [
        (replace(session, title=LONE_SURROGATE), "title"),
        (replace(session, title=None), "title"),
        (replace(session, first_question=LONE_SURROGATE), "first_question"),
        (replace(session, total_tokens_used=2**63), "total_tokens_used"),
        (replace(session, total_cost_usd=float("nan")), "total_cost_usd"),
        (replace(session, title_by="unknown"), "title_by"),
        (trace("hostile", evidence_ids=["x", LONE_SURROGATE]), "evidence_ids[1]"),
        (trace("hostile", evidence_ids=[3]), "evidence_ids"),
        (small_record("hostile", holder=LONE_SURROGATE), "holder"),
        (trace("hostile", answer=LONE_SURROGATE), "answer"),
        *((replace(session, metadata=value), "metadata") for value in INVALID_JSON.values()),
        *((replace(session, context=value), "context") for value in INVALID_JSON.values()),
        *((replace(session, expires_at=timestamp), "expires_at") for timestamp in INVALID_TIMESTAMPS),
    ]
    for record, field in wrong:
        try:
            await harness.documents.put(scope, record)
        except InvalidInput as refusal:
            require(refusal.field.startswith(field), f"the field is {refusal.field}, wanted {field}")
        else:
            require(condition=False, what=f"{field} of {record!r:.300}: InvalidInput was not raised")
        equal(await harness.documents.get(scope, type(record), "hostile"), None, "the refused record")
    for timestamp in INVALID_TIMESTAMPS:
        with raises(InvalidInput, f"kept until {timestamp!r}"):
            await harness.documents.put(scope, session, keep_until=timestamp)


@case("documents")
async def boundary_record_values_round_trip(harness: Harness) -> None:
    """Records with the largest numbers, the first and last timestamps and rare characters round-trip."""
    scope = harness.scope()
    for timestamp in BOUNDARY_TIMESTAMPS:
        session = Session(
            session_id="edge",
            expires_at=timestamp,
            lifetime_seconds=2**62,
            title="\x00\U0010ffff",
            metadata=BOUNDARY_JSON,
            total_tokens_used=-(2**63),
            total_cost_usd=5e-324,
        )
        put = await harness.documents.put(scope, session)
        found = await harness.documents.get(scope, Session, "edge")
        equal(without_incarnation(put.record), session, f"what put of the session that ends at {timestamp} returned")
        equal(found and without_incarnation(found.record), session, f"the session that ends at {timestamp}")
        await harness.documents.delete(scope, Session, "edge")


@case("documents")
async def names_with_lone_surrogates_are_refused(harness: Harness) -> None:
    """A lone surrogate in a key, filter or owner raises InvalidInput, also in reads and deletes."""
    scope = harness.scope()
    documents, logs = harness.documents, harness.store.logs
    owners = [
        scope._replace(user_id=LONE_SURROGATE),
        scope._replace(site_id=LONE_SURROGATE),
        scope._replace(tenant_id=LONE_SURROGATE),
    ]
    for owner, key in [(scope, LONE_SURROGATE), *((owner, "x") for owner in owners)]:
        with raises(InvalidInput, "a put"):
            await documents.put(owner, small_record(key))
        with raises(InvalidInput, "a get"):
            await documents.get(owner, IdempotentTurn, key)
        with raises(InvalidInput, "a get of many"):
            await documents.get_many(owner, IdempotentTurn, ["x", key])
        with raises(InvalidInput, "a delete"):
            await documents.delete(owner, IdempotentTurn, key)
        if logs is not None:
            for thread in (ThreadKey(key, "npc"), ThreadKey("x", key)) if owner is scope else (ThreadKey("x", "npc"),):
                await _refused_in_logs(logs, owner, thread)
    with raises(InvalidInput, "a filter"):
        await documents.list(scope, TraceRecord, where={"intent": LONE_SURROGATE})


async def _refused_in_logs(logs: Logs, owner: Scope, thread: ThreadKey) -> None:
    """No call on such a thread reaches the database."""
    calls: dict[str, Coroutine[Any, Any, object]] = {
        "an append to": logs.append(owner, thread, make_messages(1)),
        "the latest of": logs.latest(owner, thread, 3),
        "a read of": logs.read(owner, thread),
        "a cut of": logs.truncate(owner, thread, 1),
        "an erasure of": logs.erase(owner, thread.session_id, thread.persona_id),
        "the threads of the session of": logs.threads(owner, thread.session_id),
    }
    for what, call in calls.items():
        if "session" in what and LONE_SURROGATE not in (*owner, thread.session_id):
            call.close()
            continue
        with raises(InvalidInput, f"{what} {thread!r}"):
            await call


@case("logs", "extended")
async def message_numbers_above_63_bits_are_refused(harness: Harness) -> None:
    """A database cannot compare them."""
    scope = harness.scope()
    key = await harness.thread(scope)
    await harness.logs.append(scope, key, make_messages(2))
    for number in (2**63, 2**70, -(2**70)):
        with raises(InvalidInput, f"the latest before {number}"):
            await harness.logs.latest(scope, key, 3, before=number)
        with raises(InvalidInput, f"a read from {number}"):
            await harness.logs.read(scope, key, start=number)
        with raises(InvalidInput, f"a cut after {number}"):
            await harness.logs.truncate(scope, key, number)
    equal(texts(await harness.logs.read(scope, key, start=-(2**63))), ["1", "2"], "all from the least number on")
    equal(await harness.logs.read(scope, key, start=2**63 - 1), [], "what is behind the largest number")


@case("logs", "extended")
async def a_refused_append_affects_no_other(harness: Harness) -> None:
    """Appends concurrent with refused ones are all stored, in order and once."""
    scope = harness.scope()
    key = await harness.thread(scope)
    bad = [message for message, _ in invalid_messages().values()]

    async def hostile(message: NewMessage) -> None:
        with raises(InvalidInput, f"{message!r:.80}"):
            await harness.logs.append(scope, key, [message])

    good = [harness.logs.append(scope, key, make_messages(2, mark=f"{number} ")) for number in range(len(bad))]
    await asyncio.gather(*(work for pair in zip(good, map(hostile, bad), strict=True) for work in pair))
    stored = await harness.logs.read(scope, key)
    equal([message.seq for message in stored], list(range(1, 2 * len(bad) + 1)), "sequence numbers")
    equal(sorted(texts(stored)), sorted(f"{n} {m}" for n in range(len(bad)) for m in (1, 2)), "the messages")
