"""The search contract in process: an inverted index in dictionaries for each scope and collection."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.bm25 import cosine, coverage, fuse, idf, normalised, term_score
from wenmai.stores.contracts import Hit, SearchEntry
from wenmai.stores.validation import check_key, check_range, matches
from wenmai.text.cjk import query_terms, terms

MAX_HITS = 500

_Where = Mapping[str, str | Sequence[str]] | None


@dataclass(slots=True)
class _IndexedEntry:
    """An indexed entry: term frequencies, the normalised vector, and a copy of the fields."""

    counts: Counter[str]
    length: int
    vector: tuple[float, ...] | None
    fields: dict[str, str | tuple[str, ...]]


@dataclass(slots=True)
class _Partition:
    """The entries and statistics of one collection of one scope."""

    entries: dict[str, _IndexedEntry] = field(default_factory=dict)
    postings: dict[str, set[str]] = field(default_factory=dict)
    """Term → ids of the entries that contain it."""
    total_length: int = 0
    vectors: int = 0
    """Number of entries with a vector; if 0, the next vector sets the collection's dimension."""
    dimension: int = 0

    def add(self, id_: str, indexed: _IndexedEntry) -> None:
        self.drop(id_)
        self.entries[id_] = indexed
        self.total_length += indexed.length
        for term in indexed.counts:
            self.postings.setdefault(term, set()).add(id_)
        if indexed.vector is not None:
            self.vectors += 1
            self.dimension = len(indexed.vector)

    def drop(self, id_: str) -> bool:
        indexed = self.entries.pop(id_, None)
        if indexed is None:
            return False
        self.total_length -= indexed.length
        self.vectors -= indexed.vector is not None
        for term in indexed.counts:
            self.postings[term].discard(id_)
            if not self.postings[term]:
                del self.postings[term]
        return True

    def weights(self, text: str) -> dict[str, float]:
        """The idf of the query's distinct terms over all entries of the partition."""
        return {term: idf(len(self.entries), len(self.postings.get(term, ()))) for term in query_terms(text)}

    def lexical(self, id_: str, weights: Mapping[str, float]) -> float:
        """The entry's BM25 score for the terms of the query."""
        indexed = self.entries[id_]
        average = self.total_length / len(self.entries)
        return sum(
            term_score(weight, indexed.counts[term], indexed.length, average)
            for term, weight in weights.items()
            if term in indexed.counts
        )


class InProcessSearch:
    """See :class:`wenmai.stores.contracts.Search`; ranking as in :mod:`wenmai.stores.bm25`."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[str, ...], _Partition] = {}

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """See :meth:`wenmai.stores.contracts.Search.index`."""
        check_key("collection", collection)
        indexed = await asyncio.to_thread(lambda: [(entry.id, _prepare(entry)) for entry in entries])
        name = _partition_key(scope, collection, shared=shared)
        partition = self._partitions.get(name) or _Partition()
        dimension = partition.dimension if partition.vectors else None
        for entry in entries:
            check_key("id", entry.id)
            if entry.vector is not None:
                dimension = dimension or len(entry.vector)
                _check_length(entry.vector, dimension)
        self._partitions[name] = partition
        for id_, copy in indexed:
            partition.add(id_, copy)

    async def query(
        self,
        scope: Scope,
        collection: str,
        *,
        text: str | None = None,
        vector: Sequence[float] | None = None,
        where: _Where = None,
        limit: int = 10,
        shared: bool = False,
    ) -> list[Hit]:
        """See :meth:`wenmai.stores.contracts.Search.query`."""
        if text is None and vector is None:
            raise InvalidInput("text", None, "given, or a vector")
        check_range("limit", limit, 1, MAX_HITS)
        partition = self._partitions.get(_partition_key(scope, collection, shared=shared)) or _Partition()
        if vector is not None and partition.vectors:
            _check_length(vector, partition.dimension)
        weights = partition.weights(text) if text is not None else {}
        rankings = []
        if text is not None:
            rankings.append(_by_words(partition, weights, where)[:limit])
        if vector is not None:
            rankings.append(_by_vector(partition, vector, where)[:limit])
        order = fuse(rankings) if len(rankings) > 1 else rankings[0]
        return [_hit(partition, id_, weights, vector) for id_ in order[:limit]]

    async def remove(self, scope: Scope, collection: str, ids: Sequence[str], *, shared: bool = False) -> int:
        """See :meth:`wenmai.stores.contracts.Search.remove`."""
        name = _partition_key(scope, collection, shared=shared)
        partition = self._partitions.get(name)
        if partition is None:
            return 0
        removed = sum([partition.drop(id_) for id_ in ids])
        if not partition.entries:
            del self._partitions[name]
        return removed

    async def count(self, scope: Scope, collection: str, *, shared: bool = False) -> int:
        """See :meth:`wenmai.stores.contracts.Search.count`."""
        partition = self._partitions.get(_partition_key(scope, collection, shared=shared))
        return len(partition.entries) if partition else 0

    def clear(self, scope: Scope, collection: str, *, shared: bool = False) -> None:
        """Remove all entries that the scope has in the collection, at once."""
        self._partitions.pop(_partition_key(scope, collection, shared=shared), None)


def _partition_key(scope: Scope, collection: str, *, shared: bool) -> tuple[str, ...]:
    owner = () if shared else (scope.user_id,)
    return (collection, scope.tenant_id, scope.site_id, *owner)


def _check_length(vector: Sequence[float], dimension: int) -> None:
    if not vector or len(vector) != dimension:
        raise InvalidInput("vector", len(vector), f"of the collection's length, {dimension}")


def _prepare(entry: SearchEntry) -> _IndexedEntry:
    counts = Counter(terms(entry.text))
    return _IndexedEntry(
        counts=counts,
        length=counts.total(),
        vector=None if entry.vector is None else normalised(entry.vector),
        fields={name: value if isinstance(value, str) else tuple(value) for name, value in entry.fields.items()},
    )


def _by_words(partition: _Partition, weights: Mapping[str, float], where: _Where) -> list[str]:
    found = {id_ for term in weights for id_ in partition.postings.get(term, ())}
    chosen = [id_ for id_ in found if matches(partition.entries[id_].fields, where)]
    scores = {id_: partition.lexical(id_, weights) for id_ in chosen}
    return sorted(scores, key=lambda id_: (-scores[id_], id_))


def _by_vector(partition: _Partition, vector: Sequence[float], where: _Where) -> list[str]:
    normal = normalised(vector)
    scores = {
        id_: cosine(normal, indexed.vector)
        for id_, indexed in partition.entries.items()
        if indexed.vector is not None and matches(indexed.fields, where)
    }
    return sorted(scores, key=lambda id_: (-scores[id_], id_))


def _hit(partition: _Partition, id_: str, weights: Mapping[str, float], vector: Sequence[float] | None) -> Hit:
    indexed = partition.entries[id_]
    return Hit(
        id=id_,
        lexical=partition.lexical(id_, weights),
        coverage=coverage(weights, [term for term in weights if term in indexed.counts]),
        similarity=None if vector is None or indexed.vector is None else cosine(normalised(vector), indexed.vector),
    )
