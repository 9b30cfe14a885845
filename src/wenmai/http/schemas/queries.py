"""Models of questions that name no persona."""

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, StrictStr, WithJsonSchema

from wenmai.http.schemas.common import MAX_SAFE_INTEGER, Id, RequestBody
from wenmai.http.schemas.npc import Question, RoleName
from wenmai.http.scope import SCOPE_NAME_PATTERN


def _user_as_text(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a text or an integer")  # noqa: TRY004 — pydantic reports ValueErrors
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) <= MAX_SAFE_INTEGER:
        return str(value)
    return value


UserId = Annotated[
    StrictStr,
    Field(pattern=SCOPE_NAME_PATTERN),
    BeforeValidator(_user_as_text),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": -MAX_SAFE_INTEGER, "maximum": MAX_SAFE_INTEGER},
                {"type": "string", "pattern": SCOPE_NAME_PATTERN},
            ]
        }
    ),
]
USER_ID = "The user, as text or as an integer, if there is no `X-User-ID`; default: that of the profile."


class QueryBody(RequestBody):
    """A question to the persona that the profile names."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"question": "押品怎么创建？", "user_id": 10000}]}
    )

    question: Question = Field(description="The question, 1 to 4000 characters.")
    session_id: Id | None = Field(default=None, description="The session to continue; default: a new session.")
    user_id: UserId | None = Field(default=None, description=USER_ID)
    role: RoleName | None = Field(
        default=None, description="The user's role, one of the profile's; it chooses tone and scope."
    )


class SessionDeleteBody(RequestBody):
    """The session to delete."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"session_id": "sess_10000_1767621600_ab12"}]}
    )

    session_id: Id = Field(description="The session's id.")
    user_id: UserId | None = Field(default=None, description=USER_ID)
