"""The window: whole turns, newest first, within all limits, always with the newest turn."""

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wenmai.memory.window import Window, WindowLimits, cut_window
from wenmai.stores.records import Message, Role
from wenmai.text.tokens import estimate_tokens

MOMENT = datetime(2026, 1, 5, 14, 0, tzinfo=UTC)


class Spec(NamedTuple):
    """A message to build; ``calls`` are ids of tool calls, ``answers`` the id of the call that it answers."""

    role: Role
    content: str
    calls: tuple[str, ...] = ()
    answers: str | None = None


def thread(*turns: list[Spec]) -> list[Message]:
    """The messages of a thread, numbered as a store would."""
    flat = [(turn_id, spec) for turn_id, turn in enumerate(turns, start=1) for spec in turn]
    return [
        Message(
            id=f"m{seq}",
            seq=seq,
            turn_id=turn_id,
            persona_id="assistant",
            role=spec.role,
            content=spec.content,
            timestamp=MOMENT,
            tool_calls=[{"id": call, "type": "function"} for call in spec.calls] or None,
            tool_call_id=spec.answers,
        )
        for seq, (turn_id, spec) in enumerate(flat, start=1)
    ]


def plain_turn(question: str, answer: str) -> list[Spec]:
    """A turn of two messages."""
    return [Spec("user", question), Spec("assistant", answer)]


def tool_turn(results: int, *, length: int = 5, answer: str = "done") -> list[Spec]:
    """A turn with one message of parallel tool calls, all answered."""
    calls = tuple(f"call-{number}" for number in range(results))
    answers = [Spec("tool", "r" * length, answers=call) for call in calls]
    return [Spec("user", "what?"), Spec("assistant", "", calls=calls), *answers, Spec("assistant", answer)]


def texts_of(message: Message) -> list[str]:
    """Everything in a message that a model reads."""
    calls = msgspec.json.encode(message.tool_calls).decode() if message.tool_calls else ""
    return [message.content, calls, message.tool_call_id or "", message.name or ""]


def characters_of(messages: list[Message]) -> int:
    """Recounted from the messages."""
    return sum(len(text) for message in messages for text in texts_of(message))


def tokens_of(messages: list[Message]) -> int:
    """Recounted from the messages."""
    return sum(estimate_tokens(text) for message in messages for text in texts_of(message))


NO_LIMIT = WindowLimits(messages=500, characters=None, tokens=None)

texts = st.one_of(
    st.text(alphabet="祠堂建于嘉靖二年，", max_size=120),
    st.text(alphabet="ancestral hall, 1523. ", max_size=120),
    st.text(max_size=40),
)


@st.composite
def turns(draw: st.DrawFn) -> list[Spec]:
    """A typical turn: a question, rounds of tool calls with their results, an answer."""
    specs = [Spec("user", draw(texts))]
    for number in range(draw(st.integers(0, 2))):
        calls = tuple(f"call-{number}-{index}" for index in range(draw(st.integers(1, 3))))
        specs.append(Spec("assistant", draw(st.sampled_from(["", "let me see"])), calls=calls))
        specs += [Spec("tool", draw(texts), answers=call) for call in calls]
    if draw(st.booleans()):
        specs.append(Spec("assistant", draw(texts)))
    return specs


threads = st.lists(turns(), min_size=1, max_size=6).map(lambda drawn: thread(*drawn))
limits_of_any_size = st.builds(
    WindowLimits,
    messages=st.integers(1, 25),
    characters=st.none() | st.integers(0, 400),
    tokens=st.none() | st.integers(0, 200),
)


@given(threads, limits_of_any_size)
def test_every_limit_holds(messages: list[Message], limits: WindowLimits) -> None:
    """Messages, characters and tokens are within the limits, and the reported figures are exact."""
    window = cut_window(messages, limits)
    assert len(window.messages) <= limits.messages
    assert limits.characters is None or characters_of(window.messages) <= limits.characters
    assert limits.tokens is None or window.tokens <= limits.tokens
    assert window.tokens == tokens_of(window.messages)


