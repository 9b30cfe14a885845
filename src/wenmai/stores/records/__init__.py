"""Every stored record, declared once; each backend maps the declarations to columns, keys or fields.

A record declares in ``spec`` its collection, its key field, whether it belongs to one user or to the whole site, and
which fields a listing may filter by. ``str``, ``int``, ``float``, ``bool`` and aware ``datetime`` fields become native
columns; every other type is stored as JSON.
"""

from wenmai.stores.records.base import Record, RecordSpec
from wenmai.stores.records.evidence import EvidenceRecord
from wenmai.stores.records.maintenance import Lease, Watermark
from wenmai.stores.records.messages import Message, NewMessage, Role
from wenmai.stores.records.registry import ActiveVersion, PersonaVersion, PromptVersion
from wenmai.stores.records.sessions import Preferences, Session
from wenmai.stores.records.turns import IdempotentTurn, TraceRecord
from wenmai.stores.records.usage import UsageRecord

__all__ = [
    "RECORDS",
    "ActiveVersion",
    "EvidenceRecord",
    "IdempotentTurn",
    "Lease",
    "Message",
    "NewMessage",
    "PersonaVersion",
    "Preferences",
    "PromptVersion",
    "Record",
    "RecordSpec",
    "Role",
    "Session",
    "TraceRecord",
    "UsageRecord",
    "Watermark",
]

RECORDS: tuple[type[Record], ...] = (
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
    Watermark,
)
"""All document types, in the order in which a backend creates their tables."""
