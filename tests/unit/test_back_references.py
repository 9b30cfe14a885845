"""Queries that only point back are told from those that name what they are about."""

import pytest

from wenmai.retrieval.back_references import only_points_back


@pytest.mark.parametrize(
    "query",
    [
        "刚才说的那个",
        "我刚才说了什么？",
        "剛才提到的那個是什麼？",
        "你上一句说的是什么",
        "上面提到的那些东西是什么来着？",
        "请把刚刚的话再说一遍",
        "What did I just say?",
        "the one you just mentioned",
        "Could you repeat your last answer please?",
        "What were we just talking about?",
        "the thing I told you a moment ago",
        "Remind me of the previous message.",
        "之前说的那个",
        "What was that again?",
        "the one mentioned earlier",
    ],
)
def test_a_query_without_a_subject_points_back(query: str) -> None:
    """It names only the talk itself."""
    assert only_points_back(query)


@pytest.mark.parametrize(
    "query",
    [
        "刚才说的那个博物馆在哪里？",
        "我上周说了什么？",
        "我姐姐住在哪里？",
        "上面那层楼的租金是多少",
        "你刚才推荐的餐厅叫什么",
        "第一次聊天说了什么",
        "What did I say about the museum?",
        "Where does my sister live?",
        "the book you just recommended",
        "What is the lamp above the door made of?",
        "What was the last train?",
        "之前住在哪里",
        "Did I go to Lyon again?",
        "",
    ],
)
def test_a_query_with_a_subject_does_not(query: str) -> None:
    """It is searched for by its words."""
    assert not only_points_back(query)
