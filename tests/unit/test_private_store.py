"""The wrapper of the store contracts: what it screens, what it leaves, and what it refuses."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import wenmai
from wenmai.clock import system_clock
from wenmai.errors import InvalidInput
from wenmai.memory.sessions import title_from_question
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Store
from wenmai.stores.opening import StorePolicy, open_store
from wenmai.stores.private import PrivateStore
from wenmai.stores.records import BusinessState, EvidenceRecord, Message, NewMessage, Session, StateChange
from wenmai.stores.structs import SearchEntry, SearchQuery
from wenmai.text.redact import Redactor, Span

SCOPE, THREAD = Scope(), ThreadKey("s1", "assistant")
PHONE = "13800138000"
AT = datetime(2026, 5, 1, tzinfo=UTC)


@asynccontextmanager
async def opened(redactor: Redactor | None = None) -> AsyncIterator[tuple[PrivateStore, Store]]:
    """A private store with a session, and the store that it is around."""
    async with open_store("memory://") as store:
        private = PrivateStore(store, redactor or Redactor())
        assert private.documents is not None
        await private.documents.put(
            SCOPE, Session(session_id="s1", expires_at=system_clock() + timedelta(hours=1), lifetime_seconds=3600)
        )
        yield private, store


async def stored(private: PrivateStore, message: NewMessage) -> Message:
    """The message as it is read back."""
    assert private.logs is not None
    await private.logs.append(SCOPE, THREAD, [message])
    return (await private.logs.latest(SCOPE, THREAD, 1))[0]


async def test_a_tool_call_stays_json() -> None:
    """Its arguments are screened value by value, escaped or not, with the names of members as labels."""
    given = {"to": "a@b.co", "密码": "abcd12", "count": 1200, "phone": int(PHONE), "note": f"我的手机{PHONE}"}
    called = {"id": "call-1", "function": {"name": "send", "arguments": json.dumps(given)}}
    async with opened() as (private, _):
        found = await stored(private, NewMessage(role="assistant", content="", tool_calls=[called]))
    assert found.tool_calls is not None
    assert json.loads(found.tool_calls[0]["function"]["arguments"]) == {
        "to": "[REDACTED_EMAIL]",
        "密码": "[REDACTED_SECRET]",
        "count": 1200,
        "phone": "[REDACTED_PHONE]",
        "note": "我的手机[REDACTED_PHONE]",
    }


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"pin": 1234, "n": 1234}, {"pin": "[REDACTED_SECRET]", "n": 1234}),
        ({"session_id": PHONE, "at": 1700000000}, {"session_id": PHONE, "at": 1700000000}),
        ({"a@b.co": 1, "c@d.co": 2}, {"[REDACTED_EMAIL] 1": 1, "[REDACTED_EMAIL] 2": 2}),
        ({"list": [int(PHONE), [PHONE]]}, {"list": ["[REDACTED_PHONE]", ["[REDACTED_PHONE]"]]}),
    ],
    ids=["labelled-number", "ids", "names-of-members", "nested"],
)
async def test_metadata_is_screened_but_for_ids(given: dict[str, Any], kept: dict[str, Any]) -> None:
    """Values, numbers and names of members; two members whose names are the same then are both kept."""
    async with opened() as (private, _):
        assert (await stored(private, NewMessage(role="user", content="x", metadata=given))).metadata == kept


async def test_the_deepest_metadata_that_a_store_accepts_is_screened() -> None:
    """It does not exhaust the stack."""
    value: Any = "a@b.co"
    for _ in range(499):
        value = {"a": value}
    async with opened() as (private, _):
        found: Any = (await stored(private, NewMessage(role="user", content="x", metadata=value))).metadata
    for _ in range(499):
        found = found["a"]
    assert found == "[REDACTED_EMAIL]"


async def test_a_struct_that_was_screened_before_is_screened_again_with_another_value() -> None:
    """A state is stored again with each change; of its changes only those that were clean are left unread."""

    def change(version: int, customer: str) -> StateChange:
        return StateChange(version=version, at=AT, rule="customer", current_customer_id=customer)

    async with opened() as (private, _):
        assert private.documents is not None
        for said, kept in (("C001", "C001"), (PHONE, "[REDACTED_PHONE]"), ("C002", "C002")):
            state = BusinessState(session_id="s1", changes=[change(1, "C001"), change(2, said)])
            put = await private.documents.put(SCOPE, state)
            assert [each.current_customer_id for each in put.record.changes] == ["C001", kept]


async def test_a_streamed_answer_is_screened_when_it_is_completed() -> None:
    """Its content and its metadata."""
    async with opened() as (private, _):
        assert private.logs is not None
        message = await stored(private, NewMessage(role="assistant", content="", completed=False))
        completed = await private.logs.complete(
            SCOPE, THREAD, message, content=f"Call {PHONE}", metadata={"error": "no a@b.co"}
        )
    assert completed is not None
    assert (completed.content, completed.metadata) == ("Call [REDACTED_PHONE]", {"error": "no [REDACTED_EMAIL]"})


async def test_evidence_keeps_its_telephone_numbers() -> None:
    """Shared records and collections are a site's sources; a user's own collection is screened."""
    async with opened() as (private, _):
        assert private.documents is not None
        assert private.search is not None
        passage = EvidenceRecord(evidence_id="e1", title="Office", text=f"Call {PHONE}.")
        assert (await private.documents.put(SCOPE, passage)).record == passage
        for shared in (True, False):
            await private.search.index(SCOPE, "c", [SearchEntry(id="1", text=f"Call {PHONE}.")], shared=shared)
            [hits] = await private.search.query(SCOPE, "c", [SearchQuery(text=PHONE)], shared=shared)
            assert len(hits) == shared


class _Broken(Redactor):
    """A redactor that fails."""

    def find(self, text: str) -> list[Span]:
        """Fail at any text that has some."""
        if text:
            raise MemoryError
        return []


async def test_what_cannot_be_screened_is_not_stored() -> None:
    """Whether the text is invalid, which is the caller's error, or the redactor fails."""
    async with opened(_Broken()) as (private, store):
        with pytest.raises(MemoryError):
            await stored(private, NewMessage(role="user", content="x1"))
        assert store.logs is not None
        assert await store.logs.latest(SCOPE, THREAD, 1) == []
    async with opened() as (private, _):
        with pytest.raises(InvalidInput, match=r"messages\[0\]\.content"):
            await stored(private, NewMessage(role="user", content=f"\ud800 {PHONE}"))


def test_a_title_has_no_part_of_a_private_value() -> None:
    """A line is redacted before it is cut."""
    title = title_from_question("please note that I can be called at +44 20 7946 0958 on any day of this week")
    assert "+44" not in title
    assert title.endswith("…")


async def test_a_memory_stores_private_values_only_with_the_policy_off() -> None:
    """The default redacts."""
    policies: list[tuple[StorePolicy, str]] = [("redact", "[REDACTED_PHONE]"), ("off", PHONE)]
    for policy, content in policies:
        async with wenmai.open("memory://", store_policy=policy) as memory:
            session = await memory.session()
            [message] = await session.append([{"role": "user", "content": PHONE}])
            assert message.content == content
            assert [each.content for each in await session.messages()] == [content]
