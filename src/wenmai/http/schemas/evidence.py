"""Models of evidence: ingestion, stored passages, search."""

from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, StrictBool, StrictStr

from wenmai.grounding.evidence.fields import ID_CHARACTERS, TEXT_CHARACTERS, TITLE_CHARACTERS
from wenmai.http.schemas.common import RequestBody, StrictModel, WholeNumber
from wenmai.http.schemas.npc import Question

MAX_RECORDS = 1000
EVIDENCE_ID = r"^[^\x00-\x1f]+$"
LANGUAGE = "^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$"

ShortText = Annotated[StrictStr, Field(max_length=500)]
Labels = Annotated[list[Annotated[StrictStr, Field(min_length=1, max_length=100)]], Field(max_length=50)]


class EvidenceIn(StrictModel):
    """A passage to ingest; only `text` is required."""

    text: StrictStr = Field(pattern=r"\S", max_length=TEXT_CHARACTERS, description="The text, 1 to 20,000 characters.")
    evidence_id: StrictStr | None = Field(
        default=None,
        pattern=EVIDENCE_ID,
        max_length=ID_CHARACTERS,
        description="Default: derived from source, title and text.",
    )
    title: Annotated[StrictStr, Field(max_length=TITLE_CHARACTERS)] = Field(default="", description="Its title.")
    source_type: ShortText = Field(default="", description="The type of the source, such as `book`.")
    source_ref: ShortText = Field(default="", description="The source, such as a book and page.")
    source_url: ShortText = Field(default="", description="URL of the source.")
    domains: Labels = Field(default=[], description="Domains of the passage; a persona is limited to its own domains.")
    language: Annotated[StrictStr, Field(pattern=LANGUAGE)] | None = Field(
        default=None, description="A BCP 47 tag, such as `zh` or `en`."
    )
    confidence: float = Field(default=1.0, ge=0, le=1, strict=True, description="Reliability of the source, 0 to 1.")
    verified: StrictBool = Field(default=True, description="Whether the passage has been verified.")
    tags: Labels = Field(default=[], description="Free tags.")
    effective_date: Annotated[StrictStr, Field(pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = Field(
        default="", description="The day from which the source is in force; needed by sources that have versions."
    )
    supersedes: ShortText = Field(default="", description="The `source_ref` of the earlier version that it replaces.")

    def provided_fields(self) -> dict[str, Any]:
        """The fields present in the request."""
        return self.model_dump(exclude_unset=True)


class EvidenceBody(RequestBody):
    """Passages to ingest."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "evidence": [
                        {
                            "title": "灯塔",
                            "text": "灯塔建于1874年，共有212级台阶。",
                            "source_ref": "灯塔日志",
                            "domains": ["tower"],
                        }
                    ]
                }
            ]
        }
    )

    evidence: list[EvidenceIn] = Field(
        min_length=1, max_length=MAX_RECORDS, fail_fast=True, description="The passages."
    )
    replace_source: StrictBool = Field(
        default=False, description="Remove stored passages of the same sources that are not in this request."
    )


Warnings = Annotated[list[str], Field(description="Warnings, such as passages that no persona finds.")]


class SearchBody(RequestBody):
    """A search."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"query": "灯塔是哪一年建的？", "limit": 3}]}
    )

    query: Question = Field(description="The query, 1 to 4000 characters.")
    domains: Labels = Field(default=[], description="Only passages of these domains; empty means all.")
    language: Annotated[StrictStr, Field(pattern=LANGUAGE)] | None = Field(
        default=None, description="A BCP 47 tag, such as `zh` or `en`."
    )
    limit: WholeNumber = Field(default=6, ge=1, le=50, description="Maximum number of passages.")
