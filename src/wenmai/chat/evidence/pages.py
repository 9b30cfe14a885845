"""All passages of a site, page by page."""

from collections.abc import AsyncIterator, Mapping

from wenmai.scope import Scope
from wenmai.stores.base import Documents, Page
from wenmai.stores.records import EvidenceRecord

PAGE = 50
"""Records that are read without letting other tasks in: from Redis, about 8 ms."""


async def pages(
    documents: Documents, scope: Scope, where: Mapping[str, str] | None = None
) -> AsyncIterator[Page[EvidenceRecord]]:
    """The site's passages, newest first; see :meth:`wenmai.stores.base.Documents.list` for ``where``."""
    cursor: str | None = None
    while True:
        page = await documents.list(scope, EvidenceRecord, where=where, limit=PAGE, cursor=cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return
