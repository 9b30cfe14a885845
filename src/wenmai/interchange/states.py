"""Business states as JSON lines: a line of ``"type": "state"`` has a session's state and all its changes."""

from datetime import datetime
from typing import Literal

import msgspec

from wenmai.interchange.items import BadValueError, Json, StateItem, valid_id
from wenmai.stores.records import BusinessState, Operation, StateChange

STATE = "state"


class StateLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exported business state with its changes, ascending from version 1."""

    type: Literal["state"] = "state"
    session_id: str
    current_customer_id: str | None
    operation_chain: list[Operation]
    changes: list[StateChange]


def state_line(state: BusinessState, changes: list[StateChange]) -> bytes:
    """The line of a state and of all its changes, including the line break."""
    line = StateLine(
        session_id=state.session_id,
        current_customer_id=state.current_customer_id,
        operation_chain=state.operation_chain,
        changes=changes,
    )
    return msgspec.json.encode(line) + b"\n"


def read_state(value: Json, line: int) -> StateItem:
    """The state of a line.

    Raises:
        BadValueError: a field is missing or not allowed; the error names it.
    """
    try:
        parsed = msgspec.convert(value, StateLine)
    except msgspec.ValidationError as problem:
        reason, _, path = str(problem).partition(" - at `$.")
        raise BadValueError(f"{path.rstrip('`')}: {reason}" if path else reason) from problem
    if [change.version for change in parsed.changes] != [*range(1, len(parsed.changes) + 1)]:
        raise BadValueError("changes: the versions are not 1, 2, 3 …")
    operations = [*parsed.operation_chain, *(change.operation for change in parsed.changes if change.operation)]
    times = [*(change.at for change in parsed.changes), *(operation.last_update for operation in operations)]
    if not all(map(_has_zone, times)):
        raise BadValueError("changes: a time without a time zone is ambiguous")
    state = BusinessState(
        session_id=valid_id("session_id", parsed.session_id),
        current_customer_id=parsed.current_customer_id,
        operation_chain=parsed.operation_chain,
        state_version=len(parsed.changes),
        changes=parsed.changes,
    )
    return StateItem(state.session_id, state, line)


def _has_zone(time: datetime) -> bool:
    return time.tzinfo is not None
