"""The estimate of tokens; expected figures are means of four tokenizers (docs/explanation/tokens.md)."""

import re

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


def test_only_an_empty_text_has_no_tokens() -> None:
    """The estimate is 0 for an empty text only."""
    assert estimate_tokens("") == 0
    assert estimate_tokens(" ") == 1


def test_emoji_cost_more_than_letters() -> None:
    """A sign outside the alphabets is two tokens, not one character of a word."""
    assert estimate_tokens("🏮🌾🏮🌾") == 8


KINDS = (
    (r"[A-Za-z]{1,10}|[0-9]{1,2}|\n+", 1.0),
    (r"[!-/:-@\[-`{-~]+", 0.76),
    ("[々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323ff]", 0.70),
    (
        "[\u2010-\u2027\u3000-\u3004\u3008-\u3020\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]+",
        1.32,
    ),
    ("[\u0080-\u07ff]", 0.35),
    ("[\u0800-\u1fff\u3041-\u30ff\uac00-\ud7a3]", 0.75),
)
"""Weight of each kind of character, as in docs/explanation/tokens.md; all others count 2."""


def by_the_table(text: str) -> float:
    """The tokens of the text by the table, slowly."""
    tokens = 0.0
    for kind, weight in KINDS:
        tokens += weight * len(re.findall(kind, text))
        text = re.sub(kind, " ", text)
    return tokens + 2 * len(re.sub(r"[\x00-\x7f]", "", text))


scripts = st.text(alphabet="aZ09 \t\n.,!_{}严々〇豈䷀𠮷。，“—é д ק ก カ ぁ 한ힰ 🏮\u3040\uffff", max_size=300)


@given(st.one_of(scripts, st.text(max_size=300), st.text(alphabet="ab1. ", max_size=300)))
def test_the_estimate_is_what_the_table_says(text: str) -> None:
    """Every kind of character and every length of a run counts as documented."""
    assert estimate_tokens(text) == pytest.approx(max(by_the_table(text), float(bool(text))), abs=0.5001)


def test_every_character_counts_as_the_table_says() -> None:
    """All of Unicode, in blocks of 64, each character between others."""
    for block in (*range(0, 0xD800, 64), *range(0xE000, 0x110000, 64)):
        text = "a".join(map(chr, range(block, block + 64)))
        assert abs(estimate_tokens(text) - by_the_table(text)) <= 0.5001, hex(block)


def test_a_lone_surrogate_is_counted_too() -> None:
    """A lone surrogate cannot be stored, but counting it raises no error."""
    assert estimate_tokens("\ud83c") >= 1


@given(st.text(max_size=200), st.text(max_size=200))
def test_two_texts_together_cost_about_their_sum(first: str, second: str) -> None:
    """Joining texts with a line break neither hides nor invents tokens."""
    joined = estimate_tokens(f"{first}\n{second}")
    assert joined == pytest.approx(estimate_tokens(first) + estimate_tokens(second), abs=3)
