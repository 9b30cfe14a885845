"""The suite itself: it finds the mistakes that backends make, reports them, and leaves nothing behind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

import mistakes
from wenmai.clock import Clock, MovableClock
from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope
from wenmai.stores.conformance import CASES, OpenStore, Result, run
from wenmai.stores.conformance.samples import HOSTILE_KEYS, bare_records, full_records, small
from wenmai.stores.memory import MemoryStore
from wenmai.stores.memory.documents import MemoryDocuments
from wenmai.stores.memory.logs import MemoryLogs
from wenmai.stores.memory.search import MemorySearch
from wenmai.stores.records import RECORDS, IdempotentTurn

SOUND = "a_first_put_tells_owner_version_and_moment"
"""A case that none of the mistakes below can touch: it must pass, or the harness is what fails."""

MISTAKES: dict[type[MemoryDocuments | MemoryLogs | MemorySearch], set[str]] = {
    mistakes.ForgetsTheUser: {
        "what_is_foreign_is_absent",
        "a_key_of_another_user_cannot_be_taken",
        "fifty_racing_users_make_one_owner",
        "a_foreign_thread_is_absent",
        "a_session_id_taken_over_shows_nothing_of_before",
    },
    mistakes.OverwritesStrangers: {
        "a_key_of_another_user_cannot_be_taken",
        "fifty_racing_users_make_one_owner",
    },
    mistakes.ComparesBeforeWaiting: {
        "one_of_fifty_racing_changes_wins",
        "racing_changes_all_land_when_retried",
    },
    mistakes.PagesByOffset: {"later_writes_do_not_disturb_older_pages", "page_limits_are_1_to_500"},
    mistakes.EndsTooLate: {"a_record_is_absent_from_its_end_on", "an_ended_key_begins_again"},
    mistakes.KeepsAnyText: {"names_that_are_no_text_are_refused"},
    mistakes.RepairsRecords: {"records_that_no_backend_keeps_are_refused"},
    mistakes.RepairsMessages: {
        "messages_that_no_backend_keeps_are_refused",
        "a_refused_value_costs_its_neighbours_nothing",
    },
    mistakes.RoundsMoments: {"values_at_the_edge_are_kept"},
    mistakes.NumbersBeforeWaiting: {
        "a_thousand_appends_at_once_are_numbered",
        "concurrent_threads_are_numbered_apart",
    },
    mistakes.AppendsOneByOne: {
        "a_thousand_appends_at_once_are_numbered",
        "a_batch_that_fails_writes_nothing",
        "readers_never_see_half_a_batch",
    },
    mistakes.NeverSlides: {"activity_keeps_a_session_alive", "the_slide_lags_less_than_a_hundredth"},
    mistakes.ShowsTheOldest: {"latest_is_the_newest_ascending", "the_tail_is_what_latest_would_give"},
    mistakes.ErasesByPrefix: {"erasing_a_session_leaves_its_twins"},
    mistakes.SettlesAgain: {"a_message_is_settled_once", "one_of_eight_racing_settles_wins"},
    mistakes.FillsByNumber: {"a_late_answer_fills_no_other_message"},
    mistakes.KnowsSessionsByName: {"a_key_of_a_deleted_session_reaches_no_other"},
    mistakes.BindsByName: {"late_writes_of_a_deleted_session_are_refused"},
    mistakes.DeletesByName: {"a_late_delete_removes_no_other_session"},
    mistakes.LeavesWhatHangsOnASession: {
        "what_hangs_on_a_session_goes_with_it",
        "late_writes_of_a_deleted_session_are_refused",
        "the_next_owner_is_not_locked_out",
        "a_session_past_its_retention_takes_its_parts_along",
    },
    mistakes.MovesEndsBack: {"a_put_never_moves_a_sessions_end_back"},
    mistakes.CountsEverybody: {"other_scopes_change_no_score"},
    mistakes.FiltersAfterwards: {"filters_select_by_any_value"},
}
"""What is wrong → the cases that must find it."""


def opener_of(mistake: type[MemoryDocuments | MemoryLogs | MemorySearch]) -> OpenStore:
    """Opens an in-process store with one part replaced by a mistaken one."""

    @asynccontextmanager
    async def open_store(url: str, *, clock: Clock) -> AsyncIterator[MemoryStore]:
        store = MemoryStore(clock)
        if issubclass(mistake, MemoryDocuments):
            store.documents = mistake(clock)
            store.logs = MemoryLogs(store.documents, clock)
        elif issubclass(mistake, MemoryLogs):
            documents = MemoryDocuments(clock)
            store.documents, store.logs = documents, mistake(documents, clock)
        else:
            store.search = mistake()
        yield store

    return open_store


class LatestClock:
    """Stands where the latest of several clocks stands."""

    def __init__(self, first: Clock) -> None:
        self.clocks = [first]

    def __call__(self) -> datetime:
        """The moment of the latest clock."""
        return self.clocks[-1]()


def keeping(store: MemoryStore, clocks: list[Clock]) -> OpenStore:
    """Opens the same store every time; ``clocks`` gets the clock of each opening."""

    @asynccontextmanager
    async def open_store(url: str, *, clock: Clock) -> AsyncIterator[MemoryStore]:
        clocks.append(clock)
        yield store

    return open_store


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
async def test_suite_finds_the_mistake(
    mistake: type[MemoryDocuments | MemoryLogs | MemorySearch],
) -> None:
    """A backend with this mistake fails the cases that are about it, and not everything."""
    sound = set() if mistake is mistakes.EndsTooLate else {SOUND}
    report = await run("broken://", only=MISTAKES[mistake] | sound, opener=opener_of(mistake))
    assert {row.case for row in report.rows if row.status == "failed"} == MISTAKES[mistake]
    assert not report.ok


def test_every_case_says_what_it_expects() -> None:
    """Case names are unique, and each case has a sentence that a report can show."""
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.expectation.endswith(".") for case in CASES)


def test_samples_cover_every_record_type() -> None:
    """A record type that is added without samples is noticed; no two hostile keys are the same."""
    for samples in (full_records(), bare_records()):
        assert [type(record) for record in samples] == list(RECORDS)
    assert len(set(HOSTILE_KEYS)) == len(HOSTILE_KEYS)


async def test_report_counts_and_tells_failures() -> None:
    """The table has a line a capability and level, and a failure names its case and the reason."""
    seen: list[Result] = []
    only = {SOUND, "filters_select_by_any_value", "indexes_outlive_their_opening"}
    report = await run("broken://", only=only, on_result=seen.append, opener=opener_of(mistakes.FiltersAfterwards))
    assert list(report.rows) == seen
    lines = report.render().splitlines()
    assert [line.split() for line in lines[2:5]] == [
        ["documents", "base", "1", "–", "–"],
        ["search", "base", "–", "1", "–"],
        ["search", "extended", "–", "–", "1"],
    ]
    assert lines[5].startswith("FAILED search/filters_select_by_any_value: UnmetError: 1 hit by words")


async def test_what_a_store_lacks_is_not_offered() -> None:
    """Cases of a contract that is None are reported as not offered, logs also where documents are missing."""

    @asynccontextmanager
    async def open_store(url: str, *, clock: Clock) -> AsyncIterator[MemoryStore]:
        store = MemoryStore(clock)
        store.documents = None
        yield store

    report = await run("half://", opener=open_store)
    offered = {row.capability for row in report.rows if row.status != "not offered"}
    assert offered == {"search"}
    assert report.ok


async def test_a_store_that_cannot_be_opened_fails_each_case() -> None:
    """An error at opening is a failure with its reason, not an exception of the run."""

    @asynccontextmanager
    async def open_store(url: str, *, clock: Clock) -> AsyncIterator[MemoryStore]:
        if url == "nowhere://":
            raise StoreUnavailable("nowhere", "connection refused")
        yield MemoryStore(clock)

    report = await run("nowhere://", only={"documents"}, opener=open_store)
    assert {row.status for row in report.rows} == {"failed"}
    assert report.rows[0].error == "StoreUnavailable: nowhere is unavailable: connection refused"


async def test_suite_leaves_a_store_as_it_was() -> None:
    """Run on a store that holds data, it changes none of that, not what is about to end, and adds none."""
    now = MovableClock(datetime(2026, 11, 1, tzinfo=UTC))
    clock = LatestClock(now)
    store = MemoryStore(clock)
    assert isinstance(store.documents, MemoryDocuments)
    assert isinstance(store.search, MemorySearch)
    ending = now() + timedelta(seconds=1)
    kept = await store.documents.put(Scope(), small("mine"), keep_until=ending)
    report = await run("kept://", opener=keeping(store, clock.clocks))
    clock.clocks.append(now)
    assert report.ok, report.render()
    assert await store.documents.get(Scope(), IdempotentTurn, "mine") == kept
    assert sum(len(rows) for rows in store.documents._rows.values()) == 1
    assert store.search._shelves == {}
