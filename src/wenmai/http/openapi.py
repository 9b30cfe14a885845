"""OpenAPI beyond the routes' schemas: problem responses with examples, tags, the description."""

from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi

from wenmai.http.problems import MEDIA_TYPE, Problem
from wenmai.http.responses import StructRoute

Responses = dict[int | str, dict[str, Any]]

DESCRIPTION = """\
Conversation memory in which facts come from evidence, never from memory.

The headers `X-Tenant-ID`, `X-Site-ID` and `X-User-ID` give the scope of a request. With a setting `auth` other
than `none` every request needs an API key or a token, as `Authorization: Bearer …`; headers and bodies that name
another tenant, site or user are then not found. A resource of another scope is 404, with the same body as one that does
not exist. Errors are problem details (RFC 9457), times are RFC 3339 with `Z`.
Lists are newest first; pass the `next` of a page as `cursor` to get the page after it.
"""

TAGS = [
    {"name": "npc", "description": "Chat with personas: turns, sessions, preferences, traces."},
    {"name": "queries", "description": "Questions to the persona that the profile names, and their sessions."},
    {"name": "personas", "description": "Versioned personas."},
    {"name": "prompts", "description": "Versioned system prompts of personas."},
    {"name": "evidence", "description": "Passages that answers may cite as facts."},
    {"name": "sessions", "description": "The plain memory API, for applications with their own model."},
    {"name": "usage", "description": "Token usage and cost of model calls, and budgets."},
    {"name": "users", "description": "Export and erasure of users."},
    {"name": "threads", "description": "The threads of all users of a site."},
    {"name": "keys", "description": "API keys of the tenant."},
    {"name": "audit", "description": "The audit log of administrative acts."},
    {"name": "health", "description": "Liveness, readiness, metrics."},
]

_PROBLEM_SCHEMA = {"$ref": "#/components/schemas/Problem"}


def _content(example: dict[str, Any]) -> dict[str, Any]:
    return {MEDIA_TYPE: {"schema": _PROBLEM_SCHEMA, "example": example}}


def _example(slug: str, title: str, status: int, detail: str, **more: object) -> dict[str, Any]:
    kind = {"type": f"urn:problem:wenmai:{slug}", "title": title, "status": status, "detail": detail}
    return kind | more


_EXAMPLES = {
    404: ("Absent, or of another scope", _example("not-found", "Not found", 404, "no such session")),
    409: (
        "The resource has changed, or is busy",
        _example(
            "version-conflict",
            "The version has changed",
            409,
            "active persona elder is no longer at version 1",
        ),
    ),
    413: (
        "The body is too large",
        _example("too-large", "The body is too large", 413, "the body may have at most 2000000 bytes"),
    ),
    415: (
        "The Content-Type is not supported",
        _example("media-type", "Unsupported media type", 415, "the Content-Type must be application/json"),
    ),
    422: (
        "The request is invalid",
        _example(
            "invalid-input",
            "The request is invalid",
            422,
            "query: 1 to 4000 characters, not counting surrounding whitespace",
            errors=[{"field": "query", "allowed": "1 to 4000 characters, not counting surrounding whitespace"}],
        ),
    ),
    429: (
        "A hard budget is exhausted",
        _example(
            "budget-exhausted",
            "A budget is exhausted",
            429,
            "the budget user_day is exhausted, so no model is called",
        ),
    ),
    500: (
        "Internal error",
        _example("internal", "Internal error", 500, "the cause is in the log of the service"),
    ),
    502: ("The model failed", _example("model-failed", "The model failed", 502, "gpt did not answer")),
    503: (
        "The store is unavailable; nothing was changed",
        _example(
            "store-unavailable",
            "The store is unavailable",
            503,
            "sqlite is unavailable; nothing was changed",
        ),
    ),
}
_PRE_ROUTING_PROBLEMS = {
    400: (
        "BadRequest",
        "Not valid HTTP",
        _example("bad-request", "The request is not valid HTTP", 400, "the request must have exactly one Host header"),
    ),
    401: (
        "Unauthenticated",
        "No valid API key or token; only with a setting auth other than none",
        _example(
            "unauthenticated",
            "No valid API key or token",
            401,
            "a valid API key or token is needed, as Authorization: Bearer …",
        ),
    ),
    403: (
        "ForeignPage",
        "Cross-site request, or the API key or token lacks a right",
        _example("foreign-page", "Cross-site request", 403, "cross-site requests are refused: see Sec-Fetch-Site"),
    ),
    405: (
        "MethodNotAllowed",
        "The path does not support this method, see `Allow`",
        _example("method-not-allowed", "Method not allowed", 405, "see the Allow header"),
    ),
    408: (
        "TooSlow",
        "The request did not arrive in time",
        _example("too-slow", "Request timeout", 408, "the request did not arrive in time"),
    ),
    421: (
        "Misdirected",
        "The Host header does not name this service",
        _example(
            "misdirected",
            "The request is for another host",
            421,
            "the Host header does not name this service; see the setting allowed_hosts",
        ),
    ),
    429: (
        "RateLimited",
        "The rate of requests is exceeded; only with the setting rate_limit, or a limit of the key",
        _example(
            "rate-limited",
            "Too many requests",
            429,
            "at most 600 requests per 60 s are accepted of a key or user",
        ),
    ),
    431: (
        "HeadTooLarge",
        "The request headers are too large",
        _example(
            "head-too-large",
            "The request headers are too large",
            431,
            "the request line and headers may have at most 65536 bytes",
        ),
    ),
}
"""Status → name, description and example of the errors that can occur on every route, most of them before routing."""