@given(threads, limits_of_any_size)
def test_the_newest_turn_is_always_included(messages: list[Message], limits: WindowLimits) -> None:
    """However tight the limits are, the window is not empty and ends within the newest turn."""
    window = cut_window(messages, limits)
    assert window.messages
    assert window.messages[-1].turn_id == messages[-1].turn_id


@given(threads, limits_of_any_size)
def test_older_turns_are_whole_and_without_gaps(messages: list[Message], limits: WindowLimits) -> None:
    """In the order of the conversation; the newest turn is preceded by the turns before it, verbatim."""
    window = cut_window(messages, limits)
    seqs = [message.seq for message in window.messages]
    assert seqs == sorted(set(seqs))
    oldest, newest = window.messages[0].turn_id, messages[-1].turn_id
    older = [message for message in window.messages if message.turn_id != newest]
    assert older == [message for message in messages if oldest <= message.turn_id < newest]


@given(threads, limits_of_any_size)
def test_as_many_turns_are_included_as_fit(messages: list[Message], limits: WindowLimits) -> None:
    """The next older turn would exceed a limit, and ``more`` says whether there is one."""
    window = cut_window(messages, limits)
    left_out = [message for message in messages if message.turn_id < window.messages[0].turn_id]
    assert window.more == bool(left_out)
    if not left_out:
        return
    next_older = [message for message in left_out if message.turn_id == left_out[-1].turn_id]
    both = [*next_older, *window.messages]
    assert (
        len(both) > limits.messages
        or (limits.characters is not None and characters_of(both) > limits.characters)
        or (limits.tokens is not None and tokens_of(both) > limits.tokens)
    )


@given(threads, limits_of_any_size)
def test_a_tool_call_and_its_result_stay_together(messages: list[Message], limits: WindowLimits) -> None:
    """Every result in the window has its call before it; every answered call has its results after it."""
    window = cut_window(messages, limits)
    called = [call["id"] for message in window.messages for call in message.tool_calls or ()]
    answered = [message.tool_call_id for message in window.messages if message.role == "tool"]
    assert answered == called


@given(threads, limits_of_any_size)
def test_cut_characters_are_counted(messages: list[Message], limits: WindowLimits) -> None:
    """``shortened`` is what the newest turn lost; 0 if it fits."""
    window = cut_window(messages, limits)
    newest = [message for message in messages if message.turn_id == messages[-1].turn_id]
    entered = [message for message in window.messages if message.turn_id == newest[0].turn_id]
    assert window.shortened == characters_of(newest) - characters_of(entered)
    for message in entered:
        whole = next(each for each in newest if each.seq == message.seq).content
        assert message.content in ("", whole) or (
            message.content.endswith("…") and whole.startswith(message.content[:-1])
        )


@given(st.text(min_size=1, max_size=3000), st.integers(1, 3000))
def test_characters_are_used_up(content: str, characters: int) -> None:
    """A message that is too long is cut to exactly the available characters."""
    window = cut_window(thread([Spec("user", content)]), WindowLimits(characters=characters))
    assert len(window.messages[0].content) == min(len(content), characters)


@given(st.text(alphabet="祠堂建于嘉靖二年，ancestral hall 1523. ", min_size=200, max_size=2000), st.integers(20, 400))
def test_tokens_are_used_up(content: str, tokens: int) -> None:
    """A message that is too long is cut to the available tokens, within a tenth."""
    assume(estimate_tokens(content) > tokens)
    window = cut_window(thread([Spec("user", content)]), WindowLimits(characters=None, tokens=tokens))
    assert 0.9 * tokens <= window.tokens <= tokens


@pytest.mark.parametrize("words", ["祠堂始建于嘉靖二年，", "The hall was built in 1523. "])
def test_a_newest_message_over_the_limit_is_shortened_and_not_dropped(words: str) -> None:
    """Of 10 000 characters the first 3 999 are kept, and an ellipsis."""
    content = (words * 2000)[:10_000]
    window = cut_window(thread(plain_turn("早", "早"), [Spec("user", content)]), WindowLimits())
    assert [message.content for message in window.messages] == [content[:3999] + "…"]
    assert (window.shortened, window.more) == (6000, True)


