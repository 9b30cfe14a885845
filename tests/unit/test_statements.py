"""Verification of a streamed answer: the same statements and text, however it is split into fragments."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings

from answer_texts import answers, cut, cuttings
from growth import processor_seconds
from sample_lexicon import LEXICON
from wenmai.grounding.statements import LONGEST, StatementSplitter
from wenmai.grounding.types import Passage
from wenmai.grounding.verification import AnswerVerification, verify_answer

PASSAGES = [
    Passage(
        evidence_id="e-1",
        title="祠堂",
        text="严氏祠堂始建于明嘉靖二年（1523年），由七世祖严守正主持创建。家训第一条是孝悌为本，第二条是耕读传家。"
        "The hall was founded in 1523 by Yan Shouzheng.",
        source_ref="《砚田严氏族谱》",
        score=0.8,
        number=1,
        verified=True,
    )
]
ARGUMENTS: dict[str, Any] = {
    "question": "祠堂是谁建的？",
    "passages": PASSAGES,
    "language": "zh",
    "persona_names": ["严氏先祖"],
    "lexicon": LEXICON,
}


def statements_of(fragments: list[str]) -> list[tuple[str, bool]]:
    """The statements of a text that is streamed in these fragments."""
    statements = StatementSplitter()
    found = [statement for fragment in fragments for statement in statements.add(fragment)]
    return [(statement.text, statement.complete) for statement in (*found, *statements.end())]


@given(answers, cuttings)
@settings(max_examples=150, deadline=None)
def test_statements_depend_on_the_text_alone(text: str, positions: list[int]) -> None:
    """They are slices of it, joined they are the text, and none is too long."""
    statements = statements_of(cut(text, positions))
    assert statements == statements_of([text])
    assert "".join(statement for statement, _ in statements) == text
    assert all(len(statement) <= LONGEST + 100 for statement, _ in statements)


@pytest.mark.parametrize("examples", [50, pytest.param(500, marks=pytest.mark.soak)])
def test_the_streamed_text_is_the_answer(examples: int) -> None:
    """White space included; or the result is empty."""

    @given(answers, cuttings)
    @settings(max_examples=examples, deadline=None)
    def holds(text: str, positions: list[int]) -> None:
        verification = AnswerVerification(**ARGUMENTS)
        parts = [part for fragment in cut(text, positions) for part in verification.add(fragment)]
        shown = "".join(parts + list(verification.end()))
        assert verification.result() == verify_answer(text, **ARGUMENTS)
        assert verification.result().text in (shown, "")

    holds()


def test_supported_text_is_streamed_verbatim() -> None:
    """Markdown, line breaks and blanks between English sentences."""
    text = "# The hall\n\nIt was founded in 1523. Yan Shouzheng founded it!\n\n- by Yan Shouzheng\n- in 1523"
    verification = AnswerVerification(**ARGUMENTS | {"language": "en"})
    assert (
        "".join([verified for char in text for verified in verification.add(char)] + list(verification.end())) == text
    )


def test_a_title_is_not_split() -> None:
    """A full stop or a question mark inside it ends no sentence, so an invented title is found."""
    assert statements_of(list("事见《谁是英雄？》。后来")) == [("事见《谁是英雄？》。", True), ("后来", False)]
    quoted = "See “It Was. In Wen”. Then"
    assert statements_of(list(quoted)) == [("See “It Was. In Wen”.", True), (" Then", False)]
    assert statements_of(list("他写《谁？\n后来")) == [("他写《谁？", True), ("\n", True), ("后来", False)]


def test_a_cut_does_not_split_a_claim() -> None:
    """A year at the thousandth character is kept whole."""
    text = "族" * 998 + "1850年" + "族" * 400
    (first, complete), *_ = statements_of([text])
    assert (first, complete) == ("族" * 998, False)


def test_the_last_unfinished_sentence_of_a_cut_answer_is_removed() -> None:
    """Even if a part was streamed already; a finished one is kept."""
    verified = "祠堂由严守正主持创建。"
    for rest in ("第二", "第二，" + "族" * 2500, ""):
        assert verify_answer(verified + rest, **ARGUMENTS, cut_off=True).text == verified
    assert verify_answer("第二", **ARGUMENTS, cut_off=True).text == ""


def test_time_is_linear_in_the_fragments() -> None:
    """20 000 characters without a full stop, one by one, take about twice as long as half of them."""

    def verify_fragments(count: int) -> None:
        verification = AnswerVerification(**ARGUMENTS)
        for _ in range(count):
            list(verification.add("族"))
        list(verification.end())

    verify_fragments(1000)
    half, complete = (processor_seconds(partial(verify_fragments, count)) for count in (10_000, 20_000))
    assert complete < 4 * half + 0.5
