"""The business state of sessions, and the audit of its changes."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from wenmai.stores.records.base import Record, RecordSpec

StateRule = Literal["first", "customer", "intent", "object", "corrected", "inherited", "set", "reset"]
"""Why a state changed: the first operation; another customer, intent or object; an object that the user had not meant;
the same operation continued; set or reset by the API."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a session: what the user does with which object, and how far it is."""

    intent: Annotated[str, Meta(description="An intent of the profile's rules.")]
    active_domain: Annotated[list[str], Meta(description="Domains of the rules.")] = []
    business_object: Annotated[str, Meta(description="An object of the rules; empty if none was named.")] = ""
    operation_stage: Annotated[str, Meta(description="A stage of the rules; empty if there is none.")] = ""
    last_action: Annotated[str, Meta(description="The last question, at most 100 characters.")] = ""
    last_update: Annotated[datetime, Meta(description="Time of the last question.")]


class SeenWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a message said in the words of the rules; empty for what it did not name."""

    intent: Annotated[str, Meta(description="The intent.")] = ""
    domains: Annotated[list[str], Meta(description="The domains.")] = []
    business_object: Annotated[str, Meta(description="The object.")] = ""
    stage: Annotated[str, Meta(description="The stage.")] = ""
    customer: Annotated[str, Meta(description="The customer.")] = ""
    rejected: Annotated[list[str], Meta(description="Objects that the user said not to mean.")] = []
    matched: Annotated[list[str], Meta(description="The words that were recognized.")] = []


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a state: its cause, and what is current since."""

    version: Annotated[int, Meta(description="1, 2, 3 … in the session.")]
    at: Annotated[datetime, Meta(description="Time of the change.")]
    rule: Annotated[StateRule, Meta(description="The rule that applied.")]
    turn: Annotated[str, Meta(description="`npc_id#turn_id` of the message; empty if it is not known.")] = ""
    saw: Annotated[SeenWords, Meta(description="What the message, or the request, said.")] = SeenWords()
    kept_out: Annotated[str, Meta(description="A stage that was named and not taken: an earlier or unknown one.")] = ""
    current_customer_id: Annotated[str | None, Meta(description="The current customer.")] = None
    operation: Annotated[Operation | None, Meta(description="The current operation; null after a reset.")] = None


class BusinessState(Record, frozen=True, kw_only=True):
    """What the user of a session is doing; see :mod:`wenmai.memory.state_machine`.

    Attributes:
        operation_chain: the newest operations, ascending; the last one is current.
        state_version: of the last change; 0 if there is none.
        changes: the newest changes, ascending; earlier ones are in :class:`StateAudit`.
    """

    spec: ClassVar[RecordSpec] = RecordSpec(
        "business_states",
        key="session_id",
        bound_to="session",
        cached=True,
        private=("current_customer_id", "operation_chain", "changes"),
    )

    session_id: str
    incarnation: str = ""
    current_customer_id: str | None = None
    operation_chain: list[Operation] = []
    state_version: int = 0
    changes: list[StateChange] = []
    sealed: str = ""

    @property
    def current(self) -> Operation | None:
        """The current operation."""
        return self.operation_chain[-1] if self.operation_chain else None


class StateAudit(Record, frozen=True, kw_only=True):
    """Consecutive changes of a session's state, ascending; never changed.

    Attributes:
        ref: incarnation and version of the first change, joined by a slash.
    """

    spec: ClassVar[RecordSpec] = RecordSpec(
        "business_state_audit", key="ref", filters=("session_id",), bound_to="session", private=("changes",)
    )

    ref: str
    session_id: str = ""
    incarnation: str = ""
    changes: list[StateChange] = []
    sealed: str = ""
