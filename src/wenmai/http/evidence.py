"""The passages from which facts may be taken: ingested, listed, searched, removed; all of the site's."""

import asyncio
from email.message import Message as MimeHeader
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import Response

from wenmai.chat.evidence import record_from
from wenmai.chat.reach import reach_of
from wenmai.errors import InvalidInput, NotFound
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.parts import TheEngine
from wenmai.http.reply import reply
from wenmai.http.scope import CallerScope
from wenmai.http.shapes.common import CursorQuery, PageLimit
from wenmai.http.shapes.evidence import (
    EVIDENCE_ID,
    EvidenceBody,
    EvidenceDeleted,
    EvidenceIn,
    EvidencePage,
    EvidenceShown,
    FoundShown,
    Ingested,
    IngestedFile,
    SearchBody,
)
from wenmai.http.shown import evidence_shown
from wenmai.stores.records import EvidenceRecord

PREFIX = "/api/v1/evidence"
FILES_PATH = f"{PREFIX}/files"

router = APIRouter(prefix=PREFIX, tags=["evidence"], route_class=JsonRoute)

EvidenceIdPath = Annotated[
    str, Path(pattern=EVIDENCE_ID, max_length=128, description="The passage's id; it may hold slashes.")
]
SourceRefQuery = Annotated[str | None, Query(min_length=1, max_length=500, description="Only of this source.")]
SourceTypeQuery = Annotated[str | None, Query(min_length=1, max_length=500, description="Only of this type.")]
ReplaceSource = Annotated[
    bool, Query(description="Remove what is stored of the same sources and did not come this time.")
]
FileName = Annotated[
    str | None,
    Query(
        pattern=r"^[^\x00-\x1f\x7f-\x9f]+$",
        max_length=200,
        description="The file's name: its ending tells the format; the source of passages that name none.",
    ),
]

_ENDINGS = {
    "text/markdown": ".md",
    "text/plain": ".txt",
    "application/jsonl": ".jsonl",
    "application/x-ndjson": ".jsonl",
    "text/csv": ".csv",
}
_TEXT = {"schema": {"type": "string"}}
_FILE_BODY = {
    "required": True,
    "content": dict.fromkeys(_ENDINGS, _TEXT)
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


@router.post("", summary="Ingest passages", response_model=Ingested, responses=problems(413, 502))
async def ingest(body: EvidenceBody, scope: CallerScope, engine: TheEngine) -> Response:
    """What is there already, equal in all fields, is left alone; an id that is there gets the new wording."""
    records: list[EvidenceRecord] = []
    for index, given in enumerate(body.evidence):
        records.append(_record(index, given))
        await asyncio.sleep(0)  # reading a long passage takes some milliseconds
    reach = await reach_of(engine.personas, scope)
    report = await engine.evidence.ingest(scope, reach.counted(records), replace_source=body.replace_source)
    ids = [record.evidence_id for record in records]
    return reply(msgspec.structs.asdict(report) | {"evidence_ids": ids, "warnings": reach.warnings()})


@router.post(
    "/files",
    summary="Ingest a file",
    response_model=IngestedFile,
    responses=problems(413, 502),
    openapi_extra={"requestBody": _FILE_BODY},
)
async def ingest_file(
    request: Request,
    scope: CallerScope,
    engine: TheEngine,
    name: FileName = None,
    replace_source: ReplaceSource = False,  # noqa: FBT002 — a query parameter
) -> Response:
    """Markdown, text, JSONL or CSV, as the body or as `file` of a form; at most 20 MB.

    Lines that cannot be used are named and left out; a file of which nothing can be used is refused.
    """
    data, known_as = await _uploaded(request, name)
    found = await engine.evidence.files.read(data, known_as)
    if not found.passages:
        first = found.bad[0]
        raise InvalidInput(f"{first.file}:{first.line}", "", first.reason)
    reach = await reach_of(engine.personas, scope)
    report = await engine.evidence.ingest(scope, reach.counted(found.records()), replace_source=replace_source)
    lines = {
        "file": known_as,
        "bad_lines": [{"line": each.line, "reason": each.reason} for each in found.bad],
        "bad_line_count": found.bad_count,
        "warnings": reach.warnings(),
    }
    return reply(msgspec.structs.asdict(report) | lines)


@router.post("/search", summary="Search passages", response_model=FoundShown, responses=problems(413))
async def search(body: SearchBody, scope: CallerScope, engine: TheEngine) -> Response:
    """Best first, with the score that the gate judges by."""
    found = await engine.evidence.find(
        scope, body.query, domains=body.domains, language=body.language, limit=body.limit
    )
    return reply(found)


@router.get("", summary="List passages", response_model=EvidencePage, responses=problems())
async def list_evidence(
    scope: CallerScope,
    engine: TheEngine,
    source_ref: SourceRefQuery = None,
    source_type: SourceTypeQuery = None,
    limit: PageLimit = 20,
    cursor: CursorQuery = None,
) -> Response:
    """The site's passages, newest first."""
    page = await engine.evidence.list(scope, source_ref=source_ref, source_type=source_type, limit=limit, cursor=cursor)
    shown = [evidence_shown(stored) for stored in page.items]
    return reply({"evidence": shown, "next": page.next_cursor})


@router.delete("", summary="Delete the passages of a source", response_model=EvidenceDeleted, responses=problems())
async def delete_source(
    source_ref: Annotated[str, Query(min_length=1, max_length=500, description="The source.")],
    scope: CallerScope,
    engine: TheEngine,
) -> Response:
    """All of them; how many there were, which may be none."""
    return reply({"success": True, "deleted": await engine.evidence.delete_source(scope, source_ref)})


@router.get("/{evidence_id:path}", summary="Read a passage", response_model=EvidenceShown, responses=problems(404))
async def read_evidence(evidence_id: EvidenceIdPath, scope: CallerScope, engine: TheEngine) -> Response:
    """The passage whole, as answers cite it."""
    stored = await engine.evidence.get(scope, evidence_id)
    if stored is None:
        raise EvidenceNotFound(evidence_id)
    return reply(evidence_shown(stored))


@router.delete(
    "/{evidence_id:path}", summary="Delete a passage", response_model=EvidenceDeleted, responses=problems(404)
)
async def delete_evidence(evidence_id: EvidenceIdPath, scope: CallerScope, engine: TheEngine) -> Response:
    """From then on it is neither found nor cited."""
    if not await engine.evidence.delete(scope, evidence_id):
        raise EvidenceNotFound(evidence_id)
    return reply({"success": True, "deleted": 1})


class EvidenceNotFound(NotFound):
    """No passage of that id is visible to the caller."""

    what = "evidence"


def _record(index: int, given: EvidenceIn) -> EvidenceRecord:
    try:
        return record_from(given.given())
    except InvalidInput as problem:
        field = problem.field.replace("evidence", f"evidence[{index}]", 1)
        raise InvalidInput(field, "", problem.allowed) from problem


async def _uploaded(request: Request, name: str | None) -> tuple[bytes, str]:
    header = MimeHeader()
    header["content-type"] = request.headers.get("content-type", "text/plain")
    media_type = header.get_content_type()
    if media_type == "multipart/form-data":
        async with request.form(max_files=1, max_fields=1) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise InvalidInput("file", file, "a file in the form")
            return await file.read(), name or file.filename or "upload.txt"
    if media_type not in _ENDINGS:
        raise HTTPException(415, f"{', '.join(_ENDINGS)} and multipart/form-data are taken here")
    return await request.body(), name or f"upload{_ENDINGS[media_type]}"
