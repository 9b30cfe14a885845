"""What an attempt at an answer has received so far: its text, its usage, and how it ended."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wenmai.text.clean import PieceCleaner

if TYPE_CHECKING:
    from langchain_core.messages import AIMessageChunk

_MOST_TOKENS = 2**40
"""A count above this is a mistake of the server; sums of such counts would not fit 64 bits."""

_REASON_KEYS = ("finish_reason", "stop_reason", "done_reason", "stopReason", "finishReason", "status")
"""Where providers say in a chunk's metadata why the answer ended."""

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


class Tally:
    """Takes in the chunks of one attempt.

    Args:
        most: characters after which the text is cut off.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._cleaner = PieceCleaner()
        self._pieces: list[str] = []
        self._length = 0
        self._prompt_tokens: list[int] = []
        self._completion_tokens: list[int] = []
        self.finish_reason = ""
        self.full = False

    @property
    def text(self) -> str:
        """The pieces joined."""
        return "".join(self._pieces)

    @property
    def has_text(self) -> bool:
        """Whether there was a piece that is not empty."""
        return bool(self._pieces)

    @property
    def brought_anything(self) -> bool:
        """Whether there was a piece or a count of tokens."""
        return bool(self._pieces or self.prompt_tokens or self.completion_tokens)

    @property
    def cut_off(self) -> bool:
        """Whether the text ended at a limit of length, the provider's or ours."""
        return self.full or self.finish_reason.lower() in _LENGTH

    @property
    def filtered(self) -> bool:
        """Whether the provider withheld the rest."""
        return self.finish_reason.lower() in _FILTERED

    @property
    def failed(self) -> bool:
        """Whether the provider says that it failed on the way."""
        return self.finish_reason.lower() in _FAILED

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt; 0 if they are not known."""
        return max(self._prompt_tokens, default=0)

    @property
    def completion_tokens(self) -> int:
        """Tokens of the text so far; 0 if they are not known.

        LangChain's counts are to be summed. A server that states the prompt's tokens again and again counts from the
        beginning each time, so that its largest count is the latest.
        """
        cumulative = sum(1 for count in self._prompt_tokens if count) > 1
        return max(self._completion_tokens, default=0) if cumulative else _counted(sum(self._completion_tokens))

    def add(self, chunk: "AIMessageChunk") -> str:
        """Take in a chunk; its clean text, often empty."""
        self._note_usage(chunk.usage_metadata)
        self.finish_reason = _reason(chunk.response_metadata) or self.finish_reason
        piece = self._cleaner.add(str(chunk.text))
        room = self._most - self._length
        if len(piece) > room:
            self.full = True
            piece = piece[:room]
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)
        return piece

    def _note_usage(self, usage: Any) -> None:
        if usage is not None:
            self._prompt_tokens.append(_counted(usage["input_tokens"]))
            self._completion_tokens.append(_counted(usage["output_tokens"]))


def _reason(metadata: Mapping[str, Any]) -> str:
    incomplete = metadata.get("incomplete_details") or {}
    return str(incomplete.get("reason") or next((metadata[key] for key in _REASON_KEYS if metadata.get(key)), ""))


def _counted(tokens: int) -> int:
    """The count; 0 if it is none that a call can have."""
    return tokens if 0 <= tokens <= _MOST_TOKENS else 0
