"""The extractive summary: what it keeps, within its limit."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from wenmai.memory.extractive_summary import LONGEST_STATEMENT, extract, select, statements
from wenmai.stores.records import Message, Role
from wenmai.text.tokens import estimate_tokens


def message(content: str, role: Role = "user", name: str | None = None) -> Message:
    """A message."""
    return Message("m", 1, 1, "assistant", role, content, datetime(2026, 1, 5, tzinfo=UTC), name=name)


def summary(contents: Sequence[str], tokens: int) -> list[str]:
    """Of messages of a user."""
    return extract([], [message(content) for content in contents], tokens, estimate_tokens)


SMALL_TALK = [
    *("你好！", "哈哈，真有意思。", "嗯嗯，我觉得也是。", "今天天气不错呀。", "谢谢你陪我聊天！", "真的太开心了！"),
    *("Hi there!", "Haha, that is funny.", "I feel the same.", "Nice weather today.", "Thanks so much!", "See you!"),
]


@pytest.mark.parametrize(
    "statement",
    [
        "我叫沈知远。",
        "我女儿今年七岁。",
        "押金三千二。",
        "我们定在6月3日出发。",
        "我不吃香菜。",
        "那就决定选第二套方案。",
        "记得下周五去复查。",
        "书名是《百年孤独》。",
        "I'm Priya Raman.",
        "Our budget is 2,400 euros.",
        "We leave on March 14.",
        "I don't want overnight flights.",
        "Let's go with the second option.",
        "The code is QX7-318.",
        "My mother lives in Bradford.",
    ],
)
def test_names_numbers_dates_wishes_and_decisions_outlast_small_talk(statement: str) -> None:
    """In either language, wherever they were said."""
    for place in (0, 6, 12):
        contents = [*SMALL_TALK[:place], statement, *SMALL_TALK[place:]]
        assert any(statement in line for line in summary(contents, 25)), place


def test_a_summary_is_never_empty() -> None:
    """Small talk alone is summarised too, also where the limit is too small for it."""
    assert summary(["嗯。"], 1) == ["用户：嗯。"]
    assert summary(["ok"], 600) == ["User: ok"]
    assert summary(["……", "?"], 600) == []


def test_batches_give_the_summary_of_the_whole() -> None:
    """Whenever a summary was extended, what was said first has the same chance as what was said last."""
    contents = [f"{text} {number}号，我住在第{number % 7}街。" for number in range(60) for text in SMALL_TALK[:3]]
    whole = summary(contents, 300)
    rolling: list[str] = []
    for start in range(0, len(contents), 7):
        rolling = extract(rolling, [message(each) for each in contents[start : start + 7]], 300, estimate_tokens)
    assert sum(estimate_tokens(line) + 1 for line in rolling) <= 300
    assert rolling[0] == whole[0]
    assert len(set(rolling) & set(whole)) >= 0.8 * len(whole)


def test_every_part_of_a_long_message_is_read() -> None:
    """What stands in the middle of one sentence of a hundred thousand characters is kept like any other."""
    filler = "这里说的都是无关紧要的闲话，" * 4000
    long = f"{filler}我的车牌是浙A8K216，{filler}" + "x" * 10_000
    assert "".join(line.removeprefix("用户：").removeprefix("User: ") for line in statements([message(long)])) == long
    assert all(len(line) <= LONGEST_STATEMENT + 10 for line in statements([message(long)]))
    assert any("浙A8K216" in line for line in summary([long], 200))


def test_statements_that_differ_in_numbers_alone_do_not_crowd_out_others() -> None:
    """The first and the last are kept, since the last may be the true one."""
    contents = ["我对花生过敏。", *(f"我想看第{number}条新闻。" for number in range(1, 200))]
    lines = summary(contents, 60)
    assert [line.removeprefix("用户：") for line in (lines[0], lines[1], lines[-1])] == [
        contents[0],
        contents[1],
        contents[-1],
    ]


def test_a_later_change_stands_after_what_it_changes() -> None:
    """Lines are in the order of the conversation; a repeated one in the place of its last mention."""
    contents = ["预算是三千元。", "预算改成五千元。", "预算是三千元。"]
    assert summary(contents, 600) == ["用户：预算改成五千元。", "用户：预算是三千元。"]


def test_speakers_are_named() -> None:
    """Persons by their names; in the language of the statement. A result without its call is left out."""
    said = [
        message("我住在苏州。"),
        message("I see.", "assistant"),
        message("Me too.", "user", "Ann"),
        message('{"rows": 400}', "tool"),
        message("Be brief.", "system"),
    ]
    assert list(statements(said)) == ["用户：我住在苏州。", "Assistant: I see.", "Ann: Me too."]


def test_lines_are_chosen_by_salience_within_the_limit() -> None:
    """A shorter summary is the most salient part of a longer one."""
    lines = [f"User: {text}" for text in (*SMALL_TALK, "My mother lives in Bradford.", "I moved on 3 May 2021.")]
    longer, shorter = (select(lines, tokens, estimate_tokens) for tokens in (60, 25))
    assert shorter == ["User: My mother lives in Bradford.", "User: I moved on 3 May 2021."]
    assert set(shorter) < set(longer) < set(lines)


def call(name: str, arguments: str, id_: str = "c1") -> dict[str, object]:
    """A tool call."""
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_tool_call_is_one_line_with_the_values_of_its_result() -> None:
    """Whatever the result is: an object, a list, a text of any length, not even valid JSON, or absent."""
    results = {
        '{"price": 118, "seats": {"free": 3}, "note": null}': "Tool: fares(to=Porto) → price=118, free=3",
        '[{"id": 7}, {"id": 8}]': "Tool: fares(to=Porto) → id=7, id=8",
        "sold  out": "Tool: fares(to=Porto) → sold out",
        "[" * 50_000: f"Tool: fares(to=Porto) → {'[' * 99}…",
        "": "Tool: fares(to=Porto)",
    }
    asked = replace(message("", "assistant"), tool_calls=[call("fares", '{"to": "Porto"}')])
    for content, line in results.items():
        assert list(statements([asked, replace(message(content, "tool"), tool_call_id="c1")])) == [line]
    chinese = replace(message("", "assistant"), tool_calls=[{"id": "c1", "name": "查票", "args": {"到": "杭州"}}])
    assert list(statements([chinese])) == ["工具：查票(到=杭州)"]
    broken = replace(message("", "assistant"), tool_calls=[{"function": 5}, call("x\n" * 900, "{")])
    assert all("\n" not in line for line in statements([broken]))
    assert [len(line) <= LONGEST_STATEMENT + 10 for line in statements([broken])] == [True, True]


def test_a_turn_with_tool_calls_is_summarised() -> None:
    """The result is beside what was said, in the order of the conversation."""
    said = [
        message("Is there a train on Friday?"),
        replace(message("", "assistant"), tool_calls=[call("trains", '{"day": "Friday"}')]),
        replace(message('{"departure": "09:40", "platform": 4}', "tool"), tool_call_id="c1"),
        message("Yes, at 9:40.", "assistant"),
    ]
    assert extract([], said, 100, estimate_tokens)[1:] == [
        "Tool: trains(day=Friday) → departure=09:40, platform=4",
        "Assistant: Yes, at 9:40.",
    ]
