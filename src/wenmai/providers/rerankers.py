"""Cross-encoders by name: models that read a question and a text together and say how well one answers the other."""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from wenmai.errors import ModelError
from wenmai.providers.errors import require_extra

CROSS_ENCODER = "cross-encoder:"
THREADS = 1


class CrossEncoder:
    """A cross-encoder in this process; its weights are loaded by the first call.

    Args:
        name: of a model that fastembed knows, which is downloaded once, or a folder with ``model.onnx``,
            ``tokenizer.json`` and the configuration files beside it.
    """

    def __init__(self, name: str) -> None:
        require_extra("fastembed", package="fastembed", extra="rerank")
        self._name = name
        self._loading: asyncio.Task[Any] | None = None

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the query, on a scale of the model's own.

        Raises:
            ModelError: the model cannot be loaded or fails.
        """
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.create_task(asyncio.to_thread(self._load))
        # A caller that gives up must not begin a download anew.
        model = await asyncio.shield(self._loading)
        try:
            return await asyncio.to_thread(lambda: [float(score) for score in model.rerank(query, list(texts))])
        except Exception as problem:  # whatever the runtime of the model raises
            raise ModelError(f"{CROSS_ENCODER}{self._name}", str(problem)) from problem

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
