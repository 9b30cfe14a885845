"""Recall: the messages of a user's conversations that answer a question, best first.

The index proposes and ranks; texts come from the transcript. So nothing deleted is recalled, whatever is still indexed.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from datetime import datetime
from itertools import islice, takewhile
from typing import Any

from wenmai.clock import Clock
from wenmai.errors import InvalidInput
from wenmai.memory.derived_preferences import INCOGNITO
from wenmai.memory.episode_entries import EMBEDDED_CHARACTERS, index_time, is_indexed, parsed_id, shortened
from wenmai.memory.episode_excerpts import CANDIDATES, excerpts, shortened_turn
from wenmai.memory.episodes import EpisodeIndex
from wenmai.memory.message_search import AskedQuestion, search_messages
from wenmai.memory.ranked_hits import merged, number, units
from wenmai.memory.recall_model import RERANKED, QueryDecomposer, RecallModelFailed, Reranker, complete_order
from wenmai.memory.recalled_items import (
    MAX_TOP,
    QUERY_LIMIT,
    READ_TOGETHER,
    Basket,
    RecalledItem,
    RecallQuery,
    Unit,
    check_query,
)
from wenmai.memory.recent_messages import RecentMessages
from wenmai.memory.sessions import Sessions
from wenmai.resilience.degradation import note_degraded
from wenmai.resilience.offload import run_by_size
from wenmai.retrieval.back_references import only_points_back
from wenmai.retrieval.diversity import POOL_FACTOR, diversified
from wenmai.retrieval.message_ranking import NOT_RANKED, Why
from wenmai.retrieval.query_embedding import QueryEmbedding
from wenmai.retrieval.time_expressions import find_spans
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Logs
from wenmai.stores.records import Message
from wenmai.stores.structs import CollectionSize, Hit, Range, ThreadPart, Where
from wenmai.text.cjk import terms
from wenmai.text.tokens import TokenCounter

RERANKER, DECOMPOSER = "reranker", "decomposer"
"""Keys in ``degraded``."""

DEFAULT_TOP = 10
_LARGE = 5_000
"""From so many characters on, turns are excerpted in a worker thread."""

TURN_MESSAGES = 50
"""Of a turn, in one read; of a longer one its first messages are recalled, or the last ones up to the one found."""


_Item = tuple[ThreadKey, list[Message], Why]


class Recall:
    """Answers :class:`RecallQuery`.

    Args:
        index: None for a store without search, where nothing can be recalled.
        questions: embeds them.
        logs: the transcripts.
        sessions: resolves ids of sessions.
        recent: what was said last, for questions that only point back.
        clock: relative times in a question count from its day.
        count_tokens: of a text.

    Attributes:
        reranker: may put the best items into another order; None for the order of the scores.
        decomposer: splits questions; None to search them as they are.
    """

    reranker: Reranker | None = None
    decomposer: QueryDecomposer | None = None

    def __init__(
        self,
        index: EpisodeIndex | None,
        questions: QueryEmbedding,
        logs: Logs,
        sessions: Sessions,
        recent: RecentMessages,
        clock: Clock,
        count_tokens: TokenCounter,
    ) -> None:
        self._index = index
        self._questions = questions
        self._logs = logs
        self._sessions = sessions
        self._recent = recent
        self._clock = clock
        self._count_tokens = count_tokens

    async def recall(self, scope: Scope, asked: RecallQuery, *, by_model: bool = True) -> list[RecalledItem]:
        """The items in rank order.

        A model that fails is noted as degraded (``reranker``, ``decomposer``).

        Args:
            scope: of the user.
            asked: the question and its limits.
            by_model: with the help of a model, if one is configured.

        Raises:
            InvalidInput: a value is out of range, or the store has no search.
            SessionNotFound: the session is absent or foreign.
            StoreError: the store failed.
        """
        return await self._collect(asked, await self._found(scope, asked, by_model=by_model))

    async def _found(self, scope: Scope, asked: RecallQuery, *, by_model: bool) -> AsyncIterator[_Item]:
        check_query(asked)
        if self._index is None:
            raise InvalidInput("store", "", "a store with a search index, such as sqlite or postgresql")
        where = await self._where(scope, asked)
        back = only_points_back(asked.query)
        parts = await self._parts(scope, asked) if by_model and not back else [asked.query]
        vectors = await asyncio.gather(*(self._questions.embed(part) for part in parts))
        questions = [
            AskedQuestion(part, vector, find_spans(part, self._clock().date()))
            for part, (vector, _) in zip(parts, vectors, strict=True)
        ]
        ranked = await search_messages(self._index, scope, questions, where)
        recent = await self._recent.read(scope, asked) if back else []
        items = self._items(scope, asked, recent, merged(ranked))
        return self._reranked(scope, asked, items) if by_model else items

    async def related_turns(
        self,
        scope: Scope,
        persona_id: str,
        question: str,
        *,
        shown: Sequence[Message],
        known: Collection[str] = (),
        tokens: int,
        before: datetime | None = None,
    ) -> list[str]:
        """Excerpts of the user's earlier turns with a persona that are related to a question; most related first.

        Nothing if the store has no search, or if the question only points back to what is shown.

        Args:
            scope: of the user.
            persona_id: only turns with this persona.
            question: the first 4 000 characters are searched.
            shown: messages that the prompt has already; their turns are left out.
            known: statements that the prompt has already, such as the lines of the summary.
            tokens: of all texts together, at most.
            before: only turns before this time.

        Raises:
            StoreError: the search failed.
        """
        query = question.strip()[:QUERY_LIMIT]
        if not self.available or not query or only_points_back(query):
            return []
        asked = RecallQuery(
            query=query,
            persona_id=persona_id,
            unit="turn",
            top_k=CANDIDATES,
            before=before,
            exclude={message.id for message in shown},
        )
        found = _first(await self._found(scope, asked, by_model=False), CANDIDATES)
        turns = [shortened_turn(messages) async for _, messages, _ in found]
        size = sum(len(message.content) for messages in turns for message in messages)
        return await run_by_size(size, _LARGE, excerpts, turns, query, tokens, self._count_tokens, frozenset(known))

    async def _parts(self, scope: Scope, asked: RecallQuery) -> list[str]:
        if self.decomposer is None:
            return [asked.query]
        try:
            parts = await self.decomposer.parts(scope, asked.session_id, asked.query)
        except RecallModelFailed:
            note_degraded(DECOMPOSER)
            return [asked.query]
        return [*dict.fromkeys([*parts, asked.query])]

    async def _reranked(self, scope: Scope, asked: RecallQuery, items: AsyncIterator[_Item]) -> AsyncIterator[_Item]:
        """The items, the best of them in the order of the reranker."""
        best = [item async for item in _first(items, RERANKED)] if self.reranker is not None else []
        if self.reranker is not None and len(best) > 1:
            texts = [
                shortened("\n".join(message.content for message in messages), EMBEDDED_CHARACTERS)
                for _, messages, _ in best
            ]
            try:
                scores = [why.total for _, _, why in best]
                order = await self.reranker.order(scope, asked.session_id, asked.query, texts, scores)
            except RecallModelFailed:
                note_degraded(RERANKER)
                order = []
            best = [best[index] for index in complete_order(order, len(best))]
        for item in best:
            yield item
        async for item in items:
            yield item

    @property
    def available(self) -> bool:
        """Whether the store has a search, so that something can be recalled."""
        return self._index is not None

    async def size(self, scope: Scope) -> CollectionSize:
        """How many of the user's messages are indexed, and how many of them by meaning too."""
        return CollectionSize(0, 0) if self._index is None else await self._index.size(scope)

    async def _where(self, scope: Scope, asked: RecallQuery) -> Where:
        where: dict[str, Any] = {}
        if asked.session_id is not None:
            session = await self._sessions.get(scope, asked.session_id, incarnation=asked.incarnation)
            where["incarnation"] = session.record.incarnation
        if asked.persona_id is not None:
            where["persona"] = asked.persona_id
        if asked.before is not None or asked.after is not None:
            low, high = (None if at is None else index_time(at) for at in (asked.after, asked.before))
            where["at"] = Range(low=low, high=high)
        return where

    async def _collect(self, asked: RecallQuery, items: AsyncIterator[_Item]) -> list[RecalledItem]:
        top = asked.top_k or (DEFAULT_TOP if asked.budget_tokens is None else MAX_TOP)
        basket = Basket(top, asked.budget_tokens, self._count_tokens)
        if asked.mmr_lambda is not None:
            pool = [item async for item in _first(items, min(top * POOL_FACTOR, MAX_TOP))]
            for thread, messages, why in await asyncio.to_thread(_diversified, pool, asked.mmr_lambda, top):
                basket.add(thread, messages, why)
            return basket.items
        async for thread, messages, why in items:
            basket.add(thread, messages, why)
            if not basket.wanted:
                break
        return basket.items

    async def _items(
        self,
        scope: Scope,
        asked: RecallQuery,
        recent: Sequence[tuple[ThreadKey, list[Message]]],
        ranked: Iterable[tuple[Hit, Why]],
    ) -> AsyncIterator[_Item]:
        """What was said last, if that is asked, then the ranked messages; each as it is now, and none twice."""
        seen = set(asked.exclude)
        best = max((why.total for _, why in ranked), default=0.0) if recent else 0.0
        for place, (thread, messages) in enumerate(recent):
            if seen.isdisjoint(message.id for message in messages):
                seen.update(message.id for message in messages)
                yield thread, messages, NOT_RANKED._replace(time=best + len(recent) - place)
        hits = units(ranked, asked.unit)
        while chosen := list(islice(hits, min(asked.top_k or DEFAULT_TOP, READ_TOGETHER))):
            found = await self._logs.read_parts(scope, [_part(hit, asked.unit) for hit, _ in chosen])
            for (hit, why), read in zip(chosen, found, strict=True):
                messages = _current(hit, read, asked)
                if messages and seen.isdisjoint(message.id for message in messages):
                    yield parsed_id(hit.id)[0], messages, why


