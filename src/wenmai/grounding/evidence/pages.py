"""All passages of a site, page by page."""

from collections.abc import AsyncIterator, Mapping

from wenmai.scope import Scope
from wenmai.stores.contracts import Documents, Page
from wenmai.stores.records import EvidenceRecord

PAGE = 50
"""Records read between yields to other tasks: from Redis, about 8 ms."""


async def pages(
    documents: Documents, scope: Scope, where: Mapping[str, str] | None = None
) -> AsyncIterator[Page[EvidenceRecord]]:
    """The site's passages, newest first; see :meth:`wenmai.stores.contracts.Documents.list` for ``where``."""
    cursor: str | None = None
    while True:
        page = await documents.list(scope, EvidenceRecord, where=where, limit=PAGE, cursor=cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return
