"""Feedback of the user on an answer, kept in its trace."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import Meta

from wenmai.http.dependencies import EngineDep
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.responses import Json
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import TraceIdPath
from wenmai.http.schemas.npc import FeedbackBody
from wenmai.http.scope import CallerScope
from wenmai.stores.records import Feedback

router: APIRouter = resource_router("/v1/traces/{trace_id}/feedback", tag="npc", route_class=JsonRoute)


class FeedbackView(msgspec.Struct, frozen=True, kw_only=True):
    """The feedback on an answer."""

    trace_id: Annotated[str, Meta(description="The trace's id.")]
    feedback: Annotated[Feedback | None, Meta(description="The feedback; null without any.")]


@router.put("", summary="Rate an answer", responses=problems(404, 409, 413))
async def set_feedback(
    trace_id: TraceIdPath, body: FeedbackBody, scope: CallerScope, engine: EngineDep
) -> Json[FeedbackView]:
    """Replaces earlier feedback on the answer; private values in the reason are replaced by placeholders."""
    feedback = await engine.traces.rate(scope, trace_id, body.rating, body.reason)
    return Json(FeedbackView(trace_id=trace_id, feedback=feedback))


@router.delete("", summary="Withdraw feedback", responses=problems(404, 409))
async def delete_feedback(trace_id: TraceIdPath, scope: CallerScope, engine: EngineDep) -> Json[FeedbackView]:
    """The answer has none afterwards, as if it had never been rated."""
    await engine.traces.rate(scope, trace_id, None)
    return Json(FeedbackView(trace_id=trace_id, feedback=None))
