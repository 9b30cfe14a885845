"""The answer without a model to a message of one or several questions."""

from collections.abc import Sequence

import msgspec

from wenmai.chat.extractive import ExtractiveAnswer, compose, pick_phrase
from wenmai.chat.turn import AnswerPart
from wenmai.config.profile import Persona
from wenmai.grounding.answerability import Verdict
from wenmai.grounding.lexicon import Lexicon
from wenmai.grounding.types import DialogueAct, PolicyMode


def compose_parts(
    parts: Sequence[AnswerPart],
    verdict: Verdict,
    *,
    question: str,
    dialogue_act: DialogueAct,
    persona: Persona,
    language: str,
    verbosity: str,
    turn_id: int,
    lexicon: Lexicon,
) -> ExtractiveAnswer:
    """Compose the answer: the quotes of each part one after the other; an open part in the conservative words.

    Args:
        parts: the questions with their verdicts.
        verdict: over all of them; if it is not normal, one phrase answers the whole message.
        question: the whole message.
        dialogue_act: as classified.
        persona: supplies the phrases.
        language: of the phrases.
        verbosity: as in :func:`wenmai.chat.extractive.compose`.
        turn_id: selects among the persona's phrases.
        lexicon: the words of the field.
    """

    def composed(asked: str, judged: Verdict, speaker: Persona) -> ExtractiveAnswer:
        return compose(
            question=asked,
            dialogue_act=dialogue_act,
            verdict=judged,
            persona=speaker,
            language=language,
            verbosity=verbosity,
            turn_id=turn_id,
            lexicon=lexicon,
        )

    if len(parts) == 1 or verdict.mode is not PolicyMode.NORMAL:
        return composed(question, verdict, persona)
    plain = msgspec.structs.replace(persona, openings={}, closings={})
    ordered = sorted(parts, key=lambda part: part.verdict.mode is not PolicyMode.NORMAL)
    answers = [composed(part.asked, part.verdict, plain) for part in ordered]
    opening = "" if verdict.unsupported_premises else pick_phrase(persona.openings, language, turn_id)
    closing = "" if verbosity == "brief" or not answers[-1].cited else pick_phrase(persona.closings, language, turn_id)
    texts = [opening, *_without_repeats([answer.text for answer in answers]), closing]
    joint = " " if language.startswith("en") else ""
    cited = dict.fromkeys(number for answer in answers for number in answer.cited)
    return ExtractiveAnswer(text=joint.join(text for text in texts if text), cited=list(cited))


def _without_repeats(texts: Sequence[str]) -> list[str]:
    """The texts, without those that another contains."""
    unique = list(dict.fromkeys(texts))
    return [text for text in unique if not any(text != other and text in other for other in unique)]
