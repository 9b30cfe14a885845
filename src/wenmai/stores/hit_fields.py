"""The fields of a search's hits, decoded when they are read: few of many hits are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from wenmai.stores.structs import FieldValue, Hit

T = TypeVar("T")

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class JsonFields(Mapping[str, FieldValue | Sequence[FieldValue]]):
    """Fields as JSON.

    Attributes:
        text: the JSON object.
    """

    __slots__ = ("_decoded", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._decoded: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> FieldValue | Sequence[FieldValue]:
        """The value, or the values, of a field."""
        return self._fields()[name]  # type: ignore[no-any-return]  # decoded

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._fields())

    def __len__(self) -> int:
        """How many there are."""
        return len(self._fields())

    def __repr__(self) -> str:
        """As a dictionary."""
        return repr(self._fields())

    def _fields(self) -> dict[str, Any]:
        if self._decoded is None:
            self._decoded = _decode(self.text)
        return self._decoded


def typed_fields(hits: Iterable[Hit], of: type[T]) -> list[T]:
    """The fields of each hit as a struct, which may have some of them only.

    Raises:
        msgspec.ValidationError: a field is missing, or of another type.
    """
    decode = msgspec.json.Decoder(of).decode
    return [
        decode(hit.fields.text) if isinstance(hit.fields, JsonFields) else msgspec.convert(hit.fields, of)
        for hit in hits
    ]
