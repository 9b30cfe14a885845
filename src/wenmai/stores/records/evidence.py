"""Passages of evidence."""

from typing import Annotated, ClassVar

from msgspec import Meta

from wenmai.stores.records.base import Record, RecordSpec


class EvidenceRecord(Record, frozen=True, kw_only=True):
    """One passage of an ingested source; the only thing that may support a fact."""

    spec: ClassVar[RecordSpec] = RecordSpec(
        "evidence", key="evidence_id", shared=True, filters=("source_ref", "source_type", "supersedes")
    )

    evidence_id: Annotated[str, Meta(description="The passage's id.")]
    title: Annotated[str, Meta(description="Its title.")]
    text: Annotated[str, Meta(description="The text.")]
    source_type: Annotated[str, Meta(description="The type of the source, such as `book`.")] = "document"
    source_ref: Annotated[str, Meta(description="The source, such as a book and page.")] = ""
    source_url: Annotated[str, Meta(description="URL of the source.")] = ""
    domains: Annotated[
        list[str], Meta(description="Domains of the passage; a persona is limited to its own domains.")
    ] = []
    language: Annotated[str, Meta(description="A BCP 47 tag, such as `zh` or `en`.")] = "zh"
    confidence: Annotated[float, Meta(description="Reliability of the source, 0 to 1.")] = 1.0
    verified: Annotated[bool, Meta(description="Whether the passage has been verified.")] = True
    tags: Annotated[list[str], Meta(description="Free tags.")] = []
    effective_date: Annotated[
        str, Meta(description="The day from which the source is in force, as `2025-01-31`; empty without versions.")
    ] = ""
    supersedes: Annotated[
        str, Meta(description="The `source_ref` of the earlier version that it replaces from that day on.")
    ] = ""
