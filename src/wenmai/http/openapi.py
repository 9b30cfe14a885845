"""What OpenAPI says besides the routes' own shapes: problems with examples, tags, the description."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from wenmai.http.problems import MEDIA_TYPE
from wenmai.http.shapes.common import Problem

Responses = dict[int | str, dict[str, Any]]

DESCRIPTION = """\
Conversation memory in which facts come from evidence, never from memory.

Whose data a request is about is said by the headers `X-Tenant-ID`, `X-Site-ID` and `X-User-ID`. What belongs
to somebody else is not found, with the same body as what does not exist. Errors are problem details
(RFC 9457), times are RFC 3339 with `Z`, lists are newest first and go on with the `next` of the page before.
"""

TAGS = [
    {"name": "npc", "description": "Talk with personas: chat, sessions, preferences, traces."},
    {"name": "personas", "description": "Who answers, by version."},
    {"name": "prompts", "description": "System prompts of personas, by version."},
    {"name": "evidence", "description": "The passages from which facts may be taken."},
    {"name": "sessions", "description": "The plain memory, for those who bring their own model."},
    {"name": "usage", "description": "What model calls have used, and what is left of the budgets."},
    {"name": "health", "description": "Is it alive, is it ready, what has it done."},
]

_PROBLEM_SCHEMA = {"$ref": "#/components/schemas/Problem"}


def _content(example: dict[str, Any]) -> dict[str, Any]:
    return {MEDIA_TYPE: {"schema": _PROBLEM_SCHEMA, "example": example}}


def _example(slug: str, title: str, status: int, detail: str, **more: object) -> dict[str, Any]:
    kind = {"type": f"urn:problem:wenmai:{slug}", "title": title, "status": status, "detail": detail}
    return kind | more


_EXAMPLES = {
    404: ("Absent, or somebody else's", _example("not-found", "Not found", 404, "no such session")),
    409: (
        "It changed meanwhile, or is busy",
        _example(
            "version-conflict",
            "Somebody else was faster",
            409,
            "active persona elder is no longer at version 1",
        ),
    ),
    413: (
        "The body is too large",
        _example("too-large", "The body is too large", 413, "at most 2000000 bytes are taken here"),
    ),
    415: (
        "The body is not declared as a type that is taken here",
        _example("media-type", "The body is of a type that is not taken here", 415, "application/json is taken here"),
    ),
    422: (
        "Something in the request is not allowed",
        _example(
            "invalid-input",
            "Something in the request is not allowed",
            422,
            "query: 1 to 4000 characters, blanks around them not counted",
            errors=[{"field": "query", "allowed": "1 to 4000 characters, blanks around them not counted"}],
        ),
    ),
    429: (
        "A hard budget is used up",
        _example(
            "budget-exhausted",
            "A budget is used up",
            429,
            "the budget user_day is used up, so no model is called",
        ),
    ),
    500: (
        "A mistake of the service",
        _example("internal", "Internal error", 500, "the cause is in the service's log"),
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
_OF_THE_EDGE = {
    400: ("BadRequest", "Not valid HTTP", _example("bad-request", "The request is not valid HTTP", 400, "one Host")),
    403: (
        "ForeignPage",
        "Sent by a page of another site",
        _example("foreign-page", "Pages of other sites are refused", 403, "the Origin is another site"),
    ),
    405: (
        "MethodNotAllowed",
        "The path has other methods, see `Allow`",
        _example("method-not-allowed", "Method not allowed", 405, "see Allow"),
    ),
    408: ("TooSlow", "It took too long to arrive", _example("too-slow", "The request took too long", 408, "too slow")),
    421: (
        "Misdirected",
        "For another host",
        _example("misdirected", "The request is for another host", 421, "the Host is not one of this service"),
    ),
    431: (
        "HeadTooLarge",
        "The head is too large",
        _example("head-too-large", "The head of the request is too large", 431, "a head has at most 65536 bytes"),
    ),
}
"""Status → name, description and example of what any request may be answered before its route is asked."""

_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds after which a retry makes sense.",
        "schema": {"type": "integer"},
    }
}


def problems(*statuses: int) -> Responses:
    """The documentation of these statuses, and of those that every route over the store can have."""
    documented: Responses = {}
    # What may be too large is a body, and that may be of the wrong type.
    bodies = {415} if 413 in statuses else set()  # noqa: PLR2004
    for status in sorted({*statuses, *bodies, 422, 500, 503}):
        description, example = _EXAMPLES[status]
        documented[status] = {"description": description, "content": _content(example)}
        if status == 503:  # noqa: PLR2004
            documented[status]["headers"] = _RETRY_AFTER
    return documented


def describe(app: FastAPI) -> None:
    """Have the application describe itself, the problem's shape included."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(problem.pop("$defs", {}))
            schemas["Problem"] = problem
            _add_edge(schema)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _add_edge(schema: dict[str, Any]) -> None:
    """Add to every operation what the edge of the service may answer."""
    schema["components"]["responses"] = {
        name: {"description": description, "content": _content(example)}
        for name, description, example in _OF_THE_EDGE.values()
    }
    references = {
        str(status): {"$ref": f"#/components/responses/{name}"} for status, (name, *_) in _OF_THE_EDGE.items()
    }
    busy = {"description": _EXAMPLES[503][0], "content": _content(_EXAMPLES[503][1]), "headers": _RETRY_AFTER}
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"] = references | {"503": busy} | operation["responses"]
