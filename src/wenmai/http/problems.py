"""Error responses: problem details (RFC 9457) for every error.

One table maps errors to statuses. An absent resource and one of another scope give identical responses, so a body never
contains the requested key.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from msgspec import UNSET, Meta, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wenmai.errors import (
    BudgetExhausted,
    Conflict,
    Forbidden,
    IdempotencyMismatch,
    InvalidInput,
    ModelError,
    NotFound,
    Overloaded,
    RateLimited,
    ServiceStopping,
    SessionExpired,
    SigningKeysUnavailable,
    StoreUnavailable,
    ThreadBusy,
    Unauthenticated,
    Undecipherable,
    VersionConflict,
    WenmaiError,
)
from wenmai.http.responses import encode
from wenmai.http.schemas.common import MAX_PROBLEMS

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_TYPE_PREFIX = "urn:problem:wenmai:"
MAX_TURNS = 256
"""Of the event loop, which a response about what is not found waits at most; 0.3 ms of an idle one on average."""

_FIELD_CHARACTERS = 200
_ALLOWED_CHARACTERS = 500

_WIRE_NAMES = {"persona_id": "npc_id"}
"""Field of the library → its name on the wire."""


class FieldProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid field and its allowed values."""

    field: Annotated[str, Meta(description="The field, such as `messages[1].role`.")]
    allowed: Annotated[str, Meta(description="The allowed values.")]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Problem details (RFC 9457). Absent resources and those of another scope give the same one."""

    type: Annotated[str, Meta(description="A URN that identifies the problem type.")]
    title: Annotated[str, Meta(description="A short title of the problem type.")]
    status: Annotated[int, Meta(description="The HTTP status.")]
    detail: Annotated[str, Meta(description="What went wrong in this request.")]
    errors: Annotated[list[FieldProblem] | UnsetType, Meta(description="The invalid fields, with status 422.")] = UNSET


class ProblemType(NamedTuple):
    """The fixed part of a problem: status, slug of the type URN, and title."""

    status: int
    slug: str
    title: str


PROBLEM_TYPES: dict[type[Exception], ProblemType] = {
    InvalidInput: ProblemType(422, "invalid-input", "The request is invalid"),
    NotFound: ProblemType(404, "not-found", "Not found"),
    SessionExpired: ProblemType(404, "session-expired", "The session has expired"),
    Unauthenticated: ProblemType(401, "unauthenticated", "No valid API key or token"),
    SigningKeysUnavailable: ProblemType(503, "signing-keys-unavailable", "Tokens cannot be checked"),
    Forbidden: ProblemType(403, "forbidden", "The API key or token lacks a right"),
    Conflict: ProblemType(409, "conflict", "The request conflicts with the stored state"),
    VersionConflict: ProblemType(409, "version-conflict", "The version has changed"),
    ThreadBusy: ProblemType(409, "thread-busy", "Another turn of the thread is running"),
    IdempotencyMismatch: ProblemType(409, "idempotency-mismatch", "The Idempotency-Key was used with another request"),
    StoreUnavailable: ProblemType(503, "store-unavailable", "The store is unavailable"),
    Undecipherable: ProblemType(503, "undecipherable", "Stored data cannot be decrypted"),
    ServiceStopping: ProblemType(503, "stopping", "The service is stopping"),
    Overloaded: ProblemType(503, "overloaded", "The service is overloaded"),
    RateLimited: ProblemType(429, "rate-limited", "Too many requests"),
    BudgetExhausted: ProblemType(429, "budget-exhausted", "A budget is exhausted"),
    ModelError: ProblemType(502, "model-failed", "The model failed"),
    Exception: ProblemType(500, "internal", "Internal error"),
}
"""Error class → problem type; other errors have the type of their nearest ancestor."""

_HTTP_PROBLEM_TYPES = {
    400: ProblemType(400, "bad-request", "The request is not valid HTTP"),
    403: ProblemType(403, "foreign-page", "Cross-site request"),
    404: ProblemType(404, "no-such-route", "Not found"),
    405: ProblemType(405, "method-not-allowed", "Method not allowed"),
    408: ProblemType(408, "too-slow", "Request timeout"),
    413: ProblemType(413, "too-large", "The body is too large"),
    415: ProblemType(415, "media-type", "Unsupported media type"),
    421: ProblemType(421, "misdirected", "The request is for another host"),
    431: ProblemType(431, "head-too-large", "The request headers are too large"),
    503: PROBLEM_TYPES[Overloaded],
}
_SAYS_ENOUGH = (
    *(Conflict, ServiceStopping, Overloaded, RateLimited, BudgetExhausted),
    *(Unauthenticated, SigningKeysUnavailable, Forbidden),
)
"""Errors whose text is for the client."""
_BODY_UNREADABLE = FieldProblem(field="body", allowed="a body that matches its Content-Type")


def problem_type_for(error: BaseException) -> ProblemType:
    """The problem type of an error."""
    return next(PROBLEM_TYPES[ancestor] for ancestor in type(error).__mro__ if ancestor in PROBLEM_TYPES)


def problem_for(error: BaseException) -> Problem:
    """The problem details of an error; those of an unexpected error reveal no internals."""
    if isinstance(error, InvalidInput):
        # The field is named already; a converter's message gives its path again.
        allowed = error.allowed.removeprefix("allowed: ").partition(" - at `$")[0]
        return _invalid([FieldProblem(field=_WIRE_NAMES.get(error.field, error.field), allowed=allowed)])
    if isinstance(error, NotFound):
        return _problem(problem_type_for(error), f"no such {error.what}")
    if isinstance(error, StoreUnavailable):
        return _problem(problem_type_for(error), f"{error.store} is unavailable; nothing was changed")
    if isinstance(error, ModelError):
        return _problem(problem_type_for(error), f"{error.model} did not answer")
    if isinstance(error, _SAYS_ENOUGH):
        return _problem(problem_type_for(error), str(error))
    hidden = problem_type_for(error) if isinstance(error, Undecipherable) else PROBLEM_TYPES[Exception]
    return _problem(hidden, "the cause is in the log of the service")


def problem_response(error: BaseException) -> Response:
    """The response to an error."""
    headers = None
    if isinstance(error, StoreUnavailable | ServiceStopping | Overloaded | RateLimited | SigningKeysUnavailable):
        headers = {"Retry-After": str(error.retry_after)}
    elif isinstance(error, Unauthenticated):
        headers = {"WWW-Authenticate": "Bearer"}
    return _response(problem_for(error), headers)


def error_response(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """The response to a request that is rejected before routing."""
    return _response(_problem(_HTTP_PROBLEM_TYPES[status], detail), headers)


def install(app: FastAPI) -> None:
    """Add a handler that answers :class:`WenmaiError` with problem details to an application that embeds the library.

    Other errors are left to the application.
    """

    async def on_wenmai_error(_request: Request, error: Exception) -> Response:
        if isinstance(error, NotFound):
            await _random_turns()
        problem = problem_response(error)
        if problem.status_code >= 500:  # noqa: PLR2004 — server errors
            _log.error("%s: %s", type(error).__name__, error)
        return problem

    app.add_exception_handler(WenmaiError, on_wenmai_error)


async def _random_turns() -> None:
    """Wait for a random number of turns of the event loop.

    A store works some microseconds longer on what is another's than on what is absent; the wait varies by more.
    """
    for _ in range(secrets.randbelow(MAX_TURNS)):
        await asyncio.sleep(0)


def field_problems(errors: Sequence[Mapping[str, Any]]) -> list[FieldProblem]:
    """Pydantic's validation errors, with field names as callers write them: ``messages[1].role``, ``X-Tenant-ID``.

    At most 20 fields of bounded length, since the caller controls their number and names.
    """
    return [
        FieldProblem(field=_field(error["loc"])[:_FIELD_CHARACTERS], allowed=_allowed(error)[:_ALLOWED_CHARACTERS])
        for error in errors[:MAX_PROBLEMS]
    ]


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every error of the application with problem details."""

    async def on_validation_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 — registered for this class only
        return _response(_invalid(field_problems(error.errors())))

    async def on_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 — registered for this class only
        if error.status_code == 400:  # noqa: PLR2004 — FastAPI's status for an unreadable body
            return _response(_invalid([_BODY_UNREADABLE]))
        problem_type = _HTTP_PROBLEM_TYPES.get(
            error.status_code, ProblemType(error.status_code, "http", "Request rejected")
        )
        if error.status_code == 405:  # noqa: PLR2004
            return _response(_problem(problem_type, "see the Allow header"), {"Allow": _allowed_methods(request)})
        return _response(_problem(problem_type, _HTTP_DETAILS.get(error.status_code, error.detail)))

    install(app)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, on_http_exception)


