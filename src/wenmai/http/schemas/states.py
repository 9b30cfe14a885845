"""Models of the business state."""

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, StrictStr

from wenmai.business.rules import MAX_WORD
from wenmai.http.schemas.common import Count, Id, RequestBody, WholeNumber

QUERY_LIMIT = 100_000

Name = Annotated[StrictStr, Field(max_length=MAX_WORD)]


class UnderstandBody(RequestBody):
    """A message of the user."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra={"examples": [{"query": "那入库呢？"}]})

    query: StrictStr = Field(min_length=1, max_length=QUERY_LIMIT, description="The message.")
    persona_id: Id | None = Field(alias="npc_id", default=None, description="The persona of the turn, for the audit.")
    turn_id: Count | None = Field(
        default=None, description="The turn, for the audit; a repeated turn changes nothing again."
    )


class StateBody(RequestBody):
    """A correction of the business state; a field that is omitted or null keeps its value, an empty one is cleared."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"business_object": "合同", "operation_stage": "审批"}]}
    )

    current_customer_id: Name | None = Field(default=None, description="The current customer.")
    intent: Name | None = Field(default=None, description="The intent of the current operation.")
    active_domain: list[Name] | None = Field(default=None, max_length=20, description="Its domains.")
    business_object: Name | None = Field(default=None, description="Its object.")
    operation_stage: Name | None = Field(default=None, description="Its stage, which may be an earlier one.")
    version: Annotated[WholeNumber, Field(ge=0)] | None = Field(
        default=None, description="Refuse with 409 if the state has another version."
    )
