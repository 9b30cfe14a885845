"""Every stored record, declared once; each backend maps them to real columns, keys or fields.

A record says of itself, in ``spec``, which collection it lives in, which field is its key, whether it belongs
to one user or to the whole site, and which fields a listing may filter by. The field types are what backends
map: ``str``, ``int``, ``float``, ``bool`` and aware ``datetime`` become native columns, everything else is JSON.
"""

from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from wenmai.scope import ThreadKey

Role = Literal["user", "assistant", "system", "tool"]


class RecordSpec(NamedTuple):
    """What a backend must know of a record type.

    Attributes:
        collection: the name of the table, key family or index.
        key: the field that identifies a record within tenant and site.
        shared: True if the record belongs to the site; False if it belongs to one user and is absent for others.
        filters: the fields that :meth:`Documents.list` accepts in ``where``; backends index them.
        bound_to: ``session`` for records that hang on the session named by their ``session_id`` and ``incarnation``,
            and go with it (see :meth:`Documents.put`); such a record is not shared.
        identity: a field that the store fills in when the record is created and no put changes; "" if there is none.
        rising: moments that a put never moves back.
    """

    collection: str
    key: str
    shared: bool = False
    filters: tuple[str, ...] = ()
    bound_to: Literal["", "session"] = ""
    identity: str = ""
    rising: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of the stored documents."""

    spec: ClassVar[RecordSpec]

    @property
    def key(self) -> str:
        """The value of the key field."""
        value: str = getattr(self, self.spec.key)
        return value


class Message(msgspec.Struct, frozen=True):
    """One entry of a thread's log.

    Attributes:
        seq: 1, 2, 3 … in the order of arrival in its thread, without gaps.
        turn_id: 1, 2, 3 … in its thread; a user message begins a turn, what answers it belongs to it.
        tokens: as counted or estimated when it was written.
        completed: False while its answer is being made, and for ever if that was abandoned.
    """

    id: str
    seq: int
    turn_id: int
    npc_id: str
    role: Role
    content: str
    timestamp: datetime
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    tokens: int = 0
    completed: bool = True
    metadata: dict[str, Any] = {}


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be appended; the log gives it its number, and an id and a timestamp if it has none."""

    role: Role
    content: str
    id: str | None = None
    timestamp: datetime | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    tokens: int = 0
    completed: bool = True
    metadata: dict[str, Any] = {}


class Session(Record, frozen=True, kw_only=True):
    """One visit of one user; its threads hang on it.

    Attributes:
        incarnation: made by the store with the record. An id that is taken again is another incarnation, and what
            hung on the former is not seen under it.
        expires_at: past this moment the session is not continued; it slides with activity.
        lifetime_seconds: how far activity moves ``expires_at``.
        title_by: who made the title; ``user`` is final.
    """

    spec: ClassVar = RecordSpec("conversations", key="session_id", identity="incarnation", rising=("expires_at",))

    session_id: str
    incarnation: str = ""
    expires_at: datetime
    lifetime_seconds: int
    title: str = ""
    title_by: Literal["", "rule", "model", "user"] = ""
    first_question: str = ""
    context: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    total_tokens_used: int = 0
    total_cost_usd: float = 0.0

    def thread(self, npc_id: str) -> ThreadKey:
        """The persona's thread of this very session, also if another takes its id."""
        return ThreadKey(self.session_id, npc_id, self.incarnation)


class Preferences(Record, frozen=True, kw_only=True):
    """How the visitor likes to be answered in this session, by whichever persona; never a fact.

    Attributes:
        sources: for each inferred field, or ``interest_tags:<tag>``, the turns it came from as ``npc_id#turn_id``;
            a field that is not named here was chosen by the visitor or is a default.
        chosen: the fields that the visitor set; inference leaves them alone.
    """

    spec: ClassVar = RecordSpec("preferences", key="session_id", bound_to="session")

    session_id: str
    incarnation: str = ""
    verbosity: Literal["brief", "normal", "detailed"] = "normal"
    tone: Literal["casual", "formal", "respectful"] = "formal"
    language: str = "zh"
    interest_tags: list[str] = []
    chosen: list[str] = []
    sources: dict[str, list[str]] = {}


class TurnLease(Record, frozen=True, kw_only=True):
    """Lease on a thread; ignored after ``expires_at``."""

    spec: ClassVar = RecordSpec("turn_leases", key="thread", bound_to="session")

    thread: str
    session_id: str
    incarnation: str = ""
    holder: str
    expires_at: datetime