def test_the_longest_parts_are_shortened_first() -> None:
    """A short question is kept whole beside a long answer, which gets the rest."""
    window = cut_window(thread(plain_turn("何年？", "祠" * 10_000)), WindowLimits())
    assert [len(message.content) for message in window.messages] == [3, 3997]
    both_long = cut_window(thread(plain_turn("问" * 9000, "答" * 9000)), WindowLimits())
    assert [len(message.content) for message in both_long.messages] == [2000, 2000]


def test_shortening_a_million_characters_calls_the_counter_few_times() -> None:
    """By binary search the model's counter is called some dozen times, not thousands."""
    asked: list[int] = []

    def count(text: str) -> int:
        asked.append(len(text))
        return len(text)

    messages = thread([Spec("user", "x" * 1_000_000)])
    window = cut_window(messages, WindowLimits(characters=None, tokens=777), count_tokens=count)
    assert window.tokens == 777
    assert len(asked) < 60


def test_a_message_limit_never_splits_a_turn() -> None:
    """With room for five messages, two turns of two are included, not two and a half."""
    messages = thread(*(plain_turn(f"q{number}", f"a{number}") for number in range(5)))
    window = cut_window(messages, WindowLimits(messages=5))
    assert [message.content for message in window.messages] == ["q3", "a3", "q4", "a4"]
    assert window.more


def test_a_partly_read_oldest_turn_is_left_out() -> None:
    """A reader that stopped within a turn sets ``more``; the partial turn is left out."""
    messages = thread(plain_turn("q1", "a1"), plain_turn("q2", "a2"))[1:]
    window = cut_window(messages, NO_LIMIT, more=True)
    assert [message.content for message in window.messages] == ["q2", "a2"]
    assert window.more


def test_a_long_tool_turn_keeps_its_question_and_its_end() -> None:
    """Results that do not fit are left out with their call; question and answer are kept."""
    window = cut_window(thread(tool_turn(20)), WindowLimits(messages=10))
    assert [message.content for message in window.messages] == ["what?", "done"]
    running = cut_window(thread(tool_turn(20)[:-1]), WindowLimits(messages=10))
    assert [message.content for message in running.messages] == ["what?"]


def test_calls_and_results_share_a_tight_limit() -> None:
    """In a turn of large results all are shortened alike, and none loses its call."""
    messages = thread(tool_turn(3, length=1000, answer="a" * 1000))
    ids = characters_of(messages) - sum(len(message.content) for message in messages)
    window = cut_window(messages, WindowLimits(messages=10, characters=405 + ids))
    assert [len(message.content) for message in window.messages] == [5, 0, 100, 100, 100, 100]
    assert [message.tool_call_id for message in window.messages[2:5]] == ["call-0", "call-1", "call-2"]


def test_a_result_after_other_messages_stays_with_its_call() -> None:
    """Messages between a call and its result are kept or left out with them."""
    turn = [
        Spec("user", "what?"),
        Spec("assistant", "", calls=("slow", "fast")),
        Spec("tool", "fast result", answers="fast"),
        Spec("assistant", "one moment"),
        Spec("tool", "slow result", answers="slow"),
        Spec("assistant", "done"),
    ]
    assert len(cut_window(thread(turn), WindowLimits(messages=6)).messages) == 6
    tight = cut_window(thread(turn), WindowLimits(messages=5))
    assert [message.content for message in tight.messages] == ["what?", "done"]


def test_results_without_their_call_are_left_out() -> None:
    """If only the end of a turn was read, results at its start have no call before them."""
    messages = thread(tool_turn(3))[3:]
    window = cut_window(messages, WindowLimits(messages=3), more=True)
    assert [message.content for message in window.messages] == ["done"]


@pytest.mark.parametrize("messages", [thread(plain_turn("q", "a")), []])
def test_a_window_of_no_messages_is_empty(messages: list[Message]) -> None:
    """0 is a limit like any other; ``more`` says that there are messages."""
    assert cut_window(messages, WindowLimits(messages=0)) == Window([], 0, 0, more=bool(messages))


