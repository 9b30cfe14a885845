"""Titles, cost and budgets with a real model, over HTTP, and the ledger under real concurrency on real stores."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml
from http_service import Service, open_service
from usage_worker import CALL, PAYER, SESSION_ID

from fault_proxy import fault_proxy
from model_server import ModelServer
from postgres_server import PostgresServer
from scripted_model import COMPLETION_TOKENS, PROMPT_TOKENS, ScriptedModel, scripted_model
from support import engine_at
from wenmai.chat import titles
from wenmai.chat.title_wording import _writing
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.config.sources import profile_path
from wenmai.engine import Engine
from wenmai.errors import BudgetExhausted, InvalidInput
from wenmai.grounding.types import PolicyMode
from wenmai.memory.derived import ThreadChange
from wenmai.memory.library import open_memory
from wenmai.memory.sessions import title_from_question
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import TokenUsage, TraceRecord

pytestmark = pytest.mark.xdist_group("model")

USER = Scope("default", "default", "visitor")
EN = "When was the Yan ancestral hall built?"
ZH = "请问严氏家训有哪些？"
PRICES = {"prompt": 2.0, "completion": 10.0}
WORKER = Path(__file__).with_name("usage_worker.py")


def profile_of(folder: Path, **fields: Any) -> str:
    """The path of a profile like ``npc`` with additional fields."""
    shipped = profile_path("npc")
    plain = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    plain["evidence"] = [str(shipped.parent / name) for name in plain["evidence"]]
    plain["lexicon"] = str(shipped.parent / plain["lexicon"])
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(plain | fields, allow_unicode=True), encoding="utf-8")
    return str(path)


def through(server: ModelServer, base_url: str = "") -> dict[str, Any]:
    """Settings of an engine with that model, and long timeouts for a busy machine."""
    return {
        "model": f"openai:{server.model}",
        "model_base_url": base_url or server.base_url,
        "model_first_token_seconds": 90,
        "model_timeout_seconds": 100,
    }


async def ask(engine: Engine, query: str = EN, session_id: str | None = None) -> TurnAnswer:
    """One turn."""
    request = TurnRequest(scope=USER, persona_id="village_elder", query=query, session_id=session_id)
    return await engine.chat.ask(request)


async def traces(engine: Engine) -> list[TraceRecord]:
    """All traces of the user."""
    return [stored.record for stored in (await engine.traces.list(USER, limit=100)).items]


def used_by(found: list[TraceRecord]) -> TokenUsage:
    """The summed usage in the traces: of answers, replays and titles."""
    total = TokenUsage()
    for trace in found:
        title = trace.details.title
        total += title or TokenUsage()
        total += TokenUsage(
            prompt_tokens=trace.prompt_tokens, completion_tokens=trace.completion_tokens, cost_usd=trace.cost_usd
        )
    return total


async def title_of(engine: Engine, session_id: str) -> tuple[str, str]:
    """The title and who made it."""
    record = (await engine.memory.sessions.get(USER, session_id)).record
    return record.title, record.title_by


async def begun(engine: Engine, question: str, **fields: Any) -> str:
    """A session with a first question and no final title."""
    session_id = (await engine.memory.sessions.open(USER)).session_id
    begun = {"first_question": question, "title": title_from_question(question), **fields}
    await engine.memory.sessions.change(USER, session_id, lambda session: msgspec.structs.replace(session, **begun))
    return session_id


@pytest.mark.parametrize("question", [EN, ZH])
async def test_a_real_model_makes_a_title_in_the_language_of_the_question(
    model_server: ModelServer, question: str
) -> None:
    """Whatever a small model writes: the title is one line in the question's script, and final."""
    async with engine_at("memory://", **through(model_server)) as engine:
        session_id = await begun(engine, question)
        await engine.titles.derive(ThreadChange(USER, ThreadKey(session_id, "elder"), 0, 0))
        title, by = await title_of(engine, session_id)
    assert engine.memory.usage.process_total.calls == 1
    assert by in {"model", "rule"}
    assert 1 <= len(title) <= 60
    assert _writing(title) == _writing(question)


