"""The answer to a message of several questions: the quotes of each, and what stays open."""

from wenmai.chat.extractive import ExtractiveAnswer
from wenmai.chat.parts import compose_parts
from wenmai.chat.turn import AnswerPart
from wenmai.config.profile import load_profile
from wenmai.config.sources import profile_path
from wenmai.grounding.answerability import Verdict
from wenmai.grounding.answers.finder import AnswerSpan
from wenmai.grounding.lexicon import EMPTY
from wenmai.grounding.types import DialogueAct, Passage, PolicyMode

ELDER = load_profile(profile_path("npc")).personas[1]
HALL = "灯塔始建于1874年，由林守仁主持修建。"
PIER = "码头始建于1902年，长80米。"


def held(question: str, text: str, number: int) -> AnswerPart:
    """A question that a passage of one sentence answers."""
    passage = Passage(
        evidence_id=f"e-{number}", title=question, text=text, source_ref="《日志》", score=1.0, number=number
    )
    span = AnswerSpan(number=number, index=0, sentence=text, probability=1.0, covered=1.0)
    verdict = Verdict(mode=PolicyMode.NORMAL, reason="", passages=(passage,), standalone_question=text, answers=(span,))
    return AnswerPart(asked=question, verdict=verdict)


def missing(question: str) -> AnswerPart:
    """A question that the evidence does not answer."""
    return AnswerPart(asked=question, verdict=Verdict(mode=PolicyMode.CONSERVATIVE, reason="not_answered: who"))


def composed(*parts: AnswerPart, mode: PolicyMode = PolicyMode.NORMAL) -> ExtractiveAnswer:
    """The answer of the village elder."""
    return compose_parts(
        parts,
        Verdict(mode=mode, reason=""),
        question="灯塔和码头？",
        dialogue_act=DialogueAct.FACT_SEEKING,
        persona=ELDER,
        language="zh",
        verbosity="normal",
        turn_id=1,
        lexicon=EMPTY,
    )


def test_both_parts_are_quoted_and_cited_between_one_opening_and_one_closing() -> None:
    """The persona's phrases are not repeated for each part."""
    answer = composed(held("灯塔", HALL, 1), held("码头", PIER, 2))
    assert answer.cited == [1, 2]
    assert answer.text.index(HALL) < answer.text.index(PIER)
    assert answer.text.startswith(ELDER.openings["zh"][1])
    assert sum(answer.text.count(phrase) for phrase in ELDER.openings["zh"]) == 1
    assert sum(answer.text.count(phrase) for phrase in ELDER.closings["zh"]) == 1


def test_an_open_part_is_said_to_be_open_after_the_others() -> None:
    """In the persona's conservative words; it cites nothing."""
    answer = composed(missing("图纸是谁画的"), held("码头", PIER, 1))
    assert answer.cited == [1]
    conservative = ELDER.conservative["zh"][1].replace("{topic}", "这件事")
    assert answer.text.endswith(PIER + conservative)


def test_the_same_quote_is_given_once() -> None:
    """Two parts that one sentence answers are answered by it together."""
    answer = composed(held("灯塔", HALL, 1), held("灯塔", HALL, 1))
    assert answer.text.count("1874") == 1
    assert answer.cited == [1]


def test_if_every_part_is_open_one_phrase_answers() -> None:
    """Nothing is quoted."""
    answer = composed(missing("谁"), missing("何时"), mode=PolicyMode.CONSERVATIVE)
    assert answer.cited == []
    assert answer.text == ELDER.conservative["zh"][1].replace("{topic}", "这件事")
