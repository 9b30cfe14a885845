"""Values at the edge of what can be kept: every backend keeps the same ones equal, and refuses the same others.

A value that is refused raises :class:`~wenmai.errors.InvalidInput`, which names its field, before anything is queued;
what other callers write at that moment is stored as if it had not come.
"""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from typing import Any

from msgspec.structs import replace

from wenmai.errors import InvalidInput
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Logs
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, raises, require
from wenmai.stores.conformance.ground import Ground, talk, texts
from wenmai.stores.conformance.samples import MOMENT, small, trace, unplaced
from wenmai.stores.records import IdempotentTurn, NewMessage, Session, TraceRecord

HALF = "\ud83c"
"""A lone surrogate: half of an emoji, as a text is that was cut within one."""

_CALL = {"id": "c1", "type": "function", "function": {"name": "f"}}


def nested(levels: int) -> dict[str, Any]:
    """Objects within each other."""
    return reduce(lambda inner, _: {"in": inner}, range(levels - 1), {})


HOSTILE_JSON: dict[str, dict[str, Any]] = {
    "a lone surrogate": {"a": [HALF]},
    "a lone surrogate in a name": {"a": {HALF: 1}},
    "an integer above 63 bits": {"a": 2**63},
    "an integer above 64 bits": {"a": {"b": 2**70}},
    "an integer below 63 bits": {"a": -(2**63) - 1},
    "not a number": {"a": float("nan")},
    "infinity": {"a": [0, float("inf")]},
    "an object of Python": {"a": object()},
    "a name that is a list": {"a": {(1, 2): 3}},
    "objects nested too deeply": nested(501),
}
"""JSON values that no backend keeps, by what is wrong with them."""

EDGE_JSON: dict[str, Any] = {
    "numbers": [2**63 - 1, -(2**63), 2**53 + 1, 1.7976931348623157e308, 5e-324, -0.5],
    "texts": ["\x00", "a\x00b", "\U0010ffff", "\ufffe", "\u0378", "\ud7ff\ue000", "ϿϏ\x7f", "👩\u200d👩\u200d👧"],
    "\x00": "",
    "nested": nested(450),
}
"""JSON values that every backend keeps, and that look like those above."""

EDGE_MOMENTS: tuple[datetime, ...] = (
    datetime(2, 1, 1, tzinfo=UTC),
    datetime(1582, 10, 4, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2242, 3, 16, 12, 56, 31, 999_999, tzinfo=UTC),
    datetime(2300, 1, 1, 0, 0, 0, 3, tzinfo=UTC),
    datetime(9998, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
)
HOSTILE_MOMENTS: tuple[datetime, ...] = (
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=8))),
    datetime(1, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(9999, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(-timedelta(hours=8))),
    datetime(2031, 2, 28),  # noqa: DTZ001 — without a time zone, which is what is wrong with it
)


def said(**fields: Any) -> NewMessage:
    """A message with these fields, whatever their types."""
    return replace(NewMessage(role="assistant", content="x"), **fields)


def hostile_messages() -> dict[str, tuple[NewMessage, str]]:
    """Messages that no backend stores, and where the error says that it lies, by what is wrong with them."""
    wrong = {
        "content half a character": (said(content=HALF), "content"),
        "content no text": (said(content=None), "content"),
        "a name half a character": (said(name=HALF), "name"),
        "an id half a character": (said(id=f"id-{HALF}"), "id"),
        "the id of a call half a character": (said(tool_call_id=HALF), "tool_call_id"),
        "an id as of the store, past every number": (said(id="msg-0a1b2c3d-99999999999999999999"), "id"),
        "an unknown role": (said(role='"}'), "role"),
        "tokens above 63 bits": (said(tokens=2**63), "tokens"),
        "tokens that are text": (said(tokens="7"), "tokens"),
        "calls that are no objects": (said(tool_calls=["f"]), "tool_calls"),
    }
    for what, value in HOSTILE_JSON.items():
        wrong[f"{what} in metadata"] = (said(metadata=value), "metadata")
        wrong[f"{what} in a tool call"] = (said(tool_calls=[_CALL | {"args": value}]), "tool_calls")
    for moment in HOSTILE_MOMENTS:
        wrong[f"the moment {moment!r}"] = (said(timestamp=moment), "timestamp")
    return wrong


async def refused(ground: Ground, scope: Scope, key: ThreadKey, message: NewMessage, what: str) -> str:
    """The field that an append of a batch with the message names when it refuses it."""
    try:
        await ground.logs.append(scope, key, [*talk(1), message])
    except InvalidInput as refusal:
        return refusal.field
    require(condition=False, what=f"{what}: InvalidInput was not raised")
    return ""


