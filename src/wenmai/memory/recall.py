"""Recall: the messages of a user's conversations that answer a question, best first.

The index proposes and ranks; texts come from the transcript. So nothing deleted is recalled, whatever is still indexed.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from wenmai.clock import Clock, to_micros
from wenmai.errors import InvalidInput
from wenmai.memory.episode_entries import decoded_span, neighbour_ids, parsed_id
from wenmai.memory.episodes import EpisodeIndex
from wenmai.memory.sessions import Sessions
from wenmai.retrieval.message_ranking import Question, RankedMessage, Why, asks_when, named_speakers, rank
from wenmai.retrieval.query_embedding import QueryEmbedding, Vector
from wenmai.retrieval.time_expressions import DAY, DaySpan, find_spans
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Hit, Logs, Range, SearchQuery, WeightedFusion, Where
from wenmai.stores.records import Message
from wenmai.text.tokens import TokenCounter

POOL = 300
"""Messages ranked, by words and by meaning each."""

DATED_POOL = 100
"""Messages of the days that the question names, in addition."""

MAX_IDS = 500
MAX_TOP = 200
DEFAULT_TOP = 10
QUERY_LIMIT = 4_000
TURN_MESSAGES = 50
"""Of a turn, in one read; a longer turn is recalled without its further messages."""

LEAST_SHORTENED = 40
"""Tokens; an item that does not fit is shortened to the rest of the budget, if that has so many."""

Unit = Literal["message", "turn"]


class RecallQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the memory.

    Attributes:
        query: the question, 1 to 4 000 characters.
        session_id: only this session; None for all of the user's sessions.
        persona_id: only this persona's threads.
        unit: single messages, or whole turns: a question with its answer.
        top_k: most items, 1 to 200; None for 10, or with a budget for as many as fit.
        budget_tokens: of all texts together.
        before, after: only messages before this time, and at or after it.
        exclude: ids of messages that the caller has already, such as those of its window.
    """

    query: str
    session_id: str | None = None
    persona_id: str | None = None
    unit: Unit = "message"
    top_k: int | None = None
    budget_tokens: int | None = None
    before: datetime | None = None
    after: datetime | None = None
    exclude: Collection[str] = ()


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
    text: Annotated[str, Meta(description="The text; its end is cut if it exceeds the budget.")]
    tokens: Annotated[int, Meta(description="Estimated tokens of the text.")]
    score: Annotated[float, Meta(description="Comparable within one answer only.")]
    why: Annotated[Reasons, Meta(description="The parts of the score.")]


class Recall:
    """Answers :class:`RecallQuery`.

    Args:
        index: None for a store without search, where nothing can be recalled.
        questions: embeds them.
        logs: the transcripts.
        sessions: resolves ids of sessions.
        clock: relative times in a question count from its day.
        count_tokens: of a text.
    """

    def __init__(
        self,
        index: EpisodeIndex | None,
        questions: QueryEmbedding,
        logs: Logs,
        sessions: Sessions,
        clock: Clock,
        count_tokens: TokenCounter,
    ) -> None:
        self._index = index
        self._questions = questions
        self._logs = logs
        self._sessions = sessions
        self._clock = clock
        self._count_tokens = count_tokens

    async def recall(self, scope: Scope, asked: RecallQuery) -> list[RecalledItem]:
        """The items in rank order.

        Raises:
            InvalidInput: a value is out of range, or the store has no search.
            SessionNotFound: the session is absent or foreign.
            StoreError: the store failed.
        """
        _check(asked)
        if self._index is None:
            raise InvalidInput("store", "", "a store with a search index, such as sqlite or postgresql")
        where = await self._where(scope, asked)
        spans = find_spans(asked.query, self._clock().date())
        vector, _ = await self._questions.embed(asked.query)
        ranked = await self._rank(self._index, scope, asked.query, vector, where, spans)
        return await self._read(scope, asked, ranked)

    async def _where(self, scope: Scope, asked: RecallQuery) -> Where:
        where: dict[str, Any] = {}
        if asked.session_id is not None:
            where["incarnation"] = (await self._sessions.get(scope, asked.session_id)).record.incarnation
        if asked.persona_id is not None:
            where["persona"] = asked.persona_id
        if asked.before is not None or asked.after is not None:
            low, high = (None if at is None else to_micros(at) for at in (asked.after, asked.before))
            where["at"] = Range(low=low, high=high)
        return where

    async def _rank(
        self,
        index: EpisodeIndex,
        scope: Scope,
        query: str,
        vector: Vector | None,
        where: Where,
        spans: Sequence[DaySpan],
    ) -> list[tuple[Hit, Why]]:
        def search(where: Where, limit: int, ids: Sequence[str] | None = None) -> SearchQuery:
            fusion = WeightedFusion()
            return SearchQuery(
                text=query, vector=vector, where=where, ids=ids, limit=limit, pool=max(limit, POOL), fusion=fusion
            )

        queries = [search(where, POOL), *(search({**where, **_days(span)}, DATED_POOL) for span in spans[:3])]
        hits = {hit.id: hit for found in await index.query(scope, queries) for hit in found}
        near = dict.fromkeys(id_ for hit in hits for id_ in neighbour_ids(hit) if id_ not in hits)
        around = dict(hits)
        if near:
            [found] = await index.query(scope, [search({}, MAX_IDS, list(near)[:MAX_IDS])])
            around |= {hit.id: hit for hit in found}
        messages = await asyncio.to_thread(lambda: [_features(hit, around) for hit in hits.values()])
        question = Question(
            named_speakers(query, sorted({message.speaker for message in messages})), spans, asks_when(query)
        )
        return [(hits[id_], why) for id_, why in rank(messages, question).items()]

    async def _read(self, scope: Scope, asked: RecallQuery, ranked: Sequence[tuple[Hit, Why]]) -> list[RecalledItem]:
        top = asked.top_k or (DEFAULT_TOP if asked.budget_tokens is None else MAX_TOP)
        basket = _Basket(top, asked.budget_tokens, self._count_tokens)
        seen: set[tuple[ThreadKey, int]] = set()
        exclude = frozenset(asked.exclude)
        rest: Iterator[tuple[Hit, Why]] = iter(ranked)
        while not basket.is_full:
            chosen: list[tuple[Hit, Why]] = []
            for hit, why in rest:
                thread, seq = parsed_id(hit.id)
                unit = (thread, _number(hit, "turn") if asked.unit == "turn" else seq)
                if unit not in seen and str(hit.fields["message"]) not in exclude:
                    seen.add(unit)
                    chosen.append((hit, why))
                if len(chosen) >= basket.wanted:
                    break
            if not chosen:
                break
            found = await asyncio.gather(*(self._messages(scope, hit, asked.unit) for hit, _ in chosen))
            for (_, why), (thread, messages) in zip(chosen, found, strict=True):
                if messages and exclude.isdisjoint(message.id for message in messages):
                    basket.add(thread, messages, why)
        return basket.items

    async def _messages(self, scope: Scope, hit: Hit, unit: Unit) -> tuple[ThreadKey, list[Message]]:
        """The messages of a hit as they are now; none if the one that was indexed is gone."""
        thread, seq = parsed_id(hit.id)
        if unit == "message":
            found = await self._logs.read(scope, thread, start=seq, limit=1)
        else:
            found = await self._logs.read(scope, thread, start=_number(hit, "turn_first"), limit=TURN_MESSAGES)
        if not any(message.seq == seq and message.id == hit.fields["message"] for message in found):
            return thread, []
        turn = _number(hit, "turn")
        shown = [each for each in found if each.turn_id == turn and each.role in ("user", "assistant") and each.content]
        return thread, [message for message in shown if message.completed]


