"""What the users of a site ask about."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from msgspec import Meta

from wenmai.http.dependencies import EngineDep
from wenmai.http.openapi import problems
from wenmai.http.responses import Json, StructRoute
from wenmai.http.routes.threads import SinceQuery
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import CursorQuery, PersonaIdQuery
from wenmai.http.scope import ScopeHeadersDep
from wenmai.memory.topics import cited_passages

MOST_TOPICS = 200
"""Topics of a page, those with most answers."""

router: APIRouter = resource_router("/v1/topics", tag="threads", route_class=StructRoute)

SessionsLimit = Annotated[int, Query(ge=1, le=100, description="Maximum number of sessions to examine.")]


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that answers cited."""

    evidence_id: Annotated[str, Meta(description="The passage's id.")]
    title: Annotated[str, Meta(description="Its title.")]
    answers: Annotated[int, Meta(description="How many answers cited it.")]


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    """Topics of the threads that were examined, the one with most answers first."""

    topics: Annotated[list[Topic], Meta(description="At most 200 topics.")]
    threads: Annotated[int, Meta(description="How many threads were examined.")]
    next: Annotated[str | None, Meta(description="Cursor of the next page; null on the last page.")]


@router.get("", summary="List topics", responses=problems(404))
async def list_topics(
    headers: ScopeHeadersDep,
    engine: EngineDep,
    persona_id: PersonaIdQuery = None,
    since: SinceQuery = None,
    limit: SessionsLimit = 50,
    cursor: CursorQuery = None,
) -> Json[TopicPage]:
    """The passages that the newest 40 messages of each thread cited: those that still exist, never a user's words.

    Like the list of threads, a page examines at most `limit` sessions of the store; add up the pages.
    """
    scope, memory = headers.scope(), engine.memory
    only = headers.user_id or (headers.principal.user_id if headers.principal else "")
    page = {"user_id": only, "persona_id": persona_id, "since": since, "limit": limit, "cursor": cursor}
    cited = await cited_passages(memory.threads, memory.transcript, scope, **page)
    most = cited.answers.most_common(MOST_TOPICS)
    passages = await engine.evidence.passages(scope, [evidence_id for evidence_id, _ in most])
    # Whoever imports messages may have written anything as an id.
    topics = [
        Topic(evidence_id=evidence_id, title=passages[evidence_id].title, answers=answers)
        for evidence_id, answers in most
        if evidence_id in passages
    ]
    return Json(TopicPage(topics=topics, threads=cited.threads, next=cited.next_cursor))
