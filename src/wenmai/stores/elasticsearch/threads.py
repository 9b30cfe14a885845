"""The documents of a thread: its head, its messages, and the numbers of messages that came with an id."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from wenmai.scope import Scope
from wenmai.stores.elasticsearch.client import Client, Found, Ref, Write
from wenmai.stores.elasticsearch.heads import Head, repaired_version, written_version
from wenmai.stores.elasticsearch.indices import MESSAGES, THREADS
from wenmai.stores.elasticsearch.rows import digest
from wenmai.stores.records import Message

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode

_GENERATED = re.compile(r"msg-[0-9a-f]{16}-([1-9][0-9]{0,14})", re.ASCII)
"""An id in the format of generated ones, which has the message's number."""


class StoredHead(NamedTuple):
    """A head as it was read; ``head`` is None if there is none of the session's incarnation."""

    found: Found | None
    head: Head | None
    former: Head | None = None


def head_ref(client: Client, session: str, persona_id: str) -> Ref:
    """The place of a thread's head."""
    return Ref(client.index(THREADS), digest(session, persona_id), session)


def read_head(found: Found | None, incarnation: str) -> StoredHead:
    """The head, if it belongs to that incarnation of its session."""
    if found is None:
        return StoredHead(None, None)
    head = _decode(found.source["head"], type=Head)
    return StoredHead(found, head) if head.incarnation == incarnation else StoredHead(found, None, head)


def head_write(ref: Ref, head: Head, found: Found | None) -> Write:
    """The write that commits a change."""
    document = {
        "session": head.session,
        "incarnation": head.incarnation,
        "label": head.label,
        "seq": head.last_seq,
        "head": _encode(head).decode(),
    }
    return Write(ref, document, found)


def message_ref(client: Client, head: Head, seq: int) -> Ref:
    """The place of a message."""
    return Ref(client.index(MESSAGES), f"{head.label}-{seq}", head.session)


def name_ref(client: Client, head: Head, id_: str) -> Ref:
    """The place of the number of the message that came with that id."""
    return Ref(client.index(THREADS), f"{head.label}-{digest(id_)}", head.session)


def message_document(scope: Scope, session_id: str, head: Head, message: Message) -> dict[str, Any]:
    """A message as others may read it."""
    document: dict[str, Any] = {
        **scope._asdict(),
        "session_id": session_id,
        "incarnation": head.incarnation,
        "thread": head.label,
        "npc_id": message.persona_id,
        "id": message.id,
        "seq": message.seq,
        "turn_id": message.turn_id,
        "role": message.role,
        "content": message.content,
        "timestamp": message.timestamp.isoformat(timespec="microseconds"),
        "tokens": message.tokens,
        "completed": message.completed,
    }
    if message.name is not None:
        document["name"] = message.name
    if message.tool_call_id is not None:
        document["tool_call_id"] = message.tool_call_id
    if message.tool_calls is not None:
        document["tool_calls"] = _encode(message.tool_calls).decode()
    if message.metadata:
        document["metadata"] = _encode(message.metadata).decode()
    return document


def message_of(document: Mapping[str, Any]) -> Message:
    """The message of a document."""
    plain = {name: document[name] for name in Message.__struct_encode_fields__ if name in document}
    for name in ("tool_calls", "metadata"):
        if name in plain:
            plain[name] = _decode(plain[name])
    return msgspec.convert(plain, Message)


async def read_messages(client: Client, head: Head, seqs: Sequence[int]) -> list[Message] | None:
    """The messages with these numbers, in that order; None if the thread has changed since the head was read."""
    pending = {each.message.seq: each.message for each in head.pending}
    stored = [seq for seq in seqs if seq not in pending]
    newest = repaired_version(head.rev)
    if stored:
        found = await client.get([message_ref(client, head, seq) for seq in stored])
        for seq, each in zip(stored, found, strict=True):
            if each is None or each.version > newest:
                return None
            pending[seq] = message_of(each.source)
    return [pending[seq] for seq in seqs]


async def find_by_ids(client: Client, head: Head, ids: Sequence[str]) -> dict[str, Message] | None:
    """The messages of the thread with these ids; None if it has changed since the head was read."""
    known = {each.message.id: each.message for each in head.pending}
    found = {id_: known[id_] for id_ in ids if id_ in known}
    missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in found]
    numbers: dict[str, int] = {}
    if missing and head.named:
        for id_, name in zip(missing, await client.get([name_ref(client, head, id_) for id_ in missing]), strict=True):
            if name is not None and name.source["seq"] <= head.last_seq:
                numbers[id_] = name.source["seq"]
    for id_ in missing:
        generated = _GENERATED.fullmatch(id_)
        if id_ not in numbers and generated is not None and int(generated[1]) <= head.last_seq:
            numbers[id_] = int(generated[1])
    messages = await read_messages(client, head, list(numbers.values()))
    if messages is None:
        return None
    return found | {id_: message for id_, message in zip(numbers, messages, strict=True) if message.id == id_}


async def remove_threads(
    client: Client, session: str, personas: Sequence[str], incarnation: str, *, only: str | None = None
) -> int:
    """Remove the threads of a session, or one of them; return the number of messages."""
    chosen = [persona for persona in personas if only in (None, persona)]
    refs = [head_ref(client, session, persona) for persona in chosen]
    removed = 0
    for ref, found in zip(refs, await client.get(refs) if refs else [], strict=True):
        removed += await _remove_thread(client, ref, found, incarnation)
    return removed


async def _remove_thread(client: Client, ref: Ref, found: Found | None, incarnation: str) -> int:
    while True:
        head = read_head(found, incarnation).head
        if head is None:
            return 0
        if all(await client.write([Write(ref, None, found)])):
            await remove_documents(client, head)
            return head.last_seq
        await asyncio.sleep(0)
        [found] = await client.get([ref])


async def remove_documents(client: Client, head: Head, after: int = 0) -> None:
    """Remove the documents of the messages after a number."""
    seqs = range(after + 1, head.last_seq + 1)
    refs = [message_ref(client, head, seq) for seq in seqs]
    version = written_version(head.rev + 1)
    if head.named:
        found = await client.get(refs, ["id"])
        ids = {each.source["id"] for each in found if each is not None}
        ids |= {each.message.id for each in head.pending if each.message.seq > after}
        refs += [name_ref(client, head, id_) for id_ in ids]
    await client.write([Write(each, None, version=version) for each in refs])
