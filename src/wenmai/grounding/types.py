"""Types that the steps of a turn share."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class DialogueAct(StrEnum):
    """Dialogue act of a message; ``FACT_SEEKING`` if no rule matches."""

    GREETING = "greeting"
    CONTEXT_PREFERENCE = "context_preference"
    CLARIFICATION = "clarification"
    OUT_OF_SCOPE = "out_of_scope"
    FACT_SEEKING = "fact_seeking"


class AnswerType(StrEnum):
    """Expected kind of answer to a question."""

    WHEN = "when"
    HOW_MANY = "how_many"
    WHO = "who"
    WHERE = "where"


class PolicyMode(StrEnum):
    """How a question may be answered; the same values in the API, the trace and the metrics."""

    NORMAL = "normal"
    CONSERVATIVE = "conservative"
    REFUSE = "refuse"


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage of evidence that was retrieved.

    Attributes:
        score: 0 to 1, the share of the question that it covers.
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


def count_characters(passages: Iterable[Passage]) -> int:
    """Characters of the passages' texts: what analysing them costs grows with it."""
    return sum(len(passage.text) for passage in passages)


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that supports an answer, as shown to the user; the excerpt has at most 100 characters."""

    evidence_id: str
    title: str
    source_ref: str
    excerpt: str
    score: float
