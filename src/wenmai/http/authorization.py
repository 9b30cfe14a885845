"""Which right each route needs, and the check of who sends a request."""

import math
from collections.abc import Mapping

from fastapi import Request

from wenmai.auth.principal import Principal, Right
from wenmai.auth.rate_limit import RateLimit
from wenmai.auth.rates import Rate
from wenmai.engine import Engine
from wenmai.errors import Forbidden, RateLimited, Unauthenticated

PUBLIC = frozenset({"healthz", "readyz", "start", "console", "static", "docs", "asset"})
"""Routes that need no key: they say nothing of what is stored."""

RIGHT_OF: Mapping[str, Right] = {
    **dict.fromkeys(("chat", "replay_trace", "set_feedback", "delete_feedback", "query", "query_stream"), "chat"),
    **dict.fromkeys(
        (
            *("read_conversation", "list_traces", "read_trace", "list_models", "recall"),
            *("list_sessions", "read_session", "list_messages", "build_context", "export_session", "export_user"),
            *("session_list", "conversation_history", "quick_questions", "assistant"),
            *("read_state", "list_state_changes", "list_summaries"),
            *("search", "list_evidence", "read_evidence"),
            *("list_personas", "read_persona"),
        ),
        "read",
    ),
    **dict.fromkeys(
        (
            *("delete_conversation", "set_preference", "session_delete"),
            *("create_session", "rename_session", "delete_session", "append_messages"),
            *("correct_state", "reset_state", "understand"),
        ),
        "write",
    ),
    **dict.fromkeys(
        (
            *("ingest", "ingest_file", "delete_source", "delete_evidence"),
            *("create_persona", "list_persona_versions", "read_persona_version"),
            *("activate_persona", "delete_persona_version"),
            *("create_prompt", "list_prompts", "read_prompt", "list_prompt_versions", "read_prompt_version"),
            *("activate_prompt", "delete_prompt_version"),
            *("usage", "metrics", "audit", "audit_status", "list_keys", "list_threads", "list_topics"),
        ),
        "admin",
    ),
    "erase_user": "erase",
}
"""Name of a route → the right that it needs; a route that is not listed is refused."""

_SCHEME = "bearer "


async def authorize(request: Request) -> None:
    """Check that the request's API key or token has the right that the route needs, unless ``auth`` is ``none``.

    Raises:
        Unauthenticated: there is no valid key or token, or there are several.
        RateLimited: the requests of the key or the token's user exceed the rate.
        Forbidden: it lacks the right.
        StoreUnavailable: the key cannot be checked.
        SigningKeysUnavailable: the token cannot be checked.
    """
    name = request.scope["route"].name
    engine: Engine = request.app.state.engine
    if name in PUBLIC or engine.settings.auth == "none":
        return
    given = request.headers.getlist("Authorization")
    if len(given) != 1 or not given[0].lower().startswith(_SCHEME):
        raise Unauthenticated
    principal = await engine.authentication.principal(given[0][len(_SCHEME) :].strip())
    if engine.rate_limit is not None:
        rate = engine.rate_limit.rate_of(principal)
        if rate is not None:
            await _take(request, engine.rate_limit, principal, rate)
    if name not in RIGHT_OF:
        raise Forbidden(name)
    principal.require(RIGHT_OF[name])
    request.state.principal = principal


async def _take(request: Request, limit: RateLimit, principal: Principal, rate: Rate) -> None:
    """Count the request; what is left goes into the headers of the response."""
    allowed, allowance = await limit.take(principal, rate)
    requests, seconds = rate
    wait = f";t={math.ceil(allowance.wait_seconds)}" if allowance.wait_seconds else ""
    request.state.rate_limit = {
        "RateLimit-Policy": f'"default";q={requests};w={seconds:.0f}',
        "RateLimit": f'"default";r={allowance.left}{wait}',
    }
    if not allowed:
        raise RateLimited(requests, seconds, allowance.wait_seconds)


def principal_of(request: Request) -> Principal | None:
    """For whom the request speaks; None without authentication."""
    principal: Principal | None = getattr(request.state, "principal", None)
    return principal
