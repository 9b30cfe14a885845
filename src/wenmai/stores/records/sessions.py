"""Sessions and the preferences of their user."""

from datetime import datetime
from typing import Any, ClassVar, Literal

from wenmai.scope import ThreadKey
from wenmai.stores.records.base import Record, RecordSpec


class Session(Record, frozen=True, kw_only=True):
    """A session of one user; its threads belong to it.

    Attributes:
        incarnation: assigned by the store when the record is created. A session id that is reused gets another
            incarnation, under which nothing of the former session is visible.
        expires_at: past this moment the session is not continued; it slides with activity.
        lifetime_seconds: how far activity moves ``expires_at``.
        title_by: the source of the title; ``user`` is final.
        began_at: when the session began, if that was before its record was created, as in an import.
    """

    spec: ClassVar[RecordSpec] = RecordSpec(
        "conversations",
        key="session_id",
        cached=True,
        private=("title", "first_question", "context", "metadata"),
        identity="incarnation",
        monotonic=("expires_at",),
    )

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
    began_at: datetime | None = None
    sealed: str = ""

    def thread(self, persona_id: str) -> ThreadKey:
        """The persona's thread of this incarnation, even if another session reuses the id."""
        return ThreadKey(self.session_id, persona_id, self.incarnation)


class Preferences(Record, frozen=True, kw_only=True):
    """How the user wants to be answered in this session, by every persona; never a fact.

    Attributes:
        sources: for each inferred field, or ``interest_tags:<tag>``, the turns it came from as ``persona_id#turn_id``;
            a field that is not listed was set by the user or is a default.
        chosen: the fields that the user set; inference does not change them.
    """

    spec: ClassVar[RecordSpec] = RecordSpec(
        "preferences",
        key="session_id",
        bound_to="session",
        cached=True,
        private=("interest_tags", "chosen", "sources"),
    )

    session_id: str
    incarnation: str = ""
    verbosity: Literal["brief", "normal", "detailed"] = "normal"
    tone: Literal["casual", "formal", "respectful"] = "formal"
    language: str = "zh"
    interest_tags: list[str] = []
    chosen: list[str] = []
    sources: dict[str, list[str]] = {}
    sealed: str = ""
