"""Puts models' answers to the verification, as the turn does, and measures it."""

import time
from typing import NamedTuple

from wenmai.config.profile import Persona, Profile
from wenmai.evaluation.cases import ModelAnswer, StatementSet
from wenmai.evaluation.personas import named_persona
from wenmai.evaluation.statement_scoring import VerifiedStatement, is_kept
from wenmai.grounding.lexicon import Lexicon, prepare
from wenmai.grounding.types import Passage
from wenmai.grounding.verification import verify_answer
from wenmai.stores.records import EvidenceRecord
from wenmai.text.cjk import load_dictionaries, sentences


class VerifiedSet(NamedTuple):
    """The statements of a set, and for each answer its milliseconds and characters."""

    statements: list[VerifiedStatement]
    ms: list[float]
    characters: list[int]


def verify_set(given: StatementSet, profile: Profile) -> VerifiedSet:
    """Verify the answers of a set with the lexicon and the persona of a profile.

    Raises:
        InvalidInput: the profile has no persona of the set.
    """
    lexicon = Lexicon(profile.field_words)
    load_dictionaries()
    prepare(lexicon)
    personas = profile.personas
    persona = personas[0] if given.persona is None else named_persona(personas, given.persona, given.name)
    records = {record.evidence_id: record for record in given.evidence}
    done = VerifiedSet([], [], [])
    for answer in given.answers:
        _verify(answer, given.name, records, persona, lexicon, done)
    return done


def _verify(
    answer: ModelAnswer,
    set_name: str,
    records: dict[str, EvidenceRecord],
    persona: Persona,
    lexicon: Lexicon,
    done: VerifiedSet,
) -> None:
    text = _joined(answer)
    passages = [_passage(records[id_], number) for number, id_ in enumerate(answer.passages, start=1)]
    began = time.perf_counter()
    verified = verify_answer(
        text,
        question=answer.question,
        passages=passages,
        language=answer.language,
        persona_names=list(persona.name.values()),
        lexicon=lexicon,
    )
    done.ms.append((time.perf_counter() - began) * 1000)
    done.characters.append(len(text))
    supported = [each.text for each in answer.statements if each.true]
    supported += [sentence for passage in passages for sentence in sentences(passage.text)]
    for number, statement in enumerate(answer.statements, start=1):
        done.statements.append(
            VerifiedStatement(
                set_name=set_name,
                id=answer.id,
                number=number,
                language=answer.language,
                statement=statement,
                kept=is_kept(statement, verified.text, supported),
                mode=verified.mode.value,
                reason=verified.reason,
                verified=verified.text,
            )
        )


def _joined(answer: ModelAnswer) -> str:
    """The statements in order; with a space between them, unless there is white space or the language is Chinese."""
    space = "" if answer.language.startswith("zh") else " "
    text = ""
    for statement in answer.statements:
        spaced = not text or text[-1].isspace() or statement.text[0].isspace()
        text += statement.text if spaced else space + statement.text
    return text


def _passage(record: EvidenceRecord, number: int) -> Passage:
    return Passage(
        evidence_id=record.evidence_id,
        title=record.title,
        text=record.text,
        source_ref=record.source_ref,
        score=1.0,
        number=number,
        language=record.language,
        domains=record.domains,
        verified=record.verified,
        confidence=record.confidence,
    )
