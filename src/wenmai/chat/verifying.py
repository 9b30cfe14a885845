"""The verification of a turn's answer, streamed or complete."""

from typing import Any

from wenmai.chat.turn import TurnRun, TurnState
from wenmai.config.profile import Persona

_TOPIC = "{topic}"


def verification_arguments(state: TurnState, run: TurnRun) -> dict[str, Any]:
    """The arguments with which the answer of this turn is verified."""
    persona = state["persona"].persona
    return {
        "question": state["request"].query,
        "passages": state["verdict"].passages,
        "language": state["recalled"].language,
        "persona_names": list(persona.name.values()),
        "persona_phrases": phrases_of(persona),
        "lexicon": run.services.lexicon,
    }


def phrases_of(persona: Persona) -> list[str]:
    """The phrases that a persona may say in any answer, in all languages."""
    groups = (
        persona.greetings,
        persona.openings,
        persona.closings,
        persona.conservative,
        persona.nearest or {},
        persona.refusals,
        persona.out_of_scope,
        persona.clarifications,
        persona.acknowledgements,
    )
    return [phrase for group in groups for each in group.values() for phrase in each if _TOPIC not in phrase]