def test_messages_are_ordered_by_their_numbers() -> None:
    """Whatever the order of the input."""
    messages = thread(plain_turn("q1", "a1"), plain_turn("q2", "a2"))
    assert cut_window(messages[::-1], NO_LIMIT).messages == messages


def test_stored_token_counts_are_used() -> None:
    """The stored count is used; only shortened messages are counted again."""
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return 1

    counted = [msgspec.structs.replace(message, tokens=2) for message in thread(plain_turn("q1", "a1"))]
    window = cut_window(counted, WindowLimits(), count_tokens=count)
    assert (window.tokens, asked) == (4, [])


def writing(arguments: Any, *, result: str = "ok") -> list[Message]:
    """A thread whose only turn calls a tool with these arguments."""
    turn = [Spec("user", "write it"), Spec("assistant", "", calls=("c1",)), Spec("tool", result, answers="c1")]
    messages = thread(turn)
    call = {"id": "c1", "type": "function", "function": {"name": "write_file", "arguments": arguments}}
    messages[1] = msgspec.structs.replace(messages[1], tool_calls=[call])
    return messages


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"path": "notes.txt", "content": 'He said "no".\n' * 8000}),
        {"path": "notes.txt", "content": "严氏家训" * 30_000},
        "plain words of a tool that takes no JSON, " * 3000,
    ],
)
@pytest.mark.parametrize("limits", [WindowLimits(characters=None, tokens=100), WindowLimits(characters=400)])
def test_arguments_of_a_tool_call_are_shortened_like_content(arguments: Any, limits: WindowLimits) -> None:
    """A call of 100 kB is shortened to the limit; JSON remains valid, and call and result keep their ids."""
    messages = writing(arguments)
    window = cut_window(messages, limits)
    assert [message.role for message in window.messages] == ["user", "assistant", "tool"]
    assert window.tokens == tokens_of(window.messages) <= (limits.tokens or 1000)
    assert limits.characters is None or 350 <= characters_of(window.messages) <= limits.characters
    assert limits.tokens is None or window.tokens > 80
    [call] = window.messages[1].tool_calls or []
    assert (call["id"], call["function"]["name"], window.messages[2].tool_call_id) == ("c1", "write_file", "c1")
    shown = call["function"]["arguments"]
    assert type(shown) is type(arguments)
    if not isinstance(arguments, str) or arguments.startswith("{"):
        shown = (json.loads(shown) if isinstance(shown, str) else shown)["shortened"]
    assert shown.endswith("…")
    assert "plain words of" in shown or "notes.txt" in shown
    assert window.shortened == characters_of(messages) - characters_of(window.messages)


@given(st.text(), st.integers(1, 400), st.booleans())
def test_shortened_arguments_never_take_more_than_their_room(text: str, tokens: int, as_text: bool) -> None:  # noqa: FBT001 — drawn
    """Quotation marks, backslashes and control characters do not make the shortened arguments longer again."""
    arguments = {"content": text * 50}
    messages = writing(json.dumps(arguments, ensure_ascii=False) if as_text else arguments, result=text)
    window = cut_window(messages, WindowLimits(characters=None, tokens=tokens))
    assert window.messages
    assert window.tokens == tokens_of(window.messages) <= tokens
    for message in window.messages:
        for call in message.tool_calls or ():
            left = call["function"]["arguments"]
            assert isinstance(json.loads(left) if as_text else left, dict)


def test_a_call_with_too_long_ids_is_left_out() -> None:
    """Ids are not shortened: a call that cannot fit is left out with its results, the question is kept."""
    window = cut_window(writing("{}"), WindowLimits(characters=None, tokens=10))
    assert [message.content for message in window.messages] == ["write it"]
    alone = cut_window(writing("{}")[1:], WindowLimits(characters=None, tokens=10))
    assert (alone.messages, alone.tokens, alone.more) == ([], 0, True)
