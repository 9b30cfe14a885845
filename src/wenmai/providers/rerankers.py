"""Cross-encoders by name: models that read a question and a text together and say how well one answers the other."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any

from wenmai.errors import ModelError
from wenmai.providers.errors import require_extra

CROSS_ENCODER = "cross-encoder:"
THREADS = 1


class CrossEncoder:
    """A cross-encoder in this process, in a thread of its own; its weights are loaded by the first call.

    Calls run one after the other. One that its caller gave up is not interrupted; later ones wait for it, and no other
    work of the process does.

    Args:
        name: of a model that fastembed knows, which is downloaded once, or a folder with ``model.onnx``,
            ``tokenizer.json`` and the configuration files beside it.
    """

    def __init__(self, name: str) -> None:
        require_extra("fastembed", package="fastembed", extra="rerank")
        self._name = name
        self._loading: asyncio.Future[Any] | None = None
        self._thread = ThreadPoolExecutor(1, "cross-encoder")
        self._entry = asyncio.Lock()
        self._running: asyncio.Future[list[float]] | None = None

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the query, on a scale of the model's own.

        Raises:
            ModelError: the model cannot be loaded or fails, or a score is no finite number.
        """
        loop = asyncio.get_running_loop()
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = loop.run_in_executor(self._thread, self._load)
        # A caller that gives up must not begin a download anew.
        model = await asyncio.shield(self._loading)
        async with self._entry:
            if self._running is not None:
                await asyncio.wait([self._running])
            self._running = loop.run_in_executor(self._thread, lambda: self._scored(model, query, texts))
            self._running.add_done_callback(_retrieved)
            return await asyncio.shield(self._running)

    def _scored(self, model: Any, query: str, texts: Sequence[str]) -> list[float]:
        try:
            scores = [float(score) for score in model.rerank(query, list(texts))]
        except Exception as problem:  # whatever the runtime of the model raises
            raise ModelError(f"{CROSS_ENCODER}{self._name}", str(problem)) from problem
        if len(scores) != len(texts) or not all(map(isfinite, scores)):
            raise ModelError(f"{CROSS_ENCODER}{self._name}", "its scores are not a finite number for each text")
        return scores

    def _load(self) -> Any:
        encoder = import_module("fastembed.rerank.cross_encoder").TextCrossEncoder
        folder = Path(self._name)
        options: dict[str, Any] = {"threads": THREADS}
        try:
            if folder.is_dir():
                known = {model["model"] for model in encoder.list_supported_models()}
                if self._name not in known:
                    description = import_module("fastembed.common.model_description")
                    source = description.ModelSource(url=folder.resolve().as_uri())
                    encoder.add_custom_model(self._name, sources=source, model_file="model.onnx")
                options["specific_model_path"] = str(folder)
            return encoder(self._name, **options)
        except Exception as problem:  # a download, a file, or the runtime
            raise ModelError(f"{CROSS_ENCODER}{self._name}", str(problem)) from problem


def _retrieved(run: asyncio.Future[list[float]]) -> None:
    """Mark the error of an abandoned run as read, so that asyncio does not log it."""
    if not run.cancelled():
        run.exception()
