"""The conformance suite: the store contracts as test cases that run on any URL.

::

    report = await conformance.run("sqlite:///wenmai.db")
    print(report.render())

Each case opens the URL anew, works in a tenant with a random name, uses a clock that starts in 2001, and cleans up
after itself, so the suite may run on a store that contains data.
"""

from collections.abc import Callable, Collection
from types import ModuleType

from wenmai.stores.conformance import (
    documents_listing,
    documents_owners,
    documents_records,
    durability,
    incarnations,
    logs_append,
    logs_concurrency,
    logs_enumeration,
    logs_read,
    logs_sessions,
    search_entries,
    search_fields,
    search_fusion,
    search_late_vectors,
    search_refusals,
    search_vectors,
    search_words,
    values,
)
from wenmai.stores.conformance.case import Case, Level, case
from wenmai.stores.conformance.expect import ExpectationError
from wenmai.stores.conformance.harness import Harness, OpenStore
from wenmai.stores.conformance.runner import Report, Result, Status, run_case, run_cases
from wenmai.stores.opening import open_store

__all__ = [
    "CASES",
    "Case",
    "ExpectationError",
    "Harness",
    "Level",
    "OpenStore",
    "Report",
    "Result",
    "Status",
    "case",
    "run",
    "run_case",
]


def _cases_of(module: ModuleType) -> list[Case]:
    return [value for value in vars(module).values() if isinstance(value, Case)]


CASES: tuple[Case, ...] = tuple(
    found
    for module in (
        documents_records,
        documents_listing,
        documents_owners,
        logs_append,
        logs_read,
        logs_sessions,
        logs_concurrency,
        logs_enumeration,
        incarnations,
        values,
        search_words,
        search_vectors,
        search_fusion,
        search_fields,
        search_late_vectors,
        search_refusals,
        search_entries,
        durability,
    )
    for found in _cases_of(module)
)
"""All cases, in the order in which they run."""


async def run(
    url: str,
    *,
    only: Collection[str] | None = None,
    on_result: Callable[[Result], None] | None = None,
    opener: OpenStore = open_store,
) -> Report:
    """Run the suite on the store at ``url``.

    Args:
        url: as for :func:`wenmai.stores.opening.open_store`.
        only: capabilities or names of cases; all if None.
        on_result: called after each case.
        opener: opens the URL; pass your own for a backend whose scheme Wenmai does not know.

    Returns:
        One row per case, in the order of the suite; an exception in a case is a failure of its row.
    """
    return await run_cases(CASES, url, opener=opener, only=only, on_result=on_result)
