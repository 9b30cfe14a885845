"""Embeds questions behind a circuit breaker."""

from collections.abc import Sequence

from wenmai.errors import ModelError
from wenmai.providers.embedders import Embedder
from wenmai.resilience.breaker import MODEL, Breaker, BreakerPolicy
from wenmai.resilience.degradation import note_degraded
from wenmai.retrieval.vector_cache import finite_vector

Vector = Sequence[float]


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
