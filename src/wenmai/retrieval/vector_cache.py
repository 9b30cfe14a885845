"""Embeds each distinct text once: vectors are kept by the digest of their text."""

import hashlib
from array import array
from collections.abc import Sequence

from wenmai.providers.embedders import Embedder

MAX_VECTORS = 2_000
"""Vectors kept, the most recently used: 3 MB with 384 numbers each."""


class VectorCache:
    """Vectors of passages from an embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[bytes, Sequence[float]] = {}

    async def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """The vectors of the texts, in their order; only distinct texts that are not kept are embedded.

        Raises:
            ModelError: the embedder failed.
        """
        digests = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        vectors = {digest: self._vectors[digest] for digest in digests if digest in self._vectors}
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in vectors}
        if missing:
            embedded = await self._embedder.embed_passages(list(missing.values()))
            vectors |= {digest: array("f", vector) for digest, vector in zip(missing, embedded, strict=True)}
        for digest, vector in vectors.items():
            self._vectors.pop(digest, None)
            self._vectors[digest] = vector
        for digest in list(self._vectors)[:-MAX_VECTORS]:
            del self._vectors[digest]
        return [vectors[digest] for digest in digests]
