"""Mistakes that systems of this kind have made: the page that lists them is true, and the tests no other file has."""

import ast
import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from support import engine_at
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.engine import Engine, load_engine_settings
from wenmai.grounding.types import DialogueAct
from wenmai.memory.library import Memory, open_memory
from wenmai.memory.window import WindowLimits
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.conformance import CASES
from wenmai.stores.opening import open_store
from wenmai.stores.records import TraceRecord
from wenmai.stores.sqlite.schema import connect
from wenmai.stores.structs import SearchEntry, SearchQuery

ROOT = Path(__file__).parents[2]
PAGES = {
    name: (ROOT / "docs" / "explanation" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("known-mistakes", "security")
}
VISITOR = Scope("default", "default", "visitor")
WISH = "请说得详细一点"

_NAMED_TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
_NAMED_CASE = re.compile(r"case `(\w+)`")
_STEPS = "SQLITE_STMTSTATUS_VM_STEP"
_SORTS = "SQLITE_STMTSTATUS_SORT"


async def ask(engine: Engine, query: str, *, session_id: str | None = None) -> TurnAnswer:
    """One question of the visitor."""
    request = TurnRequest(scope=VISITOR, persona_id="ancestor_yan", query=query, session_id=session_id)
    return await engine.chat.ask(request)


async def trace_of(engine: Engine, answer: TurnAnswer) -> TraceRecord:
    """The trace of an answer."""
    return (await engine.traces.get(VISITOR, answer.trace_id)).record


def talk(count: int) -> list[dict[str, Any]]:
    """So many turns of two messages."""
    return [{"role": role, "content": f"{role} {number}"} for number in range(count) for role in ("user", "assistant")]


class TestThePages:
    """Every mistake and every threat names the tests that would fail on it, and they exist."""

    @pytest.fixture(params=PAGES)
    def text(self, request: pytest.FixtureRequest) -> str:
        """A page."""
        return PAGES[request.param]

    def test_every_named_test_exists(self, text: str) -> None:
        """By file and name, as they are written in the tests' sources."""
        named = set(_NAMED_TEST.findall(text))
        assert len(named) > 30
        files = {path for path, _ in named}
        defined = {(path, name) for path in files for name in _tests_of(ROOT / "tests" / path)}
        assert named - defined == set()

    def test_every_named_case_exists(self, text: str) -> None:
        """By its name in the conformance suite."""
        named = set(_NAMED_CASE.findall(text))
        assert named
        assert named - {case.name for case in CASES} == set()

    @pytest.mark.parametrize(("page", "least"), [("known-mistakes", 40), ("security", 15)])
    def test_every_row_names_what_would_fail(self, page: str, least: int) -> None:
        """Each ends with tests, cases, or the feature that it will come with."""
        tables = PAGES[page].partition("## Defences")[2] or PAGES[page]
        rows = [
            line for line in tables.splitlines() if line.startswith("| ") and not line.startswith(("| mis", "| thr"))
        ]
        assert len(rows) > least
        for row in rows:
            shown_by = row.split(" | ")[-1]
            assert _NAMED_TEST.search(shown_by) or _NAMED_CASE.search(shown_by) or "with that feature" in shown_by, row


def _tests_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


class TestWhatReadingCosts:
    """Work in SQLite is counted in steps of its virtual machine, which no other load can disturb."""

    @pytest.fixture
    def counted(self, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
        """Steps and sorts of all statements of stores opened after this."""
        counts: Counter[str] = Counter()

        def connect_counted(path: Path) -> apsw.Connection:
            connection = connect(path)
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, lambda event: counts.update(event["stmt_status"]))
            return connection

        monkeypatch.setattr("wenmai.stores.sqlite.connect", connect_counted)
        return counts

    @pytest.fixture
    async def memory(self, counted: Counter[str], tmp_path: Path) -> AsyncIterator[Memory]:
        """A memory over a new file; what it does is counted."""
        assert not counted
        async with open_memory(f"sqlite:///{tmp_path}/wenmai.db") as opened:
            yield opened

    async def test_listing_sessions_does_not_look_at_other_peoples(self, memory: Memory, counted: Counter[str]) -> None:
        """Two thousand sessions of others and a thousand older ones of one's own cost a page nothing."""

        async def cost_of_a_page() -> int:
            counted.clear()
            assert len((await memory.sessions.list(VISITOR, limit=10)).items) == 10
            assert counted[_SORTS] == 0
            return counted[_STEPS]

        for _ in range(11):
            await memory.sessions.open(VISITOR)
        before = await cost_of_a_page()
        strangers = [Scope("default", "default", f"user-{number}") for number in range(20)]
        await asyncio.gather(*(memory.sessions.open(scope) for scope in strangers for _ in range(100)))
        await asyncio.gather(*(memory.sessions.open(VISITOR) for _ in range(1000)))
        assert await cost_of_a_page() <= before * 1.1

    async def test_listing_traces_by_any_filter_walks_an_index(self, counted: Counter[str], tmp_path: Path) -> None:
        """No statement sorts, and a page of five costs the same among five traces and among hundreds."""
        filters: list[dict[str, str]] = [
            {}, {"session_id": "wanted"}, {"npc_id": "wanted"}, {"intent": "greeting"}, {"policy_mode": "refuse"},
        ]  # fmt: skip
        async with engine_at(f"sqlite:///{tmp_path}/wenmai.db") as engine:

            async def cost_of_a_page(where: dict[str, str]) -> int:
                counted.clear()
                assert len((await engine.traces.list(VISITOR, where=where, limit=5)).items) == 5
                assert counted[_SORTS] == 0
                return counted[_STEPS]

            await _save_traces(engine, 6, "wanted", intent="greeting", policy_mode="refuse")
            before = [await cost_of_a_page(where) for where in filters]
            await _save_traces(engine, 400, "other", intent="fact_seeking", policy_mode="normal")
            after = [await cost_of_a_page(where) for where in filters]
        assert all(late <= early * 1.1 for early, late in zip(before, after, strict=True))

    async def test_a_turn_costs_the_same_in_a_thread_of_ten_thousand_messages(
        self, memory: Memory, counted: Counter[str]
    ) -> None:
        """Appending and cutting the window read the end of the thread, however long it is; so does reading alone."""

        async def cost_of_a_turn(session_id: str, already: int) -> int:
            session = await memory.session(session_id, scope=VISITOR)
            for start in range(0, already, 1000):
                await session.append(talk(min(1000, already - start) // 2))
            await memory.derived.catch_up()  # which reads at other times
            counted.clear()
            _, window = await session.append_and_window(talk(1))
            assert await session.window() == window
            assert len(await session.messages(limit=10)) == 10
            assert len(window.messages) == 10
            return counted[_STEPS]

        short = await cost_of_a_turn("short", 20)
        assert await cost_of_a_turn("long", 10_000) <= short * 1.1

    async def test_a_search_walks_the_postings_of_its_words_only(self, counted: Counter[str], tmp_path: Path) -> None:
        """Ten times the entries with other words cost nothing, with a filter or without; vectors are all compared."""
        async with open_store(f"sqlite:///{tmp_path}/wenmai.db") as store:
            search = store.search
            assert search is not None

            async def add(start: int, end: int, text: str) -> None:
                numbers = range(start, end)
                fields = {number: {"half": str(number % 2)} for number in numbers}
                entries = [
                    SearchEntry(id=f"e{n}", text=f"{text} {n}", vector=[1, n], fields=fields[n]) for n in numbers
                ]
                await search.index(VISITOR, "c", entries)

            async def cost(**asked: Any) -> int:
                counted.clear()
                [hits] = await search.query(VISITOR, "c", [SearchQuery(text="old bridge", limit=5, **asked)])
                assert len(hits) == 5
                return counted[_STEPS]

            await add(0, 20, "the old bridge")
            await add(20, 200, "another word")
            asked: list[dict[str, Any]] = [{}, {"where": {"half": "1"}}]
            before = [await cost(**each) for each in asked]
            by_vector = await cost(vector=[1, 1]) - before[0]
            await add(200, 2_000, "another word")
            after = [await cost(**each) for each in asked]
            assert await cost(vector=[1, 1]) - after[0] < 12 * by_vector
        assert after[0] <= before[0] * 1.1
        assert after[1] <= before[1] * 1.1


async def _save_traces(engine: Engine, count: int, mark: str, **fields: Any) -> None:
    now = engine.clock()
    await engine.memory.sessions.open(VISITOR, mark)
    for number in range(count):
        trace = TraceRecord(
            ref=f"trace-{mark}-{number}",
            trace_id=f"trace-{mark}-{number}",
            session_id=mark,
            persona_id=mark,
            started_at=now,
            completed_at=now,
            **fields,
        )
        await engine.traces.save(VISITOR, trace)


async def test_the_latest_fifty_are_not_the_oldest_fifty(store_url: str) -> None:
    """Of 120 messages a reader of 50 gets the last 50, ascending."""
    async with open_memory(store_url) as memory:
        session = await memory.session(scope=VISITOR)
        await session.append(talk(60))
        assert [message.seq for message in await session.messages()] == list(range(71, 121))


async def test_a_window_is_counted_alike_everywhere(engine: Engine) -> None:
    """Read alone, with an append, for a model of one's own, and in the prompt of a turn: the same messages."""
    first = await ask(engine, "严氏家训有哪些？")
    for query in ("第一条是什么？", "第二条呢？", "祠堂何年建？", "谁主持的？", "族谱修过几次？", "村里有几座桥？"):
        await ask(engine, query, session_id=first.session_id)
    thread = ThreadKey(first.session_id, "ancestor_yan")
    window = await engine.memory.transcript.window(VISITOR, thread, engine.memory.policy.window)
    context = await engine.memory.contexts.build(VISITOR, thread, "q")
    answer = await ask(engine, "严氏家训有哪些？", session_id=first.session_id)
    blocks = {block.kind: block.text for block in (await trace_of(engine, answer)).blocks}
    shown = [line for line in blocks["history"].split("\n")[2:-1] if not line.startswith("  ")]
    assert [message["content"] for message in context.messages[:-1]] == [each.content for each in window.messages]
    assert [line.partition(": ")[2] for line in shown] == [each.content.split("\n")[0] for each in window.messages]


async def test_unfinished_answers_stay_out_of_every_window(engine: Engine) -> None:
    """A question whose answer was given up is in no window, no context and no prompt, and not lost."""
    first = await ask(engine, "严氏家训有哪些？")
    thread = ThreadKey(first.session_id, "ancestor_yan")
    memory = engine.memory
    half: list[dict[str, Any]] = [
        {"role": "user", "content": "UNANSWERED"},
        {"role": "assistant", "content": "HALF AN ANS", "completed": False},
    ]
    appended, with_append = await memory.transcript.append(VISITOR, thread, half, window=WindowLimits())
    alone = await memory.transcript.window(VISITOR, thread, WindowLimits())
    context = await memory.contexts.build(VISITOR, thread, "q", budget_tokens=5000)
    answer = await ask(engine, "第一条是什么？", session_id=first.session_id)
    prompt = "".join(block.text for block in (await trace_of(engine, answer)).blocks)
    for shown in (str(with_append), str(alone), str(context), prompt):
        assert "UNANSWERED" not in shown
        assert "HALF AN ANS" not in shown
    assert answer.turn_id == appended.messages[0].turn_id + 1
    stored = [message.content for message in await memory.transcript.latest(VISITOR, thread, 10)]
    assert "UNANSWERED" in stored


async def test_a_question_about_history_is_no_greeting(engine: Engine) -> None:
    """``hi`` is a greeting of the profile, and is not found in ``history``, ``this`` or ``which``."""
    assert "hi" in engine.profile.intents["greeting"]
    for query in ("Tell me the history of the hall", "Which clan is this?", "history"):
        assert (await trace_of(engine, await ask(engine, query))).intent == DialogueAct.FACT_SEEKING


async def test_every_moment_that_is_kept_or_shown_is_aware_and_utc(engine: Engine) -> None:
    """Of sessions, messages, preferences, traces and answers."""
    answer = await ask(engine, WISH)
    await engine.memory.derived.catch_up()
    session = await engine.memory.sessions.get(VISITOR, answer.session_id)
    thread = ThreadKey(answer.session_id, "ancestor_yan")
    messages = await engine.memory.transcript.latest(VISITOR, thread, 10)
    trace = await trace_of(engine, answer)
    moments = [
        answer.timestamp,
        session.created_at,
        session.updated_at,
        session.record.expires_at,
        (await engine.memory.preferences.get(VISITOR, answer.session_id)).updated_at,
        trace.started_at,
        trace.completed_at,
        *(message.timestamp for message in messages),
    ]
    assert len(moments) == 9
    assert all(moment is not None and moment.utcoffset() == timedelta(0) for moment in moments)


class Held:
    """Inference that waits until it is let go."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch, expected: int) -> None:
        self.all_waiting = asyncio.Event()
        self.go = asyncio.Event()
        self._waiting = 0
        self._expected = expected
        self._infer = engine.memory.preferences.infer
        monkeypatch.setattr(engine.memory.preferences, "infer", self.infer)

    async def infer(self, *arguments: Any, **named: Any) -> Any:
        """As the original, later."""
        self._waiting += 1
        if self._waiting == self._expected:
            self.all_waiting.set()
        await self.go.wait()
        return await self._infer(*arguments, **named)


async def test_the_set_of_background_tasks_shrinks_to_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done after answers leaves the set when it is done, not when the service stops."""
    held = Held(engine, monkeypatch, expected=5)
    derived = engine.memory.derived
    answers = await asyncio.gather(*(ask(engine, WISH) for _ in range(5)))
    draining = asyncio.create_task(engine.memory.derived.catch_up())
    await held.all_waiting.wait()
    assert not draining.done()
    assert derived.lag.threads == 5
    assert len(derived._tasks) >= 5
    held.go.set()
    await draining
    assert (derived.lag.threads, len(derived._tasks)) == (0, 0)
    for answer in answers:
        preferences = await engine.memory.preferences.get(VISITOR, answer.session_id)
        assert preferences.values.verbosity == "detailed"


async def test_stopping_loses_no_background_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is closed right after its answers has finished what comes after them."""
    url = f"sqlite:///{tmp_path}/wenmai.db"
    async with engine_at(url) as engine:
        held = Held(engine, monkeypatch, expected=1)
        answer = await ask(engine, WISH)
        asyncio.get_running_loop().call_later(0.05, held.go.set)
    async with engine_at(url) as engine:
        preferences = await engine.memory.preferences.get(VISITOR, answer.session_id)
    assert preferences.values.verbosity == "detailed"


async def test_an_explicit_zero_is_not_the_default() -> None:
    """In the environment, by our names and the older ones, down to what the model is shown."""
    zeros = {"WENMAI_WINDOW_MESSAGES": "0", "WENMAI_PORT": "0", "MEMORY_MAX_CHARS": "0"}
    loaded = load_engine_settings(environment=zeros)
    assert (loaded.values.window_messages, loaded.values.port, loaded.values.window_characters) == (0, 0, 0)
    async with engine_at("memory://", window_messages=0) as engine:
        first = await ask(engine, "严氏家训有哪些？")
        second = await ask(engine, "严氏祠堂是哪一年建的？", session_id=first.session_id)
        kinds = [block.kind for block in (await trace_of(engine, second)).blocks]
    assert second.turn_id == 2
    assert "history" not in kinds


def test_grounding_has_one_implementation() -> None:
    """One function checks answerability and one verifies answers, and the steps of the turn call no others."""
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    for name in ("check_answerability", "verify_answer"):
        defining = [path for path, text in sources.items() if f"def {name}(" in text]
        assert [path.parent.name for path in defining] == ["grounding"]
    for step, name in (("answerability", "check_answerability"), ("check", "verify_answer")):
        assert re.search(
            rf"^ +(?:return )?{name}[(,]", sources[ROOT / f"src/wenmai/chat/steps/{step}.py"], re.MULTILINE
        )
    assert [str(path) for path in sources if re.search(r"_(v\d|old|legacy)\.py$", path.name)] == []