_HTTP_DETAILS = {404: "no such route"}


class UnexpectedErrors:
    """Middleware for unexpected errors: logs the traceback and answers 500 without internals."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        response_started = False

        async def watching_send(message: Message) -> None:
            nonlocal response_started
            response_started = True
            await send(message)

        try:
            await self._app(scope, receive, watching_send)
        except asyncio.CancelledError:
            # The server cancels running requests at shutdown; a waiting client gets a 503 and can retry.
            if scope["type"] == "http" and not response_started:
                await problem_response(ServiceStopping())(scope, receive, send)
            raise
        except Exception as error:
            if scope["type"] != "http" or response_started:
                raise
            _log.exception("%s %s failed", scope["method"], scope["path"])
            await problem_response(error)(scope, receive, send)


def _problem(problem_type: ProblemType, detail: str, errors: list[FieldProblem] | UnsetType = UNSET) -> Problem:
    return Problem(
        type=_TYPE_PREFIX + problem_type.slug,
        title=problem_type.title,
        status=problem_type.status,
        detail=detail,
        errors=errors,
    )


def _invalid(fields: list[FieldProblem]) -> Problem:
    detail = "; ".join(f"{each.field}: {each.allowed}" for each in fields[:3])
    return _problem(PROBLEM_TYPES[InvalidInput], detail, fields)


def _response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    return Response(encode(problem), problem.status, headers=headers, media_type=MEDIA_TYPE)


def _field(location: Sequence[int | str]) -> str:
    where, *rest = location
    if not rest or isinstance(rest[0], int):
        return str(where)
    name = ""
    for part in rest:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def _allowed(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "no field of this request"
    if error["type"] == "json_invalid":
        return f"valid JSON: {error['ctx']['error']}"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return str(error["msg"]).removeprefix("Value error, ")


def _allowed_methods(request: Request) -> str:
    route = request.scope.get("route")
    paths = request.app.openapi()["paths"]
    documented = paths.get(getattr(route, "path_format", ""), {"get": {}})
    methods = {method.upper() for method in documented}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
