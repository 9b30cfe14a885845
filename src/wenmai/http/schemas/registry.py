"""Models of the persona and prompt registries."""

from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import ConfigDict, Field, StrictStr, WithJsonSchema

from wenmai.chat.prompts import PROMPT_LIMIT
from wenmai.config.profile import Persona
from wenmai.http.schemas.common import Count, Id, RequestBody

Note = Annotated[StrictStr, Field(max_length=500)]


_PERSONA_FIELDS = {
    "name": "The persona's name.",
    "summary": "Short description, for lists.",
    "system": "System prompt: identity and manner of speaking; never facts.",
    "greetings": "Answers to a greeting.",
    "openings": "Openings of answers from evidence that no model writes.",
    "closings": "Closings of such answers; may be empty.",
    "conservative": "Answers when the evidence is insufficient; `{topic}` is the topic of the question.",
    "nearest": "Introduces the passage nearest to such a question, where the business state limits what it is about.",
    "refusals": "Answers to a forbidden topic.",
    "out_of_scope": "Answers to a question outside the persona's scope.",
    "clarifications": "Questions back when a question is unclear even with the conversation history.",
    "acknowledgements": "Answers to a wish about the conversation itself.",
    "courtesies": "Answers to thanks, a farewell, interest, a wish or small talk.",
    "followups": "Follow-up questions, by domain or stage; an empty name for any domain.",
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

    persona_id: Id = Field(alias="npc_id", description="The persona's id.")
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

    persona_id: Id = Field(alias="npc_id", description="The persona's id.")
    text: StrictStr = Field(pattern=r"\S", min_length=1, max_length=PROMPT_LIMIT, description="The system prompt.")
    language: StrictStr = Field(
        default="zh", pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$", description="A BCP 47 tag, such as `zh` or `en`."
    )
    author: Note = Field(default="", description="Author of this version.")
    note: Note = Field(default="", description="What this version changes.")


class ActivationBody(RequestBody):
    """The version to activate."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra={"examples": [{"number": 2, "expected": 1}]})

    number: Count = Field(description="The version to activate.")
    expected: Count | None = Field(default=None, description="Compare-and-set: 409 unless this version is active.")
