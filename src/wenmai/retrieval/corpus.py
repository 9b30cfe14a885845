"""A kind of records that is searched; its passages are the records, its index derives from the documents."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records.base import Record
from wenmai.stores.structs import Page, SearchEntry

PAGE = 50
"""Records read between yields to other tasks: from Redis, about 8 ms."""

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus(Generic[R]):
    """How records of one kind are indexed.

    Attributes:
        name: of the collections in the search store, and of the revision of local indexes.
        kind: the record type.
        entry_of: a record as it is indexed by words, under its key.
        embedded_text: the text of a record that is embedded.
    """

    name: str
    kind: type[R]
    entry_of: Callable[[R], SearchEntry]
    embedded_text: Callable[[R], str]

    @property
    def shared(self) -> bool:
        """Whether the records belong to the site; otherwise to a user."""
        return self.kind.spec.shared

    def owner(self, scope: Scope) -> Scope:
        """The site, or its user, that has the records of the scope."""
        return Scope(scope.tenant_id, scope.site_id) if self.shared else scope

    async def pages(
        self, documents: Documents, scope: Scope, where: Mapping[str, str] | None = None
    ) -> AsyncIterator[Page[R]]:
        """All records, newest first; see :meth:`wenmai.stores.contracts.Documents.list` for ``where``."""
        cursor: str | None = None
        while True:
            page = await documents.list(scope, self.kind, where=where, limit=PAGE, cursor=cursor)
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return
