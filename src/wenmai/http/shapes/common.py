"""What several resources share: ids, closed request bodies, moments, problems."""

from datetime import datetime
from itertools import islice
from typing import Annotated

import msgspec
from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, model_validator

from wenmai.clock import from_micros, to_micros

ID_PATTERN = r"^[A-Za-z0-9_.:-]{1,128}$"
MOST_PROBLEMS = 20
"""Fields that are named in one answer."""

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

    @model_validator(mode="before")
    @classmethod
    def _few_unknown_fields(cls, given: object) -> object:
        """Leave out unknown fields past the first 20: each is an error, and a body has room for 100 000."""
        if not isinstance(given, dict) or len(given) <= MOST_PROBLEMS:
            return given
        unknown = islice((name for name in given if name not in cls.model_fields), MOST_PROBLEMS)
        kept = cls.model_fields.keys() | set(unknown)
        return {name: value for name, value in given.items() if name in kept}


class Body(Closed):
    """A whole request body."""


class FieldProblem(Shape):
    """A field that was not allowed, and what would have been."""

    field: str = Field(description="The field as it was written, such as `messages[1].role`.")
    allowed: str = Field(description="What would have been accepted.")


class Problem(Shape):
    """Problem details as in RFC 9457. What is absent and what is somebody else's give the same one."""

    type: str = Field(description="A URN that names the kind of problem.")
    title: str = Field(description="The kind in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What was wrong this time.")
    errors: list[FieldProblem] | None = Field(
        default=None, description="The fields that were refused, with status 422."
    )


class PreferenceShown(Shape):
    """How the visitor likes to be answered. `updated_at` is null while these are the defaults."""

    verbosity: str = Field(description="`brief`, `normal` or `detailed`.")
    tone: str = Field(description="`casual`, `formal` or `respectful`.")
    interest_tags: list[str] = Field(description="What the visitor is interested in.")
    language: str = Field(description="A BCP 47 tag, such as `zh` or `en`.")
    updated_at: datetime | None = Field(description="When they were changed last; null while they are the defaults.")
