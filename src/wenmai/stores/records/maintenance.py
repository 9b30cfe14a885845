"""Records of coordination: leases between processes, and watermarks of derived memory."""

from datetime import datetime
from typing import ClassVar

import msgspec

from wenmai.stores.records.base import Record, RecordSpec


class Lease(Record, frozen=True, kw_only=True):
    """Lease of one process on a named piece of work; ignored after ``expires_at``.

    Attributes:
        session_id: of the session that the work belongs to, with which the lease is deleted; empty if there is none.
        holder: a token of the holder, new each time that the lease is taken.
    """

    spec: ClassVar[RecordSpec] = RecordSpec("leases", key="name", bound_to="session")

    name: str
    session_id: str = ""
    incarnation: str = ""
    holder: str
    expires_at: datetime


class Watermark(Record, frozen=True, kw_only=True):
    """How far a thread's derived record follows its transcript; see :mod:`wenmai.memory.watermarks`.

    Attributes:
        ref: function, incarnation and persona, joined by slashes.
        seq: of the last message that was taken into account.
    """

    spec: ClassVar[RecordSpec] = RecordSpec("watermarks", key="ref", bound_to="session")

    ref: str
    session_id: str = ""
    incarnation: str = ""
    function: str
    persona_id: str = msgspec.field(name="npc_id")
    seq: int
