"""The words that the steps of a turn share."""

from enum import StrEnum

import msgspec


class Intent(StrEnum):
    """What a question is after; nothing matched means ``FACT_SEEKING``."""

    GREETING = "greeting"
    CONTEXT_PREFERENCE = "context_preference"
    CLARIFICATION = "clarification"
    OUT_OF_SCOPE = "out_of_scope"
    FACT_SEEKING = "fact_seeking"


class PolicyMode(StrEnum):
    """How an answer may be given; the same words in the API, the trace and the metrics."""

    NORMAL = "normal"
    CONSERVATIVE = "conservative"
    REFUSE = "refuse"


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage of evidence that a search found.

    Attributes:
        score: 0 to 1, how much of the question it covers.
        number: its number in the prompt, from 1.
    """

    evidence_id: str
    title: str
    text: str
    source_ref: str
    score: float
    number: int
    language: str = "zh"
    domains: list[str] = []
    verified: bool = True
    confidence: float = 1.0


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that supports an answer, as shown to the visitor; the excerpt has at most 100 characters."""

    evidence_id: str
    title: str
    source_ref: str
    excerpt: str
    score: float
