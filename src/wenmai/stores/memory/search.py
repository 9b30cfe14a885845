"""Search over inverted indexes in dictionaries, one shelf for each scope and collection."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.base import Hit, SearchEntry
from wenmai.stores.bm25 import cosine, coverage, direction, fuse, idf, term_score
from wenmai.stores.fields import check_key, check_range, matches
from wenmai.text.cjk import query_terms, terms

MAX_HITS = 500

_Where = Mapping[str, str | Sequence[str]] | None


@dataclass(slots=True)
class _Kept:
    """An entry as it is kept: its terms counted, its vector shortened to length 1, everything else copied."""

    counts: Counter[str]
    length: int
    vector: tuple[float, ...] | None
    fields: dict[str, str | tuple[str, ...]]


@dataclass(slots=True)
class _Shelf:
    """The entries of one collection of one scope, and the statistics over them."""

    entries: dict[str, _Kept] = field(default_factory=dict)
    holders: dict[str, set[str]] = field(default_factory=dict)
    """Term → ids of the entries that hold it."""
    total_length: int = 0
    vectors: int = 0
    """How many entries have a vector; without any, the next one sets the collection's length."""
    dimension: int = 0

    def add(self, id_: str, kept: _Kept) -> None:
        self.drop(id_)
        self.entries[id_] = kept
        self.total_length += kept.length
        for term in kept.counts:
            self.holders.setdefault(term, set()).add(id_)
        if kept.vector is not None:
            self.vectors += 1
            self.dimension = len(kept.vector)

    def drop(self, id_: str) -> bool:
        kept = self.entries.pop(id_, None)
        if kept is None:
            return False
        self.total_length -= kept.length
        self.vectors -= kept.vector is not None
        for term in kept.counts:
            self.holders[term].discard(id_)
            if not self.holders[term]:
                del self.holders[term]
        return True

    def weights(self, text: str) -> dict[str, float]:
        """The query's distinct terms with their idf over all entries of the shelf."""
        return {term: idf(len(self.entries), len(self.holders.get(term, ()))) for term in query_terms(text)}

    def lexical(self, id_: str, weights: Mapping[str, float]) -> float:
        """The entry's BM25 score for the terms of the query."""
        kept = self.entries[id_]
        average = self.total_length / len(self.entries)
        return sum(
            term_score(weight, kept.counts[term], kept.length, average)
            for term, weight in weights.items()
            if term in kept.counts
        )


class MemorySearch:
    """See :class:`wenmai.stores.base.Search`; ranked as :mod:`wenmai.stores.bm25` says."""

    def __init__(self) -> None:
        self._shelves: dict[tuple[str, ...], _Shelf] = {}

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """See :meth:`wenmai.stores.base.Search.index`."""
        check_key("collection", collection)
        kept = await asyncio.to_thread(lambda: [(entry.id, _keep(entry)) for entry in entries])
        name = _shelf_name(scope, collection, shared=shared)
        shelf = self._shelves.get(name) or _Shelf()
        dimension = shelf.dimension if shelf.vectors else None
        for entry in entries:
            check_key("id", entry.id)
            if entry.vector is not None:
                dimension = dimension or len(entry.vector)
                _check_length(entry.vector, dimension)
        self._shelves[name] = shelf
        for id_, copy in kept:
            shelf.add(id_, copy)

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
        """See :meth:`wenmai.stores.base.Search.query`."""
        if text is None and vector is None:
            raise InvalidInput("text", None, "given, or a vector")
        check_range("limit", limit, 1, MAX_HITS)
        shelf = self._shelves.get(_shelf_name(scope, collection, shared=shared)) or _Shelf()
        if vector is not None and shelf.vectors:
            _check_length(vector, shelf.dimension)
        weights = shelf.weights(text) if text is not None else {}
        rankings = []
        if text is not None:
            rankings.append(_by_words(shelf, weights, where)[:limit])
        if vector is not None:
            rankings.append(_by_vector(shelf, vector, where)[:limit])
        order = fuse(rankings) if len(rankings) > 1 else rankings[0]
        return [_hit(shelf, id_, weights, vector) for id_ in order[:limit]]

    async def remove(self, scope: Scope, collection: str, ids: Sequence[str], *, shared: bool = False) -> int:
        """See :meth:`wenmai.stores.base.Search.remove`."""
        name = _shelf_name(scope, collection, shared=shared)
        shelf = self._shelves.get(name)
        if shelf is None:
            return 0
        removed = sum([shelf.drop(id_) for id_ in ids])
        if not shelf.entries:
            del self._shelves[name]
        return removed

    async def count(self, scope: Scope, collection: str, *, shared: bool = False) -> int:
        """See :meth:`wenmai.stores.base.Search.count`."""
        shelf = self._shelves.get(_shelf_name(scope, collection, shared=shared))
        return len(shelf.entries) if shelf else 0

    def forget(self, scope: Scope, collection: str, *, shared: bool = False) -> None:
        """Drop all entries that the scope has in the collection, at once."""
        self._shelves.pop(_shelf_name(scope, collection, shared=shared), None)


def _shelf_name(scope: Scope, collection: str, *, shared: bool) -> tuple[str, ...]:
    owner = () if shared else (scope.user_id,)
    return (collection, scope.tenant_id, scope.site_id, *owner)


def _check_length(vector: Sequence[float], dimension: int) -> None:
    if not vector or len(vector) != dimension:
        raise InvalidInput("vector", len(vector), f"of the collection's length, {dimension}")


def _keep(entry: SearchEntry) -> _Kept:
    counts = Counter(terms(entry.text))
    return _Kept(
        counts=counts,
        length=counts.total(),
        vector=None if entry.vector is None else direction(entry.vector),
        fields={name: value if isinstance(value, str) else tuple(value) for name, value in entry.fields.items()},
    )


def _by_words(shelf: _Shelf, weights: Mapping[str, float], where: _Where) -> list[str]:
    found = {id_ for term in weights for id_ in shelf.holders.get(term, ())}
    chosen = [id_ for id_ in found if matches(shelf.entries[id_].fields, where)]
    scores = {id_: shelf.lexical(id_, weights) for id_ in chosen}
    return sorted(scores, key=lambda id_: (-scores[id_], id_))


def _by_vector(shelf: _Shelf, vector: Sequence[float], where: _Where) -> list[str]:
    towards = direction(vector)
    scores = {
        id_: cosine(towards, kept.vector)
        for id_, kept in shelf.entries.items()
        if kept.vector is not None and matches(kept.fields, where)
    }
    return sorted(scores, key=lambda id_: (-scores[id_], id_))


def _hit(shelf: _Shelf, id_: str, weights: Mapping[str, float], vector: Sequence[float] | None) -> Hit:
    kept = shelf.entries[id_]
    return Hit(
        id=id_,
        lexical=shelf.lexical(id_, weights),
        coverage=coverage(weights, [term for term in weights if term in kept.counts]),
        similarity=None if vector is None or kept.vector is None else cosine(direction(vector), kept.vector),
    )
