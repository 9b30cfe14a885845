"""The base class of stored documents, and their declaration to the backends."""

from typing import ClassVar, Literal, NamedTuple

import msgspec


class RecordSpec(NamedTuple):
    """How backends store a record type.

    Attributes:
        collection: name of the table, key family or index.
        key: the field that identifies a record within tenant and site.
        shared: True if the record belongs to the site; False if it belongs to one user and is absent for others.
        filters: fields that :meth:`Documents.list` accepts in ``where``; backends index them.
        bound_to: ``session`` for records that belong to the session named by their ``session_id`` and ``incarnation``
            and are deleted with it (see :meth:`Documents.put`); such a record is not shared.
        identity: a field that the store sets when the record is created and no put changes; "" if there is none.
        monotonic: datetime fields that a put never moves back.
    """

    collection: str
    key: str
    shared: bool = False
    filters: tuple[str, ...] = ()
    bound_to: Literal["", "session"] = ""
    identity: str = ""
    monotonic: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of the stored documents."""

    spec: ClassVar[RecordSpec]

    @property
    def key(self) -> str:
        """The value of the key field."""
        value: str = getattr(self, self.spec.key)
        return value
