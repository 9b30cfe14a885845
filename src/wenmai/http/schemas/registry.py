"""Models of the persona and prompt registries."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import ConfigDict, Field, StrictStr, WithJsonSchema

from wenmai.chat.prompts import PROMPT_LIMIT
from wenmai.config.profile import Persona
from wenmai.http.schemas.common import Count, Id, RequestBody, ResponseModel

Note = Annotated[StrictStr, Field(max_length=500)]


_PERSONA_FIELDS = {
    "name": "The persona's name.",
    "summary": "Short description, for lists.",
    "system": "System prompt: identity and manner of speaking; never facts.",
    "greetings": "Answers to a greeting.",
    "openings": "Openings of answers from evidence that no model writes.",
    "closings": "Closings of such answers; may be empty.",
    "conservative": "Answers when the evidence is insufficient; `{topic}` is the topic of the question.",
    "refusals": "Answers to a forbidden topic.",
    "out_of_scope": "Answers to a question outside the persona's scope.",
    "clarifications": "Questions back when a question is unclear even with the conversation history.",
    "acknowledgements": "Answers to a wish about the conversation itself.",
    "followups": "Follow-up questions, by domain; an empty name for any domain.",
    "domains": "Evidence domains that the persona may use; empty for all.",
    "policy": "Overrides of the grounding policy.",
}


def _persona_schema() -> dict[str, Any]:
    """JSON schema of a persona's fields, without ``npc_id``, which is a field of the body."""
    schema = dict(msgspec.json.schema_components([Persona])[1]["Persona"])
    fields = {name: each for name, each in schema["properties"].items() if name != "npc_id"}
    schema["properties"] = {name: each | {"description": _PERSONA_FIELDS[name]} for name, each in fields.items()}
    schema["required"] = [name for name in schema["required"] if name != "npc_id"]
    return schema


class PersonaBody(RequestBody):
    """The next version of a persona."""

    npc_id: Id = Field(description="The persona's id.")
    persona: Annotated[dict[str, Any], WithJsonSchema(_persona_schema())] = Field(
        description="The persona; texts by language, such as `zh` and `en`."
    )
    author: Note = Field(default="", description="Author of this version.")
    note: Note = Field(default="", description="What this version changes.")


class PromptBody(RequestBody):
    """The next version of a persona's system prompt; it replaces the persona's own."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"npc_id": "keeper", "text": "你是守塔人，说话沉稳。", "language": "zh"}]}
    )

    npc_id: Id = Field(description="The persona's id.")
    text: StrictStr = Field(pattern=r"\S", min_length=1, max_length=PROMPT_LIMIT, description="The system prompt.")
    language: StrictStr = Field(
        default="zh", pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$", description="A BCP 47 tag, such as `zh` or `en`."
    )
    author: Note = Field(default="", description="Author of this version.")
    note: Note = Field(default="", description="What this version changes.")


class VersionView(ResponseModel):
    """One version. `created_at` is null for a version from the profile."""

    npc_id: str = Field(description="The persona's id.")
    number: int = Field(description="The version's number.")
    active: bool = Field(description="Whether this version is active.")
    value: dict[str, Any] = Field(description="The persona, or the prompt's `text` and `language`.")
    author: str = Field(description="Author of this version.")
    note: str = Field(description="What this version changes.")
    created_at: datetime | None = Field(description="Creation time; null for a version from the profile.")


class ActiveVersions(ResponseModel):
    """The active version of each persona or prompt."""

    versions: list[VersionView] = Field(description="The active version of each.")


class VersionPage(ResponseModel):
    """Versions, newest first; `next` is null on the last page."""

    versions: list[VersionView] = Field(description="The versions of this page.")
    next: str | None = Field(description="Cursor of the next page; null on the last page.")


class ActivationBody(RequestBody):
    """The version to activate."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra={"examples": [{"number": 2, "expected": 1}]})

    number: Count = Field(description="The version to activate.")
    expected: Count | None = Field(default=None, description="Compare-and-set: 409 unless this version is active.")


class ActivationView(ResponseModel):
    """The previously and the currently active version."""

    previous: int | None = Field(description="The previously active version; null if there was none.")
    current: int = Field(description="The currently active version.")
