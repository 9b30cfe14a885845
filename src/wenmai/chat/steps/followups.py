"""Questions to suggest after an answer; those that the persona does not answer are left out later."""

from collections.abc import Sequence

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
    asked = [_letters(message.content) for message in state["opened"].window if message.role == "user"]
    asked.append(_letters(state["request"].query))
    next_ = [question for question in _of_stage(state, persona, language) if _is_new(question, asked)]
    new = [question for question in dict.fromkeys(offered) if _is_new(question, asked)]
    start = state["opened"].turn_id % max(1, len(new) - FOLLOWUPS + 1)
    return [*next_, *new[start:], *new[:start]]


def _is_new(question: str, asked: Sequence[str]) -> bool:
    """Whether no message asks the question, alone or beside a greeting and other questions."""
    letters = _letters(question)
    return not any(letters in message for message in asked)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _of_stage(state: TurnState, persona: Persona, language: str) -> list[str]:
    """The persona's questions for the stage of the current operation, about its object."""
    operation = state["business"].state.current if "business" in state else None
    if operation is None or not operation.business_object:
        return []
    questions: list[str] = in_language(persona.followups.get(operation.operation_stage, {language: []}), language)
    return [question.replace(OBJECT, operation.business_object) for question in questions]
