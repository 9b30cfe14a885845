"""Times that a text names, resolved against the day on which it was written."""

from datetime import date

import pytest

from wenmai.retrieval.time_expressions import DaySpan, End, asked_end, find_spans

WEDNESDAY = date(2023, 5, 10)

CASES = {
    "昨天我去了博物馆": ["2023-05-09"],
    "前天和昨晚都在加班": ["2023-05-09", "2023-05-08"],
    "上周五见过她": ["2023-05-05"],
    "上周很忙": ["2023-05-01/2023-05-07"],
    "上周末去爬山": ["2023-05-06/2023-05-07"],
    "三天前下雨了": ["2023-05-07"],
    "两周前": ["2023-04-23/2023-04-29"],
    "上个月搬了家": ["2023-04-01/2023-04-30"],
    "去年毕业": ["2022-01-01/2022-12-31"],
    "去年夏天去了海边": ["2022-06-01/2022-08-31"],
    "2023年5月4日": ["2023-05-04"],
    "在5月4号这天": ["2023-05-04"],
    "十二月": ["2022-12-01/2022-12-31"],
    "I ran a race last Saturday": ["2023-05-06"],
    "the day before yesterday": ["2023-05-08"],
    "two weeks ago": ["2023-04-23/2023-04-29"],
    "a few years ago": ["2020-01-01/2020-12-31"],
    "last week was fun": ["2023-05-01/2023-05-07"],
    "next month": ["2023-06-01/2023-06-30"],
    "on 7 May 2023": ["2023-05-07"],
    "May 7th, 2023": ["2023-05-07"],
    "in June": ["2023-06-01/2023-06-30"],
    "in June 2021": ["2021-06-01/2021-06-30"],
    "last June": ["2022-06-01/2022-06-30"],
    "since 2019": ["2019-01-01/2019-12-31"],
    "2023-05-04": ["2023-05-04"],
    "this may be it": [],
    "她天天说梦话，月饼好吃": [],
    "the 31st of June 2023": ["2023-06-01/2023-06-30"],
    "99999999 days ago": [],
}
"""Text → the spans, ``first/last``, or one day."""


def written(span: DaySpan) -> str:
    """As in the table."""
    near = span.near(WEDNESDAY)
    return str(near.first) if near.first == near.last else f"{near.first}/{near.last}"


@pytest.mark.parametrize("text", CASES)
def test_expressions_name_days(text: str) -> None:
    """In Chinese and English, relative and absolute; the exact one of two that overlap; none where it only looks so."""
    assert [written(span) for span in find_spans(text, WEDNESDAY)] == CASES[text]


def test_a_date_without_a_year_is_near_in_every_year() -> None:
    """The distance is that to the nearest year's date, over the turn of the year too; leap days do not break it."""
    [span] = find_spans("5月4日", date(2026, 11, 22))
    assert [span.distance(date(2023, 5, day)) for day in (1, 4, 9)] == [3, 0, 5]
    [span] = find_spans("1月2日", date(2026, 11, 22))
    assert span.distance(date(2023, 12, 31)) == 2
    [span] = find_spans("2月29日", date(2024, 3, 1))
    assert span.distance(date(2023, 3, 1)) == 1
    [span] = find_spans("2023年5月4日", date(2026, 11, 22))
    assert span.distance(date(2024, 5, 4)) == 366


def test_times_at_the_ends_of_the_calendar_are_left_out() -> None:
    """Instead of failing: messages may have any timestamp that a store keeps."""
    for day in (date(2, 1, 1), date(9998, 12, 31)):
        for text in ("昨天", "10 years ago", "next year", "5月4日", "去年夏天", "上周五"):
            for span in find_spans(text, day):
                span.near(day).distance(day)


@pytest.mark.parametrize(
    ("question", "end"),
    [
        ("我第一次去北京是什么时候？", "first"),
        ("我们最早聊过什么？", "first"),
        ("When was the first time I saw a whale?", "first"),
        ("When did Joanna first watch it?", "first"),
        ("我最近一次体检是哪天？", "last"),
        ("上次修车花了多少钱？", "last"),
        ("When did I last see the dentist?", "last"),
        ("What was the most recent film we saw?", "last"),
        ("When did we meet last week?", None),
        ("第一次和最后一次去是什么时候？", None),
        ("Who came first in the race?", None),
        ("What did she do at last?", None),
        ("我们一次也没去过吗？", None),
    ],
)
def test_the_first_or_the_last_time_is_asked_for(question: str, end: End | None) -> None:
    """In Chinese and English; not by a place in a race, nor by a day such as last week's."""
    assert asked_end(question) == end
