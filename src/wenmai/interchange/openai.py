"""Chats as OpenAI's API takes them: ``{"messages": [{"role", "content", …}]}``, a file or a line each."""

from collections.abc import Iterator, Sequence
from typing import Any

from wenmai.errors import shown
from wenmai.interchange.items import (
    BadValueError,
    Item,
    Json,
    MessageItem,
    SessionItem,
    Source,
    digest,
    usable_id,
)
from wenmai.interchange.messages import new_message
from wenmai.memory.chat_messages import in_our_fields
from wenmai.memory.sessions import title_from_question
from wenmai.scope import ThreadKey

_FIELDS = ("role", "content", "id", "name", "tool_calls", "tool_call_id", "metadata")
_MOMENTS = ("timestamp", "created_at", "create_time", "created")
_IDS = ("id", "conversation_id")


def is_conversation(value: Json) -> bool:
    """Whether the object is a chat."""
    return isinstance(value.get("messages"), list)


def as_conversation(values: Sequence[Any]) -> Json | None:
    """A bare list of messages as the chat that it is; None if it is a list of something else."""
    bare = bool(values) and all(
        isinstance(each, dict) and "role" in each and "session_id" not in each for each in values
    )
    return {"messages": list(values)} if bare else None


def read_conversation(source: Source, value: Json, line: int) -> Iterator[Item]:
    """The chat as a session: its id its own, or made of the file's name and what was said first.

    Raises:
        BadValueError: it is no chat, or its id cannot name a session.
    """
    messages = value.get("messages")
    if not isinstance(messages, list):
        raise BadValueError("messages: a list of messages is missing")
    given_id = next((value[key] for key in _IDS if value.get(key) is not None), None)
    session_id = _made_id(source, messages) if given_id is None else usable_id("id", given_id)
    title = value.get("title")
    fields: Json = {
        "metadata": {"source": source.name}
        | {key: kept for key, kept in value.items() if key not in (*_IDS, "messages", "title")}
    }
    if isinstance(title, str) and title.strip():
        fields |= {"title": title_from_question(title), "title_by": "user"}
    yield SessionItem(session_id, fields, line)
    thread = ThreadKey(session_id, source.npc_id)
    for index, message in enumerate(messages):
        where = f"messages[{index}]: "
        try:
            converted = new_message(_ours(message))
        except BadValueError as problem:
            yield source.bad(line, f"{where}{problem}")
            continue
        yield MessageItem(thread, source.named(thread, converted), line, where)


def _made_id(source: Source, messages: Sequence[Any]) -> str:
    """It stays when the chat goes on; chats of a file that begin alike are told apart by their order."""
    opening = next(
        (at for at, message in enumerate(messages) if isinstance(message, dict) and message.get("role") == "user"),
        0,
    )
    begun = digest(messages[: opening + 1])[:12]
    again = source.repeat_of("conversation", begun)
    return f"{source.slug}-{begun}" if again == 1 else f"{source.slug}-{begun}-{again}"


def _ours(message: object) -> Json:
    if not isinstance(message, dict):
        raise BadValueError(f"{shown(message)} is not a message")
    besides = dict(message)
    timestamps = [besides.pop(key, None) for key in _MOMENTS]
    given = {key: besides.pop(key, None) for key in _FIELDS}
    if not isinstance(given["metadata"] or {}, dict):
        raise BadValueError("metadata: not a JSON object")
    timestamp = next((moment for moment in timestamps if moment is not None), None)
    return in_our_fields(given | {"timestamp": timestamp}, besides)
