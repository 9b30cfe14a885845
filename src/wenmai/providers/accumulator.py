"""Accumulates the stream of one attempt: text, usage, and how it ended."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wenmai.text.clean import FragmentCleaner

if TYPE_CHECKING:
    from langchain_core.messages import AIMessageChunk

_MAX_TOKENS = 2**40
"""A larger count is a server error; sums of such counts would not fit 64 bits."""

_REASON_KEYS = ("finish_reason", "stop_reason", "done_reason", "stopReason", "finishReason", "status")
"""Metadata keys in which providers state why the answer ended."""

_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"})
_FILTERED = frozenset(
    {
        "content_filter",
        "content_filtered",
        "guardrail_intervened",
        "refusal",
        "safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
    }
)
_FAILED = frozenset({"error", "failed", "abort", "cancelled"})


class ResponseAccumulator:
    """Accumulates the chunks of one attempt.

    Args:
        max_characters: the text is cut off after so many.
    """

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self._cleaner = FragmentCleaner()
        self._pieces: list[str] = []
        self._length = 0
        self._prompt_tokens: list[int] = []
        self._completion_tokens: list[int] = []
        self.finish_reason = ""
        self.full = False

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    @property
    def has_text(self) -> bool:
        """Whether any text was received."""
        return bool(self._pieces)

    @property
    def has_output(self) -> bool:
        """Whether any text or token count was received."""
        return bool(self._pieces or self.prompt_tokens or self.completion_tokens)

    @property
    def cut_off(self) -> bool:
        """Whether the text ended at a length limit, the provider's or ours."""
        return self.full or self.finish_reason.lower() in _LENGTH

    @property
    def filtered(self) -> bool:
        """Whether the provider withheld the rest."""
        return self.finish_reason.lower() in _FILTERED

    @property
    def failed(self) -> bool:
        """Whether the provider reported a failure."""
        return self.finish_reason.lower() in _FAILED

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt; 0 if unknown."""
        return max(self._prompt_tokens, default=0)

    @property
    def completion_tokens(self) -> int:
        """Tokens of the text so far; 0 if unknown.

        LangChain's counts are increments to sum up. But a server that repeats the prompt's tokens sends cumulative
        counts, of which the largest is the latest.
        """
        cumulative = sum(1 for count in self._prompt_tokens if count) > 1
        return max(self._completion_tokens, default=0) if cumulative else _valid_count(sum(self._completion_tokens))

    def add(self, chunk: "AIMessageChunk") -> str:
        """Add a chunk; returns its cleaned text, often empty."""
        self._record_usage(chunk.usage_metadata)
        self.finish_reason = _reason(chunk.response_metadata) or self.finish_reason
        piece = self._cleaner.add(str(chunk.text))
        room = self._max_characters - self._length
        if len(piece) > room:
            self.full = True
            piece = piece[:room]
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)
        return piece

    def _record_usage(self, usage: Any) -> None:
        if usage is not None:
            self._prompt_tokens.append(_valid_count(usage["input_tokens"]))
            self._completion_tokens.append(_valid_count(usage["output_tokens"]))


def _reason(metadata: Mapping[str, Any]) -> str:
    incomplete = metadata.get("incomplete_details") or {}
    return str(incomplete.get("reason") or next((metadata[key] for key in _REASON_KEYS if metadata.get(key)), ""))


def _valid_count(tokens: int) -> int:
    """The count; 0 if it is impossible."""
    return tokens if 0 <= tokens <= _MAX_TOKENS else 0
