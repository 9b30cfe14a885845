"""Models of evidence: ingestion, stored passages, search."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, StrictBool, StrictStr

from wenmai.grounding.evidence.fields import ID_CHARACTERS, TEXT_CHARACTERS, TITLE_CHARACTERS
from wenmai.http.schemas.common import RequestBody, ResponseModel, StrictModel, WholeNumber
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


class IngestResult(ResponseModel):
    """The result of an ingestion, in passages, and their ids in request order."""

    added: int = Field(description="New passages.")
    changed: int = Field(description="Passages with changed text or fields.")
    unchanged: int = Field(description="Passages already stored with equal fields.")
    removed: int = Field(description="Passages removed because the source no longer has them.")
    evidence_ids: list[str] = Field(description="The ids, in request order.")
    warnings: Warnings


class BadLineView(ResponseModel):
    """A line that could not be parsed."""

    line: int = Field(description="Line number, from 1.")
    reason: str = Field(description="What is wrong with the line.")


class FileIngestResult(ResponseModel):
    """The result of ingesting a file, with the first 100 bad lines and their total number."""

    file: str = Field(description="The file's name.")
    added: int = Field(description="New passages.")
    changed: int = Field(description="Passages with changed text or fields.")
    unchanged: int = Field(description="Passages already stored with equal fields.")
    removed: int = Field(description="Passages removed because the source no longer has them.")
    bad_lines: list[BadLineView] = Field(description="The first lines that could not be parsed.")
    bad_line_count: int = Field(description="Total number of bad lines.")
    warnings: Warnings


class EvidenceView(ResponseModel):
    """A stored passage."""

    evidence_id: str = Field(description="The passage's id.")
    title: str = Field(description="Its title.")
    text: str = Field(description="The text.")
    source_type: str = Field(description="The type of the source, such as `book`.")
    source_ref: str = Field(description="The source, such as a book and page.")
    source_url: str = Field(description="URL of the source.")
    domains: list[str] = Field(description="Domains of the passage; a persona is limited to its own domains.")
    language: str = Field(description="A BCP 47 tag, such as `zh` or `en`.")
    confidence: float = Field(description="Reliability of the source, 0 to 1.")
    verified: bool = Field(description="Whether the passage has been verified.")
    tags: list[str] = Field(description="Free tags.")
    created_at: datetime = Field(description="Creation time.")
    updated_at: datetime = Field(description="Last change.")


class EvidencePage(ResponseModel):
    """Passages, newest first; `next` is null on the last page."""

    evidence: list[EvidenceView] = Field(description="The passages of this page.")
    next: str | None = Field(description="Cursor of the next page; null on the last page.")


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


class PassageView(ResponseModel):
    """A search result; `score`, 0 to 1, is the part of the query that it covers."""

    evidence_id: str = Field(description="The passage's id.")
    title: str = Field(description="Its title.")
    text: str = Field(description="The text.")
    source_ref: str = Field(description="The source, such as a book and page.")
    score: float = Field(description="The part of the query that it covers, 0 to 1.")
    number: int = Field(description="Rank, from 1.")
    language: str = Field(description="A BCP 47 tag, such as `zh` or `en`.")
    verified: bool = Field(description="Whether the passage has been verified.")
    confidence: float = Field(description="Reliability of the source, 0 to 1.")
    domains: list[str] = Field(description="Domains of the passage; a persona is limited to its own domains.")


class SearchResults(ResponseModel):
    """Search results, best first; `degraded` contains `embedder` if only lexical search was used."""

    passages: list[PassageView] = Field(description="The passages found, best first.")
    degraded: list[str] = Field(description="Components that failed or were skipped; normally empty.")


class EvidenceDeleted(ResponseModel):
    """The result of a deletion."""

    success: bool = Field(description="Always true.")
    deleted: int = Field(description="Number of passages deleted.")
