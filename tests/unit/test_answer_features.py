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


@pytest.mark.parametrize(
    ("question", "holds", "lacks"),
    [
        ("一杯奶昔多少钱？", "奶昔每杯十八元。", "营养吧在一层，供应蛋白奶昔，八点半开始营业。"),
        ("奶昔的价格是多少", "奶昔免费供应。", "奶昔有三种口味。"),
        ("What does a soup cost?", "Soup is 4.50 euros a bowl.", "The café on the first floor sells soup until 18:00."),
        ("值班经理的电话是多少", "值班经理的电话是 6215-0120。", "投诉写给值班经理周砚秋，三个工作日内答复。"),
        ("How loud is the mechanical shutter?", "The shutter is quiet, 38 dB.", "Use the mechanical shutter at 1/60."),
        ("展厅在几楼", "展厅在二楼东侧。", "展厅有八十件展品。"),
        ("哪个牌子的杠铃", "杠铃由海岳公司制造。", "使用杠铃须装卡扣，卧推时须有人在旁。"),
        ("How large is the firmware file, in megabytes?", "The firmware file is 48 MB.", "The firmware has 3 parts."),
        ("现任院长叫什么", "现任院长叫邵启文。", "院长每周二接待病人。"),
        ("Where is Ann Marlowe buried?", "Ann Marlowe lies in the churchyard.", "Ann Marlowe ran it on the river."),
        ("几点开门", "早上七点开门。", "门在西侧，开门后请排队。"),
    ],
)  # fmt: skip
def test_a_sentence_answers_only_with_a_value_of_the_kind_that_is_asked_for(
    question: str, holds: str, lacks: str
) -> None:
    """The same words about the same thing, without the price, the number or the name, answer nothing."""
    assert [each.rank for each in found(question, lacks, holds)] == [1]


@pytest.mark.parametrize(
    "question", ["为什么要收押金", "汤好喝吗？", "Is the price of soup going up?", "欠费几天会停机"]
)
def test_other_questions_about_a_price_want_no_amount(question: str) -> None:
    """A word for money does not make a question one for an amount."""
    assert not parse_question(question).values
