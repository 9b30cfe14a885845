"""Rolling summaries of threads."""

from typing import ClassVar, Literal

import msgspec

from wenmai.stores.records.base import Record, RecordSpec


class ConversationSummary(Record, frozen=True, kw_only=True):
    """The rolling summary of a thread: of its messages 1 to ``covered_message_count``.

    Attributes:
        ref: incarnation and persona, joined by a slash.
        summary: one point per line; empty if nothing that it covers may be summarised.
        summary_version: 1, 2, 3 … with each update.
        covered_message_count: all messages up to this ``seq`` were read.
        covered_through: the turn of the last of them.
        covered_id: the id of the last of them, by which a thread that was cut is recognised.
        written_by: what wrote it last.
        degraded: a model should have written it and failed.
    """

    spec: ClassVar[RecordSpec] = RecordSpec(
        "conversation_summaries",
        key="ref",
        filters=("session_id", "npc_id"),
        bound_to="thread",
        private=("summary",),
    )

    ref: str
    session_id: str = ""
    incarnation: str = ""
    persona_id: str = msgspec.field(name="npc_id")
    summary: str
    summary_version: int
    covered_message_count: int
    covered_through: int
    covered_id: str
    written_by: Literal["rules", "model"] = "rules"
    degraded: bool = False
    sealed: str = ""
