"""What handlers are handed: the engine and the application's own parts, kept on ``app.state``."""

from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from wenmai.engine import Engine
from wenmai.http.metrics import Metrics
from wenmai.http.running import RunningTurns


class Parts(NamedTuple):
    """The engine, the turns that run, and the counters of one application."""

    engine: Engine
    turns: RunningTurns
    metrics: Metrics


async def engine_of(request: Request) -> Engine:
    """The engine of the application."""
    engine: Engine = request.app.state.engine
    return engine


async def parts_of(request: Request) -> Parts:
    """All parts of the application."""
    state = request.app.state
    return Parts(state.engine, state.turns, state.metrics)


TheEngine = Annotated[Engine, Depends(engine_of)]
TheParts = Annotated[Parts, Depends(parts_of)]
