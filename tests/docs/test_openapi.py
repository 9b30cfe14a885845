"""The OpenAPI document is complete: each property, parameter and operation is described."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from wenmai.config.settings import Settings
from wenmai.http.app import serve_app


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The service's OpenAPI."""
    return serve_app(Settings()).openapi()


def properties(node: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property of every schema, with its path; examples are skipped."""
    if isinstance(node, list):
        for index, each in enumerate(node):
            yield from properties(each, f"{where}/{index}")
    elif isinstance(node, dict):
        for name, each in node.items():
            if name == "properties" and isinstance(each, dict):
                yield from ((f"{where}/{field}", described) for field, described in each.items())
            if name not in {"example", "examples"}:
                yield from properties(each, f"{where}/{name}")


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every operation, with its method and path."""
    for path, methods in schema["paths"].items():
        yield from ((f"{method.upper()} {path}", operation) for method, operation in methods.items())


def test_every_property_is_described(schema: dict[str, Any]) -> None:
    """Every field has a description in `/docs`."""
    found = list(properties(schema))
    assert len(found) > 300
    assert [where for where, each in found if not each.get("description")] == []


def test_every_parameter_and_operation_is_described(schema: dict[str, Any]) -> None:
    """Every parameter has a description, every operation also a summary."""
    found = dict(operations(schema))
    missing = [name for name, each in found.items() if not (each.get("summary") and each.get("description"))]
    missing += [
        f"{name} {parameter['name']}"
        for name, each in found.items()
        for parameter in each.get("parameters", [])
        if not parameter.get("description")
    ]
    assert missing == []


def examples(node: Any, where: str = "") -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Every example, with its path and the schema that it is an example of."""
    if isinstance(node, list):
        for index, each in enumerate(node):
            yield from examples(each, f"{where}/{index}")
    elif isinstance(node, dict):
        of = node.get("schema", node)
        if "example" in node:
            yield where, node["example"], of
        if isinstance(node.get("examples"), list):
            yield from ((where, each, of) for each in node["examples"])
        for name, each in node.items():
            if name not in {"example", "examples"}:
                yield from examples(each, f"{where}/{name}")


def test_every_example_matches_its_schema(schema: dict[str, Any]) -> None:
    """A client may send an example as it is, and generate its types from the schemas."""
    found = list(examples(schema))
    assert len(found) > 100
    wrong = []
    for where, example, of in found:
        validator = jsonschema_rs.validator_for(of | {"components": schema["components"]}, validate_formats=True)
        wrong += [f"{where}: {error.message}" for error in validator.iter_errors(example)]
    assert wrong == []


def test_texts_are_written_in_markdown(schema: dict[str, Any]) -> None:
    """Names are in single backticks; markup of docstrings means nothing to readers of `/docs`."""
    texts = [*(each["description"] for _, each in operations(schema) if "description" in each)]
    texts += [each.get("description", "") for each in schema["components"]["schemas"].values()]
    texts += [each["description"] for _, each in properties(schema)]
    assert [text for text in texts if "``" in text or ":class:" in text or ":meth:" in text] == []


def test_cursors_are_called_next(schema: dict[str, Any]) -> None:
    """Responses use one name for cursors."""
    names = {where.rpartition("/")[2] for where, _ in properties(schema)}
    assert "next" in names
    assert [name for name in names if "cursor" in name] == []


def test_every_operation_documents_the_common_errors(schema: dict[str, Any]) -> None:
    """Those before routing, and for routes with a body also those of the body."""
    for name, each in operations(schema):
        assert {"400", "403", "405", "408", "421", "431", "503"} <= each["responses"].keys(), name
        if "requestBody" in each:
            assert {"413", "415", "422"} <= each["responses"].keys(), name


def test_operation_ids_are_short_and_unique(schema: dict[str, Any]) -> None:
    """Generated clients name their functions after them: the operation alone, not its path."""
    ids = [each["operationId"] for _, each in operations(schema)]
    assert "chat" in ids
    assert len(ids) == len(set(ids))
    assert [name for name in ids if len(name) > 24 or "api_v1" in name] == []


def test_every_json_response_has_the_schema_of_its_struct(schema: dict[str, Any]) -> None:
    """Success responses refer to a component whose fields that are always sent are required."""
    components = schema["components"]["schemas"]
    for name, each in operations(schema):
        contents = [response.get("content", {}) for status, response in each["responses"].items() if status[0] == "2"]
        for content in contents:
            if "application/json" in content:
                component = components[content["application/json"]["schema"]["$ref"].rpartition("/")[2]]
                assert component["description"], name
                assert component["required"], name
    assert components["TurnAnswer"]["required"] == list(components["TurnAnswer"]["properties"])
    assert "session_summary" not in components["TraceWithSession"]["required"]
