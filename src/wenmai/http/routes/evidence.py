"""Evidence of a site: ingest, list, search and delete passages."""

import asyncio
from email.message import Message as MimeHeader
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from wenmai.chat.reach import reach_of
from wenmai.errors import InvalidInput, NotFound
from wenmai.grounding.evidence import record_from
from wenmai.grounding.evidence.base import SearchResult
from wenmai.grounding.evidence.fields import with_default_domains
from wenmai.http.dependencies import EngineDep
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.responses import Json
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import CursorQuery, PageLimit
from wenmai.http.schemas.evidence import EVIDENCE_ID, EvidenceBody, EvidenceIn, SearchBody
from wenmai.http.scope import CallerScope
from wenmai.http.views import view_of
from wenmai.http.views.evidence import (
    BadLineView,
    EvidenceDeleted,
    EvidencePage,
    EvidenceView,
    FileIngestResult,
    IngestResult,
    evidence_view,
)
from wenmai.stores.records import EvidenceRecord

PREFIX = "/api/v1/evidence"
FILES_PATH = f"{PREFIX}/files"

router: APIRouter = resource_router(PREFIX, tag="evidence", route_class=JsonRoute)

EvidenceIdPath = Annotated[
    str, Path(pattern=EVIDENCE_ID, max_length=128, description="The passage's id; it may contain slashes.")
]
SourceRefQuery = Annotated[str | None, Query(min_length=1, max_length=500, description="Only passages of this source.")]
SourceTypeQuery = Annotated[
    str | None, Query(min_length=1, max_length=500, description="Only passages of this source type.")
]
ReplaceSource = Annotated[
    bool, Query(description="Remove stored passages of the same sources that are not in this request.")
]
FileName = Annotated[
    str | None,
    Query(
        pattern=r"^[^\x00-\x1f\x7f-\x9f]+$",
        max_length=200,
        description="The file name; its extension gives the format, and it is the default source of the passages.",
    ),
]
Domains = Annotated[
    list[Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=100)]],
    Query(alias="domain", max_length=50, description="Domains of the passages that name none; repeatable."),
]

_EXTENSIONS = {
    "text/markdown": ".md",
    "text/plain": ".txt",
    "application/jsonl": ".jsonl",
    "application/x-ndjson": ".jsonl",
    "text/csv": ".csv",
}
_TEXT = {"schema": {"type": "string"}}
_FILE_BODY = {
    "required": True,
    "content": dict.fromkeys(_EXTENSIONS, _TEXT)
    | {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {
                    "file": {"type": "string", "format": "binary", "description": "The file, with its name."}
                },
                "required": ["file"],
            }
        }
    },
}


@router.post("", summary="Ingest passages", responses=problems(413))
async def ingest(body: EvidenceBody, scope: CallerScope, engine: EngineDep) -> Json[IngestResult]:
    """A passage already stored with equal fields is unchanged; an existing id gets the new text."""
    records: list[EvidenceRecord] = []
    for index, given in enumerate(body.evidence):
        records.append(_record(index, given))
        await asyncio.sleep(0)  # a long passage takes some milliseconds
    reach = await reach_of(engine.personas, scope)
    report = await engine.evidence.ingest(scope, reach.counted(records), replace_source=body.replace_source)
    ids = [record.evidence_id for record in records]
    return Json(view_of(report, IngestResult, evidence_ids=ids, warnings=reach.warnings()))


@router.post(
    "/files",
    summary="Ingest a file",
    responses=problems(413),
    openapi_extra={"requestBody": _FILE_BODY},
)
async def ingest_file(
    request: Request,
    scope: CallerScope,
    engine: EngineDep,
    name: FileName = None,
    domains: Domains = [],  # noqa: B006 — FastAPI copies it
    replace_source: ReplaceSource = False,  # noqa: FBT002 — a query parameter
) -> Json[FileIngestResult]:
    """Markdown, text, JSONL or CSV, as the body or as the form field `file`; at most 20 MB.

    Lines that cannot be parsed are reported and skipped; a file without any usable line is rejected.
    """
    data, file_name = await _read_upload(request, name)
    found = await engine.evidence.files.read(data, file_name)
    if not found.passages:
        first = found.bad[0]
        raise InvalidInput(f"{first.file}:{first.line}", "", first.reason)
    reach = await reach_of(engine.personas, scope)
    records = (with_default_domains(each, domains) for each in found.records())
    report = await engine.evidence.ingest(scope, reach.counted(records), replace_source=replace_source)
    result = view_of(
        report,
        FileIngestResult,
        file=file_name,
        bad_lines=[view_of(each, BadLineView) for each in found.bad],
        bad_line_count=found.bad_count,
        warnings=reach.warnings(),
    )
    return Json(result)


