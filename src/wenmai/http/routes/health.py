"""Liveness, readiness and metrics, for load balancers and Prometheus; not scoped."""

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, UnsetType
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from wenmai.http.dependencies import AppStateDep, EngineDep
from wenmai.http.responses import Json, StructRoute
from wenmai.http.routing import resource_router
from wenmai.http.views import view_of
from wenmai.resilience.breaker import State

router: APIRouter = resource_router(tag="health", route_class=StructRoute)

RETRY_SECONDS = 5


class Liveness(msgspec.Struct, frozen=True, kw_only=True):
    """The process is alive."""

    status: Annotated[Literal["ok"], Meta(description="Always `ok`.")]


class StoreHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a store is reachable, and the error if not."""

    state: Annotated[Literal["ok", "down"], Meta(description="Whether the store is reachable.")]
    error: Annotated[str | UnsetType, Meta(description="The error if it is not reachable.")] = UNSET


class BreakerView(msgspec.Struct, frozen=True, kw_only=True):
    """State of a circuit breaker."""

    state: Annotated[State, Meta(description="`open`: calls are rejected.")]
    failures: Annotated[int, Meta(description="Consecutive failures.")]
    refused: Annotated[int, Meta(description="Calls rejected since the process started.")]


class DerivedLag(msgspec.Struct, frozen=True, kw_only=True):
    """Derived memory (titles, inferred preferences) that is behind; readiness does not depend on it."""

    threads: Annotated[
        int, Meta(description="Threads known to this process whose derived memory is behind their messages.")
    ]
    oldest_seconds: Annotated[float, Meta(description="For how long the oldest of them has been behind.")]


class EvidenceVectors(msgspec.Struct, frozen=True, kw_only=True):
    """How far the evidence of the sites that this process has served is embedded; readiness does not depend on it."""

    passages: Annotated[int, Meta(description="Indexed passages, which are found by words at once.")]
    embedded: Annotated[int, Meta(description="Of these, the passages that are found by meaning too.")]


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether requests can be served, and the state of each dependency."""

    status: Annotated[
        Literal["ok", "degraded", "down"], Meta(description="`degraded`: served without some optional dependencies.")
    ]
    stores: Annotated[dict[str, StoreHealth], Meta(description="Each store, by name.")]
    breakers: Annotated[
        dict[str, BreakerView], Meta(description="By the name of the guarded dependency, such as `model`.")
    ]
    degraded: Annotated[
        list[str], Meta(description="Dependencies that are not called at present, because their breaker is not closed.")
    ]
    derived: Annotated[DerivedLag, Meta(description="How far derived memory is behind.")]
    evidence: Annotated[
        EvidenceVectors | UnsetType, Meta(description="How far the evidence is embedded, with an embedder.")
    ] = UNSET


@router.get("/healthz", summary="Liveness")
async def healthz() -> Json[Liveness]:
    """200 as long as the process responds; does not check the store."""
    return Json(Liveness(status="ok"))


@router.get(
    "/readyz",
    summary="Readiness",
    responses={
        503: {
            "description": "The store is down",
            "content": {
                "application/json": {
                    "example": {
                        "status": "down",
                        "stores": {"sqlite": {"state": "down", "error": "disk I/O error"}},
                        "breakers": {"model": {"state": "closed", "failures": 0, "refused": 0}},
                        "degraded": [],
                        "derived": {"threads": 0, "oldest_seconds": 0.0},
                        "evidence": {"passages": 152, "embedded": 60},
                    }
                }
            },
        }
    },
)
async def readyz(engine: EngineDep) -> Json[Readiness]:
    """Pings the store; optional dependencies are reported by the state of their circuit breakers."""
    stores = msgspec.convert(await engine.ready(), dict[str, StoreHealth])
    statuses = [breaker.status for breaker in engine.breakers]
    degraded = sorted(each.name for each in statuses if each.state != "closed")
    down = any(store.state != "ok" for store in stores.values())
    readiness = Readiness(
        status="down" if down else "degraded" if degraded else "ok",
        stores=stores,
        breakers={each.name: view_of(each, BreakerView) for each in statuses},
        degraded=degraded,
        derived=view_of(engine.memory.derived.lag, DerivedLag),
        evidence=view_of(progress, EvidenceVectors) if (progress := engine.evidence.embedding_progress) else UNSET,
    )
    return Json(readiness, 503, {"Retry-After": str(RETRY_SECONDS)}) if down else Json(readiness)


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
    rendered = app_state.metrics.render(
        engine.breakers,
        engine.memory.usage.process_total,
        engine.memory.derived,
        engine.evidence.embedding_progress,
    )
    return Response(rendered, media_type=CONTENT_TYPE_LATEST)
