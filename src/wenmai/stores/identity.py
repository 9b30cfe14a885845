"""What a put keeps of a record that is there, and which session a record hangs on; the same for every backend."""

import secrets
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from wenmai.errors import VersionConflict
from wenmai.stores.records import Record, RecordSpec

R = TypeVar("R", bound=Record)


SESSION_ID = "session_id"
INCARNATION = "incarnation"
"""The fields of a record bound to a session that name it."""


def session_named_by(record: Record) -> tuple[str, str] | None:
    """Id and incarnation ("" for the present one) of the session that the record hangs on; None if on none."""
    if record.spec.bound_to != "session":
        return None
    session_id: str = getattr(record, SESSION_ID)
    incarnation: str = getattr(record, INCARNATION)
    return (session_id, incarnation) if session_id else None


def bound(record: R, incarnation: str) -> R:
    """The record as it hangs on that incarnation of the session that it names."""
    return replace(record, **{INCARNATION: incarnation})


def new_identity() -> str:
    """16 random hex digits."""
    return secrets.token_hex(8)


def kept_fields(spec: RecordSpec) -> tuple[str, ...]:
    """The fields of which :func:`as_created` and :func:`as_changed` decide."""
    return (spec.identity, *spec.rising) if spec.identity else spec.rising


def as_created(record: R, *, expected: int | None) -> R:
    """The record as it is stored when its key was free.

    Raises:
        VersionConflict: it names an identity, which was that of a record that is gone.
    """
    identity = record.spec.identity
    if not identity:
        return record
    if getattr(record, identity):
        raise VersionConflict(record.spec.collection, record.key, expected=expected or 0)
    return replace(record, **{identity: new_identity()})


def as_changed(record: R, before: Mapping[str, Any], *, expected: int | None) -> R:
    """The record as it is stored over another.

    Args:
        record: what was given.
        before: the stored values of its :func:`kept_fields`.
        expected: the version that the caller named, for the error.

    Raises:
        VersionConflict: it names another identity than the stored one's.
    """
    spec = record.spec
    changes = {field: before[field] for field in spec.rising if getattr(record, field) < before[field]}
    if spec.identity:
        if getattr(record, spec.identity) not in ("", before[spec.identity]):
            raise VersionConflict(spec.collection, record.key, expected=expected or 0)
        changes[spec.identity] = before[spec.identity]
    return replace(record, **changes) if changes else record
