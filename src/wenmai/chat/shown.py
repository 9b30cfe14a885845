"""What a listener was shown of an answer, and what makes it the answer that is given."""

from wenmai.chat.turn import OnEvent, TurnAnswer, TurnEvent
from wenmai.text.cjk import sentence_end


class Shown:
    """Passes events on, and knows what text their reader has put together.

    A reader joins the texts of ``token`` events, and begins again with that of a ``replace``.
    """

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._started = False
        self._tokens: list[str] = []

    async def hear(self, event: TurnEvent) -> None:
        """Pass an event on."""
        self._started = self._started or event.kind == "start"
        if event.kind == "token":
            self._tokens.append(event.data["text"])
        await self._on_event(event)

    async def settle(self, answer: TurnAnswer) -> None:
        """Make what is shown equal the answer: by its rest as tokens, by the whole of it if it has become another.

        Of an answer that was given before, under the same Idempotency-Key, all is shown now.
        """
        if not self._started:
            place = {"session_id": answer.session_id, "turn_id": answer.turn_id, "npc_id": answer.npc_id}
            await self.hear(TurnEvent("start", {"trace_id": answer.trace_id, **place}))
        text, shown = answer.answer_text, "".join(self._tokens)
        if not text.startswith(shown):
            await self._on_event(TurnEvent("replace", {"text": text}))
            return
        start = len(shown)
        while start < len(text):
            found = sentence_end(text, start, start)
            end = found[1] if found else len(text)
            await self._on_event(TurnEvent("token", {"text": text[start:end]}))
            start = end
