"""Identity, monotonic fields and session binding of records; shared by all backends."""

import secrets
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from wenmai.errors import VersionConflict
from wenmai.stores.records import Record, RecordSpec

R = TypeVar("R", bound=Record)

SESSION_ID = "session_id"
INCARNATION = "incarnation"
"""The fields of a bound record that name its session."""


def bound_session(record: Record) -> tuple[str, str] | None:
    """Id and incarnation ("" for the current one) of the session that the record is bound to; None if to none."""
    if not record.spec.bound_to:
        return None
    session_id: str = getattr(record, SESSION_ID)
    incarnation: str = getattr(record, INCARNATION)
    return (session_id, incarnation) if session_id else None


def bind_to(record: R, incarnation: str) -> R:
    """The record, bound to that incarnation of the session that it names."""
    return replace(record, **{INCARNATION: incarnation})


def new_identity() -> str:
    """16 random hex digits."""
    return secrets.token_hex(8)


def preserved_fields(spec: RecordSpec) -> tuple[str, ...]:
    """The fields that :func:`as_created` and :func:`as_changed` control."""
    return (spec.identity, *spec.monotonic) if spec.identity else spec.monotonic


def as_created(record: R, *, expected: int | None) -> R:
    """The record to store under a free key.

    Raises:
        VersionConflict: it names an identity, so it was read from a deleted record.
    """
    identity = record.spec.identity
    if not identity:
        return record
    if getattr(record, identity):
        raise VersionConflict(record.spec.collection, record.key, expected=expected or 0)
    return replace(record, **{identity: new_identity()})


def as_changed(record: R, before: Mapping[str, Any], *, expected: int | None) -> R:
    """The record to store over an existing one.

    Args:
        record: as given by the caller.
        before: the stored values of its :func:`preserved_fields`.
        expected: the version given by the caller, for the error.

    Raises:
        VersionConflict: it names another identity than the stored record.
    """
    spec = record.spec
    changes = {field: before[field] for field in spec.monotonic if getattr(record, field) < before[field]}
    if spec.identity:
        if getattr(record, spec.identity) not in ("", before[spec.identity]):
            raise VersionConflict(spec.collection, record.key, expected=expected or 0)
        changes[spec.identity] = before[spec.identity]
    return replace(record, **changes) if changes else record
