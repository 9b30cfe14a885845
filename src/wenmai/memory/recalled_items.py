"""Recalled items: messages or turns, as many as are wanted and fit a budget."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from wenmai.errors import InvalidInput
from wenmai.memory.episode_entries import shortened
from wenmai.memory.sizes import ELLIPSIS
from wenmai.retrieval.message_ranking import Why
from wenmai.scope import ThreadKey
from wenmai.stores.records import Message
from wenmai.stores.validation import check_at_least, check_range, check_text
from wenmai.text.tokens import TokenCounter

MAX_TOP = 200
QUERY_LIMIT = 4_000
READ_TOGETHER = 20
ITEM_CHARACTERS = 8_000
"""A longer text is shortened to its beginning and its end."""

LEAST_SHORTENED = 40
"""Tokens; an item that does not fit is shortened to the rest of the budget, if that has so many."""

Unit = Literal["message", "turn"]


class RecallQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the memory.

    Attributes:
        query: the question, 1 to 4 000 characters.
        session_id: only this session; None for all of the user's sessions.
        incarnation: of that session; None for the one that has the id now.
        persona_id: only this persona's threads.
        unit: single messages, or whole turns: a question with its answer.
        top_k: most items, 1 to 200; None for 10, or with a budget for as many as fit.
        budget_tokens: of all texts together.
        before, after: only messages before this time, and at or after it.
        exclude: ids of messages that the caller has already, such as those of its window.
        mmr_lambda: 0 to 1; reorders by maximal marginal relevance with this weight of relevance against diversity. None
            for the order of the scores.
    """

    query: str
    session_id: str | None = None
    incarnation: str | None = None
    persona_id: str | None = None
    unit: Unit = "message"
    top_k: int | None = None
    budget_tokens: int | None = None
    before: datetime | None = None
    after: datetime | None = None
    exclude: Collection[str] = ()
    mmr_lambda: float | None = None

    def allows(self, message: Message) -> bool:
        """Whether the message is within the times asked for."""
        return (self.before is None or message.timestamp < self.before) and (
            self.after is None or message.timestamp >= self.after
        )


class Reasons(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a score; they add up to it."""

    words: Annotated[float, Meta(description="Shared words.")]
    meaning: Annotated[float, Meta(description="Similar meaning; 0 without an embedder.")]
    time: Annotated[float, Meta(description="The days that the question names, or asks for.")]
    speaker: Annotated[float, Meta(description="The speaker that the question names.")]
    neighbours: Annotated[float, Meta(description="The messages before and after.")]
    form: Annotated[float, Meta(description="Length, and whether the message is a question itself.")]
    session: Annotated[float, Meta(description="The best message of its session.")]


class RecalledItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message or a turn.

    Attributes:
        message_ids: of its messages, the caller's own where given.
        timestamps: of its messages; ``timestamp`` is the first.
    """

    session_id: Annotated[str, Meta(description="The session.")]
    persona_id: Annotated[str, Meta(description="The persona of its thread.")] = msgspec.field(name="npc_id")
    turn_id: Annotated[int, Meta(description="The turn's number in its thread.")]
    message_ids: Annotated[list[str], Meta(description="The ids of its messages, yours where you gave them.")]
    timestamp: Annotated[datetime, Meta(description="Time of its first message.")]
    timestamps: Annotated[list[datetime], Meta(description="Times of its messages.")]
    text: Annotated[str, Meta(description="The text; a very long one, or the last one of a budget, is shortened.")]
    tokens: Annotated[int, Meta(description="Estimated tokens of the text.")]
    score: Annotated[float, Meta(description="Comparable within one answer only.")]
    why: Annotated[Reasons, Meta(description="The parts of the score.")]


def check_query(asked: RecallQuery) -> None:
    """Refuse values that are out of range.

    Raises:
        InvalidInput: naming the field.
    """
    check_text("query", asked.query)
    if not 1 <= len(asked.query.strip()) <= len(asked.query) <= QUERY_LIMIT:
        raise InvalidInput("query", asked.query, f"1 to {QUERY_LIMIT} characters")
    if asked.unit not in get_args(Unit):
        raise InvalidInput("unit", asked.unit, " or ".join(get_args(Unit)))
    if asked.persona_id is not None:
        check_text("persona_id", asked.persona_id)
    if asked.top_k is not None:
        check_range("top_k", asked.top_k, 1, MAX_TOP)
    if asked.budget_tokens is not None:
        check_at_least("budget_tokens", asked.budget_tokens, 1)
    for field in ("before", "after"):
        at: object = getattr(asked, field)
        if at is not None and not (isinstance(at, datetime) and at.utcoffset() is not None):
            raise InvalidInput(field, at, "a timestamp with a time zone")
    if isinstance(asked.exclude, str):
        raise InvalidInput("exclude", asked.exclude, "a list of ids")
    relevance: object = asked.mmr_lambda
    if relevance is not None and not (isinstance(relevance, int | float) and 0 <= relevance <= 1):
        raise InvalidInput("mmr_lambda", relevance, "0 to 1")


class Basket:
    """Collects items until there are enough or the budget is used up.

    Attributes:
        items: in the order in which they were added.
    """

    def __init__(self, top: int, budget: int | None, count_tokens: TokenCounter) -> None:
        self.items: list[RecalledItem] = []
        self._top = top
        self._room = budget
        self._full = False
        self._count_tokens = count_tokens

    @property
    def wanted(self) -> int:
        """How many more items are wanted, 0 if nothing more fits."""
        return 0 if self._full else self._top - len(self.items)

    def add(self, thread: ThreadKey, messages: Sequence[Message], why: Why) -> None:
        """Add an item, shortened if it does not fit; it is then the last one."""
        if not self.wanted:
            return
        text = shortened("\n".join(message.content for message in messages), ITEM_CHARACTERS)
        tokens = self._count_tokens(text)
        if self._room is not None:
            if tokens > self._room:
                self._full = True
                if self._room < LEAST_SHORTENED and self.items:
                    return
                text = _beginning(text, self._room, self._count_tokens)
                tokens = self._count_tokens(text)
            self._room -= tokens
        if text:
            self.items.append(_item(thread, messages, text, tokens, why))


def _beginning(text: str, tokens: int, count_tokens: TokenCounter) -> str:
    """The longest beginning of the text within so many tokens, with an ellipsis."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(text[:middle] + ELLIPSIS) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low] + ELLIPSIS if low else ""


def _item(thread: ThreadKey, messages: Sequence[Message], text: str, tokens: int, why: Why) -> RecalledItem:
    return RecalledItem(
        session_id=thread.session_id,
        persona_id=thread.persona_id,
        turn_id=messages[0].turn_id,
        message_ids=[message.id for message in messages],
        timestamp=messages[0].timestamp,
        timestamps=[message.timestamp for message in messages],
        text=text,
        tokens=tokens,
        score=round(why.total, 4),
        why=Reasons(**{part: round(value, 4) for part, value in why._asdict().items()}),
    )
