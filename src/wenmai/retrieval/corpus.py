"""A kind of records that is searched; its passages are the records, its index derives from the documents."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records.base import Record
from wenmai.stores.structs import Page, SearchEntry

PAGE = 50
"""Records read between yields to other tasks: from Redis, about 8 ms."""

PART = "#"
"""Between a record's key and the name of its part in the id of an entry."""

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus(Generic[R]):
    """How records of one kind are indexed.

    Attributes:
        name: of the collections in the search store, and of the revision of local indexes.
        kind: the record type.
        entries_of: a record's entries as they are indexed by words, each with the text of it that is embedded.
        key_field: of a record with several entries, whose ids are its key, :data:`PART` and a name: the field of an
            entry that has the key. Empty: a record has one entry, under its key.
    """

    name: str
    kind: type[R]
    entries_of: Callable[[R], Sequence[tuple[SearchEntry, str]]]
    key_field: str = ""

    @property
    def shared(self) -> bool:
        """Whether the records belong to the site; otherwise to a user."""
        return self.kind.spec.shared

    def record_key(self, entry_id: str) -> str:
        """The key of the record that an entry belongs to."""
        return entry_id.rpartition(PART)[0] if self.key_field else entry_id

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
