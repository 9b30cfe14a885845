"""The base class of stored documents, and their declaration to the backends."""

from functools import cache
from typing import ClassVar, Literal, NamedTuple

import msgspec


class RecordSpec(NamedTuple):
    """How backends store a record type.

    Attributes:
        collection: name of the table, key family or index.
        key: the field that identifies a record within tenant and site.
        shared: True if the record belongs to the site; False if it belongs to one user and is absent for others.
        filters: stored names of the fields that :meth:`Documents.list` accepts in ``where``; backends index them.
        bound_to: ``session`` for records that belong to the session named by their ``session_id`` and ``incarnation``
            and are deleted with it (see :meth:`Documents.put`); ``thread`` for those that are also deleted when the
            thread of their persona, stored as ``npc_id``, is erased, and that are listed by both. A bound record is not
            shared.
        cached: whether a cache in front of the store keeps it; a session, or a record bound to one whose key is the
            session's id.
        private: the fields with what a user said, or what derives from it. A type that has some also has a field
            ``sealed``, a text that holds them encrypted, or is empty.
        identity: a field that the store sets when the record is created and no put changes; "" if there is none.
        monotonic: datetime fields that a put never moves back.
    """

    collection: str
    key: str
    shared: bool = False
    filters: tuple[str, ...] = ()
    bound_to: Literal["session", "thread"] | None = None
    cached: bool = False
    private: tuple[str, ...] = ()
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


@cache
def stored_fields(of: type[Record]) -> dict[str, str]:
    """The names in Python of a type's fields by their stored names, in the order of declaration."""
    return dict(zip(of.__struct_encode_fields__, of.__struct_fields__, strict=True))
