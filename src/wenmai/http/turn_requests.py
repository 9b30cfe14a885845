"""Turns over HTTP, answered as JSON or as server-sent events; cancelled if the client disconnects before the start."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wenmai.chat.turn import OnEvent, TurnBegan, TurnEvent, TurnRequest, TurnUnderstood
from wenmai.grounding.types import PolicyMode
from wenmai.http.dependencies import AppState
from wenmai.http.responses import Json
from wenmai.http.stream import EventQueue, EventStreamResponse
from wenmai.http.turn_tasks import ClientDisconnected, TurnTask

CLIENT_CLOSED_REQUEST = 499
"""Status recorded in the metrics when the client disconnected (as in nginx)."""


class Answer(Protocol):
    """An answer as a route returns it."""

    @property
    def policy_mode(self) -> PolicyMode:
        """Of the turn."""

    @property
    def degraded(self) -> list[str]:
        """The turn's degraded parts."""


A = TypeVar("A", bound=Answer)
A_co = TypeVar("A_co", bound=Answer, covariant=True)


class Ask(Protocol[A_co]):
    """Runs a turn, such as :meth:`wenmai.chat.pipeline.Chat.ask`."""

    def __call__(self, request: TurnRequest, *, on_event: OnEvent | None = None) -> Awaitable[A_co]:
        """Answer the question."""


def npc_event(event: TurnEvent) -> TurnEvent | None:
    """The event as the chat with personas shows it."""
    return None if isinstance(event, TurnUnderstood) else event


async def run_turn(app_state: AppState, request: TurnRequest, receive: Receive, ask: Ask[A]) -> Json[A] | Response:
    """Run a turn; the answer as JSON.

    Args:
        app_state: the application.
        request: the question.
        receive: of the connection.
        ask: runs the turn.

    Raises:
        Overloaded: too many turns are running or waiting.
        WenmaiError: the turn failed.
    """
    turn = _start_turn(app_state, request, ask, lambda _: None, None)
    try:
        return Json(await turn.cancel_on_disconnect(receive, turn.answer()))
    except ClientDisconnected:
        return Response(status_code=CLIENT_CLOSED_REQUEST)


async def stream_turn(
    app_state: AppState,
    request: TurnRequest,
    receive: Receive,
    ask: Ask[A],
    shown: Callable[[TurnEvent], msgspec.Struct | None] = npc_event,
) -> Response:
    """Run a turn; its events as a stream.

    Args:
        app_state: the application.
        request: the question.
        receive: of the connection.
        ask: runs the turn.
        shown: an event as this stream shows it, with its ``kind``; None leaves it out.

    Raises:
        Overloaded: too many turns are running or waiting.
        WenmaiError: the turn failed before its first event.
    """
    events = EventQueue[A]()
    turn = _start_turn(app_state, request, ask, shown, events)
    turn.task.add_done_callback(events.finish)
    try:
        await turn.cancel_on_disconnect(receive, events.first_event())
    except ClientDisconnected:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return _TurnStreamResponse(events, turn)


class _TurnStreamResponse(EventStreamResponse):
    """The events of a turn; the turn is cancelled if the client disconnects before it has started."""

    def __init__(self, events: EventQueue[A], turn: TurnTask[A]) -> None:
        super().__init__(events)
        self._turn = turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._turn.cancel_unless_started()


def _start_turn(
    app_state: AppState,
    request: TurnRequest,
    ask: Ask[A],
    shown: Callable[[TurnEvent], msgspec.Struct | None],
    events: EventQueue[A] | None,
) -> TurnTask[A]:
    async def run(turn: TurnTask[A]) -> A:
        async def on_event(event: TurnEvent) -> None:
            if isinstance(event, TurnBegan):
                turn.mark_started()
            elif events is not None and (view := shown(event)) is not None:
                await events.put(view)

        answer = await ask(request, on_event=on_event)
        app_state.metrics.turn(answer.policy_mode, answer.degraded)
        return answer

    # Without a session id the turn creates a session, so it waits for no other turn.
    return app_state.turns.start(
        run, (request.scope, request.session_id, request.persona_id) if request.session_id else None
    )
