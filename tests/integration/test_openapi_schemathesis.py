"""What OpenAPI promises holds for whatever schemathesis makes of it: no 5xx, no undocumented status or shape."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from http_service import listening, settings_in
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from wenmai.http.app import serve_app
from wenmai.settings import Settings

pytestmark = pytest.mark.xdist_group("schemathesis")

EXAMPLES = 100
METHODS = ("get", "post", "put", "patch", "delete")
OPERATIONS = [
    (method, path) for path, operations in serve_app(Settings()).openapi()["paths"].items() for method in operations
]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The schema of a service on a real port, as it serves it itself."""
    with listening(serve_app(settings_in(tmp_path_factory.mktemp("api")))) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_route_keeps_to_its_documentation(schema: Any, method: str, path: str) -> None:
    """Statuses, media types and bodies are those documented, whatever is sent; nothing is a 5xx."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path][method.upper()].as_strategy())
    def holds(case: Any) -> None:
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    holds()
