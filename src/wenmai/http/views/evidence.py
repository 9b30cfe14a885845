"""Evidence as the routes return it."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from wenmai.grounding.evidence.base import IngestReport
from wenmai.http.views import view_of
from wenmai.stores.records import EvidenceRecord
from wenmai.stores.structs import Stored


class IngestResult(IngestReport, frozen=True, kw_only=True):
    """The result of an ingestion, in passages, and their ids in request order."""

    evidence_ids: Annotated[list[str], Meta(description="The ids, in request order.")]
    warnings: Annotated[list[str], Meta(description="Warnings, such as passages that no persona finds.")]


class BadLineView(msgspec.Struct, frozen=True, kw_only=True):
    """A line that could not be parsed."""

    line: Annotated[int, Meta(description="Line number, from 1.")]
    reason: Annotated[str, Meta(description="What is wrong with the line.")]


class FileIngestResult(IngestReport, frozen=True, kw_only=True):
    """The result of ingesting a file, with the first 100 bad lines and their total number."""

    file: Annotated[str, Meta(description="The file's name.")]
    bad_lines: Annotated[list[BadLineView], Meta(description="The first lines that could not be parsed.")]
    bad_line_count: Annotated[int, Meta(description="Total number of bad lines.")]
    warnings: Annotated[list[str], Meta(description="Warnings, such as passages that no persona finds.")]


class EvidenceView(EvidenceRecord, frozen=True, kw_only=True):
    """A stored passage."""

    created_at: Annotated[datetime, Meta(description="Creation time.")]
    updated_at: Annotated[datetime, Meta(description="Last change.")]


class EvidencePage(msgspec.Struct, frozen=True, kw_only=True):
    """Passages, newest first; `next` is null on the last page."""

    evidence: Annotated[list[EvidenceView], Meta(description="The passages of this page.")]
    next: Annotated[str | None, Meta(description="Cursor of the next page; null on the last page.")]


class EvidenceDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a deletion."""

    success: Annotated[bool, Meta(description="Always true.")]
    deleted: Annotated[int, Meta(description="Number of passages deleted.")]


def evidence_view(stored: Stored[EvidenceRecord]) -> EvidenceView:
    """A passage with its creation and update times."""
    return view_of(stored.record, EvidenceView, created_at=stored.created_at, updated_at=stored.updated_at)
