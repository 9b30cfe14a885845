"""A search: which candidates are asked for, and their exact scores.

The server finds the candidates, the best by its own BM25 and the nearest of its vector index, and counts entries and
terms of the scope. The scores are computed here from their terms and vectors, as on every backend: the server's have
the statistics of all scopes, and rounded lengths.
"""

from collections.abc import Mapping, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from wenmai.stores.bm25 import UNIT, coverage, idf, length_factor, term_score
from wenmai.stores.elasticsearch.address import Kind
from wenmai.stores.elasticsearch.entries import Packed, filters_of, term_token, unpacked, vector_bytes
from wenmai.stores.elasticsearch.indices import vector_field
from wenmai.stores.fusion import Candidates, best
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.vector_matrix import VectorMatrix
from wenmai.text.cjk import query_terms

MAX_TERMS = 1_000
"""Terms of a query that are ranked by the server, which allows 1 024 clauses; and terms that are counted at once."""
LEAST_SPARE, SPARE = 50, 4
"""So many more candidates are asked for than wanted, or a quarter more: the server's order is not the exact one."""
NEAREST = 200
"""Neighbours that the server looks for at least, though fewer are wanted: its vector index is approximate."""
ALL_MATCHING = 10_000
"""Most hits that a server returns."""

Body = dict[str, Any]


class Statistics(NamedTuple):
    """Of a collection of one scope: number, vectors and summed length of its entries, and those with each term."""

    entries: int
    vectors: int
    length: int
    frequencies: Mapping[str, int]


class Candidate(NamedTuple):
    """An entry that may be a hit."""

    packed: Packed
    vector: bytes | None


def tokens_of(query: SearchQuery) -> list[str]:
    """The query's distinct terms, as they are indexed."""
    return [] if query.text is None else list(dict.fromkeys(map(term_token, query_terms(query.text))))


def counting(owner: str, tokens: Sequence[str]) -> list[Body]:
    """The searches that count a collection's entries, and those with each term."""
    mine = {"term": {"owner": owner}}
    totals = {"length": {"sum": {"field": "length"}}, "vectors": {"filter": {"term": {"embedded": True}}}}
    parts = [tokens[start : start + MAX_TERMS] for start in range(0, len(tokens), MAX_TERMS)]
    terms = [{"terms": {"filters": {"filters": [{"term": {"terms": term}} for term in part]}}} for part in parts]
    first: Body = {"size": 0, "query": mine, "track_total_hits": True, "aggs": totals}
    return [first, *({"size": 0, "query": mine, "track_total_hits": False, "aggs": aggs} for aggs in terms)]


def statistics_of(tokens: Sequence[str], answers: Sequence[Any]) -> Statistics:
    """The counts, from the answers to :func:`counting`."""
    first, *rest = answers
    counts = [bucket["doc_count"] for answer in rest for bucket in answer["aggregations"]["terms"]["buckets"]]
    totals = first["aggregations"]
    return Statistics(
        entries=first["hits"]["total"]["value"],
        vectors=totals["vectors"]["doc_count"],
        length=int(totals["length"]["value"]),
        frequencies=dict(zip(tokens, counts, strict=True)),
    )


