"""The allowed values of a setting in words, for its error."""

import re
from typing import Any

from msgspec.inspect import (
    BoolType,
    FloatType,
    IntType,
    LiteralType,
    Metadata,
    StrType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

_WORDS = re.compile(r"\^\(([\w,|]+)\)\\Z")
"""A pattern that lists words."""


def allowed_values(hint: Any) -> str:
    """The values that a type allows, such as ``an integer from 0 to 65535``.

    A description in the type's :class:`msgspec.Meta` takes precedence.
    """
    return _of_type(type_info(hint))


def _of_type(kind: Type) -> str:
    words = "text"
    match kind:
        case Metadata(type=inner, extra_json_schema=extra):
            words = str((extra or {}).get("description") or _of_type(inner))
        case UnionType(types=[inner, *_]):
            words = _of_type(inner)
        case VarTupleType(item_type=inner):
            words = f"a list, of each {_of_type(inner)}"
        case LiteralType(values=values):
            words = " or ".join(map(str, values))
        case StrType(pattern=str(pattern)) if listed := _WORDS.fullmatch(pattern):
            words = listed[1].replace("|", " or ")
        case BoolType():
            words = "true or false"
        case IntType() | FloatType():
            words = _number(kind)
    return words


def _number(kind: IntType | FloatType) -> str:
    name = "an integer" if isinstance(kind, IntType) else "a number"
    if kind.ge is not None and kind.le is not None:
        return f"{name} from {kind.ge} to {kind.le}"
    least = f" of at least {kind.ge}" if kind.ge is not None else "" if kind.gt is None else f" above {kind.gt}"
    return name + least + ("" if kind.le is None else f" and at most {kind.le}")