async def test_a_title_is_made_without_the_models_server(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the server is killed before the call, the rule makes the title."""
    ask_model = titles._model_output

    async def kill_first(*arguments: Any) -> str:
        model_server.kill()
        return await ask_model(*arguments)

    monkeypatch.setattr(titles, "_model_output", kill_first)
    async with engine_at("memory://", **through(model_server)) as engine:
        session_id = await begun(engine, EN)
        await engine.titles.derive(ThreadChange(USER, ThreadKey(session_id, "elder"), 0, 0))
        assert await title_of(engine, session_id) == (title_from_question(EN), "rule")


async def test_a_rename_during_a_real_call_wins(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the request to the model and its response."""
    async with engine_at("memory://", **through(model_server)) as engine:
        ask_model = titles._model_output
        session_id = await begun(engine, EN)

        async def rename_meanwhile(*arguments: Any) -> str:
            output = asyncio.create_task(ask_model(*arguments))
            await engine.memory.sessions.rename(USER, session_id, "Mine")
            return await output

        monkeypatch.setattr(titles, "_model_output", rename_meanwhile)
        await engine.titles.derive(ThreadChange(USER, ThreadKey(session_id, "elder"), 0, 0))
        assert await title_of(engine, session_id) == ("Mine", "user")
        assert engine.memory.usage.process_total.calls == 1


@pytest.mark.soak
async def test_the_usage_of_a_real_model_adds_up(model_server: ModelServer, tmp_path: Path) -> None:
    """Session, user and tenant have the sum of answer and title, and so have the route and the metrics."""
    profile = profile_of(tmp_path, prices={f"openai:{model_server.model}": PRICES})
    async with open_service(tmp_path, profile=profile, **through(model_server)) as service:
        engine = service.engine
        first = await ask(engine)
        await engine.memory.derived.catch_up()
        found = await traces(engine)
        await check_sums(service, found, first.session_id)
        figures = (await service.client.get("/metrics")).text
    total = used_by(found)
    title = found[0].details.title
    assert title
    assert title.calls == 1
    assert total.cost_usd == pytest.approx((2 * total.prompt_tokens + 10 * total.completion_tokens) / 1e6)
    assert f'wenmai_model_tokens_total{{kind="prompt"}} {float(total.prompt_tokens)}' in figures
    assert "wenmai_model_cost_usd_total 0.0\n" not in figures


async def check_sums(service: Service, found: list[TraceRecord], session_id: str) -> None:
    """The session's record and the route's response equal the sum of the traces."""
    total, shown = used_by(found), await usage(service, session_id=session_id)
    assert total.tokens > 0
    session = shown["session"]
    assert (session["total_tokens_used"], session["total_cost_usd"]) == (total.tokens, pytest.approx(total.cost_usd))
    for whose in ("user", "tenant"):
        assert shown[whose]["prompt_tokens"] == total.prompt_tokens
        assert shown[whose]["completion_tokens"] == total.completion_tokens
        assert shown[whose]["cost_usd"] == pytest.approx(total.cost_usd)


async def test_turns_titles_and_replays_add_up(tmp_path: Path) -> None:
    """Over two turns and a replay, none is missing or counted twice."""
    async with scripted(tmp_path, prices={"openai:scripted": PRICES}) as (script, service):
        first = await ask(service.engine)
        await ask(service.engine, "Who built the hall?", first.session_id)
        await service.engine.memory.derived.catch_up()
        await service.engine.chat.replay(USER, first.trace_id)
        found = await traces(service.engine)
        assert (len(script.asked), len(script.asked_for_titles), len(found)) == (3, 1, 3)
        await check_sums(service, found, first.session_id)
        assert (await usage(service))["user"]["calls"] == 4


async def usage(service: Service, **query: str) -> Any:
    """The route's response to the user."""
    async with service.client_of(X_User_ID="visitor") as client:
        answer = await client.get("/v1/usage", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_hard_budget_stops_model_calls(model_server: ModelServer, tmp_path: Path) -> None:
    """The server gets no further request: the answer is extractive, the title rule-made."""
    profile = profile_of(tmp_path, budgets={"session": {"tokens": 100, "hard": True}})
    port = httpx.URL(model_server.base_url).port
    assert port is not None
    async with fault_proxy(port) as proxy:
        address = f"http://127.0.0.1:{proxy.port}/v1"
        async with engine_at("memory://", profile=profile, **through(model_server, address)) as engine:
            session_id = await begun(engine, EN, total_tokens_used=100)
            answer = await ask(engine, EN, session_id)
            await engine.memory.derived.catch_up()
            assert proxy.requests == 0
            assert await title_of(engine, session_id) == (title_from_question(EN), "rule")
            trace = (await engine.traces.get(USER, answer.trace_id)).record
            fresh = ThreadKey(await begun(engine, EN, total_tokens_used=99), "elder")
            await engine.titles.derive(ThreadChange(USER, fresh, 0, 0))
            assert proxy.requests > 0
    assert (answer.degraded, answer.policy_mode) == (["budget"], PolicyMode.CONSERVATIVE)
    assert "1523" in answer.answer_text
    assert (trace.policy_reason, trace.model, trace.prompt_tokens) == ("budget_exhausted: session", "offline", 0)
    (status,) = trace.details.budget or []
    assert (status.of, status.state, status.hard) == ("session", "exhausted", True)
    assert [step.status for step in trace.tool_calls if step.name == "generate"] == ["degraded"]


async def test_a_replay_is_refused_when_a_hard_budget_is_exhausted(tmp_path: Path) -> None:
    """A replay needs the model: 429, and the model is not called."""
    async with scripted(tmp_path, budgets={"user_day": {"tokens": 1, "hard": True}}) as (script, service):
        answer = await ask(service.engine)
        with pytest.raises(BudgetExhausted, match="user_day"):
            await service.engine.chat.replay(USER, answer.trace_id)
        async with service.client_of(X_User_ID="visitor") as client:
            refused = await client.post(f"/api/v1/npc/traces/{answer.trace_id}/replay")
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:problem:wenmai:budget-exhausted")
        assert len(script.asked) == 1


async def test_a_replay_may_use_another_model_or_prompt(tmp_path: Path) -> None:
    """Only models of the settings; the other prompt stands above the same rules and blocks; the original stays."""
    async with scripted_model() as script:
        settings = {**script.settings, "replay_models": ("openai:second",)}
        async with open_service(tmp_path, **settings) as service, service.client_of(X_User_ID="visitor") as client:
            answer = await ask(service.engine)
            prompt = {"npc_id": answer.persona_id, "text": "You are a laconic clerk."}
            assert (await client.post("/api/v1/prompts", json=prompt)).json()["number"] == 1
            script.answer = "Differently."
            trace = f"/api/v1/npc/traces/{answer.trace_id}"
            before = (await client.get(trace)).json()
            assert (await client.get("/api/v1/npc/models")).json() == {"models": [script.model, "openai:second"]}
            wanted = {"model": "openai:second", "prompt_version": 1}
            replay = (await client.post(f"{trace}/replay", json=wanted)).json()
            assert replay["original"] == before == (await client.get(trace)).json()
            replayed = replay["replayed"]
            assert (replayed["model"], replayed["answer"]) == ("openai:second", "Differently.")
            assert replayed["request_input"]["prompt_version"] == 1
            assert (await client.get(f"/api/v1/npc/traces/{replayed['trace_id']}")).json() == replayed
            system, *rest = replayed["blocks"]
            assert "laconic clerk" in system["text"]
            assert system["text"].partition("Rules:")[2] == before["blocks"][0]["text"].partition("Rules:")[2] != ""
            assert rest == before["blocks"][1:]
            for refused, status in (({"model": "openai:third"}, 422), ({"prompt_version": 7}, 404)):
                assert (await client.post(f"{trace}/replay", json=refused)).status_code == status
            assert len(script.asked) == 2


async def test_a_replay_asks_no_model_about_what_is_refused(tmp_path: Path) -> None:
    """Whatever model or prompt it names, it is refused again: the answer of a replay is not verified."""
    async with scripted_model() as script, open_service(tmp_path, **script.settings) as service:
        answer = await service.ask("你支持哪个政党？")
        assert answer["policy_mode"] == "refuse"
        asked = len(script.asked)
        trace = f"/api/v1/npc/traces/{answer['trace_id']}/replay"
        replayed = (await service.client.post(trace, json={"model": script.model})).json()["replayed"]
        assert (replayed["answer"], replayed["policy_mode"]) == (answer["answer_text"], "refuse")
        assert len(script.asked) == asked


@asynccontextmanager
async def scripted(folder: Path, **fields: Any) -> AsyncIterator[tuple[ScriptedModel, Service]]:
    """A service with a scripted model and these fields in its profile."""
    async with scripted_model() as script:
        profile = profile_of(folder, **fields)
        async with open_service(folder, profile=profile, **script.settings) as service:
            yield script, service


EACH = PROMPT_TOKENS + COMPLETION_TOKENS


async def test_a_soft_budget_only_warns(tmp_path: Path) -> None:
    """The model is called as before; the trace has the budget status."""
    budgets = {"session": {"tokens": 1}, "user_day": {"tokens": 10 * EACH}}
    async with scripted(tmp_path, budgets=budgets) as (script, service):
        first = await ask(service.engine)
        await service.engine.memory.derived.catch_up()
        second = await ask(service.engine, EN, first.session_id)
        trace = (await service.engine.traces.get(USER, second.trace_id)).record
        assert len(script.asked) == 2
        assert second.degraded == []
        assert [(each.of, each.state) for each in trace.details.budget or []] == [
            ("session", "exhausted"),
            ("user_day", "ok"),
        ]


async def test_a_daily_budget_ends_with_the_day_and_the_tenants_applies_to_all_users(tmp_path: Path) -> None:
    """One user's calls exhaust the tenant's budget for another; the next day there is a new one."""
    budgets = {"tenant_day": {"cost_usd": 0.0001, "hard": True}}
    async with scripted(tmp_path, budgets=budgets, prices={"openai:scripted": PRICES}) as (script, service):
        await ask(service.engine)
        await service.engine.memory.derived.catch_up()
        request = TurnRequest(scope=USER._replace(user_id="another"), persona_id="village_elder", query=EN)
        assert (await service.engine.chat.ask(request)).degraded == ["budget"]
        assert len(script.asked) == 1
        shown = await usage(service)
        assert [(each["of"], each["measure"], each["state"]) for each in shown["budgets"]] == [
            ("tenant_day", "cost_usd", "exhausted")
        ]


async def test_a_cost_budget_without_a_price_is_refused_at_start(tmp_path: Path) -> None:
    """It could never be reached; the error names the budget's key and where prices are configured."""
    profile = profile_of(tmp_path, budgets={"user_day": {"cost_usd": 1}})
    with pytest.raises(InvalidInput, match=r"budgets\.user_day\.cost_usd.*prices"):
        async with engine_at("memory://", profile=profile, model="openai:any", model_base_url="http://127.0.0.1:9/v1"):
            pass
    async with engine_at("memory://", profile=profile):
        pass


async def test_prices_of_the_settings_override_those_of_the_profile(tmp_path: Path) -> None:
    """Both or neither: a partial price is rejected by its key."""
    async with scripted_model() as script:
        profile = profile_of(tmp_path, prices={script.model: PRICES})
        flags = script.settings | {"profile": profile}
        async with engine_at("memory://", **flags, price_prompt=0, price_completion=1000) as engine:
            answer = await ask(engine)
            trace = (await engine.traces.get(USER, answer.trace_id)).record
        assert trace.cost_usd == pytest.approx(COMPLETION_TOKENS / 1000)
        with pytest.raises(InvalidInput, match="price_completion"):
            async with engine_at("memory://", **flags, price_prompt=1):
                pass


async def test_an_answer_that_broke_off_is_counted(tmp_path: Path) -> None:
    """As far as it was received, in the trace and for the user, although the answer is the extractive one."""
    async with scripted(tmp_path) as (script, service):
        script.breaks_off = True
        answer = await ask(service.engine)
        await service.engine.memory.derived.catch_up()
        found = await traces(service.engine)
        shown = await usage(service)
    assert answer.degraded == ["model"]
    assert (found[0].model, found[0].completion_tokens > 0, found[0].prompt_tokens > 0) == ("offline", True, True)
    assert shown["user"]["prompt_tokens"] == used_by(found).prompt_tokens


async def test_a_turn_that_is_cancelled_is_counted(tmp_path: Path) -> None:
    """The model had started to answer when the turn was cancelled."""
    async with scripted(tmp_path) as (_, service):
        heard = asyncio.Event()

        async def listen(event: Any) -> None:
            if event.kind == "token":
                heard.set()
                await asyncio.Event().wait()

        request = TurnRequest(scope=USER, persona_id="ancestor_yan", query="你好")
        turn = asyncio.create_task(service.engine.chat.ask(request, on_event=listen))
        await heard.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        (trace,) = await traces(service.engine)
        shown = await usage(service)
    assert trace.error == "CancelledError"
    assert trace.prompt_tokens > 0
    assert shown["user"]["calls"] == 1
    assert shown["user"]["prompt_tokens"] == trace.prompt_tokens


async def test_usage_is_reported_by_day_for_the_caller_only(tmp_path: Path) -> None:
    """Another user of the tenant has zeros and the tenant's sums; other tenants have zeros."""
    async with scripted(tmp_path) as (_, service):
        answer = await ask(service.engine)
        await service.engine.memory.derived.catch_up()
        today = service.engine.clock().date()
        shown = await usage(service, **{"from": str(today - timedelta(days=2))})
        assert [day["day"] for day in shown["days"]] == [str(today - timedelta(days=back)) for back in (2, 1, 0)]
        assert [day["user"]["calls"] for day in shown["days"]] == [0, 0, 2]
        assert (shown["from"], shown["to"], shown["session"], shown["budgets"]) == (
            str(today - timedelta(days=2)),
            str(today),
            None,
            [],
        )
        default = await usage(service)
        assert (default["from"], default["to"], len(default["days"])) == (str(today), str(today), 1)
        for headers in ({"X_User_ID": "stranger"}, {"X_Tenant_ID": "other", "X_User_ID": "visitor"}):
            async with service.client_of(**headers) as stranger:
                theirs = (await stranger.get("/v1/usage")).json()
                assert theirs["user"]["calls"] == 0
                assert theirs["tenant"]["calls"] == (0 if "X_Tenant_ID" in headers else 2)
                foreign = await stranger.get("/v1/usage", params={"session_id": answer.session_id})
                absent = await stranger.get("/v1/usage", params={"session_id": "no-session"})
                assert (foreign.status_code, foreign.content) == (404, absent.content)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"from": "yesterday"}, "from"),
        ({"from": "2026-02-30"}, "from"),
        ({"to": "2026-1-5"}, "to"),
        ({"to": "1767571200"}, "to"),
        ({"from": "2026-01-05", "to": "2026-01-04"}, "from"),
        ({"from": "2026-01-01", "to": "2026-04-03"}, "from"),
        ({"from": "9999-12-31"}, "from"),
        ({"session_id": "a/b"}, "session_id"),
    ],
)
async def test_an_invalid_query_is_rejected_by_its_field(tmp_path: Path, query: dict[str, str], field: str) -> None:
    """Invalid days, in the wrong order, or too many."""
    async with open_service(tmp_path) as service:
        answer = await service.client.get("/v1/usage", params=query)
        most = await service.client.get("/v1/usage", params={"from": "2026-01-01", "to": "2026-04-02"})
    assert answer.status_code == 422, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert len(most.json()["days"]) == 92


