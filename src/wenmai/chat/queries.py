"""Questions that name no persona: the profile says who answers, and the answer says how the question was understood."""

import msgspec

from wenmai.chat.pipeline import Chat
from wenmai.chat.roles import in_role
from wenmai.chat.turn import (
    OnEvent,
    Services,
    Token,
    TurnAnswer,
    TurnEvent,
    TurnRequest,
    TurnStarted,
    TurnUnderstood,
)
from wenmai.config.queries import Queries
from wenmai.config.texts import in_language
from wenmai.errors import TraceNotFound
from wenmai.scope import Scope
from wenmai.stores.records import StateTrace

QUICK_QUESTIONS = 6


class QueryAnswer(msgspec.Struct, frozen=True):
    """An answer, and how its question was understood.

    Attributes:
        notice: says that the session of the request could not be continued; empty if it was.
    """

    turn: TurnAnswer
    understood: TurnUnderstood
    notice: str


class QueryDesk:
    """Answers questions with the persona of the profile, and suggests some.

    Attributes:
        rules: of the profile: persona, default user, roles.
    """

    def __init__(self, chat: Chat, rules: Queries) -> None:
        self._chat = chat
        self._services: Services = chat.services_of(rules.persona)
        self.rules: Queries = rules

    async def ask(self, request: TurnRequest, *, on_event: OnEvent | None = None) -> QueryAnswer:
        """See :meth:`wenmai.chat.pipeline.Chat.ask`, which also gives the errors and the events.

        A :class:`~wenmai.chat.turn.TurnUnderstood` comes before the answer's first token, also if an answer is
        repeated under its Idempotency-Key.
        """
        understood: TurnUnderstood | None = None
        trace_id = ""

        async def watch(event: TurnEvent) -> None:
            nonlocal understood, trace_id
            if isinstance(event, TurnStarted):
                trace_id = event.trace_id
            elif isinstance(event, TurnUnderstood):
                understood = event
            elif isinstance(event, Token) and understood is None:
                understood = await self._of_trace(request.scope, trace_id)
                if on_event is not None:
                    await on_event(understood)
            if on_event is not None:
                await on_event(event)

        answer = await self._chat.ask(request, on_event=watch)
        understood = understood or await self._of_trace(request.scope, answer.trace_id)
        return QueryAnswer(answer, understood, self.notice(request, answer.session_id, understood.language))

    def notice(self, request: TurnRequest, session_id: str, language: str) -> str:
        """Says that the answer belongs to another session than the one asked for; else empty."""
        if request.session_id in (None, session_id):
            return ""
        text: str = in_language(self.rules.renewed, language)
        return text

    async def quick_questions(self, scope: Scope, role: str | None, language: str | None) -> list[str]:
        """Questions to begin with, of those that the persona answers users of that role from the evidence.

        Raises:
            InvalidInput: the profile has no such role.
            PersonaNotFound: the site has no such persona.
        """
        language = language or self._services.policy.default_language
        persona = await self._services.personas.active_persona(scope, self.rules.persona)
        persona = in_role(persona, role, self.rules.roles)
        offered = self.rules.roles[role].questions if role else self.rules.questions
        questions = in_language(offered, language) if offered else []
        return await self._services.suggestions.pick(scope, persona, language, questions, QUICK_QUESTIONS)

    async def _of_trace(self, scope: Scope, trace_id: str) -> TurnUnderstood:
        """How the question of an earlier turn was understood; nothing if its trace has expired."""
        language = self._services.policy.default_language
        try:
            trace = (await self._services.traces.get(scope, trace_id)).record
        except TraceNotFound:
            return TurnUnderstood(rewritten_query="", intent="", operation=None, language=language)
        business = trace.details.business
        return TurnUnderstood(
            rewritten_query=trace.request_input.rewritten_query,
            intent=trace.intent,
            operation=business.operation if isinstance(business, StateTrace) else None,
            language=language,
        )
