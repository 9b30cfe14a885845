"""Every stored record, declared once; each backend maps the declarations to columns, keys or fields.

A record declares in ``spec`` its collection, its key field, whether it belongs to one user or to the whole site, which
fields a listing may filter by, what it is deleted with, whether it is cached, and which of its fields are private.
``str``, ``int``, ``float``, ``bool`` and aware ``datetime`` fields become native columns; every other type is stored as
JSON.
"""

from typing import Literal

from wenmai.stores.records.audit import AuditEntry
from wenmai.stores.records.base import Record, RecordSpec
from wenmai.stores.records.data_keys import DataKeyRecord
from wenmai.stores.records.erasures import ErasureRecord
from wenmai.stores.records.evidence import EvidenceRecord
from wenmai.stores.records.keys import ApiKeyRecord
from wenmai.stores.records.maintenance import Lease, Watermark
from wenmai.stores.records.markers import Marker
from wenmai.stores.records.messages import Message, NewMessage, Role
from wenmai.stores.records.registry import ActiveVersion, PersonaVersion, PromptVersion
from wenmai.stores.records.sessions import Preferences, Session
from wenmai.stores.records.state import (
    BusinessState,
    Operation,
    SeenWords,
    StateAudit,
    StateChange,
    StateRule,
)
from wenmai.stores.records.summaries import ConversationSummary
from wenmai.stores.records.traces import (
    Block,
    Cut,
    Feedback,
    HistoryCut,
    PolicyModeName,
    Rating,
    RemovedStatement,
    ScoredPassage,
    StateTrace,
    StepStatus,
    StoredAnswer,
    TraceDetails,
    TurnInput,
    TurnStep,
)
from wenmai.stores.records.turns import IdempotentTurn, TraceRecord
from wenmai.stores.records.usage import BudgetKind, BudgetStatus, TokenUsage, UsageRecord

__all__ = [
    "RECORDS",
    "ActiveVersion",
    "ApiKeyRecord",
    "AuditEntry",
    "Block",
    "BudgetKind",
    "BudgetStatus",
    "BusinessState",
    "ConversationSummary",
    "Cut",
    "DataKeyRecord",
    "ErasureRecord",
    "EvidenceRecord",
    "Feedback",
    "HistoryCut",
    "IdempotentTurn",
    "Lease",
    "Marker",
    "Message",
    "NewMessage",
    "Operation",
    "PersonaVersion",
    "PolicyModeName",
    "Preferences",
    "PromptVersion",
    "Rating",
    "Record",
    "RecordSpec",
    "RemovedStatement",
    "Role",
    "ScoredPassage",
    "SeenWords",
    "Session",
    "StateAudit",
    "StateChange",
    "StateRule",
    "StateTrace",
    "StepStatus",
    "StoredAnswer",
    "TokenUsage",
    "TraceDetails",
    "TraceRecord",
    "TurnInput",
    "TurnStep",
    "UsageRecord",
    "Watermark",
    "bound_records",
    "cached_records",
]

RECORDS: list[type[Record]] = [
    Session,
    Preferences,
    Lease,
    IdempotentTurn,
    TraceRecord,
    PersonaVersion,
    PromptVersion,
    ActiveVersion,
    EvidenceRecord,
    UsageRecord,
    Marker,
    Watermark,
    ConversationSummary,
    BusinessState,
    StateAudit,
    ApiKeyRecord,
    ErasureRecord,
    AuditEntry,
    DataKeyRecord,
]
"""All document types, in the order in which a backend creates their tables; read when a store is opened or used."""


def bound_records(to: Literal["session", "thread"] = "session") -> list[type[Record]]:
    """The types whose records go with their session, or already with their thread."""
    return [of for of in RECORDS if of.spec.bound_to in ("thread", to)]


def cached_records() -> list[type[Record]]:
    """The types that a cache keeps for each session: the session itself, then those bound to it."""
    return [of for of in RECORDS if of.spec.cached]
