"""Records as documents of an index, and back."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from wenmai.clock import from_micros, to_micros
from wenmai.scope import Scope
from wenmai.stores.elasticsearch.client import Client, Found, Ref
from wenmai.stores.elasticsearch.indices import index_of
from wenmai.stores.identity import bound_session
from wenmai.stores.records import Record, Session
from wenmai.stores.records.base import stored_fields
from wenmai.stores.structs import Stored

R = TypeVar("R", bound=Record)

_ID_DIGITS = 40
_encode = msgspec.json.Encoder().encode


def digest(*parts: str) -> str:
    """40 hex digits that identify these texts."""
    return sha256(_encode(parts)).hexdigest()[:_ID_DIGITS]


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A record as a document.

    Attributes:
        ref: id of the document, for sorting.
        owner: digest of collection and owner, which listings filter by.
        session: document of the session that the record is bound to.
        incarnation: of that session, or of the session that this is.
        created_at, updated_at, keep_until: in microseconds since 1970.
        filters: field and digest of the value, for each filter of the type.
        threads: of a session: the personas that have a thread, in order of creation, as JSON.
        deleted: of a session: its threads and bound records are being removed.
        record: as JSON.
    """

    tenant_id: str
    site_id: str
    user_id: str
    ref: str
    owner: str
    collection: str
    key: str
    session: str = ""
    incarnation: str = ""
    version: int
    created_at: int
    updated_at: int
    keep_until: int | None = None
    filters: list[str] = []
    threads: str = ""
    deleted: bool = False
    record: str

    def is_alive(self, now: datetime) -> bool:
        """Whether the record has neither expired nor been deleted; that of its session has to be checked too."""
        return not self.deleted and (self.keep_until is None or to_micros(now) < self.keep_until)

    def stored(self, of: type[R]) -> Stored[R]:
        """The record with its version and times."""
        created, updated = from_micros(self.created_at), from_micros(self.updated_at)
        return Stored(self.decoded(of), self.version, self.user_id, created, updated)

    def decoded(self, of: type[R]) -> R:
        """The record."""
        return msgspec.json.decode(self.record, type=of)

    @property
    def personas(self) -> list[str]:
        """The personas of ``threads``."""
        return msgspec.json.decode(self.threads, type=list[str]) if self.threads else []

    def document(self) -> dict[str, Any]:
        """What is stored."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


def row_of(found: Found | None) -> Row | None:
    """The row of a document."""
    return None if found is None else msgspec.convert(found.source, Row)


def record_ref(client: Client, scope: Scope, of: type[Record], key: str) -> Ref:
    """The place of a record."""
    id_ = digest(of.spec.collection, scope.tenant_id, scope.site_id, key)
    return Ref(client.index(index_of(of)), id_)


def session_ref(client: Client, scope: Scope, session_id: str) -> Ref:
    """The place of a session."""
    return record_ref(client, scope, Session, session_id)


def listing_owner(scope: Scope, of: type[Record]) -> str:
    """The ``owner`` of the scope's records."""
    user = "" if of.spec.shared else scope.user_id  # no user id is empty
    return digest(of.spec.collection, scope.tenant_id, scope.site_id, user)


def filter_term(field: str, value: str) -> str:
    """The entry of ``filters`` for a field and its value."""
    return f"{field}:{digest(value)}"


def make_row(client: Client, scope: Scope, record: Record, *, now: datetime, keep_until: datetime | None) -> Row:
    """A new row of version 1."""
    spec, fields = record.spec, stored_fields(type(record))
    bound = bound_session(record)
    moment = to_micros(now)
    return Row(
        tenant_id=scope.tenant_id,
        site_id=scope.site_id,
        user_id=scope.user_id,
        ref=record_ref(client, scope, type(record), record.key).id,
        owner=listing_owner(scope, type(record)),
        collection=spec.collection,
        key=record.key,
        session=session_ref(client, scope, bound[0]).id if bound else "",
        incarnation=record.incarnation if isinstance(record, Session) else bound[1] if bound else "",
        version=1,
        created_at=moment,
        updated_at=moment,
        keep_until=None if keep_until is None else to_micros(keep_until),
        filters=[filter_term(field, str(getattr(record, fields[field]))) for field in spec.filters],
        record=_encode(record).decode(),
    )


def personas_json(personas: Sequence[str]) -> str:
    """The inverse of :attr:`Row.personas`."""
    return _encode(personas).decode()
