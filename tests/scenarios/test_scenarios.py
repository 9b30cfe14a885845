"""Runs every case of ``cases/`` over the engine, with no model: on the store in the process, and some on each other."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from support import STORES, engine_at, engine_settings_of
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.engine import Engine
from wenmai.grounding.evidence import record_from
from wenmai.memory.preferences import PreferenceChange
from wenmai.scope import Scope
from wenmai.stores.records import TraceRecord

CASES = Path(__file__).parent / "cases"
SITE = Scope("default", "default", "visitor")


class Turn(msgspec.Struct, forbid_unknown_fields=True):
    """One question and what is expected of its answer; see README.md."""

    npc: str
    ask: str
    intent: str | None = None
    mode: str | None = None
    cites_any: list[str] = []
    cites_none: bool = False
    says: list[str] = []
    says_any: list[str] = []
    never_says: list[str] = []
    reason: str | None = None


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """A short talk."""

    id: str
    say: str
    turns: list[Turn]
    language: str | None = None
    evidence: list[dict[str, Any]] = []
    preferences: dict[str, Any] = {}


def load_cases() -> list[Case]:
    """The cases of all files, in the order of files and of the cases in them."""
    return [
        case
        for path in sorted(CASES.glob("*.yaml"))
        for case in msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), list[Case])
    ]


async def play(engine: Engine, case: Case) -> list[str]:
    """Play the case; what came out otherwise than expected."""
    problems: list[str] = []
    scope = SITE._replace(user_id=case.id)
    session = await engine.memory.session(scope=scope)
    chosen = dict(case.preferences) | ({"language": case.language} if case.language else {})
    if chosen:
        await engine.memory.preferences.set(scope, session.session_id, PreferenceChange(**chosen))
    if case.evidence:
        await engine.evidence.ingest(scope, [record_from(fields) for fields in case.evidence])
    for number, turn in enumerate(case.turns, start=1):
        answer = await engine.chat.ask(
            TurnRequest(scope=scope, persona_id=turn.npc, query=turn.ask, session_id=session.session_id)
        )
        await engine.memory.derived.catch_up()
        trace = (await engine.traces.get(scope, answer.trace_id)).record
        problems += [f"turn {number}: {problem}" for problem in judge(turn, answer, trace)]
    return problems


def judge(turn: Turn, answer: TurnAnswer, trace: TraceRecord) -> list[str]:
    """What of an answer is not as the turn expects."""
    text = answer.answer_text
    cited = [citation.evidence_id for citation in answer.citations]
    seen = f"{answer.policy_mode.value} ({trace.policy_reason}), cites {cited}: {text}"
    checks = {
        f"intent is {trace.intent}, not {turn.intent}": turn.intent in (None, trace.intent),
        f"mode is not {turn.mode}": turn.mode in (None, answer.policy_mode.value),
        f"cites none of {turn.cites_any}": not turn.cites_any or bool(set(cited) & set(turn.cites_any)),
        "cites something": not (turn.cites_none and cited),
        f"does not say any of {turn.says_any}": not turn.says_any or any(it in text for it in turn.says_any),
        f"reason does not begin with {turn.reason}": trace.policy_reason.startswith(turn.reason or ""),
    }
    checks |= {f"does not say {it}": it in text for it in turn.says}
    checks |= {f"says {it}": it not in text for it in turn.never_says}
    return [f"{problem} — {seen}" for problem, holds in checks.items() if not holds]


PART = 10
"""Of so many cases one is played on each other store: that stores do the same is the conformance suite's business."""


def placed_cases() -> Iterator[tuple[str, Case]]:
    """Every case on the store in the process, and another tenth of them on each other store."""
    cases = load_cases()
    for number, store in enumerate(STORES):
        for case in cases if store == "memory" else cases[number::PART]:
            yield store, case


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of the shared engine."""
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(scope="module")
def shared_engine(runner: asyncio.Runner) -> Iterator[Engine]:
    """An engine in the process for the cases without evidence of their own; each of them has a user of its own."""
    opened = engine_at("memory://")
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.mark.parametrize(("store", "case"), list(placed_cases()), ids=lambda value: getattr(value, "id", value))
def test_the_talk_goes_as_the_case_says(
    store: str, case: Case, request: pytest.FixtureRequest, runner: asyncio.Runner, shared_engine: Engine
) -> None:
    """Every expectation of every turn holds."""

    async def problems() -> list[str]:
        if store == "memory" and not case.evidence:
            return await play(shared_engine, case)
        async with engine_at(**engine_settings_of(store, request)) as engine:
            return await play(engine, case)

    found = runner.run(problems())
    assert found == [], f"{case.say}\n" + "\n".join(found)


def test_there_are_enough_cases_in_both_languages() -> None:
    """At least 60 cases, a quarter of them in English, and each id once."""
    cases = load_cases()
    english = [case for case in cases if case.turns[0].ask.isascii()]
    assert len(cases) >= 60
    assert len(english) >= 15
    assert len({case.id for case in cases}) == len(cases)


def test_a_wrong_answer_is_noticed() -> None:
    """The judge complains of each expectation that is not met."""
    wanted = Turn(
        npc="x", ask="?", intent="greeting", mode="refuse", cites_any=["e"], says=["a"], says_any=["b"], reason="r"
    )
    answer = msgspec.convert(
        {
            "trace_id": "t", "session_id": "s", "turn_id": 1, "policy_mode": "normal", "answer_text": "z",
            "citations": [], "followup_questions": [], "npc_id": "x", "npc_name": "X", "latency_ms": 1.0,
            "timestamp": "2026-01-05T14:00:00Z",
        },
        TurnAnswer,
    )  # fmt: skip
    trace = msgspec.convert(
        {name: [] for name in ("tool_calls", "evidence_ids", "blocks", "degraded")}
        | dict.fromkeys(("ref", "trace_id", "session_id", "npc_id", "intent", "policy_reason", "answer", "model"), "")
        | dict.fromkeys(("turn_id", "prompt_tokens", "completion_tokens", "cost_usd", "latency_ms"), 0)
        | {"request_input": {}, "policy_mode": "normal"}
        | dict.fromkeys(("started_at", "completed_at"), "2026-01-05T14:00:00Z"),
        TraceRecord,
    )
    assert len(judge(wanted, answer, trace)) == 6
