"""A turn asked over HTTP: answered whole or as events, and given up if its client leaves before it has begun."""

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wenmai.chat.turn import TurnAnswer, TurnEvent, TurnRequest
from wenmai.http.parts import Parts
from wenmai.http.reply import reply
from wenmai.http.running import ClientLeft, Turn
from wenmai.http.stream import Events, EventStream

CLIENT_LEFT = 499
"""The status of a request whose client has left, for the metrics."""


async def ask(parts: Parts, request: TurnRequest, receive: Receive) -> Response:
    """The answer.

    Raises:
        Overloaded: too many turns run and wait.
        WenmaiError: the turn failed.
    """
    turn = _started(parts, request, None)
    try:
        return reply(await turn.while_client_stays(receive, turn.answer()))
    except ClientLeft:
        return Response(status_code=CLIENT_LEFT)


async def ask_streamed(parts: Parts, request: TurnRequest, receive: Receive) -> Response:
    """The turn's events.

    Raises:
        Overloaded: too many turns run and wait.
        WenmaiError: the turn failed before there was anything to send.
    """
    events = Events[TurnAnswer]()
    turn = _started(parts, request, events)
    turn.task.add_done_callback(events.end_with)
    try:
        await turn.while_client_stays(receive, events.opened())
    except ClientLeft:
        return Response(status_code=CLIENT_LEFT)
    return _TurnStream(events, turn)


class _TurnStream(EventStream):
    """The events of a turn, which is given up if the reader leaves before it has begun."""

    def __init__(self, events: Events[TurnAnswer], turn: Turn[TurnAnswer]) -> None:
        super().__init__(events)
        self._turn = turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._turn.give_up()


def _started(parts: Parts, request: TurnRequest, events: Events[TurnAnswer] | None) -> Turn[TurnAnswer]:
    async def run(turn: Turn[TurnAnswer]) -> TurnAnswer:
        async def heard(event: TurnEvent) -> None:
            if event.kind == "begin":
                turn.begin()
            elif events is not None:
                await events.put(event)

        answer = await parts.engine.chat.ask(request, on_event=heard)
        parts.metrics.turn(answer)
        return answer

    # Without a session the turn begins one, and waits for no other.
    return parts.turns.start(run, (request.scope, request.session_id, request.npc_id) if request.session_id else None)
