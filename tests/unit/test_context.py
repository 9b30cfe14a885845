"""The context for the caller's own model: within its budget, with the question last."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.errors import InvalidInput, StoreUnavailable
from wenmai.memory.context import Context
from wenmai.memory.library import MemoryPolicy, open_memory
from wenmai.memory.session_memory import SessionMemory
from wenmai.memory.window import WindowLimits
from wenmai.scope import Scope
from wenmai.stores.inprocess.search import InProcessSearch
from wenmai.stores.records import Cut, HistoryCut
from wenmai.text.tokens import estimate_tokens

QUERY = "那么，祠堂是哪一年重修的？"


def tokens_of(context: Context) -> int:
    """Recounted from what a model would be sent."""
    texts = [*(block.text for block in context.blocks), *(message["content"] for message in context.messages)]
    return sum(estimate_tokens(text) for text in texts)


async def append_turns(session: SessionMemory, turns: list[tuple[str, str]]) -> None:
    """Append the turns."""
    for question, answer in turns:
        await session.append([{"role": "user", "content": question}, {"role": "assistant", "content": answer}])


texts = st.text(alphabet="祠堂始建于明嘉靖二年，the hall 1523. ", min_size=1, max_size=300)
talks = st.lists(st.tuples(texts, texts), max_size=8)


@settings(max_examples=60, deadline=None)
@given(talks, st.integers(10, 2000), st.booleans())
def test_the_budget_holds(turns: list[tuple[str, str]], budget: int, preferring: bool) -> None:  # noqa: FBT001 — drawn
    """Blocks, window and question together, for any conversation; the question is last, and cuts are reported."""

    async def build() -> Context:
        async with open_memory("memory://") as memory:
            session = await memory.session()
            if preferring:
                await session.prefer(verbosity="brief", add_interest_tags=["家训", "祠堂"])
            await append_turns(session, turns)
            return await session.context(QUERY, budget_tokens=budget)

    context = asyncio.run(build())
    assert context.tokens == tokens_of(context) <= budget
    assert context.messages[-1] == {"role": "user", "content": QUERY}
    shown = [message["content"] for message in context.messages[:-1]]
    everything = [text for turn in turns for text in turn]
    assert bool(context.cut.history) == (shown != everything)
    assert bool(context.cut.preferences) == (preferring and not context.blocks)


async def test_without_a_budget_the_limits_of_the_policy_apply() -> None:
    """Preferences, then the window; nothing was cut that fits."""
    async with open_memory("memory://") as memory:
        session = await memory.session()
        await append_turns(session, [("祠堂何年建？", "嘉靖二年。")])
        plain = await session.context(QUERY)
        await session.prefer(verbosity="brief")
        preferred = await session.context(QUERY)
    assert (plain.blocks, plain.cut) == ([], Cut())
    assert [message["role"] for message in plain.messages] == ["user", "assistant", "user"]
    assert [block.kind for block in preferred.blocks] == ["preferences"]
    assert "简短" in preferred.blocks[0].text
    assert preferred.messages == plain.messages
    assert preferred.tokens == plain.tokens + preferred.blocks[0].tokens


async def test_the_limits_of_the_window_hold_within_a_budget() -> None:
    """Message and token limits apply however large the budget; only the character limit does not."""
    turns = [(f"q{number}", f"a{number}" * 300) for number in range(30)]
    for limits, count in (
        (WindowLimits(messages=4), 5),
        (WindowLimits(messages=500), 61),
        (WindowLimits(messages=500, tokens=10), 3),
    ):
        async with open_memory("memory://", policy=MemoryPolicy(window=limits)) as memory:
            session = await memory.session()
            await append_turns(session, turns)
            context = await session.context(QUERY, budget_tokens=100_000)
        assert len(context.messages) == count


async def test_tool_calls_count_toward_the_budget() -> None:
    """A call with 100 kB of arguments counts with what is left of it, and the budget holds."""
    call = {"id": "c1", "type": "function", "function": {"name": "write", "arguments": '{"text": "' + "x y " * 25_000}}
    async with open_memory("memory://") as memory:
        session = await memory.session()
        stored = await session.append(
            [
                {"role": "user", "content": "Write it."},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "content": "done", "tool_call_id": "c1"},
            ]
        )
        assert stored[1].tokens > 10_000
        context = await session.context("next", budget_tokens=100)
    shown = sum(estimate_tokens(msgspec.json.encode(message).decode()) for message in context.messages)
    assert 60 < context.tokens <= 100
    assert shown < 200
    assert [message["role"] for message in context.messages] == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize("budget", [None, 1000])
async def test_a_window_of_nothing_stays_empty(budget: int | None) -> None:
    """An explicit 0 is respected with a budget too."""
    policy = MemoryPolicy(window=WindowLimits(messages=0))
    async with open_memory("memory://", policy=policy) as memory:
        session = await memory.session()
        await append_turns(session, [("q", "a")])
        context = await session.context(QUERY, budget_tokens=budget)
    assert context.messages == [{"role": "user", "content": QUERY}]
    assert context.cut.history == HistoryCut(turns_left_out=True, characters_shortened=0)


async def test_a_budget_too_small_for_the_question_is_rejected() -> None:
    """The error names the field and the minimum; with exactly that, only the question is included."""
    async with open_memory("memory://") as memory:
        session = await memory.session()
        await append_turns(session, [("q", "a")])
        enough = estimate_tokens(QUERY)
        with pytest.raises(InvalidInput, match=str(enough)) as refused:
            await session.context(QUERY, budget_tokens=enough - 1)
        assert refused.value.field == "budget_tokens"
        context = await session.context(QUERY, budget_tokens=enough)
    assert (len(context.messages), context.tokens) == (1, enough)


async def test_tool_calls_have_the_form_of_chat_apis() -> None:
    """Names, calls and the ids of results are included; empty fields are not."""
    call = {"id": "call-1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    async with open_memory("memory://") as memory:
        session = await memory.session()
        await session.append(
            [
                {"role": "user", "content": "q", "name": "小明"},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "content": "r", "tool_call_id": "call-1"},
                {"role": "assistant", "content": "a"},
            ]
        )
        context = await session.context("next")
    assert context.messages == [
        {"role": "user", "content": "q", "name": "小明"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "r", "tool_call_id": "call-1"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "next"},
    ]


async def test_other_personas_messages_are_not_in_the_context() -> None:
    """A thread is the conversation with one persona."""
    async with open_memory("memory://") as memory:
        session = await memory.session()
        await append_turns(session, [("to one", "yes")])
        other = await session.with_persona("other").context("q")
    assert len(other.messages) == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(10, 2000), st.integers(3, 30))
def test_the_budget_holds_beside_a_summary(budget: int, turns: int) -> None:
    """Summary, messages and question together; what was cut is reported in tokens, and the newest turn is shown."""

    async def build() -> tuple[Context, Context]:
        async with open_memory("memory://") as memory:
            session = await memory.session()
            await append_turns(session, [(f"问题{n}，我住在{n}号。" * 3, f"回答{n}。" * 9) for n in range(turns)])
            await memory.derived.catch_up()
            return await session.context(QUERY, budget_tokens=budget), await session.context(QUERY)

    context, whole = asyncio.run(build())
    assert context.tokens == tokens_of(context) <= budget
    shown = {block.kind: block.tokens for block in context.blocks}
    full = {block.kind: block.tokens for block in whole.blocks}
    cut = context.cut.summary if isinstance(context.cut.summary, int) else 0
    assert shown.get("summary", 0) + cut == full.get("summary", 0)
    assert budget < 40 or len(context.messages) > 1


async def test_a_pending_message_beyond_the_window_stays_within_its_limits() -> None:
    """What waits for the summary is shown beside the window only while it is short."""
    long = "x y " * 20_000
    async with open_memory("memory://") as memory:
        session = await memory.session()
        await append_turns(session, [("q", "a")] * 10)
        await memory.derived.catch_up()
        await append_turns(session, [(long, "a"), ("b", "c")])
        context = await session.context(QUERY)
    assert [message["content"] for message in context.messages] == ["b", "c", QUERY]


BOAT = "我的船叫白鹭号，停在下渡口。"
ASKED = "白鹭号停在哪里？"


async def test_related_turns_of_other_sessions_are_a_block() -> None:
    """With the persona of the thread alone; not those among the messages, of another user, or if they are refused."""
    async with open_memory("memory://") as memory:
        first = await memory.session()
        await append_turns(first, [(BOAT, "记下了。"), ("今天天气不错。", "是啊。")])
        await memory.derived.catch_up()
        second = await memory.session()
        context = await second.context(ASKED)
        assert [block.kind for block in context.blocks] == ["episodes"]
        assert BOAT in context.blocks[0].text
        assert (context.tokens, context.degraded) == (tokens_of(context), [])
        assert (await first.context(ASKED)).blocks == []
        assert (await second.context(ASKED, related_turns=False)).blocks == []
        stranger = await memory.session(scope=Scope(user_id="stranger"))
        assert (await stranger.context(ASKED)).blocks == []
        other = await memory.session(persona_id="another")
        assert (await other.context(ASKED)).blocks == []


async def test_related_turns_that_do_not_fit_are_in_the_cut() -> None:
    """The block gives way to the budget, and says so."""
    async with open_memory("memory://") as memory:
        await append_turns(await memory.session(), [(BOAT, "记下了。" + "船很好。" * 100)])
        await memory.derived.catch_up()
        context = await (await memory.session()).context(ASKED, budget_tokens=60)
        assert context.tokens <= 60
        assert context.blocks == []
        assert context.cut.episodes


async def test_a_context_without_the_search_is_degraded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has all that the store answers."""

    async def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("search", "no connection")

    monkeypatch.setattr(InProcessSearch, "query", fail)
    async with open_memory("memory://") as memory:
        session = await memory.session()
        await append_turns(session, [(BOAT, "记下了。")])
        context = await session.context(ASKED)
    assert context.degraded == ["recall"]
    assert [message["content"] for message in context.messages] == [BOAT, "记下了。", ASKED]
