"""The client of Elasticsearch runs the code that is tested on OpenSearch, here against an emulator."""

from collections.abc import Iterator

import pytest

from elasticsearch_emulator import elasticsearch_emulator
from redis_server import free_port
from wenmai.clock import system_clock
from wenmai.errors import StoreUnavailable
from wenmai.stores import conformance
from wenmai.stores.opening import open_store

CALLS = {
    "a_message_is_completed_once",
    "a_query_of_zeros_is_near_nothing",
    "a_repeated_batch_changes_nothing",
    "bound_records_are_deleted_with_their_session",
    "a_sweep_removes_expired_records",
    "filters_select_by_any_value",
    "listings_are_newest_first_in_pages",
    "one_of_eight_racing_completes_wins",
    "removal_by_filter_is_exact",
    "the_threads_of_all_scopes_are_enumerated",
    "vector_hits_are_ordered_by_cosine",
    "vectors_may_arrive_later",
}
"""Cases of the conformance suite that make every kind of call."""


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a store in a new emulator."""
    with elasticsearch_emulator() as url:
        yield url


async def test_every_kind_of_call_works_through_the_client_of_elasticsearch(url: str) -> None:
    """Reads, conditional writes, bulk writes, searches by words and vectors, and deletes keep the contracts."""
    report = await conformance.run(url, only=CALLS)
    assert report.ok, report.render()
    assert len(report.rows) == len(CALLS)


@pytest.mark.soak
async def test_the_whole_suite_passes_through_the_client_of_elasticsearch(url: str) -> None:
    """All cases pass."""
    report = await conformance.run(url)
    assert report.ok, report.render()


async def test_an_elasticsearch_that_refuses_is_store_unavailable() -> None:
    """An error of its client is ours."""
    with pytest.raises(StoreUnavailable, match="elasticsearch is unavailable"):
        async with open_store(f"elasticsearch://127.0.0.1:{free_port()}", clock=system_clock):
            pass
