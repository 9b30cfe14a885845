"""Every shipped backend against every case of the conformance suite."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from wenmai.stores.conformance import CASES, Case, run_case
from wenmai.stores.registry import open_store


class Backend(NamedTuple):
    """A backend and where a test may have one to itself."""

    id: str
    url: Callable[[Path], str]
    marks: tuple[pytest.MarkDecorator, ...] = ()


BACKENDS = (
    Backend("memory", lambda _folder: "memory://"),
    Backend("sqlite", lambda folder: f"sqlite:///{folder}/wenmai.db"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.capability}-{case.name}")
@pytest.mark.parametrize(
    "backend", [pytest.param(backend, id=backend.id, marks=backend.marks) for backend in BACKENDS]
)
async def test_backend_meets_the_contract(backend: Backend, case: Case, tmp_path: Path) -> None:
    """The backend does what the case expects."""
    result = await run_case(case, backend.url(tmp_path), opener=open_store)
    if result.status == "not offered":
        pytest.skip(result.error)
    assert result.status == "passed", f"{case.expectation}\n{result.error}"