class _Basket:
    """Collects items until there are enough or the budget is used up.

    Attributes:
        items: in the order in which they were added.
    """

    def __init__(self, top: int, budget: int | None, count_tokens: TokenCounter) -> None:
        self.items: list[RecalledItem] = []
        self._top = top
        self._room = budget
        self._count_tokens = count_tokens

    @property
    def wanted(self) -> int:
        """How many items to read next."""
        return min(self._top - len(self.items), 20 if self._room is None else max(5, self._room // 30))

    @property
    def is_full(self) -> bool:
        """Whether nothing more fits."""
        return len(self.items) >= self._top or self._room == 0

    def add(self, thread: ThreadKey, messages: Sequence[Message], why: Why) -> None:
        """Add an item, shortened if it does not fit; it is then the last one."""
        if self.is_full:
            return
        text = "\n".join(message.content for message in messages)
        tokens = self._count_tokens(text)
        if self._room is not None and tokens > self._room:
            text = self._fitting(text, self._room) if self._room >= LEAST_SHORTENED or not self.items else ""
            tokens = self._count_tokens(text)
            self._room = tokens
            if not text:
                return
        if self._room is not None:
            self._room -= tokens
        self.items.append(_item(thread, messages, text, tokens, why))

    def _fitting(self, text: str, tokens: int) -> str:
        """The longest beginning of the text within so many tokens, with an ellipsis."""
        low, high = 0, min(len(text), 20 * tokens)
        while low < high:
            middle = (low + high + 1) // 2
            if self._count_tokens(text[:middle] + "…") <= tokens:
                low = middle
            else:
                high = middle - 1
        return text[:low] + "…" if low else ""


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


def _features(hit: Hit, around: Mapping[str, Hit]) -> RankedMessage:
    fields = hit.fields
    near = [around[id_] for id_ in neighbour_ids(hit.id) if id_ in around]
    spans = fields.get("spans", ())
    return RankedMessage(
        id=hit.id,
        session=str(fields["incarnation"]),
        speaker=str(fields["speaker"]),
        day=date.fromisoformat(str(fields["day"])),
        spans=[decoded_span(str(span)) for span in ([spans] if isinstance(spans, str) else spans)],  # type: ignore[union-attr]
        is_question=bool(fields["question"]),
        length=_number(hit, "length"),
        lexical=hit.lexical,
        similarity=hit.similarity,
        neighbours=[each.similarity for each in near if each.similarity is not None],
        neighbour_words=[each.lexical for each in near],
    )


def _number(hit: Hit, field: str) -> int:
    return int(hit.fields[field])  # type: ignore[arg-type]


def _days(span: DaySpan) -> Where:
    """The filter for messages of these days."""
    if not span.yearly:
        return {"day": Range(low=span.first.isoformat(), high=(span.last + DAY).isoformat())}
    return {"month_day": [(span.first + step * DAY).isoformat()[5:] for step in range(span.days)]}


def _check(asked: RecallQuery) -> None:
    if not 1 <= len(asked.query.strip()) <= len(asked.query) <= QUERY_LIMIT:
        raise InvalidInput("query", asked.query, f"1 to {QUERY_LIMIT} characters")
    if asked.top_k is not None and not 1 <= asked.top_k <= MAX_TOP:
        raise InvalidInput("top_k", asked.top_k, f"1 to {MAX_TOP}")
    if asked.budget_tokens is not None and asked.budget_tokens < 1:
        raise InvalidInput("budget_tokens", asked.budget_tokens, "1 or more")
