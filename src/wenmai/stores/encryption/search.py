"""Search whose terms are keyed digests."""

import re
from collections.abc import Callable, Sequence
from functools import cache

import msgspec
from msgspec.structs import replace

from wenmai.errors import InvalidInput
from wenmai.resilience.offload import run_by_size
from wenmai.scope import Scope
from wenmai.stores.contracts import Search
from wenmai.stores.encryption.ciphers import SEALED_VALUE, DataKey, about
from wenmai.stores.encryption.data_keys import DataKeys
from wenmai.stores.hit_fields import JsonFields
from wenmai.stores.search_values import check_collection, check_entries, check_queries
from wenmai.stores.structs import CollectionSize, FieldValue, Hit, SearchEntry, SearchQuery, Where
from wenmai.text.cjk import query_terms, terms

LARGE = 2_000
"""Characters from which on terms are made in a worker thread."""

_MANY_HITS = 500
"""Hits whose fields are decrypted without a worker thread."""


class KeyedSearch:
    """See :class:`wenmai.stores.contracts.Search`.

    A text is indexed as the digests of its terms, in the order of the digests. They are decimal numbers, which every
    backend takes for terms as they are, so its scores are those of the text. The fields that an entry declares
    private are encrypted. Shared collections have the sources of a site, which are public.

    Args:
        search: the store.
        keys: of the users.
        writes: False if entries are indexed by their texts, with which those of before are not found.
        vectors: whether the vectors of a user's entries may be stored.
    """

    def __init__(self, search: Search, keys: DataKeys, *, writes: bool, vectors: bool) -> None:
        self._search = search
        self._keys = keys
        self._writes = writes
        self._vectors = vectors

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """Index the entries; those of a user by keyed terms."""
        if self._writes and not shared:
            entries = await self._keyed(scope, collection, entries)
        await self._search.index(scope, collection, entries, shared=shared)

    async def embed(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> int:
        """Give the entries their vectors."""
        if self._writes and not shared:
            entries = await self._keyed(scope, collection, entries)
        return await self._search.embed(scope, collection, entries, shared=shared)

    async def _keyed(self, scope: Scope, collection: str, entries: Sequence[SearchEntry]) -> list[SearchEntry]:
        check_collection(scope, collection)
        if not self._vectors and any(entry.vector is not None for entry in entries):
            raise InvalidInput("vector", "***", "stored without the setting encrypt_vectors")
        key = await self._keys.current(scope)

        def keyed() -> list[SearchEntry]:
            # An entry has the words of the message before, which is often in the same batch.
            found = [terms(entry.text) for entry in entries]
            digests = key.terms({term for own in found for term in own})
            place = about(scope, "search", collection)
            return [
                _keyed_entry(key, [digests[term] for term in own], place, entry)
                for own, entry in zip(found, entries, strict=True)
            ]

        try:
            return await run_by_size(sum(len(entry.text) for entry in entries), LARGE, keyed)
        except (TypeError, AttributeError, KeyError, UnicodeEncodeError):
            check_entries(entries, None)  # names the field
            raise

    async def without_vector(
        self, scope: Scope, collection: str, *, after: str = "", limit: int = 500, shared: bool = False
    ) -> list[str]:
        """As stored."""
        return await self._search.without_vector(scope, collection, after=after, limit=limit, shared=shared)

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        """The hits; those of a user by keyed terms."""
        if shared or not self._writes:
            return await self._search.query(scope, collection, queries, shared=shared)
        check_collection(scope, collection)
        check_queries(queries)
        key = await self._keys.existing(scope)
        found: list[list[Hit]] = [[] for _ in queries]
        while key is not None:  # else nothing was indexed with it
            found = await self._search.query(scope, collection, [_keyed_query(key, query) for query in queries])
            if any(found) or await self._keys.is_current(scope, key):
                break
            key = await self._keys.existing(scope)  # erased by another process, and the user has come back
        if key is None:
            return found
        count = sum(map(len, found))
        return await run_by_size(count, _MANY_HITS, _opened, key, about(scope, "search", collection), found)

    async def remove(
        self,
        scope: Scope,
        collection: str,
        ids: Sequence[str] | None = None,
        *,
        where: Where | None = None,
        shared: bool = False,
    ) -> int:
        """Remove entries."""
        return await self._search.remove(scope, collection, ids, where=where, shared=shared)

    async def size(self, scope: Scope, collection: str, *, shared: bool = False) -> CollectionSize:
        """The size of the collection."""
        return await self._search.size(scope, collection, shared=shared)


def _keyed_entry(key: DataKey, digests: list[str], place: bytes, entry: SearchEntry) -> SearchEntry:
    """The entry with the digests of its terms as text."""
    private = {name: _sealed_values(key, place, entry.fields[name]) for name in entry.private}
    # Two texts with the same terms are two texts: an entry takes the vector of its own.
    text = " ".join([key.mark(entry.text), *sorted(digests)])
    return replace(entry, text=text, fields={**entry.fields, **private}, private=())


def _sealed_values(
    key: DataKey, place: bytes, values: FieldValue | Sequence[FieldValue]
) -> FieldValue | Sequence[FieldValue]:
    if isinstance(values, str):
        return key.seal_value(values, place) if values else values
    if isinstance(values, int | float):
        return values
    return [key.seal_value(value, place) if isinstance(value, str) else value for value in values]


def _keyed_query(key: DataKey, query: SearchQuery) -> SearchQuery:
    if query.text is None:
        return query
    return replace(query, text=" ".join(key.terms(query_terms(query.text)).values()))


def _opened(key: DataKey, place: bytes, found: Sequence[Sequence[Hit]]) -> list[list[Hit]]:
    """The hits with the private fields of their entries decrypted; equal values once."""

    @cache
    def opened(sealed: str) -> str:
        return msgspec.json.encode(key.open_value(sealed, place)).decode()

    # Other fields are not encrypted, and may have ids that begin like a ciphertext, but not with the key's id.
    sealed = re.compile(rf'"({SEALED_VALUE}{key.key_id}:[^"]+)"')
    return [[_opened_hit(hit, sealed, lambda match: opened(match[1])) for hit in hits] for hits in found]


def _opened_hit(hit: Hit, sealed: re.Pattern[str], opened: Callable[[re.Match[str]], str]) -> Hit:
    fields = hit.fields
    text = fields.text if isinstance(fields, JsonFields) else msgspec.json.encode(fields).decode()
    if SEALED_VALUE not in text:
        return hit
    return replace(hit, fields=JsonFields(sealed.sub(opened, text)))
