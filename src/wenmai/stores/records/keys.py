"""API keys, as stored: never the key itself."""

from datetime import datetime
from typing import ClassVar

from wenmai.stores.records.base import Record, RecordSpec


class ApiKeyRecord(Record, frozen=True, kw_only=True):
    """An API key of a tenant; see :mod:`wenmai.auth.keys`.

    Attributes:
        key_id: the public part of the key.
        name: chosen by the administrator.
        digest: HMAC-SHA-256 of the key, in hexadecimal.
        for_tenant: the tenant that it speaks for.
        for_sites: the sites; empty for all of the tenant.
        for_user: the user; empty for all of the tenant.
        rights: see :data:`wenmai.auth.principal.RIGHTS`.
        rate_limit: of its own, in place of the setting, such as ``60/minute``; empty for that of the setting.
        expires_at: refused from then on; None for never.
        revoked_at: refused since then; None if it is not revoked.
    """

    spec: ClassVar[RecordSpec] = RecordSpec("api_keys", key="key_id", shared=True)

    key_id: str
    name: str = ""
    digest: str
    for_tenant: str
    for_sites: list[str] = []
    for_user: str = ""
    rights: list[str] = []
    rate_limit: str = ""
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
