"""Shapes of the registries of personas and prompts."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from pydantic import ConfigDict, Field, StrictStr, WithJsonSchema

from wenmai.chat.profile import Persona
from wenmai.chat.prompts import PROMPT_LIMIT
from wenmai.http.shapes.common import Body, Count, Id, Shape

Note = Annotated[StrictStr, Field(max_length=500)]


_PERSONA_FIELDS = {
    "name": "Its name.",
    "summary": "Who it is, for lists.",
    "system": "What a model is to know of who it is and how it speaks; never facts.",
    "greetings": "Answers to a greeting.",
    "openings": "How an answer from evidence begins when no model writes it.",
    "closings": "How such an answer ends; may be empty.",
    "conservative": "Said when the evidence is too thin; `{topic}` is what was asked about.",
    "refusals": "Said when the topic is forbidden.",
    "out_of_scope": "Said when the question is none of its business.",
    "clarifications": "Asked when the question cannot be understood even with the talk so far.",
    "acknowledgements": "Said when the visitor states a wish about the talk itself.",
    "followups": "What the visitor may like to ask next, by domain; an empty name for any.",
    "domains": "Domains of evidence that it speaks about; empty for all.",
    "policy": "Overrides of the gate's defaults.",
}


def _persona_schema() -> dict[str, Any]:
    """JSON schema of a persona's fields; ``npc_id`` stands beside them in the body."""
    schema = dict(msgspec.json.schema_components([Persona])[1]["Persona"])
    fields = {name: each for name, each in schema["properties"].items() if name != "npc_id"}
    schema["properties"] = {name: each | {"description": _PERSONA_FIELDS[name]} for name, each in fields.items()}
    schema["required"] = [name for name in schema["required"] if name != "npc_id"]
    return schema


class PersonaBody(Body):
    """The next version of a persona."""

    npc_id: Id = Field(description="The persona's id.")
    persona: Annotated[dict[str, Any], WithJsonSchema(_persona_schema())] = Field(
        description="The persona; texts are given in each language, such as `zh` and `en`."
    )
    author: Note = Field(default="", description="Who wrote this version.")
    note: Note = Field(default="", description="What is new in this version.")


class PromptBody(Body):
    """The next version of a persona's system prompt; it takes the place of the persona's own."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"npc_id": "ancestor_yan", "text": "你是严氏先祖，说话沉稳。", "language": "zh"}]
        }
    )

    npc_id: Id = Field(description="The persona whose prompt it is.")
    text: StrictStr = Field(pattern=r"\S", min_length=1, max_length=PROMPT_LIMIT, description="The system prompt.")
    language: StrictStr = Field(
        default="zh", pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$", description="A BCP 47 tag, such as `zh` or `en`."
    )
    author: Note = Field(default="", description="Who wrote this version.")
    note: Note = Field(default="", description="What is new in this version.")


class VersionShown(Shape):
    """One version. `created_at` is null for what the profile brings."""

    npc_id: str = Field(description="The persona's id.")
    number: int = Field(description="The version's number.")
    active: bool = Field(description="Whether it is the version in force.")
    value: dict[str, Any] = Field(description="The persona, or the prompt's `text` and `language`.")
    author: str = Field(description="Who wrote this version.")
    note: str = Field(description="What is new in this version.")
    created_at: datetime | None = Field(description="When it was stored; null for what the profile brings.")


class Versions(Shape):
    """The active version of everything in the registry, by id."""

    versions: list[VersionShown] = Field(description="The active version of each.")


class VersionPage(Shape):
    """Versions, newest first; `next` is null on the last page."""

    versions: list[VersionShown] = Field(description="The versions of this page.")
    next: str | None = Field(description="Where the next page begins; null on the last one.")


class ActivationBody(Body):
    """Which version is to be active."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"number": 2, "expected": 1}]})

    number: Count = Field(description="The version to activate.")
    expected: Count | None = Field(default=None, description="409 if another version than this is active now.")


class ActivationShown(Shape):
    """Which version was active and which one is now."""

    previous: int | None = Field(description="The version that was active before; null if there was none.")
    current: int = Field(description="The version that is active now.")
