"""Generate the answer: by the model where the gate is open, from the evidence alone otherwise."""

import msgspec

from wenmai.chat.budgets import exhausted
from wenmai.chat.gate.after import after_model
from wenmai.chat.gate.before import Verdict
from wenmai.chat.offline import compose
from wenmai.chat.profile import in_language
from wenmai.chat.prompts import build_prompt
from wenmai.chat.steps.gate import NOT_SEARCHED
from wenmai.chat.turn import Draft, TurnRun, TurnState
from wenmai.chat.types import Intent, PolicyMode
from wenmai.errors import ModelError
from wenmai.text.cjk import sentences

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
    try:
        reply = await model.answer(state["prompt"].messages(), on_token=stream.add, on_consumed=run.meter)
    except ModelError as failure:
        draft = _composed(state, state["verdict"])
        return {"draft": msgspec.structs.replace(draft, failure=str(failure))}
    await stream.end()
    return {"draft": Draft(text=reply.text, model=model.name)}


async def compose_answer(state: TurnState, run: TurnRun) -> TurnState:
    """The answer without a model."""
    draft = _composed(state, state["verdict"])
    if run.on_event is not None:
        for sentence in sentences(draft.text):
            await run.emit("token", text=sentence)
    return {"draft": draft}


def conservative_text(state: TurnState) -> str:
    """What the persona says when nothing of an answer stands."""
    verdict = msgspec.structs.replace(state["verdict"], mode=PolicyMode.CONSERVATIVE)
    return _composed(state, verdict).text


def _composed(state: TurnState, verdict: Verdict) -> Draft:
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
    )
    return Draft(text=composed.text, model=OFFLINE, cited=composed.cited)


class _CheckedStream:
    """Hands out a model's answer one checked sentence at a time, so that nothing unsupported is ever shown."""

    def __init__(self, state: TurnState, run: TurnRun) -> None:
        self._state = state
        self._run = run
        self._waiting = ""

    async def add(self, piece: str) -> None:
        """Take a piece of the answer; hand out the sentences that it completes."""
        self._waiting += piece
        *whole, self._waiting = sentences(self._waiting) or [""]
        for sentence in whole:
            await self._hand_out(sentence)

    async def end(self) -> None:
        """Hand out what is left."""
        await self._hand_out(self._waiting)

    async def _hand_out(self, sentence: str) -> None:
        if self._run.on_event is None or not sentence.strip():
            return
        persona = self._state["persona"].persona
        checked = after_model(
            sentence,
            question=self._state["request"].query,
            passages=self._state["verdict"].passages,
            language=self._state["recalled"].language,
            persona_names=list(persona.name.values()),
        )
        if checked.text:
            await self._run.emit("token", text=checked.text)
