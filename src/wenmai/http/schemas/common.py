"""Models shared by several resources: ids, strict request bodies, timestamps, problems."""

from datetime import datetime
from itertools import islice
from typing import Annotated, ClassVar

import msgspec
from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, model_validator

from wenmai.clock import from_micros, to_micros

ID_PATTERN = r"^[A-Za-z0-9_.:-]{1,128}$"
MAX_PROBLEMS = 20
"""Invalid fields named in one response."""

NO_NUL = r"^[^\x00]*$"
MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader represents exactly."""

_EARLIEST = from_micros(0)
_LATEST = datetime.fromisoformat("2242-01-01T00:00:00Z")
"""Before this time the stores keep timestamps exact to the microsecond."""


def _timestamp(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("a timestamp as text, as in RFC 3339")  # noqa: TRY004 — pydantic reports ValueErrors
    try:
        timestamp = msgspec.convert(value, datetime)
    except msgspec.ValidationError as problem:
        raise ValueError("an RFC 3339 timestamp, such as 2026-01-05T14:00:00Z") from problem
    if timestamp.tzinfo is None or not _EARLIEST <= timestamp < _LATEST:
        raise ValueError("a timestamp with a time zone, from 1970 to 2241")
    return from_micros(to_micros(timestamp))


def _whole_number(value: object) -> object:
    """Accept 2.0 as an integer, since JSON has one number type; reject text and booleans."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool | str):
        raise ValueError("an integer")  # noqa: TRY004 — pydantic reports ValueErrors
    return value


WholeNumber = Annotated[int, BeforeValidator(_whole_number)]
Id = Annotated[StrictStr, Field(pattern=ID_PATTERN)]
Count = Annotated[WholeNumber, Field(ge=1, le=MAX_SAFE_INTEGER)]
Timestamp = Annotated[datetime, BeforeValidator(_timestamp)]

SessionIdPath = Annotated[str, Path(pattern=ID_PATTERN, description="The session's id.")]
TraceIdPath = Annotated[str, Path(pattern=ID_PATTERN, description="The trace's id.")]
PersonaIdPath = Annotated[str, Path(alias="npc_id", pattern=ID_PATTERN, description="The persona's id.")]
PersonaIdQuery = Annotated[
    str | None,
    Query(alias="npc_id", pattern=ID_PATTERN, description="Only this persona's thread; default: all threads."),
]
CursorQuery = Annotated[str | None, Query(min_length=1, max_length=1024, description="`next` of the previous page.")]
PageLimit = Annotated[int, Query(ge=1, le=500, description="Maximum number of items per page.")]


class StrictModel(BaseModel):
    """Base of requests and their parts; unknown fields are rejected."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_unknown_fields(cls, given: object) -> object:
        """Drop unknown fields past the first 20: each is an error, and a body can hold 100 000."""
        if not isinstance(given, dict) or len(given) <= MAX_PROBLEMS:
            return given
        known = {field.alias or name for name, field in cls.model_fields.items()}
        unknown = islice((name for name in given if name not in known), MAX_PROBLEMS)
        kept = known | set(unknown)
        return {name: value for name, value in given.items() if name in kept}


class RequestBody(StrictModel):
    """Base of whole request bodies."""
