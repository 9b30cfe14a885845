"""Erasures of users, as stored: what was removed, never what it said."""

from datetime import datetime
from typing import Any, ClassVar, Literal

from wenmai.stores.records.base import Record, RecordSpec


class ErasureRecord(Record, frozen=True, kw_only=True):
    """The erasure of a user; see :mod:`wenmai.memory.erasure`.

    Attributes:
        subject: a digest of tenant, site and user.
        state: ``running`` until the receipt is issued, ``issued`` while late work may still end, then ``final``.
        for_user: the user; empty once the erasure is done.
        started_at: when it was asked for last; what was received before is erased.
        counted: whether a run has stored in ``removed`` what it found; one that finds this set continues that run.
        incarnations: of the removed sessions; empty once the erasure is done.
        removed: number of removed items by kind.
        receipt: as issued, without the user; empty until then.
    """

    spec: ClassVar[RecordSpec] = RecordSpec("erasures", key="erasure_id", shared=True, filters=("subject", "state"))

    erasure_id: str
    subject: str
    state: Literal["running", "issued", "final"] = "running"
    for_tenant: str
    for_site: str
    for_user: str
    started_at: datetime
    finished_at: datetime | None = None
    counted: bool = False
    incarnations: list[str] = []
    removed: dict[str, int] = {}
    receipt: dict[str, Any] = {}
