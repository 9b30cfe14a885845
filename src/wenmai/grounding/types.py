"""Types that the steps of a turn share."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta


class DialogueAct(StrEnum):
    """Dialogue act of a message; `fact_seeking` if no rule matches.

    A courtesy is thanks, a farewell, interest, a wish or small talk; a challenge questions an answer. Evidence is
    searched for a challenge and for fact seeking only.
    """

    GREETING = "greeting"
    COURTESY = "courtesy"
    CONTEXT_PREFERENCE = "context_preference"
    CLARIFICATION = "clarification"
    CHALLENGE = "challenge"
    OUT_OF_SCOPE = "out_of_scope"
    FACT_SEEKING = "fact_seeking"


SEARCHING = frozenset({DialogueAct.FACT_SEEKING, DialogueAct.CHALLENGE})
"""The dialogue acts that are answered from evidence."""


class AnswerType(StrEnum):
    """Expected kind of answer to a question."""

    WHEN = "when"
    HOW_LONG = "how_long"
    HOW_MANY = "how_many"
    WHO = "who"
    WHERE = "where"
    WHY = "why"
    HOW = "how"
    LIST = "list"
    YES_NO = "yes_no"
    DEFINITION = "definition"
    WHICH = "which"


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

    evidence_id: Annotated[str, Meta(description="The passage's id.")]
    title: Annotated[str, Meta(description="Its title.")]
    text: Annotated[str, Meta(description="The text.")]
    source_ref: Annotated[str, Meta(description="The source, such as a book and page.")]
    score: Annotated[float, Meta(description="The part of the query that it covers, 0 to 1.")]
    number: Annotated[int, Meta(description="Rank, from 1.")]
    language: Annotated[str, Meta(description="A BCP 47 tag, such as `zh` or `en`.")] = "zh"
    domains: Annotated[
        list[str], Meta(description="Domains of the passage; a persona is limited to its own domains.")
    ] = []
    verified: Annotated[bool, Meta(description="Whether the passage has been verified.")] = True
    similarity: Annotated[
        float | None,
        Meta(description="The highest cosine of a sentence with the query; null without the bundled embedder."),
    ] = None
    confidence: Annotated[float, Meta(description="Reliability of the source, 0 to 1.")] = 1.0
    effective_date: Annotated[str, Meta(description="The day from which its source is in force, or empty.")] = ""
    supersedes: Annotated[str, Meta(description="The earlier version of the source that it replaces.")] = ""


def count_characters(passages: Iterable[Passage]) -> int:
    """Characters of the passages' texts, to which the cost of analysing them is proportional."""
    return sum(len(passage.text) for passage in passages)


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that supports an answer, as shown to the user; the excerpt has at most 100 characters."""

    evidence_id: Annotated[str, Meta(description="The passage's id.")]
    title: Annotated[str, Meta(description="Its title.")]
    source_ref: Annotated[str, Meta(description="The source, such as a book and page.")]
    excerpt: Annotated[str, Meta(description="The part that supports the answer, at most 100 characters.")]
    score: Annotated[float, Meta(description="The part of the question that it covers, 0 to 1.")]