class IdempotentTurn(Record, frozen=True, kw_only=True):
    """What an Idempotency-Key has led to; ``response`` is empty while the first attempt runs.

    Attributes:
        attempt_id: made at the first attempt; message and session ids of all its attempts derive from it, so that a key
            used again after it was forgotten is another question.
        asked_session: the session in which the attempts begin.
        session_id: where the answer is; empty, and the record bound to no session, until there is one.
    """

    spec: ClassVar = RecordSpec("idempotent_turns", key="idempotency_key", filters=("session_id",), bound_to="session")

    idempotency_key: str
    fingerprint: str
    attempt_id: str
    asked_session: str
    session_id: str = ""
    incarnation: str = ""
    holder: str
    attempt_expires_at: datetime
    response: dict[str, Any] | None = None


class TraceRecord(Record, frozen=True, kw_only=True):
    """Everything about one turn: what was asked, seen, decided and answered.

    Attributes:
        ref: user id and trace id, as :func:`wenmai.chat.trace.trace_ref` joins them.
    """

    spec: ClassVar = RecordSpec(
        "traces",
        key="ref",
        filters=("session_id", "npc_id", "policy_mode", "intent"),
        bound_to="session",
    )

    ref: str
    trace_id: str
    started_at: datetime
    completed_at: datetime
    session_id: str = ""
    incarnation: str = ""
    npc_id: str = ""
    turn_id: int = 0
    request_input: dict[str, Any] = {}
    tool_calls: list[dict[str, Any]] = []
    intent: str = ""
    evidence_ids: list[str] = []
    policy_mode: Literal["normal", "conservative", "refuse"] = "conservative"
    policy_reason: str = ""
    blocks: list[dict[str, Any]] = []
    answer: str = ""
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    latency_ms: float = 0.0
    degraded: list[str] = []
    error: str | None = None
    replay_of: str | None = None
    details: dict[str, Any] = {}


class PersonaVersion(Record, frozen=True, kw_only=True):
    """One version of a persona; ``ref`` is ``npc_id:version``."""

    spec: ClassVar = RecordSpec("persona_versions", key="ref", shared=True, filters=("npc_id",))

    ref: str
    npc_id: str
    number: int
    persona: dict[str, Any]
    author: str = ""
    note: str = ""


class PromptVersion(Record, frozen=True, kw_only=True):
    """One version of a persona's system prompt; ``ref`` is ``npc_id:version``."""

    spec: ClassVar = RecordSpec("prompt_versions", key="ref", shared=True, filters=("npc_id",))

    ref: str
    npc_id: str
    number: int
    text: str
    language: str = "zh"
    author: str = ""
    note: str = ""


class ActiveVersion(Record, frozen=True, kw_only=True):
    """Which version is active; ``ref`` is ``persona:npc_id`` or ``prompt:npc_id``. Changed by compare-and-set.

    ``evidence`` stands for the site's evidence as a whole, where processes index it themselves; it is put anew at each
    change (:mod:`wenmai.chat.evidence.local_index`).
    """

    spec: ClassVar = RecordSpec("active_versions", key="ref", shared=True)

    ref: str
    number: int
    latest: int


class EvidenceRecord(Record, frozen=True, kw_only=True):
    """One passage of an ingested source; the only thing that may support a fact."""

    spec: ClassVar = RecordSpec("evidence", key="evidence_id", shared=True, filters=("source_ref", "source_type"))

    evidence_id: str
    title: str
    text: str
    source_type: str = "document"
    source_ref: str = ""
    source_url: str = ""
    domains: list[str] = []
    language: str = "zh"
    confidence: float = 1.0
    verified: bool = True
    tags: list[str] = []


class Usage(Record, frozen=True, kw_only=True):
    """A part of what model calls have used on one day, for one user or tenant; see :mod:`wenmai.memory.usage`.

    Attributes:
        day: YYYY-MM-DD, UTC.
        of: the id of the tenant, or of the user after that of the site.
    """

    spec: ClassVar = RecordSpec("usage", key="ref", shared=True, filters=("day",))

    ref: str
    day: str
    kind: Literal["user", "tenant"]
    of: str
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0


RECORDS: tuple[type[Record], ...] = (
    Session,
    Preferences,
    TurnLease,
    IdempotentTurn,
    TraceRecord,
    PersonaVersion,
    PromptVersion,
    ActiveVersion,
    EvidenceRecord,
    Usage,
)
"""All documents, in the order in which a backend creates them."""