def finding(kind: Kind, owner: str, query: SearchQuery, tokens: Sequence[str]) -> list[Body]:
    """The searches for the candidates of a query."""
    within = [{"term": {"owner": owner}}, *filters_of(query.where)]
    if query.ids is not None:
        these = {"bool": {"filter": [*within, {"terms": {"id": list(query.ids)}}]}}
        return [_asking(these, len(query.ids)) | _columns(query)]
    wanted = _depth(query) + max(LEAST_SPARE, _depth(query) // SPARE)
    searches = [_by_words(within, tokens, wanted)] if tokens else []
    if query.vector is not None:
        searches.append(_by_vector(kind, within, query.vector, wanted))
    return [search | _columns(query) for search in searches]


def candidates_of(answer: Any) -> dict[str, Candidate]:
    """The candidates in the answer to one of :func:`finding`, by id; none if no vector of that length was indexed."""
    found = {}
    for hit in answer["hits"]["hits"] if "hits" in answer else ():
        packed = unpacked(hit["fields"]["packed"][0])
        vector = hit["fields"].get("vector")
        found[packed.id] = Candidate(packed, vector_bytes(vector[0]) if vector else None)
    return found


def rank(
    query: SearchQuery, tokens: Sequence[str], statistics: Statistics, candidates: Mapping[str, Candidate]
) -> list[Hit]:
    """The query's hits; see :meth:`wenmai.stores.contracts.Search.query`."""
    weights = {token: idf(statistics.entries, statistics.frequencies[token]) for token in tokens}
    by_length = length_factor(statistics.entries, statistics.length)
    lexical = {id_: _lexical(each.packed, weights, by_length) for id_, each in candidates.items()}
    similar = {} if query.vector is None else _similarities(query.vector, candidates)
    chosen = set(candidates)
    if query.ids is None:
        words = {id_: score for id_, score in lexical.items() if score > 0}
        chosen = {*_top(words, _depth(query)), *_top(similar, _depth(query))}
    ids = list(chosen)
    columns = Candidates(ids, [lexical[id_] for id_ in ids], [similar.get(id_) for id_ in ids])
    packed = [candidates[id_].packed for id_ in ids]
    return [_hit(packed[place], columns, place, weights) for place in best(query, columns)]


def _depth(query: SearchQuery) -> int:
    return query.limit if query.text is None or query.vector is None else query.pool


def _by_words(within: Sequence[Body], tokens: Sequence[str], wanted: int) -> Body:
    if len(tokens) > MAX_TERMS:
        return _asking({"bool": {"filter": [*within, {"terms": {"terms": list(tokens)}}]}}, ALL_MATCHING)
    words = [{"term": {"terms": token}} for token in tokens]
    return _asking({"bool": {"filter": within, "must": {"bool": {"should": words}}}}, wanted)


def _by_vector(kind: Kind, within: Sequence[Body], vector: Sequence[float], wanted: int) -> Body:
    field, query_vector = vector_field(len(vector)), _normalised(vector)
    filters, k = {"bool": {"filter": within}}, max(wanted, NEAREST)
    if kind == "opensearch":
        return _asking({"knn": {field: {"vector": query_vector, "k": k, "filter": filters}}}, wanted)
    near = {"field": field, "query_vector": query_vector, "k": k, "num_candidates": k, "filter": filters}
    return _asking({"knn": near}, wanted)


def _asking(query: Body, size: int) -> Body:
    return {
        "query": query,
        "size": size,
        "sort": ["_score", {"id": "asc"}],
        "stored_fields": "_none_",
        "track_total_hits": False,
    }


def _columns(query: SearchQuery) -> Body:
    return {"docvalue_fields": ["packed"] if query.vector is None else ["packed", "vector"]}


def _normalised(vector: Sequence[float]) -> list[float]:
    largest = max(map(abs, vector))
    scaled = [value / largest for value in vector]
    length = sum(value * value for value in scaled) ** 0.5
    return [value / length for value in scaled]


def _lexical(packed: Packed, weights: Mapping[str, int], by_length: float) -> float:
    return UNIT * sum(
        term_score(weight, packed.counts[term], packed.length, by_length)
        for term, weight in weights.items()
        if term in packed.counts
    )


def _similarities(vector: Sequence[float], candidates: Mapping[str, Candidate]) -> dict[str, float]:
    """The cosine of each candidate that has a vector of that length."""
    vectors = [
        (id_, each.vector) for id_, each in candidates.items() if each.vector and len(each.vector) == 4 * len(vector)
    ]
    if not vectors:
        return {}
    numbered = [(number, number, raw) for number, (_, raw) in enumerate(vectors)]
    matrix = VectorMatrix.of(len(vector), numbered, "<")
    cosines = matrix.similarities(vector, range(len(vectors)))
    return {vectors[number][0]: cosine for number, cosine in cosines.items()}


def _top(scores: Mapping[str, float], depth: int) -> list[str]:
    return nsmallest(depth, scores, key=lambda id_: (-scores[id_], id_))


def _hit(packed: Packed, scores: Candidates, place: int, weights: Mapping[str, int]) -> Hit:
    return Hit(
        id=packed.id,
        lexical=scores.lexical[place],
        coverage=coverage(weights, [term for term in weights if term in packed.counts]),
        similarity=scores.similarities[place],
        fields=packed.fields,
    )