async def record_in_processes(url: str, processes: int, tasks: int, times: int) -> TokenUsage:
    """The tenant's usage after so many processes have recorded theirs; user and session are the same."""
    async with open_memory(url) as memory:
        await memory.sessions.open(PAYER, SESSION_ID)
    command = [sys.executable, str(WORKER), url, str(tasks), str(times)]
    running = [await asyncio.create_subprocess_exec(*command) for _ in range(processes)]
    assert [await process.wait() for process in running] == [0] * processes
    async with open_memory(url) as memory:
        (day,) = await memory.usage.totals(PAYER, *2 * [memory.usage._clock().date()])
        session = (await memory.sessions.get(PAYER, SESSION_ID)).record
    assert day.user == day.tenant
    assert (session.total_tokens_used, session.total_cost_usd) == (day.tenant.tokens, day.tenant.cost_usd)
    return day.tenant


def calls(count: int) -> TokenUsage:
    """The usage of so many calls of the worker."""
    return TokenUsage(
        calls=count,
        prompt_tokens=count * CALL.prompt_tokens,
        completion_tokens=count * CALL.completion_tokens,
        cost_usd=count * CALL.cost_usd,
    )


@pytest.mark.xdist_group("postgresql")
async def test_processes_lose_nothing_on_postgresql(postgres_server: PostgresServer) -> None:
    """Four processes of 16 tasks each, all for one user, one tenant and one session."""
    assert await record_in_processes(postgres_server.store(), 4, 16, 3) == calls(192)


async def test_processes_lose_nothing_on_sqlite(tmp_path: Path) -> None:
    """The same on one file."""
    assert await record_in_processes(f"sqlite:///{tmp_path}/wenmai.db", 4, 16, 3) == calls(192)
