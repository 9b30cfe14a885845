"""An answer that is checked while it comes in: the same units and the same text, however it is cut."""

from functools import partial
from typing import Any

from hypothesis import given, settings

from answer_texts import answers, cut, cuttings
from growth import processor_seconds
from wenmai.chat.gate.after import AnswerCheck, after_model
from wenmai.chat.gate.units import LONGEST, Units
from wenmai.chat.types import Passage

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
ASKED: dict[str, Any] = {
    "question": "祠堂是谁建的？",
    "passages": PASSAGES,
    "language": "zh",
    "persona_names": ["严氏先祖"],
}


def units_of(pieces: list[str]) -> list[tuple[str, bool]]:
    """The units of a text that comes in these pieces."""
    units = Units()
    found = [unit for piece in pieces for unit in units.add(piece)]
    return [(unit.text, unit.whole) for unit in (*found, *units.end())]


@given(answers, cuttings)
@settings(max_examples=150, deadline=None)
def test_units_depend_on_the_text_alone(text: str, places: list[int]) -> None:
    """They are slices of it, put together they are the text, and none is too long."""
    units = units_of(cut(text, places))
    assert units == units_of([text])
    assert "".join(unit for unit, _ in units) == text
    assert all(len(unit) <= LONGEST + 100 for unit, _ in units)


@given(answers, cuttings)
@settings(max_examples=150, deadline=None)
def test_what_is_handed_out_is_the_answer(text: str, places: list[int]) -> None:
    """Blanks and line breaks included; or nothing of the answer is left in the end."""
    check = AnswerCheck(**ASKED)
    shown = "".join([said for piece in cut(text, places) for said in check.add(piece)] + list(check.end()))
    assert check.result() == after_model(text, **ASKED)
    assert check.result().text in (shown, "")


def test_what_stands_is_handed_out_as_it_was_written() -> None:
    """Markdown, line breaks and the blanks between English sentences."""
    text = "# The hall\n\nIt was founded in 1523. It is old!\n\n- by Yan Shouzheng\n- in 1523"
    check = AnswerCheck(**ASKED | {"language": "en"})
    assert "".join([said for char in text for said in check.add(char)] + list(check.end())) == text


def test_a_title_is_not_divided() -> None:
    """A full stop or a question mark inside it ends nothing, so an invented title is found."""
    assert units_of(list("事见《谁是英雄？》。后来")) == [("事见《谁是英雄？》。", True), ("后来", False)]
    quoted = "See “It Was. In Wen”. Then"
    assert units_of(list(quoted)) == [("See “It Was. In Wen”.", True), (" Then", False)]
    assert units_of(list("他写《谁？\n后来")) == [("他写《谁？", True), ("\n", True), ("后来", False)]


def test_a_cut_does_not_divide_a_claim() -> None:
    """A year at the thousandth character stays whole."""
    text = "族" * 998 + "1850年" + "族" * 400
    (first, whole), *_ = units_of([text])
    assert (first, whole) == ("族" * 998, False)


def test_the_last_unfinished_sentence_of_a_cut_answer_goes() -> None:
    """With what had to be handed out of it already; a finished one stays."""
    said = "祠堂由严守正主持创建。"
    for rest in ("第二", "第二，" + "族" * 2500, ""):
        assert after_model(said + rest, **ASKED, cut_off=True).text == said
    assert after_model("第二", **ASKED, cut_off=True).text == ""


def test_the_work_is_linear_in_the_pieces() -> None:
    """20 000 characters without a full stop, one by one, take about twice as long as half of them."""

    def check_pieces(count: int) -> None:
        check = AnswerCheck(**ASKED)
        for _ in range(count):
            list(check.add("族"))
        list(check.end())

    check_pieces(1000)
    half, whole = (processor_seconds(partial(check_pieces, count)) for count in (10_000, 20_000))
    assert whole < 4 * half + 0.5
