"""Tracks the streamed text of an answer, and completes or replaces it at the end."""

from wenmai.chat.turn import OnEvent, Replacement, Token, TurnAnswer, TurnEvent, TurnStarted
from wenmai.text.cjk import sentence_end


class StreamedAnswer:
    """Forwards events, and tracks the text that the client has received.

    A client joins the texts of ``token`` events, and starts over with the text of a ``replace``.
    """

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._started = False
        self._tokens: list[str] = []

    async def forward(self, event: TurnEvent) -> None:
        """Forward an event."""
        self._started = self._started or isinstance(event, TurnStarted)
        if isinstance(event, Token):
            self._tokens.append(event.text)
        await self._on_event(event)

    async def complete(self, answer: TurnAnswer) -> None:
        """Stream the rest of the answer as tokens, or a ``replace`` if the streamed text is not its beginning.

        An answer repeated under the same Idempotency-Key is streamed as a whole.
        """
        if not self._started:
            await self.forward(TurnStarted(answer.trace_id, answer.session_id, answer.turn_id, answer.persona_id))
        text, streamed = answer.answer_text, "".join(self._tokens)
        if not text.startswith(streamed):
            await self._on_event(Replacement(text))
            return
        start = len(streamed)
        while start < len(text):
            found = sentence_end(text, start, start)
            end = found[1] if found else len(text)
            await self._on_event(Token(text[start:end]))
            start = end
