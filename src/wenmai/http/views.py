"""Views: stored records as the routes return them."""

from datetime import datetime
from typing import Any

import msgspec

from wenmai.engine import Engine
from wenmai.http.message_pages import session_page
from wenmai.memory.library import ASSISTANT
from wenmai.memory.preferences import SessionPreferences
from wenmai.scope import Scope
from wenmai.stores.contracts import Stored, ThreadInfo
from wenmai.stores.records import EvidenceRecord, Message, Session, TraceRecord

PERSONA_VARIABLE = "npc_id"
"""The session variable that names the default persona for messages without ``npc_id``."""


def session_view(scope: Scope, stored: Stored[Session]) -> dict[str, Any]:
    """A session."""
    session = stored.record
    return {
        "session_id": session.session_id,
        **scope._asdict(),
        "npc_id": default_persona(session),
        "title": session.title,
        "first_question": session.first_question,
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
        "expires_at": session.expires_at,
        "context": session.context,
        "metadata": session.metadata,
        "total_tokens_used": session.total_tokens_used,
        "total_cost_usd": session.total_cost_usd,
    }


def default_persona(session: Session) -> str:
    """The persona of messages without ``npc_id``."""
    persona: str = session.context.get(PERSONA_VARIABLE, ASSISTANT)
    return persona


def preference_view(preferences: SessionPreferences) -> dict[str, Any]:
    """Preferences and the time of their last change."""
    values = preferences.values
    return {
        "verbosity": values.verbosity,
        "tone": values.tone,
        "interest_tags": values.interest_tags,
        "language": values.language,
        "updated_at": preferences.updated_at,
    }


async def session_summary(
    engine: Engine, scope: Scope, session_id: str, npc_id: str | None, max_messages: int
) -> dict[str, Any]:
    """A session summary: one persona's thread, or all threads merged.

    Raises:
        SessionNotFound: absent, or of another scope.
    """
    stored = await engine.memory.sessions.get(scope, session_id)
    transcript = engine.memory.transcript
    session = stored.record
    threads = await transcript.threads(scope, session_id, incarnation=session.incarnation)
    if npc_id is None:
        recent, _ = await session_page(transcript, scope, session, max_messages, None)
    else:
        threads = [info for info in threads if info.npc_id == npc_id]
        recent = await transcript.latest(scope, session.thread(npc_id), max_messages)
    return {
        "session_id": session_id,
        "npc_id": npc_id,
        "title": stored.record.title,
        "message_count": sum(info.message_count for info in threads),
        "recent_messages": [_recent(message) for message in recent],
        "first_message_at": _first(threads),
        "last_message_at": max((info.last_at for info in threads), default=None),
        "preference": preference_view(await engine.memory.preferences.get(scope, session_id)),
    }


def trace_view(record: TraceRecord, user_id: str) -> dict[str, Any]:
    """A whole trace, without its storage references."""
    fields = msgspec.structs.asdict(record) | {"user_id": user_id}
    del fields["ref"], fields["incarnation"]
    return fields


def trace_summary(record: TraceRecord) -> dict[str, Any]:
    """A trace as listed."""
    return {
        "trace_id": record.trace_id,
        "session_id": record.session_id,
        "npc_id": record.npc_id,
        "turn_id": record.turn_id,
        "query": record.request_input.query,
        "intent": record.intent,
        "policy_mode": record.policy_mode,
        "policy_reason": record.policy_reason,
        "model": record.model,
        "latency_ms": record.latency_ms,
        "degraded": record.degraded,
        "started_at": record.started_at,
        "error": record.error,
        "replay_of": record.replay_of,
    }


def evidence_view(stored: Stored[EvidenceRecord]) -> dict[str, Any]:
    """A passage with its creation and update times."""
    times = {"created_at": stored.created_at, "updated_at": stored.updated_at}
    return msgspec.structs.asdict(stored.record) | times


def _recent(message: Message) -> dict[str, Any]:
    return {
        "turn_id": message.turn_id,
        "npc_id": message.npc_id,
        "role": message.role,
        "content": message.content,
        "timestamp": message.timestamp,
        "completed": message.completed,
    }


def _first(threads: list[ThreadInfo]) -> datetime | None:
    return min((info.first_at for info in threads), default=None)
