"""Errors on the wire: problem details of RFC 9457, the same for everything that can go wrong.

One table says which error is which status. What is absent and what is somebody else's give the same bytes, so
a body never names the key that was asked for.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wenmai.errors import (
    BudgetExhausted,
    Conflict,
    IdempotencyMismatch,
    InvalidInput,
    ModelError,
    NotFound,
    Overloaded,
    ServiceStopping,
    SessionExpired,
    StoreUnavailable,
    ThreadBusy,
    VersionConflict,
    WenmaiError,
)
from wenmai.http.shapes.common import MOST_PROBLEMS, FieldProblem, Problem

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_TYPE_PREFIX = "urn:problem:wenmai:"
_FIELD_CHARACTERS = 200
_ALLOWED_CHARACTERS = 500


class Kind(NamedTuple):
    """What stands in every problem of one kind."""

    status: int
    slug: str
    title: str


KINDS: dict[type[Exception], Kind] = {
    InvalidInput: Kind(422, "invalid-input", "Something in the request is not allowed"),
    NotFound: Kind(404, "not-found", "Not found"),
    SessionExpired: Kind(404, "session-expired", "The session is past its lifetime"),
    Conflict: Kind(409, "conflict", "The request conflicts with what is stored"),
    VersionConflict: Kind(409, "version-conflict", "Somebody else was faster"),
    ThreadBusy: Kind(409, "thread-busy", "Another turn is running"),
    IdempotencyMismatch: Kind(409, "idempotency-mismatch", "The Idempotency-Key was used otherwise"),
    StoreUnavailable: Kind(503, "store-unavailable", "The store is unavailable"),
    ServiceStopping: Kind(503, "stopping", "The service is stopping"),
    Overloaded: Kind(503, "overloaded", "The service has too much to do"),
    BudgetExhausted: Kind(429, "budget-exhausted", "A budget is used up"),
    ModelError: Kind(502, "model-failed", "The model failed"),
    Exception: Kind(500, "internal", "Internal error"),
}
"""Error → kind of problem; an error that is not named is of the kind of its nearest ancestor."""

_HTTP_KINDS = {
    400: Kind(400, "bad-request", "The request is not valid HTTP"),
    403: Kind(403, "foreign-page", "Pages of other sites are refused"),
    404: Kind(404, "no-such-route", "Not found"),
    405: Kind(405, "method-not-allowed", "Method not allowed"),
    408: Kind(408, "too-slow", "The request took too long to arrive"),
    413: Kind(413, "too-large", "The body is too large"),
    415: Kind(415, "media-type", "The body is of a type that is not taken here"),
    421: Kind(421, "misdirected", "The request is for another host"),
    431: Kind(431, "head-too-large", "The head of the request is too large"),
    503: KINDS[Overloaded],
}
_BODY_UNREADABLE = FieldProblem(field="body", allowed="a body that can be read as its Content-Type says")


def kind_of(error: BaseException) -> Kind:
    """The kind of problem that the error is."""
    return next(KINDS[ancestor] for ancestor in type(error).__mro__ if ancestor in KINDS)


def problem_of(error: BaseException) -> Problem:
    """The problem details of an error; of one that is not ours nothing is told."""
    if isinstance(error, InvalidInput):
        return _invalid([FieldProblem(field=error.field, allowed=error.allowed)])
    if isinstance(error, NotFound):
        return _problem(kind_of(error), f"no such {error.what}")
    if isinstance(error, StoreUnavailable):
        return _problem(kind_of(error), f"{error.store} is unavailable; nothing was changed")
    if isinstance(error, ModelError):
        return _problem(kind_of(error), f"{error.model} did not answer")
    if isinstance(error, Conflict | ServiceStopping | Overloaded | BudgetExhausted):
        return _problem(kind_of(error), str(error))
    return _problem(KINDS[Exception], "the cause is in the service's log")


def problem_response(error: BaseException) -> Response:
    """The response to an error."""
    headers = None
    if isinstance(error, StoreUnavailable | ServiceStopping | Overloaded):
        headers = {"Retry-After": str(error.retry_after)}
    return _response(problem_of(error), headers)


def refusal(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """The response to a request that is refused before any route is asked."""
    return _response(_problem(_HTTP_KINDS[status], detail), headers)


def install(app: FastAPI) -> None:
    """Answer every :class:`WenmaiError` of an application that embeds the library as a problem.

    Other errors stay the application's own.
    """

    async def ours(_request: Request, error: Exception) -> Response:
        problem = problem_response(error)
        if problem.status_code >= 500:  # noqa: PLR2004 — of the server
            _log.error("%s: %s", type(error).__name__, error)
        return problem

    app.add_exception_handler(WenmaiError, ours)


def fields_of(errors: Sequence[Mapping[str, Any]]) -> list[FieldProblem]:
    """What pydantic complains of, by field as callers write it: ``messages[1].role``, ``X-Tenant-ID``.

    At most 20 fields, each in a bounded number of characters: a caller chooses how many there are, and their names.
    """
    return [
        FieldProblem(field=_field(error["loc"])[:_FIELD_CHARACTERS], allowed=_allowed(error)[:_ALLOWED_CHARACTERS])
        for error in errors[:MOST_PROBLEMS]
    ]


def add_problem_handlers(app: FastAPI) -> None:
    """Have every error of the application answered as a problem."""

    async def refused(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 — registered for it alone
        return _response(_invalid(fields_of(error.errors())))

    async def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 — registered for it alone
        if error.status_code == 400:  # noqa: PLR2004 — FastAPI's word for a body that it cannot read
            return _response(_invalid([_BODY_UNREADABLE]))
        kind = _HTTP_KINDS.get(error.status_code, Kind(error.status_code, "http", "Refused"))
        if error.status_code == 405:  # noqa: PLR2004
            return _response(_problem(kind, "see Allow"), {"Allow": _allowed_methods(request)})
        return _response(_problem(kind, _HTTP_DETAILS.get(error.status_code, error.detail)))

    install(app)
    app.add_exception_handler(RequestValidationError, refused)
    app.add_exception_handler(HTTPException, of_http)


_HTTP_DETAILS = {404: "no such route"}


class UnexpectedErrors:
    """The last resort: what nobody foresaw is logged whole and answered with a problem that tells nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            # The server gives up what still runs when it stops; who waits for an answer is told where to get it.
            if scope["type"] == "http" and not begun:
                await problem_response(ServiceStopping())(scope, receive, send)
            raise
        except Exception as error:
            if scope["type"] != "http" or begun:
                raise
            _log.exception("%s %s failed", scope["method"], scope["path"])
            await problem_response(error)(scope, receive, send)


def _problem(kind: Kind, detail: str, errors: list[FieldProblem] | None = None) -> Problem:
    return Problem(type=_TYPE_PREFIX + kind.slug, title=kind.title, status=kind.status, detail=detail, errors=errors)


def _invalid(fields: list[FieldProblem]) -> Problem:
    detail = "; ".join(f"{each.field}: {each.allowed}" for each in fields[:3])
    return _problem(KINDS[InvalidInput], detail, fields)


def _response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    body = problem.model_dump_json(exclude_none=True)
    return Response(body, problem.status, headers=headers, media_type=MEDIA_TYPE)


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
        return "no field of the request"
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
