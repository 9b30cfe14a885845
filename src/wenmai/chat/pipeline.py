"""Asking a persona: a turn runs, once for each Idempotency-Key, and its trace can be replayed."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from wenmai.chat.nodes import run_nodes
from wenmai.chat.persona import ActivePersona
from wenmai.chat.replaying import Replay, Replays
from wenmai.chat.roles import in_role
from wenmai.chat.steps.complete import record_usage, trace_of
from wenmai.chat.streamed_answer import StreamedAnswer
from wenmai.chat.turn import (
    QUERY_LIMIT,
    OnEvent,
    Services,
    TurnAnswer,
    TurnRequest,
    TurnRun,
    TurnState,
)
from wenmai.config.texts import in_language
from wenmai.errors import InvalidInput, StoreError, TraceNotFound, WenmaiError
from wenmai.grounding.types import PolicyMode
from wenmai.memory.idempotency import Claim, WorkResult, checked_key
from wenmai.memory.ids import checked_id
from wenmai.providers.models import ChatModel
from wenmai.resilience.degradation import collected_degradation
from wenmai.scope import Scope, ThreadKey


class Chat:
    """Answers questions, turn by turn.

    Args:
        services: of most personas.
        others: the services of personas that have their own, by persona.
        replay_models: further models that a replay may use, by name.
    """

    def __init__(
        self,
        services: Services,
        others: Mapping[str, Services] | None = None,
        *,
        replay_models: Mapping[str, ChatModel] | None = None,
    ) -> None:
        self._services = services
        self._others = others or {}
        self._replays = Replays(services, replay_models or {})

    def services_of(self, persona_id: str) -> Services:
        """The services with which the persona answers."""
        return self._others.get(persona_id, self._services)

    async def ask(self, request: TurnRequest, *, on_event: OnEvent | None = None) -> TurnAnswer:
        """Answer the question; the turn is stored, whole, when this returns.

        Raises:
            InvalidInput: a field of the request is not allowed.
            PersonaNotFound: the site has no such persona.
            ThreadBusy: another turn of the thread runs and ``on_conflict`` is ``reject``.
            IdempotencyMismatch: the key was used with another request.
            StoreUnavailable: the store failed; the question may be in the transcript, its answer is not.
        """
        streamed = None if on_event is None else StreamedAnswer(on_event)
        with collected_degradation() as degradations:
            answer = await self._asked(
                self._received(request), None if streamed is None else streamed.forward, degradations
            )
        if streamed is not None:
            await streamed.complete(answer)
        return answer

    def _received(self, request: TurnRequest) -> TurnRequest:
        return msgspec.structs.replace(_checked(request), received_at=self._services.clock())

    async def _asked(self, request: TurnRequest, on_event: OnEvent | None, degradations: dict[str, None]) -> TurnAnswer:
        persona = await self._persona(request)
        if request.idempotency_key is None:
            given, _ = await self._run(request, persona, on_event, degradations, None)
            return given
        asked = [request.persona_id, request.query, request.session_id, request.incognito]
        asked += [request.role] if request.role else []

        async def once(claim: Claim) -> WorkResult:
            pinned = msgspec.structs.replace(request, session_id=claim.session_id)
            given, thread = await self._run(pinned, persona, on_event, degradations, claim)
            return WorkResult(msgspec.to_builtins(given), thread.session_id, thread.incarnation or "")

        answer = await self._services.memory.idempotency.once(
            request.scope,
            request.idempotency_key,
            asked,
            request.session_id or await self._new_session_id(request),
            once,
        )
        return msgspec.convert(answer, TurnAnswer)

    async def _new_session_id(self, request: TurnRequest) -> str:
        services = self.services_of(request.persona_id)
        return await services.memory.sessions.unused_id(request.scope, services.terms)

    async def _persona(self, request: TurnRequest) -> ActivePersona:
        active = await self._services.personas.active_persona(request.scope, request.persona_id)
        return in_role(active, request.role, self.services_of(request.persona_id).profile.queries.roles)

    @property
    def replay_models(self) -> list[str]:
        """The models that a replay may use; first the one that answers, if there is one."""
        return self._replays.models

    async def replay(
        self, scope: Scope, trace_id: str, *, model: str | None = None, prompt_version: int | None = None
    ) -> Replay:
        """Call a model with the blocks of a trace; only the new trace and its usage are stored.

        The answer is the model's, not verified.

        Args:
            scope: the owner.
            trace_id: the trace.
            model: one of ``replay_models``; by default the first.
            prompt_version: of the persona's registered prompt, instead of the original system prompt.

        Raises:
            TraceNotFound: absent or foreign.
            VersionNotFound: the persona has no such prompt.
            InvalidInput: no model is configured, or ``model`` is none that a replay may use.
            BudgetExhausted: a hard budget is exhausted.
            ModelError: the model failed.
        """
        return await self._replays.replay(scope, trace_id, model=model, prompt_version=prompt_version)

    @asynccontextmanager
    async def turn(self, request: TurnRequest, *, on_event: OnEvent | None = None) -> AsyncIterator[TurnRun]:
        """A turn for a LangGraph graph that has :func:`wenmai.chat.graph.build_graph` as a subgraph.

        Within the context run the graph with the ``state`` of the turn as its input and the turn as its ``context``. If
        that fails, the error is recorded as in :meth:`ask`, whose exceptions are raised here too.

        Raises:
            InvalidInput: also for an Idempotency-Key, which only :meth:`ask` knows.
        """
        if request.idempotency_key is not None:
            raise InvalidInput("idempotency_key", request.idempotency_key, "none: use Chat.ask")
        checked = self._received(request)
        with collected_degradation() as degradations:
            persona = await self._persona(checked)
            async with self._opened(checked, persona, on_event, degradations, None) as run:
                yield run

    async def _run(
        self,
        request: TurnRequest,
        persona: ActivePersona,
        on_event: OnEvent | None,
        degradations: dict[str, None],
        claim: Claim | None,
    ) -> tuple[TurnAnswer, ThreadKey]:
        """The answer and its thread."""
        async with self._opened(request, persona, on_event, degradations, claim) as run:
            state = await run_nodes(run)
        opened = state["opened"]
        return state["answer"] if "answer" in state else await self._earlier_answer(state), opened.thread

    @asynccontextmanager
    async def _opened(
        self,
        request: TurnRequest,
        persona: ActivePersona,
        on_event: OnEvent | None,
        degradations: dict[str, None],
        claim: Claim | None,
    ) -> AsyncIterator[TurnRun]:
        services = self.services_of(request.persona_id)
        async with AsyncExitStack() as resources:
            run = TurnRun(
                services=services,
                trace_id=await services.traces.reserve(request.scope, request.trace_id),
                started_at=services.clock(),
                started=time.perf_counter(),
                on_event=on_event,
                resources=resources,
                degradations=degradations,
                claim=claim,
                state={"request": request, "persona": persona},
            )
            try:
                yield run
            except BaseException as failure:
                await asyncio.shield(self._record_failure(run, failure))
                raise
        if "answer" in run.state:
            services.memory.derived.schedule_soon(request.scope, run.state["opened"].thread)

    async def _earlier_answer(self, state: TurnState) -> TurnAnswer:
        """The stored answer of another attempt with the same key, which crashed afterwards or was faster."""
        opened, scope = state["opened"], state["request"].scope
        trace_id = opened.answer.metadata["trace_id"]
        try:
            stored = await self._services.traces.get(scope, trace_id)
        except TraceNotFound:
            return _from_transcript(state)
        answer = stored.record.details.answer
        return _from_transcript(state) if answer is None else msgspec.convert(answer, TurnAnswer, from_attributes=True)

    async def _record_failure(self, run: TurnRun, failure: BaseException) -> None:
        """Record the error of a turn in its unfinished answer message and in the trace.

        If the answer was already stored, both are left unchanged; if the message was deleted, no trace is kept.
        """
        state = run.state
        opened, request = state.get("opened"), state["request"]
        if opened is None or "answer" in state:
            return
        name = type(failure).__name__
        error = f"{name}: {failure}" if isinstance(failure, WenmaiError) else name
        try:
            completed = await self._services.memory.transcript.complete(
                request.scope,
                opened.thread,
                opened.answer,
                content="",
                completed=False,
                metadata={"trace_id": run.trace_id, "error": error},
            )
            traces = self._services.traces
            if completed is not None:
                await traces.save(request.scope, trace_of(state, run, None, error))
            elif not await traces.has_answer(request.scope, run.trace_id):
                await traces.drop(request.scope, run.trace_id)
            await record_usage(state, run)
        except StoreError:
            # The store itself failed; the answer message remains unfinished, which records the same.
            return


def _from_transcript(state: TurnState) -> TurnAnswer:
    """The answer from the transcript alone, if its trace has expired or records a failure."""
    opened, persona = state["opened"], state["persona"].persona
    answer = opened.answer
    return TurnAnswer(
        trace_id=answer.metadata["trace_id"],
        session_id=opened.thread.session_id,
        turn_id=opened.turn_id,
        policy_mode=PolicyMode(answer.metadata["policy_mode"]),
        answer_text=answer.content,
        citations=[],
        followup_questions=[],
        persona_id=persona.persona_id,
        persona_name=in_language(persona.name, state["recalled"].language),
        latency_ms=0.0,
        timestamp=answer.timestamp,
    )


def _checked(request: TurnRequest) -> TurnRequest:
    query = request.query.strip()
    if not 1 <= len(query) <= QUERY_LIMIT or "\0" in query:
        raise InvalidInput("query", request.query, f"1 to {QUERY_LIMIT} characters of text")
    checked_id("persona_id", request.persona_id)
    for field in ("session_id", "trace_id"):
        value = getattr(request, field)
        if value is not None:
            checked_id(field, value)
    if request.idempotency_key is not None:
        checked_key(request.idempotency_key)
    return msgspec.structs.replace(request, query=query)
