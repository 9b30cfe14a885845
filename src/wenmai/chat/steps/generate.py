"""Generate the answer: by the model where the gate is open, from the evidence alone otherwise."""

import asyncio
from collections.abc import Iterator

import msgspec

from wenmai.chat.budgets import exhausted
from wenmai.chat.gate.after import AnswerCheck
from wenmai.chat.gate.before import Verdict
from wenmai.chat.offline import compose
from wenmai.chat.profile import in_language
from wenmai.chat.prompts import build_prompt
from wenmai.chat.steps.gate import NOT_SEARCHED
from wenmai.chat.turn import Draft, TurnRun, TurnState
from wenmai.chat.types import Intent, PolicyMode
from wenmai.errors import ModelError

OFFLINE = "offline"

# Not the persona's "the records do not tell": nobody has looked.
_NOT_SEARCHED_TEXT = {
    "zh": "手边的记载眼下查不到，不敢凭记忆作答。请过一会儿再问。",
    "en": "The records cannot be looked up just now, and I will not answer without them. Please ask again in a while.",
}


async def prompt(state: TurnState, run: TurnRun) -> TurnState:
    """The blocks that the model sees; they are made without a model too, so that the trace can show them."""
    services, opened, recalled = run.services, state["opened"], state["recalled"]
    persona = state["persona"]
    registered = await services.prompts.active(state["request"].scope, persona.persona.npc_id)
    if registered is not None:
        run.prompt_source = "prompt_registry", registered.number
    built = build_prompt(
        persona=persona.persona,
        registered=registered.value["text"] if registered else None,
        language=recalled.language,
        preferences=recalled.preferences,
        history=opened.window,
        passages=state["verdict"].passages,
        question=state["request"].query,
        budget_tokens=services.policy.prompt_budget_tokens,
        count_tokens=services.count_tokens,
    )
    return {"prompt": built}


def wants_model(state: TurnState, run: TurnRun) -> bool:
    """Whether a model is to be asked: there is one, the gate is open, and the persona has something to say."""
    return (
        run.services.model is not None
        and state["verdict"].mode is PolicyMode.NORMAL
        and state["understood"].intent is not Intent.OUT_OF_SCOPE
    )


async def generate(state: TurnState, run: TurnRun) -> TurnState:
    """The model's answer, streamed sentence by sentence as far as it stands.

    If it fails, or a hard budget is used up, the composed one.
    """
    model = run.services.model
    assert model is not None  # noqa: S101 — see wants_model
    request, session_id = state["request"], state["opened"].thread.session_id
    run.standings = await run.services.budgets.check(request.scope, session_id)
    if budget := exhausted(run.standings):
        composed = await compose_answer(state, run)
        return {"draft": msgspec.structs.replace(composed["draft"], exhausted=budget)}
    stream = _CheckedStream(state, run)
    # What was shown to no one can be asked for again.
    listener = None if run.on_event is None else stream.add
    try:
        reply = await model.answer(state["prompt"].messages(), on_token=listener, on_consumed=run.meter)
    except ModelError as failure:
        draft = _composed(state, run, state["verdict"])
        return {"draft": msgspec.structs.replace(draft, failure=str(failure))}
    if listener is not None:
        await stream.end(cut_off=reply.cut_off)
    return {"draft": Draft(text=reply.text, model=model.name, cut_off=reply.cut_off)}


async def compose_answer(state: TurnState, run: TurnRun) -> TurnState:
    """The answer without a model; it is shown when it is stored."""
    return {"draft": _composed(state, run, state["verdict"])}


def conservative_text(state: TurnState, run: TurnRun) -> str:
    """What the persona says when nothing of an answer stands."""
    verdict = msgspec.structs.replace(state["verdict"], mode=PolicyMode.CONSERVATIVE)
    return _composed(state, run, verdict).text


def _composed(state: TurnState, run: TurnRun, verdict: Verdict) -> Draft:
    recalled = state["recalled"]
    if verdict.reason == NOT_SEARCHED:
        return Draft(text=in_language(_NOT_SEARCHED_TEXT, recalled.language), model=OFFLINE)
    composed = compose(
        question=state["request"].query,
        intent=state["understood"].intent,
        verdict=verdict,
        persona=state["persona"].persona,
        language=recalled.language,
        verbosity=recalled.verbosity,
        turn_id=state["opened"].turn_id,
        topic_words=run.services.profile.topic_words,
    )
    return Draft(text=composed.text, model=OFFLINE, cited=composed.cited)


class _CheckedStream:
    """Hands out a model's answer one checked sentence at a time, so that nothing unsupported is ever shown."""

    def __init__(self, state: TurnState, run: TurnRun) -> None:
        self._run = run
        self._check = AnswerCheck(
            question=state["request"].query,
            passages=state["verdict"].passages,
            language=state["recalled"].language,
            persona_names=list(state["persona"].persona.name.values()),
        )

    async def add(self, piece: str) -> None:
        """Take a piece of the answer; hand out the sentences that it completes."""
        await self._hand_out(self._check.add(piece))

    async def end(self, *, cut_off: bool) -> None:
        """Hand out what is left."""
        await self._hand_out(self._check.end(cut_off=cut_off))

    async def _hand_out(self, checked: Iterator[str]) -> None:
        for text in checked:
            await self._run.emit("token", text=text)
            await asyncio.sleep(0)  # a long piece is many sentences, and others have work too
