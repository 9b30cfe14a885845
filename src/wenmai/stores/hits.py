"""The hits of a search, from its candidates and their scores; shared by backends that score in the process."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wenmai.stores.fusion import Candidates, descending, fused, leading
from wenmai.stores.hit_fields import JsonFields
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.word_scores import Scored

Entry = tuple[int, str, str]
"""An entry: its number, its id, and its fields as JSON, empty if they are not wanted."""


class Scores(NamedTuple):
    """The scores of entries, a column each, and those by which hits are ordered."""

    numbers: Sequence[int]
    fused: Sequence[float]
    lexical: Sequence[float]
    coverage: Sequence[float]
    similarities: Sequence[float | None]


def best_scores(
    query: SearchQuery,
    numbers: Sequence[int],
    scored: Scored,
    similarities: Mapping[int, float],
    ids: Sequence[str] = (),
) -> Scores:
    """The scores of the candidates that may be among the hits: of the best, and of those that equal the last of them.

    Args:
        query: of which they are the candidates.
        numbers: of all candidates.
        scored: by words, at the position of each.
        similarities: of those that have one, by number.
        ids: of each, if the query :func:`~wenmai.stores.fusion.needs_ids`.
    """
    lexical, coverage = scored
    cosines = list(map(similarities.get, numbers))
    order = fused(query, Candidates(ids or [""] * len(numbers), lexical, cosines))
    columns = Scores(numbers, order, lexical, coverage, cosines)
    if len(numbers) <= query.limit:
        return columns
    places = leading(order, query.limit)
    return Scores._make([column[place] for place in places] for column in columns)


def hits_of(query: SearchQuery, entries: Mapping[int, Entry], scores: Scores) -> list[Hit]:
    """The hits of a query, from the scores of those that may be among them, and these entries by number."""
    numbers, order, lexical, coverage, similarities = scores
    chosen = [entries[number] for number in numbers]
    ids = [id_ for _, id_, _ in chosen]
    return [
        Hit(
            id=ids[place],
            lexical=lexical[place],
            coverage=coverage[place],
            similarity=similarities[place],
            fields=JsonFields(chosen[place][2]) if query.fields else {},
        )
        for place in descending(order, ids)[: query.limit]
    ]
