"""FastAPI dependencies: the engine and the application state kept on ``app.state``."""

from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from wenmai.engine import Engine
from wenmai.http.metrics import Metrics
from wenmai.http.turn_tasks import TurnTasks


class AppState(NamedTuple):
    """The engine, the running turns and the metrics of one application."""

    engine: Engine
    turns: TurnTasks
    metrics: Metrics


async def get_engine(request: Request) -> Engine:
    """The application's engine."""
    engine: Engine = request.app.state.engine
    return engine


async def get_app_state(request: Request) -> AppState:
    """The application state."""
    state = request.app.state
    return AppState(state.engine, state.turns, state.metrics)


EngineDep = Annotated[Engine, Depends(get_engine)]
AppStateDep = Annotated[AppState, Depends(get_app_state)]
