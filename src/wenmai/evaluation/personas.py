"""Which persona is asked."""

from collections.abc import Sequence

from wenmai.config.profile import Persona
from wenmai.errors import InvalidInput
from wenmai.evaluation.cases import AnswerSet, Dialogue
from wenmai.stores.records import EvidenceRecord


def named_persona(personas: Sequence[Persona], name: str, set_name: str) -> Persona:
    """The persona of that name.

    Raises:
        InvalidInput: there is none; the error names the set.
    """
    for persona in personas:
        if persona.persona_id == name:
            return persona
    known = ", ".join(each.persona_id for each in personas)
    raise InvalidInput(f"{set_name}: persona", name, f"a persona of the profile: {known}")


def choose_persona(personas: Sequence[Persona], given: AnswerSet, dialogue: Dialogue) -> Persona:
    """The persona that the dialogue or the set names.

    Without a name: the first of those that may use most of the passages that the dialogue expects as citations, then
    most of all passages.

    Raises:
        InvalidInput: there is no persona of that name, or no persona may use any passage.
    """
    name = dialogue.persona or given.persona
    if name is not None:
        return named_persona(personas, name, given.name)
    expected = {id_ for turn in dialogue.turns for id_ in turn.cite}

    def usable(persona: Persona) -> tuple[int, int]:
        ids = [record.evidence_id for record in given.evidence if _may_use(persona, record)]
        return len(expected.intersection(ids)), len(ids)

    best = max(personas, key=usable)
    if not any(usable(best)):
        domains = sorted({domain for record in given.evidence for domain in record.domains})
        raise InvalidInput(
            f"{given.name}: evidence.domains", domains, f"for a persona of the profile, as {best.persona_id}"
        )
    return best


def _may_use(persona: Persona, record: EvidenceRecord) -> bool:
    return not persona.domains or not record.domains or not set(persona.domains).isdisjoint(record.domains)
