"""Declarations of records: what is private, what a record is bound to, and what a cache keeps."""

from datetime import datetime
from typing import Any, get_args, get_type_hints

import pytest

from wenmai.stores.identity import INCARNATION, SESSION_ID
from wenmai.stores.records import (
    RECORDS,
    ActiveVersion,
    ApiKeyRecord,
    AuditEntry,
    BusinessState,
    ConversationSummary,
    DataKeyRecord,
    ErasureRecord,
    EvidenceRecord,
    IdempotentTurn,
    Lease,
    Marker,
    Message,
    NewMessage,
    PersonaVersion,
    Preferences,
    PromptVersion,
    Record,
    Session,
    StateAudit,
    TraceRecord,
    UsageRecord,
    Watermark,
)

NOT_PRIVATE: dict[type[Any], set[str]] = {
    Session: {"session_id", "incarnation", "title_by"},
    Preferences: {"session_id", "incarnation", "verbosity", "tone", "language"},
    Lease: {"name", "session_id", "incarnation", "holder"},
    Watermark: {"ref", "session_id", "incarnation", "function", "persona_id"},
    ConversationSummary: {"ref", "session_id", "incarnation", "persona_id", "covered_id", "written_by"},
    IdempotentTurn: {
        *("idempotency_key", "fingerprint", "attempt_id", "asked_session", "session_id", "incarnation", "holder")
    },
    TraceRecord: {
        *(
            "ref",
            "trace_id",
            "session_id",
            "incarnation",
            "persona_id",
            "intent",
            "evidence_ids",
            "policy_mode",
            "model",
        ),
        *("degraded", "replay_of"),
    },
    PersonaVersion: {"ref", "persona_id", "persona", "author", "note"},
    PromptVersion: {"ref", "persona_id", "text", "language", "author", "note"},
    ActiveVersion: {"ref"},
    EvidenceRecord: {
        *("evidence_id", "title", "text", "source_type", "source_ref", "source_url", "domains", "language", "tags"),
        *("effective_date", "supersedes"),
    },
    UsageRecord: {"ref", "day", "kind", "of"},
    Marker: {"name", "value"},
    BusinessState: {"session_id", "incarnation"},
    StateAudit: {"ref", "session_id", "incarnation"},
    ApiKeyRecord: {"key_id", "name", "digest", "for_tenant", "for_sites", "for_user", "rights", "rate_limit"},
    DataKeyRecord: {"ref", "key_id", "master_id", "wrapped", "for_tenant", "for_site", "for_user"},
    AuditEntry: {"ref", "act", "actor", "details", "previous", "digest"},
    ErasureRecord: {
        *("erasure_id", "subject", "state", "for_tenant", "for_site", "for_user", "incarnations", "receipt")
    },
    Message: {"id", "persona_id", "role", "tool_call_id"},
}
"""The fields that can hold text and are not private: ids, closed sets of words, what the site's editors wrote."""

WITHOUT_TEXT = {int, float, bool, datetime}


@pytest.mark.parametrize("of", [*RECORDS, Message], ids=lambda of: of.__name__)
def test_every_field_with_text_is_private_or_listed_as_not_private(of: type[Any]) -> None:
    """A new field has to be put on one of the two sides."""
    hints = get_type_hints(of)
    with_text = {name for name in of.__struct_fields__ if not {hints[name], *get_args(hints[name])} & WITHOUT_TEXT}
    with_text -= {"sealed"}
    private = set((of.spec if issubclass(of, Record) else of).private)
    assert private & NOT_PRIVATE[of] == set()
    assert private | NOT_PRIVATE[of] == with_text


def test_a_new_message_has_the_private_fields_of_a_stored_one() -> None:
    """They carry the same words."""
    assert set(Message.private) <= set(NewMessage.__struct_fields__)


@pytest.mark.parametrize("of", RECORDS, ids=lambda of: of.__name__)
def test_a_declaration_is_consistent(of: type[Record]) -> None:
    """A bound record names its session; one bound to a thread is listed by it; a cached one is found by its session."""
    spec = of.spec
    fields = set(of.__struct_fields__)
    assert set(spec.filters) <= set(of.__struct_encode_fields__)
    assert {spec.key, *spec.private, *spec.monotonic} <= fields
    assert ("sealed" in fields) == bool(spec.private)
    if spec.bound_to:
        assert {SESSION_ID, INCARNATION} <= fields
        assert not spec.shared
    if spec.bound_to == "thread":
        assert {SESSION_ID, "npc_id"} <= set(spec.filters)
    if spec.cached:
        assert spec.key == SESSION_ID
        assert of is Session or spec.bound_to == "session"
