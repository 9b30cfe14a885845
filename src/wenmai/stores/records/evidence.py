"""Passages of evidence."""

from typing import ClassVar

from wenmai.stores.records.base import Record, RecordSpec


class EvidenceRecord(Record, frozen=True, kw_only=True):
    """One passage of an ingested source; the only thing that may support a fact."""

    spec: ClassVar[RecordSpec] = RecordSpec(
        "evidence", key="evidence_id", shared=True, filters=("source_ref", "source_type")
    )

    evidence_id: str
    title: str
    text: str
    source_type: str = "document"
    source_ref: str = ""
    source_url: str = ""
    domains: list[str] = []
    language: str = "zh"
    confidence: float = 1.0
    verified: bool = True
    tags: list[str] = []
