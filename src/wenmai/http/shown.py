"""Stored records as the routes show them."""

from datetime import datetime
from typing import Any

import msgspec

from wenmai.engine import Engine
from wenmai.http.merging import page_of_session
from wenmai.memory.manager import ASSISTANT
from wenmai.memory.preferences import SessionPreferences
from wenmai.scope import Scope
from wenmai.stores.base import Stored, ThreadInfo
from wenmai.stores.records import EvidenceRecord, Message, Session, TraceRecord

PERSONA_VARIABLE = "npc_id"
"""The variable in a session's context that names the persona of messages without one."""


def session_shown(scope: Scope, stored: Stored[Session]) -> dict[str, Any]:
    """A session's record."""
    session = stored.record
    return {
        "session_id": session.session_id,
        **scope._asdict(),
        "npc_id": persona_of(session),
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


def persona_of(session: Session) -> str:
    """Whose thread the session's messages go to if they do not say."""
    persona: str = session.context.get(PERSONA_VARIABLE, ASSISTANT)
    return persona


def preference_shown(preferences: SessionPreferences) -> dict[str, Any]:
    """Preferences with the moment of their last change."""
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
    """A session as its visitor sees it: one persona's thread, or all of them merged.

    Raises:
        SessionNotFound: absent or foreign.
    """
    stored = await engine.memory.sessions.get(scope, session_id)
    transcript = engine.memory.transcript
    session = stored.record
    threads = await transcript.threads(scope, session_id, incarnation=session.incarnation)
    if npc_id is None:
        recent, _ = await page_of_session(transcript, scope, session, max_messages, None)
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
        "preference": preference_shown(await engine.memory.preferences.get(scope, session_id)),
    }


def trace_shown(record: TraceRecord, user_id: str) -> dict[str, Any]:
    """A whole trace, without what names it in the store."""
    fields = msgspec.structs.asdict(record) | {"user_id": user_id}
    del fields["ref"], fields["incarnation"]
    return fields


def trace_line(record: TraceRecord) -> dict[str, Any]:
    """A trace in a list."""
    return {
        "trace_id": record.trace_id,
        "session_id": record.session_id,
        "npc_id": record.npc_id,
        "turn_id": record.turn_id,
        "query": record.request_input.get("query", ""),
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


def evidence_shown(stored: Stored[EvidenceRecord]) -> dict[str, Any]:
    """A passage with the moments at which it came and changed."""
    moments = {"created_at": stored.created_at, "updated_at": stored.updated_at}
    return msgspec.structs.asdict(stored.record) | moments


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
