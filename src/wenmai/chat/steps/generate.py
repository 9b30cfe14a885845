"""Generate the answer: by the model if the question is answerable, else extractively from the evidence."""

import asyncio
from collections.abc import Iterator

import msgspec

from wenmai.chat.budgets import exhausted
from wenmai.chat.parts import compose_parts
from wenmai.chat.prompts import build_prompt
from wenmai.chat.steps.answerability import NOT_SEARCHED
from wenmai.chat.steps.recall import recall_episodes
from wenmai.chat.turn import VERIFIED_AT_ONCE, Draft, Token, TurnRun, TurnState
from wenmai.chat.verifying import verification_arguments
from wenmai.config.texts import in_language
from wenmai.errors import ModelError
from wenmai.grounding.answerability import Verdict
from wenmai.grounding.types import DialogueAct, PolicyMode, count_characters
from wenmai.grounding.verification import AnswerVerification
from wenmai.memory.line_blocks import EPISODES, SUMMARY
from wenmai.memory.summaries import beside_summary
from wenmai.resilience.offload import run_by_size
from wenmai.stores.records import BusinessState

OFFLINE = "offline"

# Not the persona's "the records do not tell", because no search was made.
_NOT_SEARCHED_TEXT = {
    "zh": "手边的记载眼下查不到，不敢凭记忆作答。请过一会儿再问。",
    "en": "The records cannot be looked up just now, and I will not answer without them. Please ask again in a while.",
}


async def prompt(state: TurnState, run: TurnRun) -> TurnState:
    """The blocks of the prompt; built without a model too, so that the trace has them."""
    services, opened, recalled = run.services, state["opened"], state["recalled"]
    persona = state["persona"]
    registered = await services.prompts.active(state["request"].scope, persona.persona.persona_id)
    summary, recent = beside_summary(recalled.summary, opened.recent, services.count_tokens)
    built = build_prompt(
        persona=persona.persona,
        registered=registered.value["text"] if registered else None,
        language=recalled.language,
        preferences=recalled.preferences,
        state=_known_state(state),
        memory={
            SUMMARY: summary.text.splitlines() if summary else [],
            EPISODES: await recall_episodes(state, run, recent.messages) if wants_model(state, run) else [],
        },
        history=recent.messages,
        passages=state["verdict"].passages,
        question=state["request"].query,
        budget_tokens=services.policy.prompt_budget_tokens,
        weights=services.memory.policy.block_weights,
        count_tokens=services.count_tokens,
    )
    return {"prompt": msgspec.structs.replace(built, version=registered.number) if registered else built}


def _known_state(state: TurnState) -> BusinessState | None:
    """The business state after the message, if there is anything in it."""
    known = state["business"].state if "business" in state else None
    return known if known is not None and (known.operation_chain or known.current_customer_id) else None


def wants_model(state: TurnState, run: TurnRun) -> bool:
    """Whether to call a model: there is one, it may find an answer, and the question is in the persona's scope."""
    verdict = state["verdict"]
    return (
        run.services.model is not None
        and (verdict.mode is PolicyMode.NORMAL or verdict.undecided)
        and state["understanding"].dialogue_act is not DialogueAct.OUT_OF_SCOPE
    )


async def generate(state: TurnState, run: TurnRun) -> TurnState:
    """The model's answer, streamed sentence by sentence as far as it is verified.

    Fallback: the extractive answer, if the model fails or a hard budget is exhausted.
    """
    model = run.services.model
    assert model is not None  # noqa: S101 — see wants_model
    request, session_id = state["request"], state["opened"].thread.session_id
    budgets = await run.services.budgets.check(request.scope, session_id)
    if budget := exhausted(budgets):
        draft = _composed(state, run, state["verdict"])
        return {"draft": msgspec.structs.replace(draft, exhausted=budget, budgets=budgets)}
    size = count_characters(state["verdict"].passages)
    stream = _CheckedStream(run, await run_by_size(size, VERIFIED_AT_ONCE, _verification, state, run), size)
    # Without a callback nothing is streamed, so the model call may be retried. A verifier needs the complete answer.
    listener = None if run.on_event is None or run.services.verifier else stream.add
    try:
        reply = await model.answer(state["prompt"].messages(), on_token=listener, on_usage=run.meter)
    except ModelError as failure:
        draft = _composed(state, run, state["verdict"])
        return {"draft": msgspec.structs.replace(draft, failure=str(failure), budgets=budgets)}
    if listener is not None:
        await stream.end(cut_off=reply.cut_off)
    return {"draft": Draft(text=reply.text, model=model.name, cut_off=reply.cut_off, budgets=budgets)}


async def compose_answer(state: TurnState, run: TurnRun) -> TurnState:
    """The answer without a model; streamed after it is stored."""
    return {"draft": _composed(state, run, state["verdict"])}


def conservative_text(state: TurnState, run: TurnRun) -> str:
    """The persona's answer when no sentence is supported."""
    verdict = msgspec.structs.replace(state["verdict"], mode=PolicyMode.CONSERVATIVE, nearest=())
    return _composed(state, run, verdict).text


def _composed(state: TurnState, run: TurnRun, verdict: Verdict) -> Draft:
    recalled = state["recalled"]
    if verdict.reason == NOT_SEARCHED:
        return Draft(text=in_language(_NOT_SEARCHED_TEXT, recalled.language), model=OFFLINE)
    composed = compose_parts(
        state["parts"],
        verdict,
        question=state["request"].query,
        dialogue_act=state["understanding"].dialogue_act,
        persona=state["persona"].persona,
        language=recalled.language,
        verbosity=recalled.verbosity,
        turn_id=state["opened"].turn_id,
        lexicon=run.services.lexicon,
    )
    return Draft(text=composed.text, model=OFFLINE, cited=composed.cited)


def _verification(state: TurnState, run: TurnRun) -> AnswerVerification:
    """A verification for the answer of this turn; analyses the passages."""
    return AnswerVerification(**verification_arguments(state, run))


class _CheckedStream:
    """Streams a model's answer one verified sentence at a time, so that nothing unsupported is streamed."""

    def __init__(self, run: TurnRun, verification: AnswerVerification, size: int) -> None:
        self._run = run
        self._check = verification
        self._size = size  # characters of the passages
        self._pending = 0

    async def add(self, piece: str) -> None:
        """Add a piece of the answer; stream the sentences that it completes."""
        self._pending += len(piece)
        await self._deliver(self._check.add(piece))

    async def end(self, *, cut_off: bool) -> None:
        """Stream the rest."""
        await self._deliver(self._check.end(cut_off=cut_off))

    async def _deliver(self, checked: Iterator[str]) -> None:
        while (text := await self._next(checked)) is not None:
            await self._run.emit(Token(text))
            await asyncio.sleep(0)  # a long piece is many sentences: let other tasks run
            self._pending = 0

    async def _next(self, checked: Iterator[str]) -> str | None:
        """The next text, verified off the event loop if a sentence and the passages are long."""
        return await run_by_size(self._size + self._pending, VERIFIED_AT_ONCE, next, checked, None)
