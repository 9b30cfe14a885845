"""Models of recall."""

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field, StrictStr

from wenmai.http.schemas.common import Count, Id, RequestBody, Timestamp, WholeNumber
from wenmai.memory.recalled_items import MAX_TOP, QUERY_LIMIT


class RecallBody(RequestBody):
    """A question to the memory."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"query": "What did I say about the museum?", "top_k": 5}]}
    )

    query: StrictStr = Field(
        min_length=1,
        max_length=QUERY_LIMIT,
        pattern=r"\S",
        description="The question. Days that it names, such as *last Friday* or 5月4日, count.",
    )
    session_id: Id | None = Field(default=None, description="Only this session; default: all of the user's sessions.")
    persona_id: Id | None = Field(alias="npc_id", default=None, description="Only this persona's threads.")
    unit: Literal["message", "turn"] = Field(
        default="message", description="Single messages, or whole turns: a question with its answer."
    )
    top_k: WholeNumber | None = Field(
        default=None,
        ge=1,
        le=MAX_TOP,
        description="Most items; default: 10, or with `budget_tokens` as many as fit.",
    )
    budget_tokens: Count | None = Field(
        default=None, description="Token budget of all texts; the last one may be shortened."
    )
    mmr_lambda: float | None = Field(
        default=None,
        ge=0,
        le=1,
        strict=True,
        description=(
            "Reorder by maximal marginal relevance, over three times as many items: 1 for relevance alone, "
            "0 for diversity alone. Default: the order of the scores."
        ),
    )
    before: Timestamp | None = Field(default=None, description="Only messages before this time.")
    after: Timestamp | None = Field(default=None, description="Only messages at or after this time.")
    exclude: list[Id] = Field(
        default=[], max_length=1000, fail_fast=True, description="Ids of messages that you have already."
    )
