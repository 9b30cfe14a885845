"""Text analysis for lexical search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.text.cjk import content_words, find_words, normalise, query_terms, sentences, terms


def test_full_width_and_invisible_characters_do_not_matter() -> None:
    """Full width equals half width, case is folded, zero-width characters vanish."""
    assert normalise("ＷｅｎＭａｉ\u200b文\ufeff脉１３") == "wenmai文脉13"


def test_a_run_is_indexed_as_unigrams_and_bigrams() -> None:
    """Every character and every overlapping pair of a run is a term, with repeats."""
    assert sorted(terms("家训家")) == sorted(["家", "训", "家", "家训", "训家"])


def test_a_query_uses_bigrams_and_unigrams_only_for_single_characters() -> None:
    """A longer run is searched by its bigrams; a run of one character by itself."""
    assert query_terms("严氏家训") == ["严氏", "氏家", "家训"]
    assert query_terms("孝") == ["孝"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("请问严氏家训有哪些？", ["严氏", "氏家", "家训"]),
        ("祠堂是哪一年建的", ["祠堂", "建"]),
        ("有什么具体的故事吗？", ["故事"]),
        ("这是什么？", []),
        ("What is it about, please?", []),
    ],
)
def test_stop_words_are_removed_from_queries(question: str, expected: list[str]) -> None:
    """Particles, pronouns and question words are removed before the bigrams are built."""
    assert query_terms(question) == expected


def test_stop_words_are_kept_in_the_index() -> None:
    """They are indexed, since 是 may be part of a name."""
    assert "是" in terms("他是谁")


def test_words_that_contain_a_stop_word_are_kept_whole() -> None:
    """和睦 and 目的 are not split at 和 and 的."""
    assert query_terms("和睦") == ["和睦"]
    assert query_terms("目的") == ["目的"]
    assert query_terms("怎么申请归还吉他") == ["申请", "归还", "吉他"]
    assert query_terms("需要什么要求") == ["要求"]


def test_query_terms_are_unique_and_in_order() -> None:
    """The terms of a query are unique and in the order of the question."""
    assert query_terms("祠堂 precept 祠堂 precepts 1368") == ["祠堂", "precept", "1368"]


def test_english_words_are_stemmed_alike_on_both_sides() -> None:
    """A plural in the question finds a singular in the text; possessives and contractions are handled."""
    assert query_terms("the ancestors' PRECEPTS") == terms("An ancestor’s precept")
    assert terms("don't O'Brien’s") == ["obrien"]


def test_numbers_are_terms_of_their_own() -> None:
    """A year next to Chinese, a full-width one and a grouped one are found by their digits."""
    assert "1368" in terms("建于1368年")
    assert query_terms("１３６８ 1,234,567 3.5") == ["1368", "1234567", "3.5"]


def test_every_query_term_of_a_text_is_an_index_term_of_it() -> None:
    """A question that repeats a text verbatim finds it by every one of its terms."""
    text = "请问严氏家训里，孝悌为本是哪一年写进族谱的？Who wrote the village's 10 precepts in 1368?"
    assert set(query_terms(text)) <= set(terms(text))


@given(st.text(max_size=300))
def test_any_text_is_found_by_itself(text: str) -> None:
    """The query terms of any text are among its index terms."""
    assert set(query_terms(text)) <= set(terms(text))


def test_sentences_are_verbatim_and_keep_their_closing_marks() -> None:
    """Chinese and English sentences keep their quotation marks; outer blanks are stripped."""
    text = "十则：一曰孝悌。“你好！”他说。 Mr. Li came in 1368 with 3.5 men. He left...\n1. First rule. Second"
    assert sentences(text) == [
        "十则：一曰孝悌。",
        "“你好！”",
        "他说。",
        "Mr. Li came in 1368 with 3.5 men.",
        "He left...",
        "1. First rule.",
        "Second",
    ]


@given(st.text(alphabet="甲a. !?。！”)\n1", max_size=60))
def test_sentences_lose_nothing_but_blanks(text: str) -> None:
    """Joined, the sentences contain every visible character in order."""
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_latin_words_match_whole_words_only() -> None:
    """``hi`` is not found in ``history``, but between Chinese characters it is."""
    assert find_words("My history of this", ["hi", "his"]) == []
    assert find_words("跟他说hi吧", ["hi"]) == ["hi"]


def test_found_words_are_returned_as_given_and_in_order() -> None:
    """Case, width and spacing do not matter; phrases match as a whole."""
    words = ["股票", "Write Code", "天气", "code write"]
    assert find_words("今天天气？please ＷＲＩＴＥ  code", words) == ["Write Code", "天气"]


def test_a_phrase_is_not_found_across_chinese() -> None:
    """Words on both sides of Chinese are no phrase, and an empty word is found nowhere."""
    assert find_words("speak 中文 english", ["speak english", "", "，"]) == []


def test_traditional_and_simplified_characters_are_the_same_terms() -> None:
    """A text in either form has the terms of the other, and so has a question, without its stop words."""
    traditional, simplified = "通濟橋建於雍正六年，頭髮與發展。", "通济桥建于雍正六年，头发与发展。"
    assert sorted(terms(traditional)) == sorted(terms(simplified))
    assert query_terms("這座橋是什麼時候建的？") == query_terms("这座桥是什么时候建的？")
    assert query_terms("乾隆") == ["干隆"]
    assert content_words("座橋") == ["座橋"], "words for display stay as they are"