@case("logs")
async def messages_that_no_backend_keeps_are_refused(ground: Ground) -> None:
    """A message with a value that cannot be kept raises InvalidInput, which names its field; nothing is stored."""
    scope = ground.scope()
    key = await ground.thread(scope, messages=2)
    for what, (message, field) in hostile_messages().items():
        found = await refused(ground, scope, key, message, what)
        require(found.startswith(f"messages[1].{field}"), f"{what}: the field is {found}, wanted messages[1].{field}")
    equal(texts(await ground.logs.read(scope, key)), ["1", "2"], "messages after the refusals")
    appended = await ground.logs.append(scope, key, talk(1))
    equal(appended.messages[0].seq, 3, "the next number")


@case("logs")
async def values_at_the_edge_are_kept(ground: Ground) -> None:
    """The largest numbers, the first and last moments, NUL and rare characters come back equal everywhere."""
    scope = ground.scope()
    key = await ground.thread(scope)
    messages = [
        *(NewMessage(role="user", content="x", timestamp=moment) for moment in EDGE_MOMENTS),
        NewMessage(role="tool", content="\x00\U0010ffff", name="\x00", tool_call_id="a\x00b", tokens=2**63 - 1),
        NewMessage(role="assistant", content="", metadata=EDGE_JSON, tool_calls=[_CALL | {"args": EDGE_JSON}]),
        NewMessage(role="assistant", content="", id="msg-0a1b2c3d-999999999999999"),
    ]
    appended = await ground.logs.append(scope, key, messages, tail=len(messages))
    stored = await ground.logs.read(scope, key)
    for where, found in (("append", appended.messages), ("tail", appended.tail), ("read", stored)):
        for message, given in zip(found, messages, strict=True):
            for field in ("content", "name", "tool_call_id", "tokens", "metadata", "tool_calls"):
                equal(getattr(message, field), getattr(given, field), f"{field} of {where}")
        equal([message.timestamp for message in found[: len(EDGE_MOMENTS)]], [*EDGE_MOMENTS], f"moments of {where}")
        equal({message.timestamp.utcoffset() for message in found}, {timedelta(0)}, f"offsets of {where}")
    equal(stored[-1].id, "msg-0a1b2c3d-999999999999999", "an id as of the store")


@case("logs")
async def a_message_is_not_filled_with_what_cannot_be_kept(ground: Ground) -> None:
    """Settling with a value that cannot be kept raises InvalidInput, and the message can still be settled."""
    scope = ground.scope()
    key = await ground.thread(scope)
    unfinished = NewMessage(role="assistant", content="", completed=False)
    [answer] = (await ground.logs.append(scope, key, [unfinished])).messages
    with raises(InvalidInput, "content that is half a character"):
        await ground.logs.settle(scope, key, answer, content=HALF)
    with raises(InvalidInput, "tokens above 63 bits"):
        await ground.logs.settle(scope, key, answer, content="x", tokens=2**63)
    for what, value in HOSTILE_JSON.items():
        with raises(InvalidInput, f"metadata with {what}"):
            await ground.logs.settle(scope, key, answer, content="x", metadata=value)
    settled = await ground.logs.settle(scope, key, answer, content="done", metadata=EDGE_JSON)
    equal(settled and (settled.content, settled.metadata), ("done", EDGE_JSON), "the settled message")


@case("documents")
async def records_that_no_backend_keeps_are_refused(ground: Ground) -> None:
    """A record with a value that cannot be kept raises InvalidInput, which names its field; nothing is stored."""
    scope = ground.scope()
    session = Session(session_id="hostile", expires_at=MOMENT, lifetime_seconds=60)
    wrong: list[tuple[Session | TraceRecord | IdempotentTurn, str]] = [
        (replace(session, title=HALF), "title"),
        (replace(session, title=None), "title"),
        (replace(session, first_question=HALF), "first_question"),
        (replace(session, total_tokens_used=2**63), "total_tokens_used"),
        (replace(session, total_cost_usd=float("nan")), "total_cost_usd"),
        (replace(session, title_by="nobody"), "title_by"),
        (trace("hostile", evidence_ids=["x", HALF]), "evidence_ids[1]"),
        (trace("hostile", evidence_ids=[3]), "evidence_ids"),
        (small("hostile", holder=HALF), "holder"),
        (trace("hostile", answer=HALF), "answer"),
        *((replace(session, metadata=value), "metadata") for value in HOSTILE_JSON.values()),
        *((replace(session, context=value), "context") for value in HOSTILE_JSON.values()),
        *((replace(session, expires_at=moment), "expires_at") for moment in HOSTILE_MOMENTS),
    ]
    for record, field in wrong:
        try:
            await ground.documents.put(scope, record)
        except InvalidInput as refusal:
            require(refusal.field.startswith(field), f"the field is {refusal.field}, wanted {field}")
        else:
            require(condition=False, what=f"{field} of {record!r:.300}: InvalidInput was not raised")
        equal(await ground.documents.get(scope, type(record), "hostile"), None, "the refused record")
    for moment in HOSTILE_MOMENTS:
        with raises(InvalidInput, f"kept until {moment!r}"):
            await ground.documents.put(scope, session, keep_until=moment)


