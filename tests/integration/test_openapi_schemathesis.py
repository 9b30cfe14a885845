"""What OpenAPI promises holds for whatever schemathesis makes of it: no 5xx, no undocumented status or shape."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from http_service import listening, settings_in
from hypothesis import HealthCheck, Phase, settings

from wenmai.http.app import serve_app

pytestmark = pytest.mark.xdist_group("schemathesis")

EXAMPLES = 12


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The schema of a service on a real port, as it serves it itself."""
    with listening(serve_app(settings_in(tmp_path_factory.mktemp("api")))) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


schema = schemathesis.pytest.from_fixture("api")


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_route_keeps_to_its_documentation(case: Any) -> None:
    """Statuses, media types and bodies are those documented, whatever is sent; nothing is a 5xx."""
    case.call_and_validate()
