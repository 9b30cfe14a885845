"""Embeds each distinct text once: vectors are kept by the digest of their text."""

import hashlib
from array import array
from collections.abc import Sequence
from math import isfinite

from wenmai.errors import ModelError
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
            ModelError: the embedder failed, or gave what is no vector.
        """
        digests = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        vectors = {digest: self._vectors[digest] for digest in digests if digest in self._vectors}
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in vectors}
        if missing:
            embedded = await self._embedder.embed_passages(list(missing.values()))
            vectors |= {
                digest: finite_vector(self._embedder, vector) for digest, vector in zip(missing, embedded, strict=True)
            }
        for digest, vector in vectors.items():
            self._vectors.pop(digest, None)
            self._vectors[digest] = vector
        for digest in list(self._vectors)[:-MAX_VECTORS]:
            del self._vectors[digest]
        return [vectors[digest] for digest in digests]


def finite_vector(embedder: Embedder, vector: Sequence[float]) -> "array[float]":
    """The vector as 32-bit floats, as a search keeps it.

    Raises:
        ModelError: it has no numbers, or one that is not finite; half precision overflows for some texts.
    """
    try:
        floats = array("f", vector)
    except (TypeError, OverflowError):
        floats = array("f")
    if not floats or not all(map(isfinite, floats)):
        raise ModelError(embedder.name, "gave no vector of finite numbers")
    return floats