@router.post("/search", summary="Search passages", responses=problems(413))
async def search(body: SearchBody, scope: CallerScope, engine: EngineDep) -> Json[SearchResult]:
    """Search results, best first, with the score used for the grounding decision."""
    found = await engine.evidence.find(
        scope, body.query, domains=body.domains, language=body.language, limit=body.limit
    )
    return Json(found)


@router.get("", summary="List passages", responses=problems())
async def list_evidence(
    scope: CallerScope,
    engine: EngineDep,
    source_ref: SourceRefQuery = None,
    source_type: SourceTypeQuery = None,
    limit: PageLimit = 20,
    cursor: CursorQuery = None,
) -> Json[EvidencePage]:
    """The passages of the site, newest first."""
    page = await engine.evidence.list(scope, source_ref=source_ref, source_type=source_type, limit=limit, cursor=cursor)
    views = [evidence_view(stored) for stored in page.items]
    return Json(EvidencePage(evidence=views, next=page.next_cursor))


@router.delete("", summary="Delete the passages of a source", responses=problems())
async def delete_source(
    source_ref: Annotated[str, Query(min_length=1, max_length=500, description="The source.")],
    scope: CallerScope,
    engine: EngineDep,
) -> Json[EvidenceDeleted]:
    """Delete all passages of a source; returns their number, which may be 0."""
    return Json(EvidenceDeleted(success=True, deleted=await engine.evidence.delete_source(scope, source_ref)))


@router.get("/{evidence_id:path}", summary="Read a passage", responses=problems(404))
async def read_evidence(evidence_id: EvidenceIdPath, scope: CallerScope, engine: EngineDep) -> Json[EvidenceView]:
    """A passage, as answers cite it."""
    stored = await engine.evidence.get(scope, evidence_id)
    if stored is None:
        raise EvidenceNotFound(evidence_id)
    return Json(evidence_view(stored))


@router.delete("/{evidence_id:path}", summary="Delete a passage", responses=problems(404))
async def delete_evidence(evidence_id: EvidenceIdPath, scope: CallerScope, engine: EngineDep) -> Json[EvidenceDeleted]:
    """Delete a passage; it is no longer found or cited."""
    if not await engine.evidence.delete(scope, evidence_id):
        raise EvidenceNotFound(evidence_id)
    return Json(EvidenceDeleted(success=True, deleted=1))


class EvidenceNotFound(NotFound):
    """No passage with this id is visible to the caller."""

    what = "evidence"


def _record(index: int, given: EvidenceIn) -> EvidenceRecord:
    try:
        return record_from(given.provided_fields())
    except InvalidInput as problem:
        field = problem.field.replace("evidence", f"evidence[{index}]", 1)
        raise InvalidInput(field, "", problem.allowed) from problem


async def _read_upload(request: Request, name: str | None) -> tuple[bytes, str]:
    header = MimeHeader()
    header["content-type"] = request.headers.get("content-type", "text/plain")
    media_type = header.get_content_type()
    if media_type == "multipart/form-data":
        async with request.form(max_files=1, max_fields=1) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise InvalidInput("file", file, "a file field of the form")
            return await file.read(), name or file.filename or "upload.txt"
    if media_type not in _EXTENSIONS:
        raise HTTPException(415, f"the Content-Type must be {', '.join(_EXTENSIONS)} or multipart/form-data")
    return await request.body(), name or f"upload{_EXTENSIONS[media_type]}"
