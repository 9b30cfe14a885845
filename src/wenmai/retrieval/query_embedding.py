"""Embeds questions behind a circuit breaker, and searches by words where their vectors do not fit the index."""

import logging
from collections.abc import Sequence

import msgspec

from wenmai.errors import InvalidInput, ModelError
from wenmai.providers.embedders import Embedder
from wenmai.resilience.breaker import MODEL, Breaker, BreakerPolicy
from wenmai.resilience.degradation import note_degraded
from wenmai.retrieval.vector_cache import finite_vector
from wenmai.scope import Scope
from wenmai.stores.contracts import Search
from wenmai.stores.structs import Hit, SearchQuery

_log = logging.getLogger(__name__)

Vector = Sequence[float]

_EMBEDDER = "embedder"
"""Key in ``degraded``."""


class QueryEmbedding:
    """Embeds questions; without an embedder, or while it fails, a search uses words alone.

    Attributes:
        breaker: opens when embedding questions fails.
    """

    def __init__(self, embedder: Embedder | None, *, policy: BreakerPolicy | None = None) -> None:
        self.breaker: Breaker = Breaker("embedder", kind=MODEL, policy=policy)
        self._embedder = embedder

    async def embed(self, query: str) -> tuple[Vector | None, bool]:
        """The question's vector, None without an embedder; True if the embedder failed or its breaker is open."""
        if self._embedder is None:
            return None, False
        try:
            with self.breaker.guard():
                vector = await self._embedder.embed_query(query)
                finite_vector(self._embedder, vector)
                return vector, False
        except ModelError:
            note_degraded(self.breaker.name)
            return None, True


async def query_by_words_if_refused(
    search: Search, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
) -> tuple[list[list[Hit]], bool]:
    """Query, see :meth:`wenmai.stores.contracts.Search.query`; True if the vectors were refused and left out.

    They are refused if their length is not that of the entries', as when a model was replaced under its name. Queries
    without words then find nothing.
    """
    try:
        return await search.query(scope, collection, queries, shared=shared), False
    except InvalidInput as problem:
        if not problem.field.endswith(".vector"):
            raise
        note_degraded(_EMBEDDER)
        _log.warning("search by words alone: %s", problem)
    if not any(query.text for query in queries):
        return [[] for _ in queries], True
    by_words = [msgspec.structs.replace(query, vector=None) for query in queries]
    return await search.query(scope, collection, by_words, shared=shared), True
