"""One collection of one scope in process: an inverted index in dictionaries, the vectors, and the statistics."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TypeVar

from wenmai.stores.bm25 import UNIT, coverage, idf, length_factor, term_score
from wenmai.stores.fusion import Candidates, best
from wenmai.stores.inprocess.vectors import Vectors
from wenmai.stores.search_values import is_within, text_digest, values_of
from wenmai.stores.structs import FieldValue, Hit, Range, SearchEntry, SearchQuery, Where
from wenmai.text.cjk import query_terms, terms

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class IndexedEntry:
    """An indexed entry but for its vector: digest of the text, term frequencies, and a copy of the fields."""

    digest: bytes
    counts: Counter[str]
    length: int
    fields: dict[str, FieldValue | Sequence[FieldValue]]


def analysed(entry: SearchEntry) -> IndexedEntry:
    """The entry as it is indexed."""
    counts = Counter(terms(entry.text))
    return IndexedEntry(
        digest=text_digest(entry.text),
        counts=counts,
        length=counts.total(),
        fields=_copied(entry.fields),
    )


@dataclass(slots=True)
class Partition:
    """The entries and statistics of one collection of one scope.

    Attributes:
        entries: by id.
        postings: term → ids of the entries that contain it.
        values: field and value → ids of the entries that have it.
        total_length: of the entries, in terms.
        vectors: of the entries that have one.
    """

    entries: dict[str, IndexedEntry] = field(default_factory=dict)
    postings: dict[str, set[str]] = field(default_factory=dict)
    values: dict[tuple[str, FieldValue], set[str]] = field(default_factory=dict)
    total_length: int = 0
    vectors: Vectors = field(default_factory=Vectors)

    def add(self, id_: str, indexed: IndexedEntry, vector: Sequence[float] | None) -> None:
        """Add or replace the entry; without a vector it keeps the one that it had with the same text."""
        old = self.entries.get(id_)
        if vector is not None:
            self.vectors.put(id_, vector)
        elif old is not None and old.digest != indexed.digest:
            self.vectors.discard(id_)
        self._drop_words(id_)
        self.entries[id_] = indexed
        self.total_length += indexed.length
        for term in indexed.counts:
            self.postings.setdefault(term, set()).add(id_)
        for value in _values(indexed):
            self.values.setdefault(value, set()).add(id_)

    def drop(self, id_: str) -> bool:
        """Remove the entry; True if there was one."""
        self.vectors.discard(id_)
        return self._drop_words(id_)

    def _drop_words(self, id_: str) -> bool:
        indexed = self.entries.pop(id_, None)
        if indexed is None:
            return False
        self.total_length -= indexed.length
        for term in indexed.counts:
            _discard(self.postings, term, id_)
        for value in _values(indexed):
            _discard(self.values, value, id_)
        return True

    def embed(self, id_: str, text: str, vector: Sequence[float]) -> bool:
        """Set the vector of the entry, if it has that text; True if it does."""
        indexed = self.entries.get(id_)
        if indexed is None or indexed.digest != text_digest(text):
            return False
        self.vectors.put(id_, vector)
        return True

    def matching(self, where: Where) -> set[str]:
        """The ids of the entries that satisfy a filter of at least one field."""
        return set.intersection(*(self._having(name, wanted) for name, wanted in where.items()))

    def hits(self, query: SearchQuery) -> list[Hit]:
        """The query's hits; see :meth:`wenmai.stores.contracts.Search.query`."""
        allowed = self.matching(query.where) if query.where else None
        if query.ids is not None:
            given = self.entries.keys() & set(query.ids)
            allowed = given if allowed is None else given & allowed
        weights = self._weights(query.text)
        lexical = self._lexical(weights, allowed)
        depth = query.limit if query.text is None or query.vector is None else query.pool
        similar: dict[str, float] = {}
        if query.vector is not None and query.ids is None:
            similar = self.vectors.top(query.vector, depth, allowed)
        candidates = {*_top(lexical, depth), *_top(similar, depth)} if query.ids is None else allowed or set()
        if query.vector is not None:
            similar |= self.vectors.similarities(query.vector, candidates - similar.keys())
        ids = list(candidates)
        columns = Candidates(ids, [lexical.get(id_, 0.0) for id_ in ids], [similar.get(id_) for id_ in ids])
        return [self._hit(columns, place, weights) for place in best(query, columns)]

    def _weights(self, text: str | None) -> dict[str, int]:
        """The idf of the query's distinct terms over all entries of the partition."""
        wanted = query_terms(text) if text is not None else []
        return {term: idf(len(self.entries), len(self.postings.get(term, ()))) for term in wanted}

    def _lexical(self, weights: Mapping[str, int], allowed: set[str] | None) -> dict[str, float]:
        """The BM25 score of each allowed entry that contains a term of the query."""
        found = {id_ for term in weights for id_ in self.postings.get(term, ())}
        by_length = length_factor(len(self.entries), self.total_length)
        return {
            id_: _score(self.entries[id_], weights, by_length)
            for id_ in (found if allowed is None else found & allowed)
        }

    def _having(self, name: str, wanted: FieldValue | Sequence[FieldValue] | Range) -> set[str]:
        """The ids of the entries whose field has one of the values, or one within the range."""
        if isinstance(wanted, Range):
            keys = [key for key in self.values if key[0] == name and is_within(key[1], wanted)]
        else:
            keys = [(name, value) for value in values_of(wanted)]
        return set().union(*(self.values.get(key, ()) for key in keys))

    def _hit(self, candidates: Candidates, place: int, weights: Mapping[str, int]) -> Hit:
        id_ = candidates.ids[place]
        indexed = self.entries[id_]
        return Hit(
            id=id_,
            lexical=candidates.lexical[place],
            coverage=coverage(weights, [term for term in weights if term in indexed.counts]),
            similarity=candidates.similarities[place],
            fields=_copied(indexed.fields),
        )


def _score(indexed: IndexedEntry, weights: Mapping[str, int], by_length: float) -> float:
    return UNIT * sum(
        term_score(weight, indexed.counts[term], indexed.length, by_length)
        for term, weight in weights.items()
        if term in indexed.counts
    )


def _copied(
    fields: Mapping[str, FieldValue | Sequence[FieldValue]],
) -> dict[str, FieldValue | Sequence[FieldValue]]:
    return {name: value if isinstance(value, str | int | float) else list(value) for name, value in fields.items()}


def _values(indexed: IndexedEntry) -> set[tuple[str, FieldValue]]:
    return {(name, value) for name, those in indexed.fields.items() for value in values_of(those)}


def _discard(sets: dict[K, set[str]], key: K, id_: str) -> None:
    """Remove the id from the set of that key, and an empty set too."""
    sets[key].discard(id_)
    if not sets[key]:
        del sets[key]


def _top(scores: Mapping[str, float], depth: int) -> list[str]:
    return nsmallest(depth, scores, key=lambda id_: (-scores[id_], id_))
