"""Data keys of users, as stored: wrapped by a key that is in no store."""

from typing import ClassVar

from wenmai.stores.records.base import Record, RecordSpec


class DataKeyRecord(Record, frozen=True, kw_only=True):
    """The key with which a user's private values are encrypted; see :mod:`wenmai.stores.encryption.data_keys`.

    Attributes:
        ref: a digest of tenant, site and user.
        key_id: random; ciphertexts name it.
        master_id: the master key that wraps it.
        wrapped: the key, encrypted.
    """

    spec: ClassVar[RecordSpec] = RecordSpec("data_keys", key="ref", shared=True)

    ref: str
    key_id: str
    master_id: str
    wrapped: str
    for_tenant: str
    for_site: str
    for_user: str
