"""A LangChain model in this process that says what it is given, and that it has ended."""

from collections.abc import Iterator
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk


class EndingModel(GenericFakeChatModel):
    """LangChain's own model for tests, which gives no reason for its end, with one."""

    def _stream(self, *args: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
        yield from super()._stream(*args, **options)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", response_metadata={"finish_reason": "stop"}))
