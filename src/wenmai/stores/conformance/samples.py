"""Sample values that backends tend to handle wrongly: full and empty records, awkward keys and texts."""

from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from wenmai.stores.records import (
    ActiveVersion,
    ApiKeyRecord,
    AuditEntry,
    Block,
    BusinessState,
    ConversationSummary,
    Cut,
    DataKeyRecord,
    ErasureRecord,
    EvidenceRecord,
    Feedback,
    HistoryCut,
    IdempotentTurn,
    Lease,
    Marker,
    Operation,
    PersonaVersion,
    Preferences,
    PromptVersion,
    Record,
    ScoredPassage,
    SeenWords,
    Session,
    StateAudit,
    StateChange,
    TraceDetails,
    TraceRecord,
    TurnInput,
    TurnStep,
    UsageRecord,
    Watermark,
)

R = TypeVar("R", bound=Record)

TIMESTAMP = datetime(2031, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC)

AWKWARD_TEXT = (
    " 孝悌为本，耕读传家。\n\r\t族谱 «严氏» “引号” 'single' \"double\" \\ back\\slash\\n `tick`\n"
    "%s %d {brace} $1 :name ? e\u0301 stays two code points, é one; 𠮷 🏮 👨\u200d👩\u200d👧 ﷽ עברית\n"
    "\u200b\u202e\u2028 \x01\x1f\x7f\ufeff; -- /* */ <b>&amp;</b>\n "
)
"""Starts and ends with characters that get trimmed; contains ones that get normalised, escaped, interpolated or cut."""

NESTED: dict[str, Any] = {
    "": "empty name",
    "null": None,
    "flags": [True, False],
    "numbers": [0, -1, 2**53, -(2**63), 1.5, 1e-9, 0.1],
    "nothing": [[], {}, ""],
    "层": {"级": [{"深": [AWKWARD_TEXT]}]},
    "a.b": {"$set": {"__class__": "x"}},
}

