"""A bare "yes" or "no" states the proposition of the question."""

import pytest
from test_verification import check

from growth import check_growth
from wenmai.grounding.checks.affirmation import bare_reply, proposition


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("祠堂是1600年建的吧？", "是的。"),
        ("祠堂不是1600年建的吗？", "是的。"),
        ("祠堂是不是1600年建的？", "对，没错。"),
        ("祠堂建于1600年，对吗？", "您说得对！"),
        ("祠堂是严守德建的吗？", "确实如此。"),
        ("祠堂不是1523年建的，对吗？", "对。"),
        ("祠堂是1523年建的吗？", "不是。"),
        ("Was the hall founded in 1600?", "Yes, indeed."),
        ("The hall has 300 pillars, right?", "That's correct."),
        ("Was the hall founded by Yan Shouzheng?", "No."),
    ],
)
def test_a_bare_reply_to_a_false_premise_is_refused(question: str, answer: str) -> None:
    """As is the denial of a true one."""
    checked = check(answer, question, language="en" if question.isascii() else "zh")
    assert [each.reason for each in checked.removed] == ["affirmation"]
    assert answer not in checked.text


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("祠堂是1523年建的吗？", "是的。"),
        ("祠堂是1600年建的吗？", "不是。"),
        ("Was the hall founded in 1523?", "Yes."),
        ("Was the hall founded in 1600?", "No."),
        ("祠堂是谁建的？", "是的。"),
    ],
)
def test_a_right_bare_reply_is_kept(question: str, answer: str) -> None:
    """One to a question that it cannot answer states nothing."""
    english = question.isascii()
    rest = " It has 120 pillars." if english else "祠堂三年落成。"
    assert check(answer + rest, question, language="en" if english else "zh").text == answer + rest


def test_reading_replies_and_questions_takes_linear_time() -> None:
    """For repeated words that overlap."""
    for unit in ("是", "确实是", "不是", "是不是", "吗", "it is not ", "yes, ", " ", "，"):
        check_growth(lambda text: (bare_reply(text + "x"), proposition(text), proposition(text + "吗")), unit, 20_000)
