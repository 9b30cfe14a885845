"""The application: the routers over one engine that is handed in."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib.metadata import version

from fastapi import FastAPI

from wenmai.engine import Engine, open_engine
from wenmai.http import evidence, health, npc, pages, personas, prompts, sessions, usage
from wenmai.http.callers import TrustedCallers
from wenmai.http.headers import HeadAsGet, PrivateAnswers
from wenmai.http.limits import UPLOAD_BYTES, BodyLimit
from wenmai.http.metrics import Measured, Metrics
from wenmai.http.openapi import DESCRIPTION, TAGS, describe
from wenmai.http.problems import UnexpectedErrors, add_problem_handlers
from wenmai.http.running import RunningTurns
from wenmai.settings import Settings

ROUTERS = (npc, personas, prompts, evidence, sessions, usage, health, pages)


def create_app(engine: Engine) -> FastAPI:
    """The service over an engine that the caller opened and closes.

    Requests work as soon as it is made; its lifespan only waits for running turns at the end, at most
    ``settings.shutdown_seconds``.
    """
    app = _build(engine.settings, lambda: nullcontext(engine))
    app.state.engine = engine
    return app


def serve_app(settings: Settings) -> FastAPI:
    """The service that opens an engine of its own when it starts and closes it when it has stopped."""
    return _build(settings, lambda: open_engine(settings))


def _build(settings: Settings, opened: Callable[[], AbstractAsyncContextManager[Engine]]) -> FastAPI:
    turns = RunningTurns(in_process=settings.max_turns, in_thread=settings.max_thread_turns)
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with opened() as engine:
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
        app.include_router(resource.router)
    add_problem_handlers(app)
    describe(app)
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, larger={evidence.FILES_PATH: UPLOAD_BYTES})
    app.add_middleware(TrustedCallers, allowed=settings.allowed_hosts)
    app.add_middleware(UnexpectedErrors)
    app.add_middleware(PrivateAnswers)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Measured, metrics=metrics)
    return app
