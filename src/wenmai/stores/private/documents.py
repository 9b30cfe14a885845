"""Documents whose private fields are screened before they are written."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from wenmai.resilience.offload import run_by_size
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.private.screening import LARGE, Screening, size_of
from wenmai.stores.records import Record
from wenmai.stores.structs import Page, Stored
from wenmai.stores.values import check_record

R = TypeVar("R", bound=Record)


class PrivateDocuments:
    """See :class:`wenmai.stores.contracts.Documents`."""

    def __init__(self, documents: Documents, screening: Screening) -> None:
        self._documents = documents
        self._screening = screening

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """Write the record without private values; what is returned has none either."""
        screened = await self._screened(record) if record.spec.private else record
        return await self._documents.put(scope, screened, expected=expected, keep_until=keep_until)

    async def _screened(self, record: R) -> R:
        try:
            return await run_by_size(size_of(record, LARGE), LARGE, self._screening.record, record)
        except (UnicodeEncodeError, RecursionError):
            check_record(record)  # names the field
            raise

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """As stored."""
        return await self._documents.get(scope, of, key)

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """As stored."""
        return await self._documents.get_many(scope, of, keys)

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """Delete the record."""
        return await self._documents.delete(scope, of, key, expected=expected, identity=identity)

    async def list(
        self,
        scope: Scope,
        of: type[R],
        *,
        where: Mapping[str, str] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[R]:
        """As stored."""
        return await self._documents.list(scope, of, where=where, limit=limit, cursor=cursor)

    async def sweep(self) -> int:
        """Remove the expired records of all scopes."""
        return await self._documents.sweep()