@case("documents")
async def record_values_at_the_edge_are_kept(ground: Ground) -> None:
    """Records with the largest numbers, the first and last moments and rare characters come back equal."""
    scope = ground.scope()
    for moment in EDGE_MOMENTS:
        session = Session(
            session_id="edge",
            expires_at=moment,
            lifetime_seconds=2**62,
            title="\x00\U0010ffff",
            metadata=EDGE_JSON,
            total_tokens_used=-(2**63),
            total_cost_usd=5e-324,
        )
        put = await ground.documents.put(scope, session)
        found = await ground.documents.get(scope, Session, "edge")
        equal(unplaced(put.record), session, f"what put of the session that ends at {moment} returned")
        equal(found and unplaced(found.record), session, f"the session that ends at {moment}")
        await ground.documents.delete(scope, Session, "edge")


@case("documents")
async def names_that_are_no_text_are_refused(ground: Ground) -> None:
    """A lone surrogate in a key, a filter or an owner raises InvalidInput, where it is read and deleted too."""
    scope = ground.scope()
    documents, logs = ground.documents, ground.store.logs
    owners = [scope._replace(user_id=HALF), scope._replace(site_id=HALF), scope._replace(tenant_id=HALF)]
    for owner, key in [(scope, HALF), *((owner, "x") for owner in owners)]:
        with raises(InvalidInput, "a put"):
            await documents.put(owner, small(key))
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
        await documents.list(scope, TraceRecord, where={"intent": HALF})


async def _refused_in_logs(logs: Logs, owner: Scope, thread: ThreadKey) -> None:
    """No call on such a thread reaches the database."""
    calls: dict[str, Coroutine[Any, Any, object]] = {
        "an append to": logs.append(owner, thread, talk(1)),
        "the latest of": logs.latest(owner, thread, 3),
        "a read of": logs.read(owner, thread),
        "a cut of": logs.truncate(owner, thread, 1),
        "an erasure of": logs.erase(owner, thread.session_id, thread.npc_id),
        "the threads of the session of": logs.threads(owner, thread.session_id),
    }
    for what, call in calls.items():
        if "session" in what and HALF not in (*owner, thread.session_id):
            call.close()
            continue
        with raises(InvalidInput, f"{what} {thread!r}"):
            await call


@case("logs", "extended")
async def numbers_that_no_message_has_are_refused(ground: Ground) -> None:
    """Integers above 63 bits, which a database cannot compare."""
    scope = ground.scope()
    key = await ground.thread(scope)
    await ground.logs.append(scope, key, talk(2))
    for number in (2**63, 2**70, -(2**70)):
        with raises(InvalidInput, f"the latest before {number}"):
            await ground.logs.latest(scope, key, 3, before=number)
        with raises(InvalidInput, f"a read from {number}"):
            await ground.logs.read(scope, key, start=number)
        with raises(InvalidInput, f"a cut after {number}"):
            await ground.logs.truncate(scope, key, number)
    equal(texts(await ground.logs.read(scope, key, start=-(2**63))), ["1", "2"], "all from the least number on")
    equal(await ground.logs.read(scope, key, start=2**63 - 1), [], "what is behind the largest number")


@case("logs", "extended")
async def a_refused_value_costs_its_neighbours_nothing(ground: Ground) -> None:
    """Appends that come together with refused ones are all stored, in order and once."""
    scope = ground.scope()
    key = await ground.thread(scope)
    bad = [message for message, _ in hostile_messages().values()]

    async def hostile(message: NewMessage) -> None:
        with raises(InvalidInput, f"{message!r:.80}"):
            await ground.logs.append(scope, key, [message])

    good = [ground.logs.append(scope, key, talk(2, mark=f"{number} ")) for number in range(len(bad))]
    await asyncio.gather(*(work for pair in zip(good, map(hostile, bad), strict=True) for work in pair))
    stored = await ground.logs.read(scope, key)
    equal([message.seq for message in stored], list(range(1, 2 * len(bad) + 1)), "sequence numbers")
    equal(sorted(texts(stored)), sorted(f"{n} {m}" for n in range(len(bad)) for m in (1, 2)), "the messages")
