"""What handlers are handed: the engine and the application's own parts, kept on ``app.state``."""

from typing import Annotated

from fastapi import Depends, Request

from wenmai.engine import Engine
from wenmai.http.metrics import Metrics
from wenmai.http.running import RunningTurns


async def engine_of(request: Request) -> Engine:
    """The engine of the application."""
    engine: Engine = request.app.state.engine
    return engine


async def turns_of(request: Request) -> RunningTurns:
    """The turns that the application runs."""
    turns: RunningTurns = request.app.state.turns
    return turns


async def metrics_of(request: Request) -> Metrics:
    """The application's counters."""
    metrics: Metrics = request.app.state.metrics
    return metrics


TheEngine = Annotated[Engine, Depends(engine_of)]
TheTurns = Annotated[RunningTurns, Depends(turns_of)]
TheMetrics = Annotated[Metrics, Depends(metrics_of)]
