"""Liveness, readiness and metrics, for load balancers and Prometheus; not scoped."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from wenmai.http.dependencies import AppStateDep, EngineDep
from wenmai.http.responses import json_response
from wenmai.http.schemas.health import Liveness, Readiness

router = APIRouter(tags=["health"])

RETRY_SECONDS = 5


@router.get("/healthz", summary="Liveness", response_model=Liveness)
async def healthz() -> Response:
    """200 as long as the process responds; does not check the store."""
    return json_response({"status": "ok"})


@router.get(
    "/readyz",
    summary="Readiness",
    response_model=Readiness,
    responses={
        503: {
            "model": Readiness,
            "description": "The store is down",
            "content": {
                "application/json": {
                    "example": {
                        "status": "down",
                        "stores": {"sqlite": {"state": "down", "error": "disk I/O error"}},
                        "breakers": {"model": {"state": "closed", "failures": 0, "refused": 0}},
                        "degraded": [],
                        "derived": {"threads": 0, "oldest_seconds": 0.0},
                    }
                }
            },
        }
    },
)
async def readyz(engine: EngineDep) -> Response:
    """Pings the store; optional dependencies are reported by the state of their circuit breakers."""
    stores = await engine.ready()
    statuses = [breaker.status for breaker in engine.breakers]
    body = {
        "stores": stores,
        "breakers": {
            each.name: {"state": each.state, "failures": each.failures, "refused": each.refused} for each in statuses
        },
        "degraded": sorted(each.name for each in statuses if each.state != "closed"),
        "derived": engine.memory.derived.lag,
    }
    if any(store["state"] != "ok" for store in stores.values()):
        return json_response({"status": "down", **body}, 503, {"Retry-After": str(RETRY_SECONDS)})
    return json_response({"status": "degraded" if body["degraded"] else "ok", **body})


@router.get(
    "/metrics",
    summary="Metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus text format",
            "content": {"text/plain": {"schema": {"type": "string"}, "example": "wenmai_turns_total 3.0"}},
        }
    },
)
async def metrics(app_state: AppStateDep) -> Response:
    """Requests, latencies, turns and tokens since the process started, and the current breaker states."""
    engine = app_state.engine
    rendered = app_state.metrics.render(engine.breakers, engine.memory.usage.process_total, engine.memory.derived)
    return Response(rendered, media_type=CONTENT_TYPE_LATEST)
