"""Records of sessions as JSON lines: preferences and traces, and the readers of all such lines."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from wenmai.interchange.items import BadValueError, Item, Json, RecordItem, valid_id
from wenmai.interchange.states import STATE, read_state
from wenmai.stores.records import Preferences, TraceRecord

PREFERENCES, TRACE = "preferences", "trace"

_OWN: Mapping[type[Preferences | TraceRecord], dict[str, Any]] = {
    Preferences: {"incarnation": "", "sealed": ""},
    TraceRecord: {"incarnation": "", "ref": "", "sealed": ""},
}
"""Fields that are specific to the store, with the values that lines are read with."""


def preferences_line(record: Preferences) -> bytes:
    """The line of a session's preferences, including the line break."""
    return _line(PREFERENCES, record)


def trace_line(record: TraceRecord) -> bytes:
    """The line of a trace, including the line break."""
    return _line(TRACE, record)


def _line(kind: str, record: Preferences | TraceRecord) -> bytes:
    fields = msgspec.to_builtins(record)
    kept = {name: value for name, value in fields.items() if name not in _OWN[type(record)]}
    return msgspec.json.encode({"type": kind} | kept) + b"\n"


def _read(of: type[Preferences | TraceRecord], value: Json, line: int) -> RecordItem:
    fields = {name: given for name, given in value.items() if name != "type"}
    if unknown := fields.keys() - set(of.__struct_encode_fields__) | fields.keys() & _OWN[of].keys():
        raise BadValueError(f"{min(unknown)}: no field of such a line")
    try:
        record = msgspec.convert(fields | _OWN[of], of)
    except msgspec.ValidationError as problem:
        reason, _, path = str(problem).partition(" - at `$.")
        raise BadValueError(f"{path.rstrip('`')}: {reason}" if path else reason) from problem
    times = [given for given in msgspec.structs.asdict(record).values() if isinstance(given, datetime)]
    if any(given.tzinfo is None for given in times):
        raise BadValueError("a time without a time zone is ambiguous")
    return RecordItem(valid_id("session_id", record.session_id), record, line)


READERS: Mapping[str, Callable[[Json, int], Item]] = {
    STATE: read_state,
    PREFERENCES: lambda value, line: _read(Preferences, value, line),
    TRACE: lambda value, line: _read(TraceRecord, value, line),
}
"""The type of a line → its reader, which raises :class:`BadValueError`."""
