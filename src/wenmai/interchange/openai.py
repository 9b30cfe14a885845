"""Chats in OpenAI's format: ``{"messages": [{"role", "content", …}]}``, one per file or line."""

from collections.abc import Iterator, Sequence
from typing import Any

from wenmai.errors import bounded_repr
from wenmai.interchange.items import (
    BadValueError,
    Item,
    Json,
    MessageItem,
    SessionItem,
    Source,
    digest,
    valid_id,
)
from wenmai.interchange.messages import new_message
from wenmai.memory.chat_messages import to_message_fields
from wenmai.memory.sessions import title_from_question
from wenmai.scope import ThreadKey

_FIELDS = ("role", "content", "id", "name", "tool_calls", "tool_call_id", "metadata")
_MOMENTS = ("timestamp", "created_at", "create_time", "created")
_IDS = ("id", "conversation_id")


def is_conversation(value: Json) -> bool:
    """Whether the object is a chat."""
    return isinstance(value.get("messages"), list)


def as_conversation(values: Sequence[Any]) -> Json | None:
    """A bare list of messages as a chat; None if it is a list of something else."""
    bare = bool(values) and all(
        isinstance(each, dict) and "role" in each and "session_id" not in each for each in values
    )
    return {"messages": list(values)} if bare else None


def read_conversation(source: Source, value: Json, line: int) -> Iterator[Item]:
    """The chat as a session; its id is its own, or derived from the file's name and the first messages.

    Raises:
        BadValueError: it is not a chat, or its id is not a valid session id.
    """
    messages = value.get("messages")
    if not isinstance(messages, list):
        raise BadValueError("messages: a list of messages is missing")
    given_id = next((value[key] for key in _IDS if value.get(key) is not None), None)
    session_id = _derived_id(source, messages) if given_id is None else valid_id("id", given_id)
    title = value.get("title")
    fields: Json = {
        "metadata": {"source": source.name}
        | {key: kept for key, kept in value.items() if key not in (*_IDS, "messages", "title")}
    }
    if isinstance(title, str) and title.strip():
        fields |= {"title": title_from_question(title), "title_by": "user"}
    yield SessionItem(session_id, fields, line)
    thread = ThreadKey(session_id, source.persona_id)
    for index, message in enumerate(messages):
        where = f"messages[{index}]: "
        try:
            converted = new_message(_to_fields(message))
        except BadValueError as problem:
            yield source.bad(line, f"{where}{problem}")
            continue
        yield MessageItem(thread, source.with_id(thread, converted), line, where)


def _derived_id(source: Source, messages: Sequence[Any]) -> str:
    """Does not change when the chat grows; chats of a file with the same beginning are distinguished by order."""
    opening = next(
        (at for at, message in enumerate(messages) if isinstance(message, dict) and message.get("role") == "user"),
        0,
    )
    begun = digest(messages[: opening + 1])[:12]
    again = source.count_occurrence("conversation", begun)
    return f"{source.slug}-{begun}" if again == 1 else f"{source.slug}-{begun}-{again}"


def _to_fields(message: object) -> Json:
    if not isinstance(message, dict):
        raise BadValueError(f"{bounded_repr(message)} is not a message")
    extra = dict(message)
    timestamps = [extra.pop(key, None) for key in _MOMENTS]
    given = {key: extra.pop(key, None) for key in _FIELDS}
    if not isinstance(given["metadata"] or {}, dict):
        raise BadValueError("metadata: not a JSON object")
    timestamp = next((moment for moment in timestamps if moment is not None), None)
    return to_message_fields(given | {"timestamp": timestamp}, extra)
