"""The suite itself: it detects broken stores, reports failures, and cleans up after itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

import broken_stores
from wenmai.clock import Clock, MovableClock
from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope
from wenmai.stores.conformance import CASES, OpenStore, Result, run
from wenmai.stores.conformance.samples import HOSTILE_KEYS, bare_records, full_records, small_record
from wenmai.stores.inprocess import InProcessStore
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.inprocess.logs import InProcessLogs
from wenmai.stores.inprocess.search import InProcessSearch
from wenmai.stores.records import RECORDS, IdempotentTurn

CONTROL = "a_first_put_returns_owner_version_and_timestamp"
"""A case that no fault below affects: if it fails, the harness itself is broken."""

BROKEN_STORES: dict[type[InProcessDocuments | InProcessLogs | InProcessSearch], set[str]] = {
    broken_stores.IgnoresTheUser: {
        "foreign_records_are_absent",
        "a_key_of_another_user_cannot_be_taken",
        "fifty_racing_users_make_one_owner",
        "a_foreign_thread_is_absent",
        "a_reused_session_id_shows_no_old_messages",
    },
    broken_stores.OverwritesForeignRecords: {
        "a_key_of_another_user_cannot_be_taken",
        "fifty_racing_users_make_one_owner",
    },
    broken_stores.ChecksVersionBeforeAwait: {
        "one_of_fifty_racing_changes_wins",
        "racing_changes_succeed_when_retried",
    },
    broken_stores.PagesByOffset: {"later_writes_do_not_disturb_older_pages", "page_limits_are_1_to_500"},
    broken_stores.ExpiresTooLate: {"a_record_is_absent_once_it_expires", "an_expired_key_can_be_reused"},
    broken_stores.AcceptsInvalidKeys: {"names_with_lone_surrogates_are_refused"},
    broken_stores.RepairsRecords: {"unstorable_records_are_refused"},
    broken_stores.RepairsMessages: {
        "unstorable_messages_are_refused",
        "a_refused_append_affects_no_other",
    },
    broken_stores.RoundsTimestamps: {"boundary_values_round_trip"},
    broken_stores.NumbersBeforeAwait: {
        "a_thousand_appends_at_once_are_numbered",
        "concurrent_threads_are_numbered_separately",
    },
    broken_stores.AppendsOneByOne: {
        "a_thousand_appends_at_once_are_numbered",
        "a_batch_that_fails_writes_nothing",
        "readers_never_see_part_of_a_batch",
    },
    broken_stores.NeverSlides: {"activity_keeps_a_session_alive", "the_slide_lags_less_than_a_hundredth"},
    broken_stores.ReturnsTheOldest: {"latest_is_the_newest_ascending", "the_tail_is_what_latest_would_give"},
    broken_stores.ErasesByPrefix: {"erasing_a_session_keeps_similar_ids"},
    broken_stores.ReadsPartsOnce: {"parts_of_threads_are_read_together"},
    broken_stores.CompletesTwice: {"a_message_is_completed_once", "one_of_eight_racing_completes_wins"},
    broken_stores.CompletesByNumber: {"a_late_answer_completes_no_other_message"},
    broken_stores.FindsSessionsById: {"a_stale_thread_key_reaches_no_other_session"},
    broken_stores.EnumeratesByOffset: {
        "a_delete_hides_no_other_thread_from_an_enumeration",
        "an_enumeration_checks_its_arguments",
    },
    broken_stores.BindsBySessionId: {"late_writes_of_a_deleted_session_are_refused"},
    broken_stores.DeletesBySessionId: {"a_late_delete_removes_no_other_session"},
    broken_stores.KeepsBoundRecords: {
        "bound_records_are_deleted_with_their_session",
        "late_writes_of_a_deleted_session_are_refused",
        "the_next_owner_is_not_locked_out",
        "bound_records_expire_with_their_session",
    },
    broken_stores.MovesExpiryBack: {"a_put_never_moves_expires_at_back"},
    broken_stores.CountsAllScopes: {"other_scopes_change_no_score"},
    broken_stores.FiltersAfterLimit: {"filters_select_by_any_value", "ranges_and_values_must_all_match"},
    broken_stores.FusesTheLimit: {"the_order_does_not_depend_on_the_limit"},
    broken_stores.FusesByRankAlone: {
        "scores_are_fused_by_weight",
        "without_a_vector_an_entry_weighs_as_the_mean",
        "ids_are_scored_exactly",
    },
    broken_stores.IncludesTheHighBound: {"ranges_select_numbers", "ranges_select_texts_by_code_points"},
    broken_stores.DropsUnmatchedIds: {"ids_are_scored_exactly"},
    broken_stores.RepeatsTheFirstQuery: {"several_queries_are_as_each_alone"},
    broken_stores.StoresNumbersAsText: {
        "hits_carry_their_fields",
        "numbers_and_texts_are_different_values",
        "ranges_select_numbers",
    },
    broken_stores.EmbedsWhateverText: {"vectors_of_another_text_are_ignored"},
    broken_stores.ForgetsVectors: {"the_same_text_keeps_its_vector"},
    broken_stores.KeepsOldVectors: {"the_same_text_keeps_its_vector", "indexing_again_replaces"},
    broken_stores.RemovesTheFirstMatch: {"removal_by_filter_is_exact"},
    broken_stores.ListsInOrderOfIndexing: {"entries_without_a_vector_are_listed"},
    broken_stores.ChecksNothing: {"queries_need_text_or_vector", "refused_queries_name_their_field"},
}
"""Broken store → the cases that must fail on it."""


def opener_of(broken_store: type[InProcessDocuments | InProcessLogs | InProcessSearch]) -> OpenStore:
    """An opener of in-process stores with one part replaced by a broken one."""

    @asynccontextmanager
    async def open_store(url: str, *, clock: Clock) -> AsyncIterator[InProcessStore]:
        store = InProcessStore(clock)
        if issubclass(broken_store, InProcessDocuments):
            store.documents = broken_store(clock)
            store.logs = InProcessLogs(store.documents, clock)
        elif issubclass(broken_store, InProcessLogs):
            documents = InProcessDocuments(clock)
            store.documents, store.logs = documents, broken_store(documents, clock)
        else:
            store.search = broken_store()
        yield store

    return open_store


class LatestClock:
    """Shows the time of the last of several clocks."""

    def __init__(self, first: Clock) -> None:
        self.clocks = [first]

    def __call__(self) -> datetime:
        """The time of the last clock."""
        return self.clocks[-1]()


def reusing(store: InProcessStore, clocks: list[Clock]) -> OpenStore:
    """An opener that returns the same store each time; the clock of each call is appended to ``clocks``."""

    @asynccontextmanager
    async def open_store(url: str, *, clock: Clock) -> AsyncIterator[InProcessStore]:
        clocks.append(clock)
        yield store

    return open_store


@pytest.mark.parametrize("broken_store", BROKEN_STORES, ids=lambda broken_store: broken_store.__name__)
async def test_suite_detects_the_broken_store(
    broken_store: type[InProcessDocuments | InProcessLogs | InProcessSearch],
) -> None:
    """A broken store fails exactly the expected cases."""
    control = set() if broken_store is broken_stores.ExpiresTooLate else {CONTROL}
    report = await run("broken://", only=BROKEN_STORES[broken_store] | control, opener=opener_of(broken_store))
    assert {row.case for row in report.rows if row.status == "failed"} == BROKEN_STORES[broken_store]
    assert not report.ok


def test_every_case_has_an_expectation() -> None:
    """Case names are unique, and each case has a sentence that a report can show."""
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.expectation.endswith(".") for case in CASES)


def test_samples_cover_every_record_type() -> None:
    """Every record type has samples; hostile keys are distinct."""
    for samples in (full_records(), bare_records()):
        assert [type(record) for record in samples] == list(RECORDS)
    assert len(set(HOSTILE_KEYS)) == len(HOSTILE_KEYS)


async def test_report_lists_counts_and_failures() -> None:
    """The table has one line per capability and level, and a failure names its case and the reason."""
    seen: list[Result] = []
    only = {CONTROL, "filters_select_by_any_value", "indexes_survive_reopening"}
    report = await run("broken://", only=only, on_result=seen.append, opener=opener_of(broken_stores.FiltersAfterLimit))
    assert list(report.rows) == seen
    lines = report.render().splitlines()
    assert [line.split() for line in lines[2:5]] == [
        ["documents", "base", "1", "–", "–"],
        ["search", "base", "–", "1", "–"],
        ["search", "extended", "–", "–", "1"],
    ]
    assert lines[5].startswith("FAILED search/filters_select_by_any_value: ExpectationError: 1 hit by words")


async def test_missing_contracts_are_not_offered() -> None:
    """Cases of a contract that is None are reported as not offered; logs also if documents are missing."""

    @asynccontextmanager
    async def open_store(url: str, *, clock: Clock) -> AsyncIterator[InProcessStore]:
        store = InProcessStore(clock)
        store.documents = None
        yield store

    report = await run("half://", opener=open_store)
    offered = {row.capability for row in report.rows if row.status != "not offered"}
    assert offered == {"search"}
    assert report.ok


async def test_a_store_that_cannot_be_opened_fails_each_case() -> None:
    """An error at opening is a failure with its reason, not an exception of the run."""

    @asynccontextmanager
    async def open_store(url: str, *, clock: Clock) -> AsyncIterator[InProcessStore]:
        if url == "nowhere://":
            raise StoreUnavailable("nowhere", "connection refused")
        yield InProcessStore(clock)

    report = await run("nowhere://", only={"documents"}, opener=open_store)
    assert {row.status for row in report.rows} == {"failed"}
    assert report.rows[0].error == "StoreUnavailable: nowhere is unavailable: connection refused"


async def test_suite_leaves_a_store_unchanged() -> None:
    """On a store with data, the suite changes none of it, not even records about to expire, and adds none."""
    now = MovableClock(datetime(2026, 11, 1, tzinfo=UTC))
    clock = LatestClock(now)
    store = InProcessStore(clock)
    assert isinstance(store.documents, InProcessDocuments)
    assert isinstance(store.search, InProcessSearch)
    ending = now() + timedelta(seconds=1)
    kept = await store.documents.put(Scope(), small_record("mine"), keep_until=ending)
    report = await run("kept://", opener=reusing(store, clock.clocks))
    clock.clocks.append(now)
    assert report.ok, report.render()
    assert await store.documents.get(Scope(), IdempotentTurn, "mine") == kept
    assert sum(len(rows) for rows in store.documents._rows.values()) == 1
    assert store.search._partitions == {}
