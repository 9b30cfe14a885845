"""The hits of a search, from its candidates and their scores; shared by backends that score in the process."""

from collections.abc import Sequence

from wenmai.stores.fusion import Candidates, best
from wenmai.stores.hit_fields import JsonFields
from wenmai.stores.structs import Hit, SearchQuery
from wenmai.stores.word_scores import Scored

Entry = tuple[int, str, str]
"""A candidate: its number, its id, and its fields as JSON, empty if they are not wanted."""


def hits_of(
    query: SearchQuery, entries: Sequence[Entry], scored: Scored, similarities: Sequence[float | None]
) -> list[Hit]:
    """The hits of a query among its candidates, each with the scores at its position."""
    candidates = Candidates([id_ for _, id_, _ in entries], scored.lexical, similarities)
    return [
        Hit(
            id=candidates.ids[place],
            lexical=scored.lexical[place],
            coverage=scored.coverage[place],
            similarity=similarities[place],
            fields=JsonFields(entries[place][2]) if query.fields else {},
        )
        for place in best(query, candidates)
    ]
