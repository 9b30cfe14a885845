"""Titles: made from the first question by rule, or chosen by the user."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.errors import InvalidInput
from wenmai.memory.sessions import checked_title, title_from_question

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
THUMB = "👍🏽"
FLAG = "🇨🇳"


@pytest.mark.parametrize("question", ["请问严氏家训有哪些？", "x" * 40, "祠" * 40])
def test_a_short_question_is_its_own_title(question: str) -> None:
    """Up to 40 code points are not cut."""
    assert title_from_question(question) == question


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", "\u2028", "\n\n  \n"])
def test_only_the_first_line_counts(line_end: str) -> None:
    """Whatever the line ending; surrounding white space is stripped."""
    assert title_from_question(f"\n  祠堂何年建？ {line_end}我想知道详情") == "祠堂何年建？"


def test_chinese_is_cut_after_40_characters() -> None:
    """40 code points and the ellipsis, never bytes or partial characters."""
    question = "请问严氏祠堂是在哪一年由哪一位先人主持兴建的，" * 3
    assert title_from_question(question) == question[:40] + "…"


def test_words_are_not_cut_if_there_is_a_space_beyond_20() -> None:
    """The cut is at the last space before the limit."""
    question = "When was the ancestral hall of the Yan clan built and by whom?"
    assert title_from_question(question) == "When was the ancestral hall of the Yan…"


def test_a_space_too_near_the_beginning_does_not_count() -> None:
    """A partial word is better than a very short title."""
    question = "Antidisestablish mentarianism" + "x" * 40
    assert title_from_question(question) == question[:40] + "…"


@pytest.mark.parametrize("whole", [FAMILY, THUMB, FLAG, "e\u0301", "ก\u0e49"])
def test_a_grapheme_is_not_split(whole: str) -> None:
    """An emoji of several code points, a flag, an accented letter: whole or not at all."""
    for before in range(41 - len(whole), 40):
        title = title_from_question("祠" * before + whole + "堂" * 20)
        assert title == "祠" * before + "…"


def test_a_row_of_flags_is_cut_between_two_of_them() -> None:
    """Regional indicator letters form pairs, counted from the start of the row."""
    assert title_from_question("祠" + FLAG * 30) == "祠" + FLAG * 19 + "…"


@given(st.text())
def test_any_question_gives_a_valid_title(question: str) -> None:
    """One line, at most 41 code points; only a blank question gives none."""
    title = title_from_question(question)
    assert len(title) <= 41
    if title and "\0" not in title:
        assert checked_title(title) == title
    assert bool(title) == bool(question.strip())


@given(st.text(alphabet=st.characters(categories=["Mn"]), min_size=50, max_size=200))
def test_a_long_run_of_accents_is_cut_all_the_same(question: str) -> None:
    """There is no grapheme boundary; the title is still short."""
    assert 1 <= len(title_from_question(question)) <= 41
    assert all(unicodedata.category(mark) == "Mn" for mark in question)


@pytest.mark.parametrize("title", ["家训", "x" * 60, "  家训  ", FAMILY])
def test_a_chosen_title_is_stripped(title: str) -> None:
    """1 to 60 characters on one line."""
    assert checked_title(title) == title.strip()


@pytest.mark.parametrize("title", ["", "   ", "x" * 61, "a\nb", "a\rb", "a\u2028b", "a\0b"])
def test_an_invalid_title_is_rejected(title: str) -> None:
    """The error names the field."""
    with pytest.raises(InvalidInput) as refused:
        checked_title(title)
    assert refused.value.field == "title"
