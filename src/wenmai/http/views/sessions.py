"""Sessions, their summaries and preferences as the routes return them."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from wenmai.http.views import view_of
from wenmai.memory.history import MessagePage, SessionOverview, default_persona
from wenmai.memory.preferences import FIELDS, SessionPreferences
from wenmai.memory.sessions import began_at
from wenmai.memory.summaries import ThreadSummary
from wenmai.scope import Scope
from wenmai.stores.records import Message, Role, Session
from wenmai.stores.structs import Stored, ThreadInfo
from wenmai.text.tokens import estimate_tokens


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A stored session."""

    session_id: Annotated[str, Meta(description="The session's id.")]
    tenant_id: Annotated[str, Meta(description="The tenant.")]
    site_id: Annotated[str, Meta(description="The tenant's site.")]
    user_id: Annotated[str, Meta(description="The user.")]
    persona_id: Annotated[str, Meta(description="The persona of messages without `npc_id`.")] = msgspec.field(
        name="npc_id"
    )
    title: Annotated[str, Meta(description="Your title, or one derived from the first question.")]
    first_question: Annotated[str, Meta(description="The first user message.")]
    created_at: Annotated[datetime, Meta(description="Creation time.")]
    updated_at: Annotated[datetime, Meta(description="Last change.")]
    expires_at: Annotated[datetime, Meta(description="Extended by activity; nothing can be appended after it.")]
    context: Annotated[dict[str, Any], Meta(description="Variables of the session, such as `npc_id`.")]
    metadata: Annotated[dict[str, Any], Meta(description="Your own data; private values in it are replaced.")]
    total_tokens_used: Annotated[int, Meta(description="Tokens of all model calls.")]
    total_cost_usd: Annotated[
        float, Meta(description="Cost of all model calls in US dollars, for models with a configured price.")
    ]


class SessionDetail(SessionView, frozen=True, kw_only=True):
    """A session with its threads, oldest first."""

    threads: Annotated[list[ThreadInfo], Meta(description="One thread per persona, oldest first.")]


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """The user's sessions, newest first; `next` is null on the last page."""

    sessions: Annotated[list[SessionView], Meta(description="The sessions of this page.")]
    next: Annotated[str | None, Meta(description="Cursor of the next page; null on the last page.")]


class MessagesView(MessagePage, frozen=True, kw_only=True):
    """A page of messages; with `html=true` also its answers as HTML."""

    html: Annotated[
        list[str | None] | UnsetType,
        Meta(
            description="With `html=true`: for each message its Markdown as safe HTML; null unless it is an answer, "
            "and for long ones."
        ),
    ] = UNSET


class Messages(msgspec.Struct, frozen=True, kw_only=True):
    """Stored messages."""

    messages: Annotated[list[Message], Meta(description="The messages, in request order.")]


class PreferenceView(msgspec.Struct, frozen=True, kw_only=True):
    """The user's preferences. `updated_at` is null while they are the defaults."""

    verbosity: Annotated[str, Meta(description="`brief`, `normal` or `detailed`.")]
    tone: Annotated[str, Meta(description="`casual`, `formal` or `respectful`.")]
    interest_tags: Annotated[list[str], Meta(description="The user's interests.")]
    language: Annotated[str, Meta(description="A BCP 47 tag, such as `zh` or `en`.")]
    sources: Annotated[
        dict[str, list[str]],
        Meta(
            description="For each inferred field, and each inferred tag as `interest_tags:…`, the turns that it was "
            "inferred from, as `npc_id#turn_id`; what you set is not listed."
        ),
    ]
    chosen: Annotated[
        list[str], Meta(description="Those of `verbosity`, `tone` and `language` that you set; they are not inferred.")
    ]
    updated_at: Annotated[datetime | None, Meta(description="Last change; null while they are the defaults.")]


class PreferenceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The stored preferences."""

    success: Annotated[Literal[True], Meta(description="Always true.")]
    preference: Annotated[PreferenceView, Meta(description="The user's preferences.")]


class RecentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message in a session summary."""

    turn_id: Annotated[int, Meta(description="The turn's number in its thread, from 1.")]
    persona_id: Annotated[str, Meta(description="The persona of its thread.")] = msgspec.field(name="npc_id")
    role: Annotated[Role, Meta(description="The role of the author.")]
    content: Annotated[str, Meta(description="The text.")]
    timestamp: Annotated[datetime, Meta(description="Time of the message.")]
    completed: Annotated[bool, Meta(description="False for an incomplete answer: in progress or cancelled.")]


class SummaryView(msgspec.Struct, frozen=True, kw_only=True):
    """A session, or one persona's thread; without `npc_id` the messages of all threads are merged by time."""

    session_id: Annotated[str, Meta(description="The session's id.")]
    persona_id: Annotated[str | None, Meta(description="The requested persona; null for all.")] = msgspec.field(
        name="npc_id"
    )
    title: Annotated[str, Meta(description="The session's title.")]
    message_count: Annotated[int, Meta(description="Number of messages.")]
    recent_messages: Annotated[list[RecentMessage], Meta(description="The newest messages, oldest first.")]
    first_message_at: Annotated[datetime | None, Meta(description="Time of the first message; null if there is none.")]
    last_message_at: Annotated[datetime | None, Meta(description="Time of the newest message; null if there is none.")]
    preference: Annotated[PreferenceView, Meta(description="The user's preferences.")]


class ThreadSummaryView(msgspec.Struct, frozen=True, kw_only=True):
    """The rolling summary of a thread; never a source of facts."""

    persona_id: Annotated[str, Meta(description="The persona of the thread.")] = msgspec.field(name="npc_id")
    text: Annotated[str, Meta(description="One point per line; empty if nothing may be summarised.")]
    tokens: Annotated[int, Meta(description="Estimated tokens of the text.")]
    version: Annotated[int, Meta(description="1, 2, 3 … with each update.")]
    covered_message_count: Annotated[int, Meta(description="It covers so many messages from the first one on.")]
    covered_through: Annotated[int, Meta(description="The last turn that it covers.")]
    created_at: Annotated[datetime, Meta(description="When this version was made.")]
    written_by: Annotated[Literal["rules", "model"], Meta(description="How it was written.")]
    degraded: Annotated[bool, Meta(description="A model should have written it and failed.")]


class SummaryList(msgspec.Struct, frozen=True, kw_only=True):
    """The summaries of a session."""

    summaries: Annotated[list[ThreadSummaryView], Meta(description="One per thread that has one.")]


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a deletion."""

    success: Annotated[Literal[True], Meta(description="Always true.")]
    session_id: Annotated[str, Meta(description="The session's id.")]


def session_view(scope: Scope, stored: Stored[Session]) -> SessionView:
    """A session."""
    return view_of(stored.record, SessionView, **_places(scope, stored))


def session_detail(scope: Scope, stored: Stored[Session], threads: list[ThreadInfo]) -> SessionDetail:
    """A session with its threads."""
    return view_of(stored.record, SessionDetail, **_places(scope, stored), threads=threads)


def preference_view(preferences: SessionPreferences) -> PreferenceView:
    """Preferences and the time of their last change."""
    chosen = [field for field in FIELDS if field in preferences.values.chosen]
    return view_of(preferences.values, PreferenceView, chosen=chosen, updated_at=preferences.updated_at)


def summary_view(overview: SessionOverview) -> SummaryView:
    """The overview of a session."""
    recent = [view_of(message, RecentMessage) for message in overview.recent_messages]
    return view_of(overview, SummaryView, recent_messages=recent, preference=preference_view(overview.preference))


def thread_summary_view(persona_id: str, summary: ThreadSummary) -> ThreadSummaryView:
    """The summary of a thread."""
    return view_of(summary, ThreadSummaryView, persona_id=persona_id, tokens=estimate_tokens(summary.text))


def _places(scope: Scope, stored: Stored[Session]) -> dict[str, Any]:
    """The fields of a session that its record does not have."""
    return {
        **scope._asdict(),
        "persona_id": default_persona(stored.record),
        "created_at": began_at(stored),
        "updated_at": stored.updated_at,
    }
