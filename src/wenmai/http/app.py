"""The FastAPI application: routers and middleware over one engine."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib.metadata import version

from fastapi import FastAPI

from wenmai.config.settings import Settings
from wenmai.engine import Engine, open_engine
from wenmai.http.headers import HeadAsGet, PrivateResponses
from wenmai.http.limits import MAX_UPLOAD_BYTES, BodyLimit
from wenmai.http.metrics import Metrics, RequestMetrics
from wenmai.http.openapi import DESCRIPTION, TAGS, describe
from wenmai.http.origin_checks import HostAndOriginCheck
from wenmai.http.problems import UnexpectedErrors, add_problem_handlers
from wenmai.http.routes import (
    audit,
    evidence,
    feedback,
    health,
    keys,
    npc,
    personas,
    prompts,
    queries,
    recall,
    sessions,
    states,
    threads,
    topics,
    usage,
    users,
)
from wenmai.http.routing import add_routes
from wenmai.http.turn_tasks import TurnTasks

ROUTERS = (
    npc,
    feedback,
    queries,
    personas,
    prompts,
    evidence,
    sessions,
    states,
    recall,
    usage,
    users,
    threads,
    topics,
    keys,
    audit,
    health,
)


def create_app(engine: Engine) -> FastAPI:
    """The application over an engine that the caller opens and closes.

    It serves requests at once; its lifespan only waits for running turns at shutdown, at most
    ``settings.shutdown_seconds``.
    """
    app = _build(engine.settings, lambda: nullcontext(engine))
    app.state.engine = engine
    return app


def serve_app(settings: Settings) -> FastAPI:
    """The application that opens its own engine in its lifespan and closes it at shutdown."""
    return _build(settings, lambda: open_engine(settings))


def _build(settings: Settings, open_: Callable[[], AbstractAsyncContextManager[Engine]]) -> FastAPI:
    turns = TurnTasks(max_total=settings.max_turns, max_per_thread=settings.max_thread_turns)
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_() as engine:
            app.state.engine = engine
            yield
            await turns.drain(settings.shutdown_seconds)

    app = FastAPI(
        title="Wenmai 文脉",
        version=version("wenmai"),
        description=DESCRIPTION,
        openapi_tags=TAGS,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.state.turns = turns
    app.state.metrics = metrics
    for resource in ROUTERS:
        add_routes(app, resource.router)
    if settings.pages:
        from wenmai.http.routes import pages  # noqa: PLC0415 — whoever serves the API alone does not load it

        add_routes(app, pages.router)
    add_problem_handlers(app)
    describe(app, [resource.router for resource in ROUTERS])
    # The middleware added last is the outermost.
    app.add_middleware(BodyLimit, larger={evidence.FILES_PATH: MAX_UPLOAD_BYTES})
    app.add_middleware(HostAndOriginCheck, allowed=settings.allowed_hosts)
    app.add_middleware(UnexpectedErrors)
    app.add_middleware(PrivateResponses)
    app.add_middleware(HeadAsGet)
    app.add_middleware(RequestMetrics, metrics=metrics)
    return app
