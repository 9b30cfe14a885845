"""Is it alive, is it ready, what has it done: for load balancers and Prometheus; no scope."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from wenmai.http.parts import TheEngine, TheParts
from wenmai.http.reply import reply
from wenmai.http.shapes.health import Alive, Ready

router = APIRouter(tags=["health"])

RETRY_SECONDS = 5


@router.get("/healthz", summary="Alive?", response_model=Alive)
async def healthz() -> Response:
    """Answers as long as the process does; asks no store."""
    return reply({"status": "ok"})


@router.get(
    "/readyz",
    summary="Ready?",
    response_model=Ready,
    responses={
        503: {
            "model": Ready,
            "description": "The store is down",
            "content": {
                "application/json": {
                    "example": {
                        "status": "down",
                        "stores": {"sqlite": {"state": "down", "error": "disk I/O error"}},
                        "breakers": {"model": {"state": "closed", "failures": 0, "refused": 0}},
                        "degraded": [],
                    }
                }
            },
        }
    },
)
async def readyz(engine: TheEngine) -> Response:
    """Asks the store whether it answers; what can be done without is not asked, its circuit breaker is."""
    stores = await engine.ready()
    statuses = [breaker.status for breaker in engine.breakers]
    parts = {
        "stores": stores,
        "breakers": {
            each.name: {"state": each.state, "failures": each.failures, "refused": each.refused} for each in statuses
        },
        "degraded": sorted(each.name for each in statuses if each.state != "closed"),
    }
    if any(store["state"] != "ok" for store in stores.values()):
        return reply({"status": "down", **parts}, 503, {"Retry-After": str(RETRY_SECONDS)})
    return reply({"status": "degraded" if parts["degraded"] else "ok", **parts})


@router.get(
    "/metrics",
    summary="Metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus's text format",
            "content": {"text/plain": {"schema": {"type": "string"}, "example": "wenmai_turns_total 3.0"}},
        }
    },
)
async def figures(parts: TheParts) -> Response:
    """Requests, latencies, turns and tokens since the process started, and the breakers as they stand."""
    return Response(
        parts.metrics.text(parts.engine.breakers, parts.engine.memory.usage.spent), media_type=CONTENT_TYPE_LATEST
    )
