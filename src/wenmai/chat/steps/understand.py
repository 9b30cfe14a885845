"""Understand the message: its questions as they are searched and judged, and its dialogue act."""

from msgspec.structs import replace

from wenmai.chat.steps.business_state import with_state
from wenmai.chat.turn import LARGE, TurnRun, TurnState, TurnUnderstood
from wenmai.chat.understanding.dialogue_acts import classify
from wenmai.chat.understanding.focus import CitedTurns, focus_of, ids_to_read
from wenmai.chat.understanding.plan import needs_context, plan_answer
from wenmai.chat.understanding.rewrite import Rewrite
from wenmai.errors import StoreUnavailable
from wenmai.grounding.types import DialogueAct
from wenmai.resilience.offload import run_by_size


async def rewrite_question(state: TurnState, run: TurnRun) -> TurnState:
    """Plan the answer and rewrite the questions for the search; the message itself is never changed."""
    window = state["opened"].window
    query = state["request"].query
    lexicon = run.services.lexicon
    size = len(query) + sum(len(message.content) for message in window)
    refers = bool(window) and needs_context(query)
    focus = await _read_focus(state, run) if refers else CitedTurns()
    plan = await run_by_size(size, LARGE, plan_answer, query, window, lexicon, focus)
    if "business" in state:
        plan = with_state(plan, state["business"], in_conversation=bool(window))
    text = plan.text if plan.queries else query
    return {"focus": focus, "plan": plan, "rewritten": Rewrite(text=text, carried=plan.carried)}


async def _read_focus(state: TurnState, run: TurnRun) -> CitedTurns:
    """The passages that the last answers cited, in one read; none while the store cannot be reached."""
    window = state["opened"].window
    ids = ids_to_read(window)
    if not ids:
        return CitedTurns()
    try:
        passages = await run.services.evidence.passages(state["request"].scope, ids)
    except StoreUnavailable:
        return CitedTurns()
    return focus_of(window, passages, state["persona"].persona.domains)


async def classify_question(state: TurnState, run: TurnRun) -> TurnState:
    """Classify the message's dialogue act and answer type."""
    in_conversation = bool(state["opened"].window) or bool("business" in state and state["business"].carried)
    services, query = run.services, state["request"].query
    understanding = classify(
        query, words=services.profile.intents, in_conversation=in_conversation, lexicon=services.lexicon
    )
    if understanding.dialogue_act is DialogueAct.CHALLENGE and "business" in state and state["business"].restated:
        understanding = replace(understanding, dialogue_act=DialogueAct.FACT_SEEKING)
    await run.emit(
        TurnUnderstood(
            rewritten_query=state["rewritten"].text,
            intent=understanding.dialogue_act.value,
            operation=state["business"].state.current if "business" in state else None,
            language=state["recalled"].language,
        )
    )
    return {"understanding": understanding}
