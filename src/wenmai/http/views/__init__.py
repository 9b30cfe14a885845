"""Responses: structs that are encoded as they are, and that OpenAPI shows."""

from typing import Any, TypeVar

import msgspec

V = TypeVar("V", bound=msgspec.Struct)


def view_of(record: msgspec.Struct, view: type[V], **more: Any) -> V:
    """The view of a record: fields of the same name, and those given."""
    same = (name for name in view.__struct_fields__ if name not in more and hasattr(record, name))
    return view(**{name: getattr(record, name) for name in same}, **more)
