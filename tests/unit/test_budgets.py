"""Budgets: configuration, warnings, and hard budgets that stop model calls."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from wenmai.chat.budgets import BudgetKeeper, exhausted
from wenmai.clock import MovableClock
from wenmai.config.profile import Budget, Budgets, load_profile
from wenmai.errors import InvalidInput
from wenmai.memory.library import Memory, open_memory
from wenmai.scope import Scope
from wenmai.stores.records import TokenUsage

ME = Scope("tenant", "site", "me")


def used(tokens: int, cost_usd: float = 0.0) -> TokenUsage:
    """One call of so many tokens and dollars."""
    return TokenUsage(calls=1, prompt_tokens=tokens, completion_tokens=0, cost_usd=cost_usd)


@pytest.fixture
def clock() -> MovableClock:
    """At noon."""
    return MovableClock(datetime(2026, 1, 5, 12, tzinfo=UTC))


@pytest.fixture
async def memory(clock: MovableClock) -> AsyncIterator[Memory]:
    """An empty memory."""
    async with open_memory("memory://", clock=clock) as opened:
        yield opened


def profile_with(folder: Path, text: str) -> Path:
    """A minimal profile with one more line."""
    path = folder / "own.yaml"
    path.write_text(f"name: own\npersonas: []\n{text}\n", encoding="utf-8")
    return path


def test_budgets_and_prices_are_read_from_the_profile(tmp_path: Path) -> None:
    """By their names; a missing budget is no limit."""
    profile = load_profile(
        profile_with(
            tmp_path,
            "prices: {'openai:gpt-5-mini': {prompt: 0.25, completion: 2}}\n"
            "budgets: {session: {tokens: 1000, hard: true}, tenant_day: {cost_usd: 5}}",
        )
    )
    assert profile.prices["openai:gpt-5-mini"].cost_usd(1_000_000, 500_000) == 1.25
    assert profile.budgets == Budgets(session=Budget(tokens=1000, hard=True), tenant_day=Budget(cost_usd=5.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("budgets: {session: {tokens: 0}}", "$.budgets.session.tokens"),
        ("budgets: {session: {tokens: many}}", "$.budgets.session.tokens"),
        ("budgets: {user_day: {cost_usd: -1}}", "$.budgets.user_day.cost_usd"),
        ("budgets: {user_day: {cost_usd: 0}}", "$.budgets.user_day.cost_usd"),
        ("budgets: {tenant_day: {tokens: 5, hard: maybe}}", "$.budgets.tenant_day.hard"),
        ("budgets: {tenant_day: {hard: true}}", "`cost_usd`, `tokens` or both - at `$.budgets.tenant_day`"),
        ("budgets: {tenant_day: {dollars: 1}}", "`dollars` - at `$.budgets.tenant_day`"),
        ("budgets: {month: {tokens: 1}}", "`month` - at `$.budgets`"),
        ("prices: {m: {prompt: -1, completion: 1}}", "$.prices[...].prompt"),
        ("prices: {m: {prompt: 1}}", "`completion` - at `$.prices[...]`"),
    ],
)
def test_an_invalid_budget_is_rejected_by_its_key(tmp_path: Path, text: str, message: str) -> None:
    """At start; the message names the position in the file."""
    with pytest.raises(InvalidInput) as refused:
        load_profile(profile_with(tmp_path, text))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("tokens", "share", "state"),
    [(0, 0.0, "ok"), (79, 0.79, "ok"), (80, 0.8, "warning"), (99, 0.99, "warning"), (100, 1.0, "exhausted")],
)
async def test_a_budget_warns_at_80_percent_and_ends_at_100(
    memory: Memory, clock: MovableClock, tokens: int, share: float, state: str
) -> None:
    """Hard or soft; only a hard budget forbids calls."""
    await memory.usage.add(ME, "session-1", used(tokens))
    for hard in (True, False):
        keeper = BudgetKeeper(Budgets(user_day=Budget(tokens=100, hard=hard)), memory, clock)
        (status,) = await keeper.statuses(ME)
        assert (status.of, status.measure, status.limit, status.used) == ("user_day", "tokens", 100, tokens)
        assert (status.share, status.state, status.hard) == (share, state, hard)
        assert exhausted([status]) == ("user_day" if hard and state == "exhausted" else None)


async def test_each_budget_counts_its_own_usage(memory: Memory, clock: MovableClock) -> None:
    """A session for its life, a user and a tenant for the day, in tokens and in dollars."""
    session_id = (await memory.sessions.open(ME)).session_id
    await memory.usage.add(ME, session_id, used(10, 1.0))
    await memory.usage.add(ME, "another", used(20, 2.0))
    await memory.usage.add(Scope("tenant", "site", "you"), "theirs", used(40, 4.0))
    both = Budget(cost_usd=100, tokens=1000)
    keeper = BudgetKeeper(Budgets(session=both, user_day=both, tenant_day=both), memory, clock)
    found = {(each.of, each.measure): each.used for each in await keeper.statuses(ME, session_id)}
    assert found == {
        ("session", "cost_usd"): 1.0,
        ("session", "tokens"): 10,
        ("user_day", "cost_usd"): 3.0,
        ("user_day", "tokens"): 30,
        ("tenant_day", "cost_usd"): 7.0,
        ("tenant_day", "tokens"): 70,
    }
    assert {each.of for each in await keeper.statuses(ME)} == {"user_day", "tenant_day"}
    clock.advance(timedelta(days=1))
    found = {(each.of, each.measure): each.used for each in await keeper.statuses(ME, session_id)}
    assert (found["session", "tokens"], found["user_day", "tokens"], found["tenant_day", "tokens"]) == (10, 0, 0)


async def test_without_budgets_nothing_is_read(
    memory: Memory, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a daily budget there is one store read."""
    reads = 0
    documents = memory.usage._documents
    read = documents.get_many

    async def counted(*arguments: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(*arguments)

    monkeypatch.setattr(documents, "get_many", counted)
    monkeypatch.setattr(documents, "get", counted)
    assert await BudgetKeeper(Budgets(), memory, clock).check(ME, "session-1") == []
    assert reads == 0
    await BudgetKeeper(Budgets(user_day=Budget(tokens=1), tenant_day=Budget(tokens=1)), memory, clock).check(ME, "s")
    assert reads == 1


async def test_a_warning_is_logged_once(memory: Memory, clock: MovableClock, caplog: pytest.LogCaptureFixture) -> None:
    """Once when nearly exhausted and once when exhausted; again for another user or day."""
    you = Scope("tenant", "site", "you")
    keeper = BudgetKeeper(Budgets(user_day=Budget(tokens=100, hard=True)), memory, clock)
    with caplog.at_level(logging.WARNING, "wenmai.chat.budgets"):
        for scope in (ME, you):
            await memory.usage.add(scope, "s", used(80))
        for scope in (ME, ME, you, ME):
            await keeper.check(scope, "s")
        assert len(caplog.messages) == 2
        assert caplog.messages[0] == (
            "the user_day budget of tenant/site/me/2026-01-05 is nearly used up: 80 of 100 in tokens"
        )
        await memory.usage.add(ME, "s", used(20))
        await keeper.check(ME, "s")
        await keeper.check(ME, "s")
        assert "is used up: 100 of 100" in caplog.messages[2]
        assert len(caplog.messages) == 3
        clock.advance(timedelta(days=1))
        await memory.usage.add(ME, "s", used(85))
        await keeper.check(ME, "s")
        assert len(caplog.messages) == 4
