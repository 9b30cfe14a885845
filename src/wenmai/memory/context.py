"""The context: prompt blocks and messages for the caller's own model."""

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from wenmai.errors import StoreUnavailable
from wenmai.memory.assembly import Assembly
from wenmai.memory.block_budget import BlockWeight
from wenmai.memory.blocks import preference_block
from wenmai.memory.line_blocks import EPISODES, SUMMARY, add_line_blocks
from wenmai.memory.preferences import PreferenceBook
from wenmai.memory.recall import Recall
from wenmai.memory.summaries import MIN_MESSAGES, Summaries, ThreadSummary, beside_summary
from wenmai.memory.transcript import Transcript
from wenmai.memory.window import Window, WindowLimits
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Block, Cut
from wenmai.stores.validation import check_at_least, check_text
from wenmai.text.tokens import TokenCounter

_log = logging.getLogger(__name__)


class Context(msgspec.Struct, frozen=True):
    """A context, ready for a model.

    Attributes:
        blocks: for the system prompt, in this order.
        messages: the window, then the question, in chat API form: {role, content, …}.
        tokens: of blocks and messages together.
        cut: what did not fit, by block kind.
        degraded: ``summary`` or ``recall``, if the store did not answer and the context is without them.
    """

    blocks: Annotated[list[Block], Meta(description="Blocks for the system prompt.")]
    messages: Annotated[
        list[dict[str, Any]], Meta(description="The history window, with the question as the last message.")
    ]
    tokens: Annotated[int, Meta(description="Estimated tokens in total.")]
    cut: Annotated[Cut, Meta(description="What was cut to stay within the limits.")]
    degraded: Annotated[
        list[str], Meta(description="`summary` or `recall`: left out, because the store did not answer.")
    ] = []


class ContextBuilder:
    """Assembles preferences, summary, related earlier turns, window and question within a token budget."""

    def __init__(
        self,
        transcript: Transcript,
        preferences: PreferenceBook,
        summaries: Summaries,
        recall: Recall,
        *,
        limits: WindowLimits,
        weights: Mapping[str, BlockWeight],
        count_tokens: TokenCounter,
    ) -> None:
        self._transcript = transcript
        self._preferences = preferences
        self._summaries = summaries
        self._recall = recall
        self._limits = limits
        self._weights = weights
        self._count_tokens = count_tokens

    async def build(
        self,
        scope: Scope,
        thread: ThreadKey,
        query: str,
        *,
        budget_tokens: int | None = None,
        related_turns: bool = True,
    ) -> Context:
        """The context for answering ``query``, in at most ``budget_tokens``.

        The question is always included, then preferences if they were ever set or inferred. The rest is divided by
        weight over the summary, the related earlier turns and the messages after the summary. With a budget, the
        character limit of the window does not apply to them.

        Args:
            scope: of the user.
            thread: to continue.
            query: the question.
            budget_tokens: of blocks and messages together; None for no limit.
            related_turns: with excerpts of the turns of the user with this persona, of any session, that are related to
                the question and not among the messages.

        Raises:
            InvalidInput: the question is not text, or the budget is no number or too small for it.
        """
        check_text("query", query)
        question = Block("question", query, self._count_tokens(query))
        if budget_tokens is not None:
            check_at_least("budget_tokens", budget_tokens, question.tokens, ", the tokens of the query")
        assembly = Assembly(budget_tokens, [question], self._weights)
        preferences = await self._preferences.get(scope, thread.session_id, incarnation=thread.incarnation or "")
        blocks: list[Block] = []
        if preferences.updated_at is not None:
            block = preference_block(preferences.values, preferences.values.language, self._count_tokens)
            blocks = assembly.add_preferences(block)
        window = await self._window(scope, thread, assembly.room)
        degraded: list[str] = []
        found = await self._read_summary(scope, thread, window, degraded)
        summary, window = beside_summary(found, window, self._count_tokens)
        language = preferences.values.language
        # With a budget the summary may be shortened, so that its lines are not known for certain.
        lines = summary.text.splitlines() if summary is not None else []
        known = lines if budget_tokens is None else []
        related = await self._related(scope, thread, query, known, language, window, degraded) if related_turns else []
        blocks += add_line_blocks(
            assembly,
            {SUMMARY: lines, EPISODES: related},
            history_tokens=window.tokens,
            language=language,
            count_tokens=self._count_tokens,
        )
        wanted = window.tokens
        if assembly.room is not None and wanted > assembly.room:
            window = await self._transcript.shortened(window, max(assembly.room, 0))
        messages = [
            *map(_for_model, assembly.add_window(window, wanted=wanted)),
            {"role": "user", "content": query},
        ]
        return Context(blocks, messages, assembly.tokens, assembly.cut, degraded)

    async def _read_summary(
        self, scope: Scope, thread: ThreadKey, window: Window, degraded: list[str]
    ) -> ThreadSummary | None:
        """The thread's summary; none of a short thread, nor while only cache entries can be read."""
        if window.messages and window.messages[-1].seq <= MIN_MESSAGES:
            return None
        try:
            return await self._summaries.get(scope, thread)
        except StoreUnavailable as problem:
            _log.warning("context without the summary: %s", problem)
            degraded.append("summary")
            return None

    async def _related(
        self,
        scope: Scope,
        thread: ThreadKey,
        query: str,
        known: Sequence[str],
        language: str,
        window: Window,
        degraded: list[str],
    ) -> list[str]:
        try:
            return await self._recall.related_turns(
                scope,
                thread.persona_id,
                query,
                shown=window.messages,
                known=known,
                tokens=EPISODES.room(self._weights["episodes"].limit, language, self._count_tokens),
            )
        except StoreUnavailable as problem:
            _log.warning("context without related turns: %s", problem)
            degraded.append("recall")
            return []

    async def _window(self, scope: Scope, thread: ThreadKey, room: int | None) -> Window:
        if room is None:
            return await self._transcript.window(scope, thread, self._limits)
        # The character limit is for callers without a token budget.
        messages = self._limits.messages if room > 0 else 0
        tokens = max(room if self._limits.tokens is None else min(room, self._limits.tokens), 0)
        return await self._transcript.window(
            scope, thread, WindowLimits(messages=messages, characters=None, tokens=tokens)
        )


def _for_model(message: Any) -> dict[str, Any]:
    fields = {"role": message.role, "content": message.content}
    optional = {
        "name": message.name,
        "tool_calls": message.tool_calls,
        "tool_call_id": message.tool_call_id,
    }
    return fields | {field: value for field, value in optional.items() if value is not None}
