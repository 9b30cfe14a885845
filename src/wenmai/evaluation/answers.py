"""Asks the questions of a set: a fresh engine with nothing but the set's evidence, one session a dialogue."""

import time
from collections.abc import Callable, Sequence

import msgspec

from wenmai.chat.turn import TurnRequest
from wenmai.config.profile import Persona
from wenmai.config.settings import Settings
from wenmai.engine import Engine, open_engine
from wenmai.evaluation.cases import AnswerSet, Dialogue
from wenmai.evaluation.personas import choose_persona
from wenmai.evaluation.scoring import AskedTurn
from wenmai.scope import Scope
from wenmai.stores.records import EvidenceRecord

OnDialogue = Callable[[Dialogue], None]


async def ask_set(settings: Settings, given: AnswerSet, *, on_dialogue: OnDialogue | None = None) -> list[AskedTurn]:
    """Ingest the evidence into an in-process store, and ask the dialogues in order.

    Passages without domains get those of all personas. Questions are asked when all passages have their vectors.

    Args:
        settings: with the profile of the set; store, cache and sample sites are not used.
        given: the set.
        on_dialogue: called after each dialogue.

    Raises:
        InvalidInput: the profile has no persona for a dialogue.
        ModelError: the embedder failed.
    """
    own = msgspec.structs.replace(settings, store="memory://", hot="", search="", sample_sites=())
    scope = Scope()
    asked: list[AskedTurn] = []
    async with open_engine(own) as engine:
        personas = engine.profile.personas
        persona_of = {dialogue.id: choose_persona(personas, given, dialogue) for dialogue in given.dialogues}
        await engine.evidence.ingest(scope, _with_domains(given.evidence, personas))
        await engine.evidence.finish_embedding(scope)
        for dialogue in given.dialogues:
            asked += await _ask(engine, scope, given.name, dialogue, persona_of[dialogue.id].persona_id)
            if on_dialogue is not None:
                on_dialogue(dialogue)
    return asked


def _with_domains(records: Sequence[EvidenceRecord], personas: Sequence[Persona]) -> list[EvidenceRecord]:
    """The passages; those without domains get all of the personas'."""
    domains = sorted({domain for persona in personas for domain in persona.domains})
    return [each if each.domains else msgspec.structs.replace(each, domains=domains) for each in records]


async def _ask(engine: Engine, scope: Scope, set_name: str, dialogue: Dialogue, persona_id: str) -> list[AskedTurn]:
    asked: list[AskedTurn] = []
    session_id = None
    for number, turn in enumerate(dialogue.turns, start=1):
        request = TurnRequest(scope=scope, persona_id=persona_id, query=turn.ask, session_id=session_id)
        began = time.perf_counter()
        answer = await engine.chat.ask(request)
        took = (time.perf_counter() - began) * 1000
        session_id = answer.session_id
        trace = (await engine.traces.get(scope, answer.trace_id)).record
        asked.append(
            AskedTurn(
                set_name=set_name,
                id=dialogue.id,
                number=number,
                language=dialogue.language,
                turn=turn,
                mode=answer.policy_mode.value,
                reason=trace.policy_reason,
                intent=trace.intent,
                searched=trace.request_input.rewritten_query,
                found=[passage.evidence_id for passage in trace.details.passages],
                answer=answer.answer_text,
                citations=[citation.evidence_id for citation in answer.citations],
                ms=took,
            )
        )
    return asked
