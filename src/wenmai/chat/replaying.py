"""Replay of a trace: its blocks are sent to a model again, on request with another prompt or to another model."""

import time
from collections.abc import Mapping

import msgspec

from wenmai.chat.budgets import exhausted
from wenmai.chat.metering import UsageMeter
from wenmai.chat.prompts import prompt_messages, with_system_prompt
from wenmai.chat.steps.generate import OFFLINE
from wenmai.chat.turn import Services
from wenmai.config.texts import in_language
from wenmai.errors import BudgetExhausted, InvalidInput
from wenmai.memory.ids import new_trace_id
from wenmai.memory.trace_archive import trace_ref
from wenmai.providers.models import ChatModel
from wenmai.scope import Scope
from wenmai.stores.records import Block, TraceDetails, TraceRecord, TurnInput


class Replay(msgspec.Struct, frozen=True):
    """A trace, and that of its replay."""

    original: TraceRecord
    replayed: TraceRecord


class Replays:
    """Replays traces.

    Args:
        services: the stores, and the model that answers.
        models: further models that a replay may use, by name.
    """

    def __init__(self, services: Services, models: Mapping[str, ChatModel]) -> None:
        self._services = services
        own = {services.model.name: services.model} if services.model else {}
        self._models: dict[str, ChatModel] = {**own, **models}

    @property
    def models(self) -> list[str]:
        """The models that a replay may use; first the one that answers, if there is one."""
        return [*self._models]

    async def replay(
        self, scope: Scope, trace_id: str, *, model: str | None = None, prompt_version: int | None = None
    ) -> Replay:
        """See :meth:`wenmai.chat.pipeline.Chat.replay`."""
        original = (await self._services.traces.get(scope, trace_id)).record
        new_id = new_trace_id()
        began, started_at = time.perf_counter(), self._services.clock()
        composed = original.model == OFFLINE and model in (None, OFFLINE) and prompt_version is None
        if composed or original.policy_mode == "refuse":
            # The same blocks give the same answer, and no model is asked about what is refused.
            details = _of_replay(original.details)
            return Replay(
                original,
                msgspec.structs.replace(original, trace_id=new_id, replay_of=trace_id, details=details),
            )
        chat_model = self._models.get(model or next(iter(self._models), ""))
        if chat_model is None:
            raise InvalidInput("model", model or original.model, f"one of {', '.join(self._models) or OFFLINE}")
        if budget := exhausted(await self._services.budgets.check(scope, original.session_id)):
            raise BudgetExhausted(budget)
        blocks, asked = await self._prompt(scope, original, prompt_version)
        meter = UsageMeter()
        try:
            reply = await chat_model.answer(prompt_messages(blocks), on_usage=meter)
        finally:
            await self._services.memory.usage.add(
                scope, original.session_id, meter.usage, incarnation=original.incarnation
            )
        replayed = msgspec.structs.replace(
            original,
            ref=trace_ref(scope, new_id),
            trace_id=new_id,
            replay_of=trace_id,
            request_input=asked,
            blocks=blocks,
            answer=reply.text,
            model=chat_model.name,
            prompt_tokens=meter.usage.prompt_tokens,
            completion_tokens=meter.usage.completion_tokens,
            cost_usd=meter.usage.cost_usd,
            details=_of_replay(original.details),
            latency_ms=round((time.perf_counter() - began) * 1000, 3),
            started_at=started_at,
            completed_at=self._services.clock(),
        )
        await self._services.traces.save(scope, replayed)
        return Replay(original, replayed)

    async def _prompt(self, scope: Scope, original: TraceRecord, number: int | None) -> tuple[list[Block], TurnInput]:
        """The blocks, with the system prompt of that version if one is named."""
        asked = original.request_input
        if number is None:
            return original.blocks, asked
        version = await self._services.prompts.get(scope, original.persona_id, number)
        persona = (await self._services.personas.active_persona(scope, original.persona_id)).persona
        blocks = with_system_prompt(
            original.blocks,
            version.value["text"],
            lambda language: str(in_language(persona.name, language)),
            self._services.count_tokens,
        )
        return blocks, msgspec.structs.replace(asked, prompt_version=number, prompt_source="prompt_registry")


def _of_replay(details: TraceDetails) -> TraceDetails:
    """Without what belongs to the original turn alone."""
    return msgspec.structs.replace(details, title=msgspec.UNSET, budget=msgspec.UNSET, feedback=msgspec.UNSET)
