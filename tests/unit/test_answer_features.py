"""The features by which a passage is judged to answer a question."""

import pytest

from wenmai.grounding.answers.features import Candidate, candidates
from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.answers.question import parse_question
from wenmai.grounding.types import Passage

HALL = "The hall was founded in 1523 by Yan Shouzheng."
BRIDGE = "The bridge was built in 1702."


def found(question: str, *texts: str) -> list[Candidate]:
    """The candidates among passages of these texts, the first with the highest score."""
    passages = [
        Passage(evidence_id=f"e-{number}", title="Records", text=text, source_ref="", score=1 / number, number=number)
        for number, text in enumerate(texts, start=1)
    ]
    return candidates(parse_question(question), [analyse(each.title, each.text) for each in passages], passages)


def test_a_passage_leads_by_what_the_best_other_has_less() -> None:
    """What one leads by, the other lacks."""
    hall, bridge = (each.features for each in found("When was the hall founded?", HALL, BRIDGE))
    assert hall["more_score"] == pytest.approx(0.5)
    assert hall["more_beside"] == pytest.approx(hall["beside"] - bridge["beside"])
    assert hall["more_beside"] == pytest.approx(-bridge["more_beside"])


def test_a_passage_alone_leads_by_all_that_it_has() -> None:
    """Without another, the lead is the feature itself."""
    (hall,) = found("When was the hall founded?", HALL)
    assert hall.features["more_beside"] == hall.features["beside"]


@pytest.mark.parametrize(
    ("question", "in_chinese", "other_language"),
    [("When was the hall founded?", 0, 0), ("hall 建于 1523 年吗？", 1, 1)],
)
def test_the_languages_of_question_and_passage_count(question: str, in_chinese: int, other_language: int) -> None:
    """A question in Chinese over a passage in English is one in another language."""
    features = found(question, HALL)[0].features
    assert (features["in_chinese"], features["other_language"]) == (in_chinese, other_language)


def test_what_is_asked_counts_once() -> None:
    """Each type of answer is a feature of its own."""
    features = found("When was the hall founded?", HALL)[0].features
    assert [name for name, value in features.items() if name.startswith("asks_") and value] == ["asks_when"]
