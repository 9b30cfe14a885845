"""Asks the questions of a set: a fresh engine with nothing but the set's evidence, one session a dialogue."""

import time
from collections.abc import Callable, Sequence

import msgspec

from wenmai.chat.turn import TurnRequest
from wenmai.config.profile import Persona
from wenmai.config.settings import Settings
from wenmai.engine import Engine, open_engine
from wenmai.errors import InvalidInput
from wenmai.evaluation.cases import AnswerSet, Dialogue
from wenmai.evaluation.scoring import AskedTurn
from wenmai.scope import Scope
from wenmai.stores.records import EvidenceRecord

OnDialogue = Callable[[Dialogue], None]


async def ask_set(settings: Settings, given: AnswerSet, *, on_dialogue: OnDialogue | None = None) -> list[AskedTurn]:
    """Ingest the evidence into an in-process store, and ask the dialogues in order.

    Passages without domains get those of the persona. Questions are asked when all passages have their vectors.

    Args:
        settings: with the profile of the set; store, cache and sample sites are not used.
        given: the set.
        on_dialogue: called after each dialogue.

    Raises:
        InvalidInput: the profile has no persona of the set.
        ModelError: the embedder failed.
    """
    own = msgspec.structs.replace(settings, store="memory://", hot="", sample_sites=())
    scope = Scope()
    asked: list[AskedTurn] = []
    async with open_engine(own) as engine:
        persona = choose_persona(engine.profile.personas, given)
        records = [_with_domains(record, persona) for record in given.evidence]
        await engine.evidence.ingest(scope, records)
        await engine.evidence.finish_embedding(scope)
        for dialogue in given.dialogues:
            asked += await _ask(engine, scope, given.name, dialogue, dialogue.persona or persona.persona_id)
            if on_dialogue is not None:
                on_dialogue(dialogue)
    return asked


def choose_persona(personas: Sequence[Persona], given: AnswerSet) -> Persona:
    """The persona that the set names, else the first of those that may use most of its passages.

    Raises:
        InvalidInput: there is no persona of that name, or none may use a passage.
    """
    if given.persona is not None:
        named = [each for each in personas if each.persona_id == given.persona]
        if not named:
            known = ", ".join(each.persona_id for each in personas)
            raise InvalidInput(f"{given.name}: persona", given.persona, f"a persona of the profile: {known}")
        return named[0]
    usable, at = max(
        (sum(_may_use(each, record) for record in given.evidence), -at) for at, each in enumerate(personas)
    )
    if not usable:
        raise InvalidInput(f"{given.name}: evidence.domains", given.evidence[0].domains, "domains of a persona")
    return personas[-at]


def _may_use(persona: Persona, record: EvidenceRecord) -> bool:
    return not persona.domains or not record.domains or not set(persona.domains).isdisjoint(record.domains)


def _with_domains(record: EvidenceRecord, persona: Persona) -> EvidenceRecord:
    return record if record.domains else msgspec.structs.replace(record, domains=persona.domains)


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
