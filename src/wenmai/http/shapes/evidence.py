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

    text: StrictStr = Field(
        pattern=r"\S", max_length=TEXT_CHARACTERS, description="The wording, 1 to 20,000 characters."
    )
    evidence_id: StrictStr | None = Field(
        default=None,
        pattern=EVIDENCE_ID,
        max_length=ID_CHARACTERS,
        description="Left out, it is made from source, title and wording.",
    )
    title: Annotated[StrictStr, Field(max_length=TITLE_CHARACTERS)] = Field(default="", description="Its title.")
    source_type: Short = Field(default="", description="What kind of source it is, such as `book`.")
    source_ref: Short = Field(default="", description="Where it is from, such as a book and its page.")
    source_url: Short = Field(default="", description="Where the source can be read.")
    domains: Words = Field(default=[], description="What it is about; personas speak about some domains only.")
    language: Annotated[StrictStr, Field(pattern=LANGUAGE)] | None = Field(
        default=None, description="A BCP 47 tag, such as `zh` or `en`."
    )
    confidence: float = Field(default=1.0, ge=0, le=1, strict=True, description="How reliable the source is, 0 to 1.")
    verified: StrictBool = Field(default=True, description="Whether it has been checked.")
    tags: Words = Field(default=[], description="Free tags.")

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

    evidence: list[EvidenceIn] = Field(
        min_length=1, max_length=MOST_RECORDS, fail_fast=True, description="The passages."
    )
    replace_source: StrictBool = Field(
        default=False, description="Remove what is stored of the same sources and did not come this time."
    )


Warnings = Annotated[
    list[str], Field(description="What will not work as expected, such as passages that no persona finds.")
]


class Ingested(Shape):
    """What an ingestion did, in passages, and their ids in the order given."""

    added: int = Field(description="Passages that are new.")
    changed: int = Field(description="Passages whose wording or fields are new.")
    unchanged: int = Field(description="Passages that were there already, equal in all fields.")
    removed: int = Field(description="Passages that were removed, because the source no longer has them.")
    evidence_ids: list[str] = Field(description="The ids, in the order given.")
    warnings: Warnings


class BadLineShown(Shape):
    """A line that could not be used."""

    line: int = Field(description="Its number, from 1.")
    reason: str = Field(description="What is wrong with it.")


class IngestedFile(Shape):
    """What the ingestion of a file did; the first 100 of its bad lines, and how many there were."""

    file: str = Field(description="The name by which the file is known.")
    added: int = Field(description="Passages that are new.")
    changed: int = Field(description="Passages whose wording or fields are new.")
    unchanged: int = Field(description="Passages that were there already, equal in all fields.")
    removed: int = Field(description="Passages that were removed, because the source no longer has them.")
    bad_lines: list[BadLineShown] = Field(description="The first lines that could not be used.")
    bad_line_count: int = Field(description="How many there were in all.")
    warnings: Warnings


class EvidenceShown(Shape):
    """A passage as it is stored."""

    evidence_id: str = Field(description="The passage's id.")
    title: str = Field(description="Its title.")
    text: str = Field(description="The wording.")
    source_type: str = Field(description="What kind of source it is, such as `book`.")
    source_ref: str = Field(description="Where it is from, such as a book and its page.")
    source_url: str = Field(description="Where the source can be read.")
    domains: list[str] = Field(description="What it is about; personas speak about some domains only.")
    language: str = Field(description="A BCP 47 tag, such as `zh` or `en`.")
    confidence: float = Field(description="How reliable the source is, 0 to 1.")
    verified: bool = Field(description="Whether it has been checked.")
    tags: list[str] = Field(description="Free tags.")
    created_at: datetime = Field(description="When it was stored first.")
    updated_at: datetime = Field(description="When it was changed last.")


class EvidencePage(Shape):
    """Passages, newest first; `next` is null on the last page."""

    evidence: list[EvidenceShown] = Field(description="The passages of this page.")
    next: str | None = Field(description="Where the next page begins; null on the last one.")


class SearchBody(Body):
    """What is searched for."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "祠堂是什么时候建的？", "limit": 3}]})

    query: Question = Field(description="What is searched for, 1 to 4000 characters.")
    domains: Words = Field(default=[], description="Only passages of one of these; empty means all.")
    language: Annotated[StrictStr, Field(pattern=LANGUAGE)] | None = Field(
        default=None, description="A BCP 47 tag, such as `zh` or `en`."
    )
    limit: Whole = Field(default=6, ge=1, le=50, description="How many there may be.")


class PassageShown(Shape):
    """A passage that was found; `score`, 0 to 1, is how much of the question it covers."""

    evidence_id: str = Field(description="The passage's id.")
    title: str = Field(description="Its title.")
    text: str = Field(description="The wording.")
    source_ref: str = Field(description="Where it is from, such as a book and its page.")
    score: float = Field(description="How much of the question it covers, 0 to 1.")
    number: int = Field(description="Its place in this list, from 1.")
    language: str = Field(description="A BCP 47 tag, such as `zh` or `en`.")
    verified: bool = Field(description="Whether it has been checked.")
    confidence: float = Field(description="How reliable the source is, 0 to 1.")
    domains: list[str] = Field(description="What it is about; personas speak about some domains only.")


class FoundShown(Shape):
    """What was found, best first; `degraded` has `embedder` if the search went by words alone."""

    passages: list[PassageShown] = Field(description="What was found, best first.")
    degraded: list[str] = Field(description="What failed or was left out, by name; empty if all went well.")


class EvidenceDeleted(Shape):
    """What was deleted."""

    success: bool = Field(description="Always true.")
    deleted: int = Field(description="How many passages were deleted.")
