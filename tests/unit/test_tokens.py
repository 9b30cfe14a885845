"""The estimate of tokens; expected figures are means of four tokenizers (docs/explanation/tokens.md)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.text.tokens import estimate_tokens


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("请问严氏家训有哪些？祠堂是哪一年修建的，主持修建的又是谁？", 25.5),
        ("一曰孝悌为本，二曰耕读传家，三曰诚信立身，四曰勤俭持家，五曰和睦邻里。", 37.75),
        ("村の入り口には大きな楠があり、その下で子どもたちが毎日のように遊んでいました。", 28.5),
        ("마을 입구에는 커다란 나무가 있고 아이들은 매일 그 아래에서 놀았습니다.", 27),
        ("У входа в деревню стоит большое дерево, под которым каждый день играли дети.", 23),
        ('{"session_id": "session-0a1b2c3d4e5f6071", "turn_id": 12, "items": [1, 2, 3.5]}', 43),
    ],
)
def test_the_estimate_is_within_a_third_of_the_count(text: str, counted: float) -> None:
    """Single messages of every kind come within a third of the tokenizers' mean."""
    assert estimate_tokens(text) == pytest.approx(counted, rel=0.33)


def test_chinese_is_not_underestimated_as_by_a_quarter_of_its_length() -> None:
    """A Chinese text costs more than half a token a character, not a quarter."""
    text = "祠堂始建于明代，后来几经修缮，至今香火不绝" * 10
    assert estimate_tokens(text) > len(text) / 2


def test_an_empty_text_costs_nothing_and_any_other_something() -> None:
    """The estimate is 0 for an empty text only."""
    assert estimate_tokens("") == 0
    assert estimate_tokens(" ") == 1


def test_emoji_cost_more_than_letters() -> None:
    """A sign outside the alphabets is two tokens, not one character of a word."""
    assert estimate_tokens("🏮🌾🏮🌾") == 8


@given(st.text(max_size=200), st.text(max_size=200))
def test_two_texts_together_cost_about_their_sum(first: str, second: str) -> None:
    """Joining texts with a line break neither hides nor invents tokens."""
    joined = estimate_tokens(f"{first}\n{second}")
    assert joined == pytest.approx(estimate_tokens(first) + estimate_tokens(second), abs=3)
