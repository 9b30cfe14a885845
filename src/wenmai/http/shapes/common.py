"""What several resources share: ids, closed request bodies, moments, problems."""

from datetime import datetime
from typing import Annotated

import msgspec
from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, model_validator

from wenmai.clock import from_micros, to_micros

ID_PATTERN = r"^[A-Za-z0-9_.:-]{1,128}$"
NO_NUL = r"^[^\x00]*$"
LARGEST_NUMBER = 2**53 - 1
"""The largest whole number that every JSON reader keeps exact."""

_EARLIEST = from_micros(0)
_LATEST = datetime.fromisoformat("2242-01-01T00:00:00Z")
"""Until then the stores keep moments exact to the microsecond."""


def _moment(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("a moment is text as in RFC 3339")  # noqa: TRY004 — pydantic reports ValueErrors
    try:
        moment = msgspec.convert(value, datetime)
    except msgspec.ValidationError as problem:
        raise ValueError("a moment as in RFC 3339, such as 2026-01-05T14:00:00Z") from problem
    if moment.tzinfo is None or not _EARLIEST <= moment < _LATEST:
        raise ValueError("a moment with its time zone, from 1970 to 2241")
    return from_micros(to_micros(moment))


def _whole(value: object) -> object:
    """JSON knows one kind of number: 2.0 is a whole one; text and truth values are none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool | str):
        raise ValueError("a whole number")  # noqa: TRY004 — pydantic reports ValueErrors
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Id = Annotated[StrictStr, Field(pattern=ID_PATTERN)]
Count = Annotated[Whole, Field(ge=1, le=LARGEST_NUMBER)]
Moment = Annotated[datetime, BeforeValidator(_moment)]

SessionIdPath = Annotated[str, Path(pattern=ID_PATTERN, description="The session's id.")]
NpcIdPath = Annotated[str, Path(pattern=ID_PATTERN, description="The persona's id.")]
NpcIdQuery = Annotated[
    str | None, Query(pattern=ID_PATTERN, description="Only the thread of this persona; all if left out.")
]
CursorQuery = Annotated[str | None, Query(min_length=1, max_length=1024, description="`next` of the previous page.")]
PageLimit = Annotated[int, Query(ge=1, le=500, description="How many there may be on a page.")]


class Shape(BaseModel):
    """A response, or a part of one."""

    model_config = ConfigDict(extra="forbid")


class Closed(BaseModel):
    """A part of a request; a field that it does not know is refused."""

    model_config = ConfigDict(extra="forbid")


class Body(Closed):
    """A whole request body."""

    @model_validator(mode="before")
    @classmethod
    def _can_be_written(cls, given: object) -> object:
        """Refuse what Python reads as JSON but nobody can write: lone surrogates, endless nesting."""
        try:
            msgspec.json.encode(given)
        except (UnicodeEncodeError, RecursionError) as problem:
            raise ValueError("JSON of valid Unicode text, nested less than a thousand deep") from problem
        return given


class FieldProblem(Shape):
    """A field that was not allowed, and what would have been."""

    field: str
    allowed: str


class Problem(Shape):
    """Problem details as in RFC 9457. What is absent and what is somebody else's give the same one."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] | None = Field(
        default=None, description="The fields that were refused, with status 422."
    )


class PreferenceShown(Shape):
    """How the visitor likes to be answered. `updated_at` is null while these are the defaults."""

    verbosity: str
    tone: str
    interest_tags: list[str]
    language: str
    updated_at: datetime | None
