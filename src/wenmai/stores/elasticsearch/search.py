"""The search contract: entries are indexed by our own terms and by their vectors; writes refresh the index."""

import asyncio
from collections.abc import Sequence
from typing import Any

from wenmai.errors import InvalidInput
from wenmai.resilience.offload import run_by_size
from wenmai.scope import Scope
from wenmai.stores.elasticsearch.address import Kind
from wenmai.stores.elasticsearch.client import Client, Write
from wenmai.stores.elasticsearch.entries import (
    document_of,
    entry_ref,
    filters_of,
    owner_of,
    owner_ref,
    vector_of,
    with_vector,
)
from wenmai.stores.elasticsearch.indices import MAX_DIMENSION, SEARCH, vector_field, vector_mapping
from wenmai.stores.elasticsearch.retrying import Locks, attempts
from wenmai.stores.elasticsearch.searching import (
    candidates_of,
    counting,
    finding,
    rank,
    statistics_of,
    tokens_of,
)
from wenmai.stores.search_values import (
    check_collection,
    check_dimension,
    check_entries,
    check_page,
    check_queries,
    check_query_lengths,
    check_removal,
    check_vectors,
    text_digest,
    without_zeros,
)
from wenmai.stores.structs import CollectionSize, Hit, SearchEntry, SearchQuery, Where

LARGE = 300
"""Candidates that are scored on the event loop, in at most 5 ms."""


