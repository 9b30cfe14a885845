"""Recall: the messages of the user's conversations that answer a question."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import Meta

from wenmai.http.dependencies import EngineDep
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.responses import Json
from wenmai.http.routing import resource_router
from wenmai.http.schemas.recall import RecallBody
from wenmai.http.scope import CallerScope
from wenmai.memory.recalled_items import RecalledItem, RecallQuery
from wenmai.resilience.degradation import collected_degradation

router: APIRouter = resource_router("/v1/recall", tag="sessions", route_class=JsonRoute)


class RecalledItems(msgspec.Struct, frozen=True, kw_only=True):
    """Recalled messages or turns."""

    items: Annotated[list[RecalledItem], Meta(description="The items, best first.")]
    degraded: Annotated[
        list[str], Meta(description="`embedder`, `reranker` or `decomposer`: failed, and was done without.")
    ] = []


@router.post("", summary="Recall messages", responses=problems(404, 413))
async def recall(body: RecallBody, scope: CallerScope, engine: EngineDep) -> Json[RecalledItems]:
    """The messages or turns of the user's sessions that answer the question, best first.

    A message is found by its words within seconds, and by its meaning when it is embedded. They are what was said, not
    evidence: no fact may be taken from them.
    """
    with collected_degradation() as degraded:
        items = await engine.memory.recalls.recall(scope, RecallQuery(**body.model_dump()))
    return Json(RecalledItems(items=items, degraded=list(degraded)))