_WWW_AUTHENTICATE = {"WWW-Authenticate": {"description": "The scheme, Bearer.", "schema": {"type": "string"}}}
_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds to wait before a retry.",
        "schema": {"type": "integer"},
    }
}


def problems(*statuses: int) -> Responses:
    """Documentation of these statuses and of those common to all routes that use the store."""
    documented: Responses = {}
    # 413 means that there is a body, which may have the wrong type.
    bodies = {415} if 413 in statuses else set()  # noqa: PLR2004
    for status in sorted({*statuses, *bodies, 422, 500, 503}):
        description, example = _EXAMPLES[status]
        documented[status] = {"description": description, "content": _content(example)}
        if status == 503:  # noqa: PLR2004
            documented[status]["headers"] = _RETRY_AFTER
    return documented


def describe(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Set the application's OpenAPI generator, which adds the schemas of structs and common errors."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            _add_structs(
                schema, [route for router in routers for route in router.routes if isinstance(route, StructRoute)]
            )
            _add_pre_routing_responses(schema)
            schema["components"]["securitySchemes"] = {"apiKey": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{}, {"apiKey": []}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _add_structs(schema: dict[str, Any], routes: Sequence[StructRoute]) -> None:
    """Add the schemas of the structs that the routes return."""
    structs = {route.name: route.struct for route in routes if route.struct is not None}
    references, components = msgspec.json.schema_components(
        [*structs.values(), Problem], ref_template="#/components/schemas/{name}"
    )
    for component in components.values():
        _describe_as_encoded(component)
    schema.setdefault("components", {}).setdefault("schemas", {}).update(components)
    of_operation = dict(zip(structs, references, strict=False))
    for operations in schema["paths"].values():
        for operation in operations.values():
            if reference := of_operation.get(operation["operationId"]):
                _add_body(operation["responses"], reference)


def _describe_as_encoded(component: dict[str, Any]) -> None:
    """Every field of a response is present, also one with a default; only an unset one is absent."""
    component["description"] = " ".join(component.get("description", "").partition("\n\n")[0].split())
    fields = component.get("properties", {})
    always = [name for name, field in fields.items() if field.pop("default", field) is not field]
    component["required"] = [*component.get("required", ()), *always]


def _add_body(responses: dict[str, Any], reference: dict[str, Any]) -> None:
    """Add the schema to the responses that are not problems."""
    for response in responses.values():
        content = response.setdefault("content", {"application/json": {}})
        if "application/json" in content:
            content["application/json"]["schema"] = reference


def _add_pre_routing_responses(schema: dict[str, Any]) -> None:
    """Add the errors that can occur before routing to every operation."""
    schema["components"]["responses"] = {
        name: {"description": description, "content": _content(example)}
        for name, description, example in _PRE_ROUTING_PROBLEMS.values()
    }
    schema["components"]["responses"]["Unauthenticated"]["headers"] = _WWW_AUTHENTICATE
    schema["components"]["responses"]["RateLimited"]["headers"] = _RETRY_AFTER
    references = {
        str(status): {"$ref": f"#/components/responses/{name}"} for status, (name, *_) in _PRE_ROUTING_PROBLEMS.items()
    }
    unavailable = {"description": _EXAMPLES[503][0], "content": _content(_EXAMPLES[503][1]), "headers": _RETRY_AFTER}
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"] = references | {"503": unavailable} | operation["responses"]
