"""Shapes of the registries of personas and prompts."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from pydantic import ConfigDict, Field, StrictStr, WithJsonSchema

from wenmai.chat.profile import Persona
from wenmai.chat.prompts import PROMPT_LIMIT
from wenmai.http.shapes.common import Body, Count, Id, Shape

Note = Annotated[StrictStr, Field(max_length=500)]


def _persona_schema() -> dict[str, Any]:
    """JSON schema of a persona's fields; ``npc_id`` stands beside them in the body."""
    schema = dict(msgspec.json.schema_components([Persona])[1]["Persona"])
    schema["properties"] = {name: each for name, each in schema["properties"].items() if name != "npc_id"}
    schema["required"] = [name for name in schema["required"] if name != "npc_id"]
    return schema


class PersonaBody(Body):
    """The next version of a persona."""

    npc_id: Id
    persona: Annotated[dict[str, Any], WithJsonSchema(_persona_schema())]
    author: Note = ""
    note: Note = ""


class PromptBody(Body):
    """The next version of a persona's system prompt; it takes the place of the persona's own."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"npc_id": "ancestor_yan", "text": "你是严氏先祖，说话沉稳。", "language": "zh"}]
        }
    )

    npc_id: Id
    text: StrictStr = Field(pattern=r"\S", min_length=1, max_length=PROMPT_LIMIT)
    language: StrictStr = Field(default="zh", pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")
    author: Note = ""
    note: Note = ""


class VersionShown(Shape):
    """One version. `created_at` is null for what the profile brings."""

    npc_id: str
    number: int
    active: bool
    value: dict[str, Any]
    author: str
    note: str
    created_at: datetime | None


class Versions(Shape):
    """The active version of everything in the registry, by id."""

    versions: list[VersionShown]


class VersionPage(Shape):
    """Versions, newest first; `next` is null on the last page."""

    versions: list[VersionShown]
    next: str | None


class ActivationBody(Body):
    """Which version is to be active."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"number": 2, "expected": 1}]})

    number: Count
    expected: Count | None = Field(default=None, description="409 if another version than this is active now.")


class ActivationShown(Shape):
    """Which version was active and which one is now."""

    previous: int | None
    current: int