class ElasticsearchSearch:
    """See :class:`wenmai.stores.contracts.Search`; scores as in :mod:`wenmai.stores.bm25`."""

    def __init__(self, client: Client, kind: Kind) -> None:
        self._client = client
        self._kind: Kind = kind
        self._index = client.index(SEARCH)
        self._locks = Locks()
        self._fields: set[int] = set()

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """See :meth:`wenmai.stores.contracts.Search.index`."""
        check_collection(scope, collection)
        dimension = check_entries(entries, None)
        owner = owner_of(scope, collection, shared=shared)
        latest = {entry.id: entry for entry in entries}
        documents = await asyncio.to_thread(lambda: {id_: document_of(owner, each) for id_, each in latest.items()})
        async with self._locks.held(owner):
            if dimension is not None:
                await self._claim(owner, entries, dimension)
            embedded = {id_: each.vector for id_, each in latest.items() if each.vector is not None}
            writes = [
                Write(entry_ref(self._client, owner, id_), with_vector(documents[id_], vector), overwrite=True)
                for id_, vector in embedded.items()
            ]
            await self._client.write(writes, refresh=True)
            left = {id_: document for id_, document in documents.items() if id_ not in embedded}
            async for _ in attempts(self._client.name):
                left = await self._index_words(owner, left)
                if not left:
                    return

    async def _index_words(self, owner: str, documents: dict[str, Any]) -> dict[str, Any]:
        """Index entries without a vector, which keep theirs with the same text; return those that have changed."""
        refs = [entry_ref(self._client, owner, id_) for id_ in documents]
        found = await self._client.get(refs, ["digest", "vector"])
        writes = []
        for ref, before, document in zip(refs, found, documents.values(), strict=True):
            vector = before.source.get("vector") if before else None
            keeps = before is not None and vector and before.source["digest"] == document["digest"]
            new = with_vector(document, vector_of(vector)) if keeps and vector else document
            writes.append(Write(ref, new, before))
        done = await self._client.write(writes, refresh=True)
        return {id_: document for (id_, document), ok in zip(documents.items(), done, strict=True) if not ok}

    async def embed(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Search.embed`."""
        check_collection(scope, collection)
        check_vectors(entries, None)
        owner = owner_of(scope, collection, shared=shared)
        left = {entry.id: entry for entry in entries}
        embedded = 0
        async with self._locks.held(owner):
            if left and await self._any(owner):
                await self._claim(owner, entries, len(entries[0].vector or ()))
            async for _ in attempts(self._client.name):
                refs = [entry_ref(self._client, owner, id_) for id_ in left]
                found = await self._client.get(refs) if refs else []
                writes = {
                    id_: Write(ref, with_vector(before.source, entry.vector or ()), before)
                    for (id_, entry), ref, before in zip(left.items(), refs, found, strict=True)
                    if before is not None and before.source["digest"] == text_digest(entry.text).hex()
                }
                done = await self._client.write(list(writes.values()), refresh=True)
                embedded += sum(map(bool, done))
                left = {id_: left[id_] for id_, ok in zip(writes, done, strict=True) if not ok}
                if not left:
                    break
        return embedded

    async def without_vector(
        self, scope: Scope, collection: str, *, after: str = "", limit: int = 500, shared: bool = False
    ) -> list[str]:
        """See :meth:`wenmai.stores.contracts.Search.without_vector`."""
        check_collection(scope, collection)
        check_page(after, limit)
        owner = owner_of(scope, collection, shared=shared)
        asked = {
            "query": {"bool": {"filter": [{"term": {"owner": owner}}, {"term": {"embedded": False}}]}},
            "sort": [{"id": "asc"}],
            "search_after": [after],
            "size": limit,
            "_source": ["id"],
            "track_total_hits": False,
        }
        answer = await self._client.search(self._index, asked)
        return [hit["_source"]["id"] for hit in answer["hits"]["hits"]]

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        """See :meth:`wenmai.stores.contracts.Search.query`."""
        check_collection(scope, collection)
        check_queries(queries)
        owner = owner_of(scope, collection, shared=shared)
        asked = list(map(without_zeros, queries))
        tokens = [tokens_of(query) for query in asked]
        counted = list(dict.fromkeys(token for those in tokens for token in those))
        counts = counting(owner, counted)
        searches = [finding(self._kind, owner, query, those) for query, those in zip(asked, tokens, strict=True)]
        bodies = [_dimension_of(owner), *counts, *(body for each in searches for body in each)]
        dimension, *answers = await self._client.search_all(self._index, bodies, owner)
        statistics = statistics_of(counted, answers[: len(counts)])
        known = [hit["_source"]["dimension"] for hit in dimension["hits"]["hits"]] if statistics.vectors else []
        check_query_lengths(queries, known[0] if known else None)
        found = iter(answers[len(counts) :])
        candidates = [[next(found) for _ in each] for each in searches]

        def ranked() -> list[list[Hit]]:
            return [
                rank(query, those, statistics, {id_: one for each in mine for id_, one in candidates_of(each).items()})
                for query, those, mine in zip(asked, tokens, candidates, strict=True)
            ]

        size = sum(len(answer.get("hits", {}).get("hits", ())) for answer in answers)
        return await run_by_size(size, LARGE, ranked)

    async def remove(
        self,
        scope: Scope,
        collection: str,
        ids: Sequence[str] | None = None,
        *,
        where: Where | None = None,
        shared: bool = False,
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Search.remove`."""
        check_collection(scope, collection)
        check_removal(ids, where)
        owner = owner_of(scope, collection, shared=shared)
        async with self._locks.held(owner):
            if where is not None:
                matching = {"bool": {"filter": [{"term": {"owner": owner}}, *filters_of(where)]}}
                return await self._client.delete_where([self._index], matching)
            refs = [entry_ref(self._client, owner, id_) for id_ in dict.fromkeys(ids or ())]
            done = await self._client.write([Write(ref, None, overwrite=True) for ref in refs], refresh=True)
            return sum(map(bool, done))

    async def size(self, scope: Scope, collection: str, *, shared: bool = False) -> CollectionSize:
        """See :meth:`wenmai.stores.contracts.Search.size`."""
        check_collection(scope, collection)
        return await self._size(owner_of(scope, collection, shared=shared))

    async def _size(self, owner: str) -> CollectionSize:
        [answer] = await self._client.search_all(self._index, counting(owner, ()), owner)
        statistics = statistics_of((), [answer])
        return CollectionSize(statistics.entries, statistics.vectors)

    async def _any(self, owner: str) -> bool:
        return (await self._size(owner)).entries > 0

    async def _claim(self, owner: str, entries: Sequence[SearchEntry], dimension: int) -> None:
        """Make this the length of the collection's vectors, unless it has some of another.

        Raises:
            InvalidInput: it has.
        """
        longest = MAX_DIMENSION[self._kind]
        if dimension > longest:
            raise InvalidInput("entries[0].vector", dimension, f"a vector of at most {longest} numbers")
        if dimension not in self._fields:
            mapping = {"properties": {vector_field(dimension): vector_mapping(self._kind, dimension)}}
            await self._client.must("PUT", f"/{self._index}/_mapping", mapping, slow=True)
            self._fields.add(dimension)
        ref = owner_ref(self._client, owner)
        async for _ in attempts(self._client.name):
            [found] = await self._client.get([ref])
            known = found.source["dimension"] if found else None
            if known == dimension:
                return
            if known is not None and (await self._size(owner)).vectors:
                check_dimension(entries, known)
            if all(await self._client.write([Write(ref, {"dimension": dimension}, found)], refresh=True)):
                return


def _dimension_of(owner: str) -> dict[str, Any]:
    return {"query": {"ids": {"values": [owner]}}, "_source": ["dimension"], "size": 1}
