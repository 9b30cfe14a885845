"""Shapes of evidence: what is ingested, kept and found."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool, StrictStr

from wenmai.chat.evidence.fields import ID_CHARACTERS, TEXT_CHARACTERS, TITLE_CHARACTERS
from wenmai.http.shapes.common import Body, Closed, Shape, Whole
from wenmai.http.shapes.npc import Question

MOST_RECORDS = 1000
EVIDENCE_ID = r"^[^\x00-\x1f]+$"
LANGUAGE = "^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$"

Short = Annotated[StrictStr, Field(max_length=500)]
Words = Annotated[list[Annotated[StrictStr, Field(min_length=1, max_length=100)]], Field(max_length=50)]


class EvidenceIn(Closed):
    """A passage; only its text must be given."""

    text: StrictStr = Field(pattern=r"\S", max_length=TEXT_CHARACTERS)
    evidence_id: StrictStr | None = Field(
        default=None,
        pattern=EVIDENCE_ID,
        max_length=ID_CHARACTERS,
        description="Left out, it is made from source, title and wording.",
    )
    title: Annotated[StrictStr, Field(max_length=TITLE_CHARACTERS)] = ""
    source_type: Short = ""
    source_ref: Short = ""
    source_url: Short = ""
    domains: Words = Field(default=[])
    language: Annotated[StrictStr, Field(pattern=LANGUAGE)] | None = None
    confidence: float = Field(default=1.0, ge=0, le=1, strict=True)
    verified: StrictBool = True
    tags: Words = Field(default=[])

    def given(self) -> dict[str, Any]:
        """The fields that were given."""
        return self.model_dump(exclude_unset=True)


class EvidenceBody(Body):
    """Passages to be ingested."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "evidence": [
                        {
                            "title": "祠堂",
                            "text": "严氏祠堂坐北朝南，三进两院。",
                            "source_ref": "村志",
                            "domains": ["祠堂"],
                        }
                    ]
                }
            ]
        }
    )

    evidence: list[EvidenceIn] = Field(min_length=1, max_length=MOST_RECORDS)
    replace_source: StrictBool = Field(
        default=False, description="Remove what is stored of the same sources and did not come this time."
    )


class Ingested(Shape):
    """What an ingestion did, in passages, and their ids in the order given."""

    added: int
    changed: int
    unchanged: int
    removed: int
    evidence_ids: list[str]


class BadLineShown(Shape):
    """A line that could not be used."""

    line: int
    reason: str


class IngestedFile(Shape):
    """What the ingestion of a file did; the first 100 of its bad lines, and how many there were."""

    file: str
    added: int
    changed: int
    unchanged: int
    removed: int
    bad_lines: list[BadLineShown]
    bad_line_count: int


class EvidenceShown(Shape):
    """A passage as it is stored."""

    evidence_id: str
    title: str
    text: str
    source_type: str
    source_ref: str
    source_url: str
    domains: list[str]
    language: str
    confidence: float
    verified: bool
    tags: list[str]
    created_at: datetime
    updated_at: datetime


class EvidencePage(Shape):
    """Passages, newest first; `next` is null on the last page."""

    evidence: list[EvidenceShown]
    next: str | None


class SearchBody(Body):
    """What is searched for."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "祠堂是什么时候建的？", "limit": 3}]})

    query: Question
    domains: Words = Field(default=[], description="Only passages of one of these; empty means all.")
    language: Annotated[StrictStr, Field(pattern=LANGUAGE)] | None = None
    limit: Whole = Field(default=6, ge=1, le=50)


class PassageShown(Shape):
    """A passage that was found; `score`, 0 to 1, is how much of the question it covers."""

    evidence_id: str
    title: str
    text: str
    source_ref: str
    score: float
    number: int
    language: str
    verified: bool
    confidence: float
    domains: list[str]


class FoundShown(Shape):
    """What was found, best first; `degraded` has `embedder` if the search went by words alone."""

    passages: list[PassageShown]
    degraded: list[str]


class EvidenceDeleted(Shape):
    """What was deleted."""

    success: bool
    deleted: int
