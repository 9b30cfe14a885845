"""Turns over HTTP, answered as JSON or as server-sent events; cancelled if the client disconnects before the start."""

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wenmai.chat.turn import TurnAnswer, TurnBegan, TurnEvent, TurnRequest
from wenmai.http.dependencies import AppState
from wenmai.http.responses import Json
from wenmai.http.stream import EventQueue, EventStreamResponse
from wenmai.http.turn_tasks import ClientDisconnected, TurnTask

CLIENT_CLOSED_REQUEST = 499
"""Status recorded in the metrics when the client disconnected (as in nginx)."""


async def run_turn(app_state: AppState, request: TurnRequest, receive: Receive) -> Json[TurnAnswer] | Response:
    """Run a turn; the answer as JSON.

    Raises:
        Overloaded: too many turns are running or waiting.
        WenmaiError: the turn failed.
    """
    turn = _start_turn(app_state, request, None)
    try:
        return Json(await turn.cancel_on_disconnect(receive, turn.answer()))
    except ClientDisconnected:
        return Response(status_code=CLIENT_CLOSED_REQUEST)


async def stream_turn(app_state: AppState, request: TurnRequest, receive: Receive) -> Response:
    """Run a turn; its events as a stream.

    Raises:
        Overloaded: too many turns are running or waiting.
        WenmaiError: the turn failed before its first event.
    """
    events = EventQueue[TurnAnswer]()
    turn = _start_turn(app_state, request, events)
    turn.task.add_done_callback(events.finish)
    try:
        await turn.cancel_on_disconnect(receive, events.first_event())
    except ClientDisconnected:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return _TurnStreamResponse(events, turn)


class _TurnStreamResponse(EventStreamResponse):
    """The events of a turn; the turn is cancelled if the client disconnects before it has started."""

    def __init__(self, events: EventQueue[TurnAnswer], turn: TurnTask[TurnAnswer]) -> None:
        super().__init__(events)
        self._turn = turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._turn.cancel_unless_started()


def _start_turn(
    app_state: AppState, request: TurnRequest, events: EventQueue[TurnAnswer] | None
) -> TurnTask[TurnAnswer]:
    async def run(turn: TurnTask[TurnAnswer]) -> TurnAnswer:
        async def on_event(event: TurnEvent) -> None:
            if isinstance(event, TurnBegan):
                turn.mark_started()
            elif events is not None:
                await events.put(event)

        answer = await app_state.engine.chat.ask(request, on_event=on_event)
        app_state.metrics.turn(answer)
        return answer

    # Without a session id the turn creates a session, so it waits for no other turn.
    return app_state.turns.start(
        run, (request.scope, request.session_id, request.persona_id) if request.session_id else None
    )
