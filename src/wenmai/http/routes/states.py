"""The business state of a session: read, advanced by a message, corrected, reset, and its audit."""

from typing import Annotated

from fastapi import APIRouter, Query

from wenmai.http.auditing import AuditorDep
from wenmai.http.dependencies import EngineDep
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.responses import Json
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import MAX_SAFE_INTEGER, SessionIdPath
from wenmai.http.schemas.states import StateBody, UnderstandBody
from wenmai.http.scope import CallerScope
from wenmai.http.views.states import StateChanges, StateView, UnderstoodView, state_view, understood_view
from wenmai.memory.history import default_persona
from wenmai.memory.state import MAX_CHANGES
from wenmai.memory.state_correction import StateCorrection

router: APIRouter = resource_router("/v1/sessions/{session_id}", tag="sessions", route_class=JsonRoute)

ChangesLimit = Annotated[int, Query(ge=1, le=MAX_CHANGES, description="Maximum number of changes.")]
BeforeVersion = Annotated[int | None, Query(ge=1, le=MAX_SAFE_INTEGER, description="Only changes before this version.")]


@router.get("/state", summary="Read the business state", responses=problems(404))
async def read_state(session_id: SessionIdPath, scope: CallerScope, engine: EngineDep) -> Json[StateView]:
    """The current customer and the operations; empty if nothing was recognized yet."""
    session = (await engine.memory.sessions.get(scope, session_id)).record
    return Json(state_view(await engine.memory.states.get(scope, session_id, incarnation=session.incarnation)))


@router.patch("/state", summary="Correct the business state", responses=problems(404, 409, 413))
async def correct_state(
    session_id: SessionIdPath, body: StateBody, scope: CallerScope, engine: EngineDep, auditor: AuditorDep
) -> Json[StateView]:
    """Set the customer, or what the current operation is about; the correction is in the audit."""
    session = (await engine.memory.sessions.get(scope, session_id)).record
    states = engine.memory.states
    before = await states.get(scope, session_id, incarnation=session.incarnation)
    correction = StateCorrection(**body.model_dump())
    state = await states.correct(scope, session_id, correction, incarnation=session.incarnation)
    if state.state_version != before.state_version:  # users could fill the log with corrections that change nothing
        await auditor.record("state_corrected", incarnation=session.incarnation, version=state.state_version)
    return Json(state_view(state))


@router.delete("/state", summary="Reset the business state", responses=problems(404))
async def reset_state(
    session_id: SessionIdPath, scope: CallerScope, engine: EngineDep, auditor: AuditorDep
) -> Json[StateView]:
    """Forget customer and operations. The audit stays until the session is deleted."""
    session = (await engine.memory.sessions.get(scope, session_id)).record
    states = engine.memory.states
    before = await states.get(scope, session_id, incarnation=session.incarnation)
    state = await states.reset(scope, session_id, incarnation=session.incarnation)
    if state.state_version != before.state_version:
        await auditor.record("state_reset", incarnation=session.incarnation, version=state.state_version)
    return Json(state_view(state))


@router.get("/state/changes", summary="List changes of the business state", responses=problems(404))
async def list_state_changes(
    session_id: SessionIdPath,
    scope: CallerScope,
    engine: EngineDep,
    limit: ChangesLimit = 50,
    before: BeforeVersion = None,
) -> Json[StateChanges]:
    """The newest changes, oldest first: each version with its turn, its rule and what the message said."""
    await engine.memory.sessions.get(scope, session_id)
    return Json(StateChanges(changes=await engine.memory.states.changes(scope, session_id, limit, before=before)))


@router.post("/understand", summary="Understand a message", responses=problems(404, 413))
async def understand(
    session_id: SessionIdPath, body: UnderstandBody, scope: CallerScope, engine: EngineDep
) -> Json[UnderstoodView]:
    """Recognize intent, domain, object, stage and customer by the profile's rules, and advance the business state.

    For applications with their own model; a persona's turn does it by itself.
    """
    session = (await engine.memory.sessions.get(scope, session_id)).record
    turn = "" if body.turn_id is None else f"{body.persona_id or default_persona(session)}#{body.turn_id}"
    update = await engine.memory.states.understand(
        scope, session_id, body.query, incarnation=session.incarnation, turn=turn
    )
    return Json(understood_view(body.query, update))
