"""The audit log of administrative acts."""

from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import Meta

from wenmai.stores.records.base import Record, RecordSpec


class AuditEntry(Record, frozen=True, kw_only=True):
    """An administrative act of a tenant; never changed, see :mod:`wenmai.memory.audit`."""

    spec: ClassVar[RecordSpec] = RecordSpec("audit_entries", key="ref", shared=True)

    ref: Annotated[str, Meta(description="The number, with leading zeros.")]
    number: Annotated[int, Meta(description="1, 2, 3 … within the tenant.")]
    at: Annotated[datetime, Meta(description="When it was done.")]
    act: Annotated[str, Meta(description="What was done, such as `key_created`.")]
    actor: Annotated[str, Meta(description="The id of the API key, `cli`, or empty without authentication.")] = ""
    details: Annotated[dict[str, str], Meta(description="Ids of what it was done to; no conversation.")] = {}
    previous: Annotated[str, Meta(description="The digest of the entry before; empty for the first.")] = ""
    digest: Annotated[str, Meta(description="SHA-256 of all other fields, in hexadecimal.")] = ""
