"""The passages from which facts may be taken: ingested, listed, searched, removed; they belong to the site."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import Message as MimeHeader
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query, Request
from starlette.datastructures import UploadFile
from starlette.responses import Response

from wenmai.chat.evidence import BadLine, parse, record_from
from wenmai.errors import InvalidInput, NotFound
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
