"""Schemathesis against the OpenAPI document: no 5xx, no undocumented status or schema."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from http_service import documented_operations, listening, settings_in
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance
from test_http_registry import body_of

from wenmai.http.app import serve_app

pytestmark = pytest.mark.xdist_group("schemathesis")

EXAMPLES = (6, pytest.param(100, marks=pytest.mark.soak))
"""Requests to each route."""

KNOWN = {"user_id": "u1", "session_id": "s1", "npc_id": "doctor", "trace_id": "t1", "evidence_id": "e1", "number": 1}
"""Path parameter → an existing value."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service on a real port."""
    with listening(serve_app(settings_in(tmp_path_factory.mktemp("api")))) as base:
        yield base


@pytest.fixture(scope="module")
def schema(address: str) -> Any:
    """The OpenAPI schema served by the service."""
    return schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.fixture
def _stocked(address: str) -> None:
    """Create one resource of each kind, since earlier tests may have deleted them."""
    evidence = {"evidence": [{"text": "The bell was cast in 1651.", "evidence_id": "e1"}]}
    with httpx.Client(base_url=address) as client:
        client.post("/api/v1/personas", json=body_of("personas", "你是村医。"))
        client.post("/api/v1/prompts", json=body_of("prompts", "说话要慢。"))
        client.post("/api/v1/evidence", json=evidence).raise_for_status()
        chat = {"npc_id": "ancestor_yan", "query": "你好", "session_id": "s1"}
        client.post("/api/v1/npc/chat", json=chat, headers={"X-Trace-ID": "t1"}).raise_for_status()


@pytest.mark.usefixtures("_stocked")
@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize(("method", "path"), documented_operations())
def test_every_route_keeps_to_its_documentation(schema: Any, method: str, path: str, examples: int) -> None:
    """Statuses, media types, headers and bodies are as documented for any request; there is no 5xx.

    Half of the requests use existing resources. That schema-valid data is always accepted is not checked: a schema
    cannot express whether a cursor is valid or a budget is large enough for the question.
    """

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path][method.upper()].as_strategy(), known=st.booleans())
    def holds(case: Any, known: bool) -> None:  # noqa: FBT001
        if known and case.path_parameters and case.meta.generation.mode.is_positive:
            case.path_parameters.update({name: KNOWN[name] for name in case.path_parameters})
            case.headers.clear()
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    holds()