def _part(hit: Hit, unit: Unit) -> ThreadPart:
    """The message of a hit, or its turn."""
    thread, seq = parsed_id(hit.id)
    if unit == "message":
        return ThreadPart(thread, seq, 1)
    return ThreadPart(thread, max(number(hit, "turn_first"), seq - TURN_MESSAGES + 1), TURN_MESSAGES)


def _current(hit: Hit, read: Sequence[Message], asked: RecallQuery) -> list[Message]:
    """The messages of a hit as they are now; none if the one that was indexed is gone."""
    _, seq = parsed_id(hit.id)
    if not any(message.seq == seq and message.id == hit.fields["message"] for message in read):
        return []
    turn = number(hit, "turn")
    shown = takewhile(lambda message: not message.metadata.get(INCOGNITO), read)
    return [message for message in shown if message.turn_id == turn and is_indexed(message) and asked.allows(message)]


async def _first(items: AsyncIterator[_Item], most: int) -> AsyncIterator[_Item]:
    async for item in items:
        yield item
        most -= 1
        if not most:
            return


def _diversified(pool: Sequence[_Item], relevance: float, wanted: int) -> list[_Item]:
    scores = [why.total for _, _, why in pool]
    features = [frozenset(terms("\n".join(message.content for message in messages))) for _, messages, _ in pool]
    return [pool[index] for index in diversified(scores, features, relevance=relevance, wanted=wanted)]
