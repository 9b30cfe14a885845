"""Answers to questions that name no persona, their events and the history of sessions, as the routes return them."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from wenmai.business.rules import BusinessRules
from wenmai.chat.queries import QueryAnswer
from wenmai.chat.turn import Replacement, Token, TurnEvent, TurnStarted, TurnUnderstood
from wenmai.config.queries import Queries
from wenmai.grounding.types import Citation, PolicyMode
from wenmai.http.views import view_of
from wenmai.memory.sessions import began_at
from wenmai.stores.records import Message, Operation, Role, Session
from wenmai.stores.structs import Stored

_NO_OPERATION = Operation(intent="", last_update=datetime.min)  # noqa: DTZ901 — never shown


class Interpretation(msgspec.Struct, frozen=True, kw_only=True):
    """How a question was understood, with the session's current operation."""

    rewritten_query: Annotated[str, Meta(description="The question as it was searched for.")]
    intent: Annotated[str, Meta(description="Intent of the current operation; before any, the dialogue act.")]
    active_domain: Annotated[list[str], Meta(description="Domains of the current operation.")]
    business_object: Annotated[str, Meta(description="Its object; may be empty.")]
    operation_stage: Annotated[str, Meta(description="Its stage; may be empty.")]


class ObjectStages(msgspec.Struct, frozen=True, kw_only=True):
    """A business object."""

    name: Annotated[str, Meta(description="The object.")]
    stages: Annotated[list[str], Meta(description="The stages that it goes through, in order.")]


class AssistantView(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers questions that name no persona, and what users are helped with."""

    persona_id: Annotated[str, Meta(description="The persona that answers.")] = msgspec.field(name="npc_id")
    roles: Annotated[list[str], Meta(description="The profile's roles.")]
    intents: Annotated[list[str], Meta(description="Intents of the business rules; empty without rules.")]
    objects: Annotated[list[ObjectStages], Meta(description="Their objects, with their stages.")]


class QueryView(Interpretation, frozen=True, kw_only=True):
    """The answer to a question."""

    success: Annotated[Literal[True], Meta(description="Always true.")] = True
    answer: Annotated[str, Meta(description="The whole answer.")]
    notice: Annotated[
        str, Meta(description="Says that the session of the request has ended and a new one began; normally empty.")
    ]
    session_id: Annotated[str, Meta(description="The session's id; another than that of the request after its end.")]
    turn_id: Annotated[int, Meta(description="The turn's number in the session, from 1.")]
    trace_id: Annotated[str, Meta(description="The id of the turn's trace.")]
    policy_mode: Annotated[
        PolicyMode,
        Meta(description="`normal`; `conservative` if the evidence is insufficient; `refuse` for a forbidden topic."),
    ]
    citations: Annotated[list[Citation], Meta(description="The passages that support the answer, best first.")]
    followup_questions: Annotated[list[str], Meta(description="Suggested follow-up questions.")]
    degraded: Annotated[list[str], Meta(description="Components that failed or were skipped; normally empty.")]


class QueryMetadata(Interpretation, frozen=True, kw_only=True):
    """How the question was understood; before the first chunk."""

    kind: ClassVar[str] = "metadata"


class Chunk(Token, frozen=True):
    """The next part of the answer."""

    kind: ClassVar[str] = "chunk"


class WholeChunk(msgspec.Struct, frozen=True):
    """The whole answer, instead of the chunks before it."""

    kind: ClassVar[str] = "chunk"

    text: str
    replace: Literal[True] = True


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the list."""

    session_id: Annotated[str, Meta(description="The session's id.")]
    user_id: Annotated[str, Meta(description="The user.")]
    title: Annotated[str, Meta(description="Your title, or one derived from the first question.")]
    first_question: Annotated[str, Meta(description="The first question.")]
    created_at: Annotated[datetime, Meta(description="Creation time.")]
    updated_at: Annotated[datetime, Meta(description="Last change.")]
    expires_at: Annotated[datetime, Meta(description="Extended by every question; afterwards a new session begins.")]


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """The user's sessions, newest first."""

    success: Annotated[Literal[True], Meta(description="Always true.")] = True
    sessions: Annotated[list[SessionRecord], Meta(description="The sessions of this page.")]
    next: Annotated[str | None, Meta(description="Cursor of the next page; null on the last page.")]


class HistoryMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A question or an answer."""

    turn_id: Annotated[int, Meta(description="The turn's number, from 1; the same for question and answer.")]
    role: Annotated[Role, Meta(description="The role of the author.")]
    content: Annotated[str, Meta(description="The text.")]
    timestamp: Annotated[datetime, Meta(description="Time of the message.")]
    completed: Annotated[bool, Meta(description="False for an incomplete answer: in progress or cancelled.")]


class ConversationHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The newest turns of a session, oldest first."""

    success: Annotated[Literal[True], Meta(description="Always true.")] = True
    session_id: Annotated[str, Meta(description="The session's id.")]
    title: Annotated[str, Meta(description="The session's title.")]
    history: Annotated[list[HistoryMessage], Meta(description="The messages of these turns, oldest first.")]


class QuickQuestions(msgspec.Struct, frozen=True, kw_only=True):
    """Questions to begin with."""

    success: Annotated[Literal[True], Meta(description="Always true.")] = True
    role: Annotated[str | None, Meta(description="The role of the request.")]
    roles: Annotated[list[str], Meta(description="The roles of the profile.")]
    questions: Annotated[list[str], Meta(description="The questions, all of which are answered.")]


def query_view(result: QueryAnswer) -> QueryView:
    """The answer to a question."""
    turn = result.turn
    return view_of(turn, QueryView, answer=turn.answer_text, notice=result.notice, **_interpretation(result.understood))


def query_event(event: TurnEvent) -> msgspec.Struct | None:
    """The event of a turn as this stream names it; None for one that it does not have."""
    match event:
        case TurnStarted():
            return event
        case TurnUnderstood():
            return QueryMetadata(**_interpretation(event))
        case Token():
            return Chunk(event.text)
        case Replacement():
            return WholeChunk(event.text)
        case _:
            return None


def session_record(stored: Stored[Session]) -> SessionRecord:
    """A session in the list."""
    times = {"created_at": began_at(stored), "updated_at": stored.updated_at}
    return view_of(stored.record, SessionRecord, user_id=stored.user_id, **times)


def history_view(session: Session, messages: list[Message]) -> ConversationHistory:
    """The newest turns of a session."""
    return ConversationHistory(
        session_id=session.session_id,
        title=session.title,
        history=[view_of(message, HistoryMessage) for message in messages],
    )


def _interpretation(event: TurnUnderstood) -> dict[str, Any]:
    operation = event.operation or _NO_OPERATION
    return {
        "rewritten_query": event.rewritten_query,
        "intent": operation.intent or event.intent,
        "active_domain": operation.active_domain,
        "business_object": operation.business_object,
        "operation_stage": operation.operation_stage,
    }


def assistant_view(queries: Queries, rules: BusinessRules | None) -> AssistantView:
    """What a page needs to show roles and operations; empty lists for what the profile does not have."""
    return AssistantView(
        persona_id=queries.persona,
        roles=[*queries.roles],
        intents=[*rules.intents] if rules else [],
        objects=[ObjectStages(name=name, stages=[*rules.stages_of(name)]) for name in rules.objects] if rules else [],
    )
