"""Questions to suggest after an answer; those that the persona does not answer are left out later."""

from wenmai.chat.turn import TurnState
from wenmai.config.profile import Persona
from wenmai.config.texts import in_language
from wenmai.grounding.types import PolicyMode

FOLLOWUPS = 3
OBJECT = "{object}"
"""Stands for the current object in questions of a stage."""


def offered_questions(state: TurnState) -> list[str]:
    """Questions to suggest, best first: of the stage, the cited domains, any; without those asked already."""
    if state["checked"].mode is PolicyMode.REFUSE:
        return []
    persona, language = state["persona"].persona, state["recalled"].language
    cited = {citation.evidence_id for citation in state["checked"].citations}
    domains = [
        domain for passage in state["verdict"].passages if passage.evidence_id in cited for domain in passage.domains
    ]
    offered = [
        question
        for domain in [*domains, ""]
        for question in in_language(persona.followups.get(domain, {language: []}), language)
    ]
    asked = {message.content for message in state["opened"].window} | {state["request"].query}
    next_ = [question for question in _of_stage(state, persona, language) if question not in asked]
    new = [question for question in dict.fromkeys(offered) if question not in asked]
    start = state["opened"].turn_id % max(1, len(new) - FOLLOWUPS + 1)
    return [*next_, *new[start:], *new[:start]]


def _of_stage(state: TurnState, persona: Persona, language: str) -> list[str]:
    """The persona's questions for the stage of the current operation, about its object."""
    operation = state["business"].state.current if "business" in state else None
    if operation is None or not operation.business_object:
        return []
    questions: list[str] = in_language(persona.followups.get(operation.operation_stage, {language: []}), language)
    return [question.replace(OBJECT, operation.business_object) for question in questions]