HOSTILE_KEYS: tuple[str, ...] = (
    *(f"a{mark}b" for mark in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "..",
    "../../etc/passwd",
    "a/../b",
    "//",
    "[a]",
    "a*",
    "a?b*",
    "{a,b}",
    "%2F",
    "%s%n",
    "a''b",
    "'; DROP TABLE conversations; --",
    "' OR '1'='1",
    "a\nb",
    "a\tb",
    "a\x1fb",
    " a",
    "a ",
    " ",
    "a b",
    "族长:严",
    "族长：严",
    "🏮",
    "é",
    "e\u0301",
    "ß",
    "ss",
    "Session-1",
    "session-1",
    "session-10",
    "session-1:",
    "session-",
    "SESSION-1",
    "0",
    "00",
    "1e3",
    "null",
    "None",
    "true",
    "NaN",
    "_id",
    "__proto__",
    "x" * 512,
    "x" * 511,
    "严" * 512,
)
"""Valid, distinct keys that backends have been known to reject, merge, trim, case-fold or interpret."""

SEPARATORS: tuple[str, ...] = (":", "/", "|", ".", "-", "_", "\x1f", " ", "\\", "*", "%", "{", "}", "#", "严")
"""Separators with which backends have joined several names into one key."""

SIMILAR_KEYS: tuple[str, ...] = (
    "session-1",
    "session-10",
    "session-1:a",
    "session-",
    "Session-1",
    "session-1 ",
    "session_1",
)
"""Keys that a pattern or a prefix would confuse."""

FORBIDDEN_KEYS: tuple[str, ...] = ("", "x" * 513, "a\0b")


FULL_DETAILS = TraceDetails(
    cut=Cut(preferences=3, history=HistoryCut(messages=2)),
    carried=[AWKWARD_TEXT],
    passages=[ScoredPassage(evidence_id="e-1", score=0.1, number=1)],
    sources_disagree=True,
    budget=[],
    feedback=Feedback(rating="down", reason=AWKWARD_TEXT, at=TIMESTAMP),
)
"""Details of a trace with values of every kind."""

OPERATION = Operation(
    intent="query",
    active_domain=["system"],
    business_object="押品",
    operation_stage="入库",
    last_action=AWKWARD_TEXT,
    last_update=TIMESTAMP,
)
STATE_CHANGE = StateChange(
    version=2**40,
    at=TIMESTAMP,
    rule="object",
    turn="elder#2",
    saw=SeenWords(business_object="押品", rejected=["合同"], matched=[AWKWARD_TEXT]),
    kept_out="创建",
    current_customer_id="C-1",
    operation=OPERATION,
)
"""A change of a business state with every field set."""


def full_records() -> list[Record]:
    """One record of every type, with every field set to a value other than its default."""
    return [
        *_records_of_a_session(),
        *_records_of_a_site(),
        *_records_derived_from_a_session(),
        *_records_of_an_administrator(),
    ]


def _records_derived_from_a_session() -> list[Record]:
    return [
        Watermark(
            ref="preferences/i/elder", session_id="session-full", function="preferences", persona_id="elder", seq=2**40
        ),
        ConversationSummary(
            ref="i/elder",
            session_id="session-full",
            persona_id="elder",
            summary=AWKWARD_TEXT,
            summary_version=3,
            covered_message_count=2**40,
            covered_through=7,
            covered_id="m-1",
            written_by="model",
            degraded=True,
        ),
        BusinessState(
            session_id="session-full",
            current_customer_id=AWKWARD_TEXT,
            operation_chain=[OPERATION],
            state_version=2**40,
            changes=[STATE_CHANGE],
        ),
        StateAudit(ref="i/1", session_id="session-full", changes=[STATE_CHANGE]),
    ]


def _records_of_an_administrator() -> list[Record]:
    return [
        ApiKeyRecord(
            key_id="0123456789ab",
            name="严氏宗祠 ‘网站’",
            digest="00ff",
            for_tenant="yan",
            for_sites=["hall", "网站"],
            for_user="游客",
            rights=["chat", "read"],
            rate_limit="60/minute",
            expires_at=TIMESTAMP,
            revoked_at=TIMESTAMP,
        ),
        ErasureRecord(
            erasure_id="era-full",
            subject="00ff",
            state="issued",
            for_tenant="yan",
            for_site="网站",
            for_user="游客",
            started_at=TIMESTAMP,
            finished_at=TIMESTAMP,
            counted=True,
            incarnations=["i"],
            removed={"messages": 2},
            receipt={"left": 0},
        ),
        AuditEntry(
            ref="000000000001",
            number=2**40,
            at=TIMESTAMP,
            act="user_erased",
            actor="cli",
            details={"site": "网站"},
            previous="00",
            digest="ff",
        ),
        DataKeyRecord(
            ref="0f3a",
            key_id="9b1c",
            master_id="2026",
            wrapped="d3JhcHBlZA==",
            for_tenant="yan",
            for_site="网站",
            for_user="游客",
        ),
    ]


def _records_of_a_session() -> list[Record]:
    return [
        Session(
            session_id="session-full",
            expires_at=TIMESTAMP,
            lifetime_seconds=86_400,
            title=AWKWARD_TEXT,
            title_by="user",
            first_question="孝悌是什么？",
            context=NESTED,
            metadata={"k": [1, {"n": None}]},
            total_tokens_used=2**40,
            total_cost_usd=0.1,
        ),
        Preferences(
            session_id="session-full",
            verbosity="detailed",
            tone="casual",
            language="zh-Hant-TW",
            interest_tags=["家训", "a,b", ""],
            chosen=["tone"],
            sources={"interest_tags:家训": ["elder#1", "elder#2"], "tone": []},
        ),
        Lease(name="turn/session-1 elder", session_id="session-full", holder="worker-1", expires_at=TIMESTAMP),
        IdempotentTurn(
            idempotency_key="key-1",
            fingerprint="f" * 64,
            attempt_id="a" * 24,
            asked_session="session-0",
            session_id="session-full",
            holder="worker-1",
            attempt_expires_at=TIMESTAMP,
            response=NESTED,
        ),
        trace(
            "trace-full",
            session_id="session-full",
            answer=AWKWARD_TEXT,
            error="timeout",
            replay_of="trace-0",
            request_input=TurnInput(query=AWKWARD_TEXT, prompt_source="prompt_registry", prompt_version=2),
            tool_calls=[TurnStep("open", "ok", 1.5)],
            blocks=[Block("history", AWKWARD_TEXT, 7)],
            details=FULL_DETAILS,
        ),
    ]


def _records_of_a_site() -> list[Record]:
    return [
        PersonaVersion(
            ref="elder:1", persona_id="elder", number=1, persona=NESTED, author="编者", note="first\nsecond"
        ),
        PromptVersion(
            ref="elder:1", persona_id="elder", number=1, text=AWKWARD_TEXT, language="en", author="编者", note="n"
        ),
        ActiveVersion(ref="prompt:elder", number=3, latest=7),
        EvidenceRecord(
            evidence_id="e-1",
            title="家训十则",
            text=AWKWARD_TEXT,
            source_type="book",
            source_ref="族谱·卷一",
            source_url="https://example.org/?a=1&b=严#x",
            domains=["家训", "礼"],
            language="en",
            confidence=0.3,
            verified=False,
            tags=["x"],
            effective_date="2025-01-31",
            supersedes="族谱·旧卷",
        ),
        UsageRecord(
            ref="user/游客/2031-02-28/7",
            day="2031-02-28",
            kind="user",
            of="游客",
            calls=3,
            prompt_tokens=2**40,
            completion_tokens=5,
            cost_usd=0.1,
        ),
        Marker(name="evidence", value="甲\x00乙"),
    ]


def bare_records() -> list[Record]:
    """One record of every type, with every field omitted, empty or zero."""
    return [
        Session(session_id="session-bare", expires_at=TIMESTAMP, lifetime_seconds=0),
        Preferences(session_id="session-bare"),
        Lease(name="bare", holder="", expires_at=TIMESTAMP),
        small_record("bare"),
        trace("trace-bare"),
        PersonaVersion(ref="bare:0", persona_id="", number=0, persona={}),
        PromptVersion(ref="bare:0", persona_id="", number=0, text=""),
        ActiveVersion(ref="bare", number=0, latest=0),
        EvidenceRecord(evidence_id="bare", title="", text=""),
        UsageRecord(ref="bare", day="", kind="tenant", of=""),
        Marker(name="bare"),
        Watermark(ref="bare", session_id="session-bare", function="", persona_id="", seq=0),
        summary_record("bare"),
        BusinessState(session_id="session-bare"),
        StateAudit(ref="bare", session_id="session-bare", changes=[]),
        ApiKeyRecord(key_id="bare", digest="", for_tenant=""),
        ErasureRecord(erasure_id="bare", subject="", for_tenant="", for_site="", for_user="", started_at=TIMESTAMP),
        AuditEntry(ref="bare", number=1, at=TIMESTAMP, act=""),
        DataKeyRecord(ref="bare", key_id="", master_id="", wrapped="", for_tenant="", for_site="", for_user=""),
    ]


def summary_record(ref: str, **changes: object) -> ConversationSummary:
    """An empty summary with the given changes, bound to no session."""
    empty = ConversationSummary(
        ref=ref,
        persona_id="elder",
        summary="",
        summary_version=0,
        covered_message_count=0,
        covered_through=0,
        covered_id="",
    )
    return replace(empty, **changes)


def trace(trace_id: str, **changes: object) -> TraceRecord:
    """An empty trace with the given changes, bound to no session."""
    empty = TraceRecord(
        ref=trace_id,
        trace_id=trace_id,
        persona_id="elder",
        turn_id=1,
        tool_calls=[],
        intent="fact_seeking",
        evidence_ids=[],
        policy_mode="normal",
        policy_reason="",
        blocks=[],
        answer="",
        model="",
        prompt_tokens=0,
        completion_tokens=0,
        cost_usd=0.0,
        latency_ms=0.0,
        degraded=[],
        started_at=TIMESTAMP,
        completed_at=TIMESTAMP,
    )
    return replace(empty, **changes)


def evidence(evidence_id: str, **changes: object) -> EvidenceRecord:
    """An empty passage with the given changes; shared by its site."""
    return replace(EvidenceRecord(evidence_id=evidence_id, title="", text=""), **changes)


def small_record(key: str, **changes: object) -> IdempotentTurn:
    """A small record of its user, bound to no session."""
    empty = IdempotentTurn(
        idempotency_key=key,
        fingerprint="",
        attempt_id="",
        asked_session="",
        holder="",
        attempt_expires_at=TIMESTAMP,
    )
    return replace(empty, **changes)


def without_incarnation(record: R) -> R:
    """The record without the incarnation that the store assigned."""
    return replace(record, incarnation="") if "incarnation" in record.__struct_fields__ else record
