"""Conversation files of the LoCoMo benchmark: two speakers, many dated sessions (Maharana et al., ACL 2024).

``speaker_a``, ``speaker_b``, and for each K ``session_K``, a list of turns, with ``session_K_date_time``.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from wenmai.errors import shown
from wenmai.interchange.items import (
    BadValueError,
    Item,
    Json,
    MessageItem,
    Note,
    SessionItem,
    Source,
    usable_id,
)
from wenmai.interchange.messages import new_message
from wenmai.memory.sessions import TITLE_LIMIT
from wenmai.scope import ThreadKey

_SESSION = re.compile(r"session_(\d{1,6})(?:_date_time)?")
_MOMENT_FORMAT, _EXAMPLE = "%I:%M %p on %d %B, %Y", "1:56 pm on 8 May, 2023"
_NAMED_SESSIONS = 100
BETWEEN_MESSAGES = timedelta(seconds=1)
"""The files date sessions only; a message is so much later than the one before it."""


def is_locomo(value: Json) -> bool:
    """Whether the object is such a conversation, or a sample of the benchmark that holds one."""
    inner = value.get("conversation", value)
    return isinstance(inner, dict) and "speaker_a" in inner


def read_locomo(source: Source, value: Json, line: int) -> Iterator[Item]:
    """Each session with turns as one of ours, ``<file>-session_K``, in the order of their numbers.

    ``dia_id`` is the message's id; speaker_a is the user, speaker_b the assistant, and ``name`` says who.

    Raises:
        BadValueError: the speakers are not named.
    """
    conversation = value.get("conversation", value)
    speakers = {"user": conversation.get("speaker_a"), "assistant": conversation.get("speaker_b")}
    if not all(isinstance(name, str) and name for name in speakers.values()):
        raise BadValueError("speaker_a and speaker_b must name the speakers")
    roles = {name: role for role, name in speakers.items()}
    begin = usable_id("sample_id", value.get("sample_id") or source.slug)
    keys = _sessions(conversation)
    if empty := [key for key in keys if not conversation.get(key)]:
        named = ", ".join(empty[:_NAMED_SESSIONS]) + (", …" if len(empty) > _NAMED_SESSIONS else "")
        yield Note(f"{source.name}: dates without turns, left out: {named}")
    for key in keys:
        turns, dated = conversation.get(key), conversation.get(f"{key}_date_time")
        if not turns:
            continue
        began = _moment(dated)
        if began is None or not isinstance(turns, list):
            reason = "not a list of turns" if began else f"{key}_date_time {shown(dated)} is no {_EXAMPLE}"
            yield source.bad(line, f"{key}: {reason}; the session is left out")
            continue
        thread = ThreadKey(f"{begin}-{key}", source.npc_id)
        yield SessionItem(thread.session_id, _session_fields(source, conversation, key), line)
        for index, turn in enumerate(turns):
            where = f"{key}[{index}]: "
            try:
                message = new_message(_ours(turn, roles) | {"timestamp": began + index * BETWEEN_MESSAGES})
            except BadValueError as problem:
                yield source.bad(line, f"{where}{problem}")
                continue
            yield MessageItem(thread, source.named(thread, message), line, where)


def _sessions(conversation: Json) -> list[str]:
    """The keys of the sessions, in the order of their numbers; some have only a date."""
    numbers = {int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key))}
    return [f"session_{number}" for number in sorted(numbers)]


def _session_fields(source: Source, conversation: Json, key: str) -> Json:
    names = [conversation["speaker_a"], conversation["speaker_b"]]
    title = f"{names[0]} & {names[1]}, {key.replace('_', ' ')}"
    return {
        "title": title if len(title) <= TITLE_LIMIT else key.replace("_", " "),
        "title_by": "rule",
        "metadata": {
            "source": source.name,
            "format": "locomo",
            "session": key,
            "date_time": conversation[f"{key}_date_time"],
            "speakers": names,
        },
    }


def _moment(text: object) -> datetime | None:
    """The moment of a session, taken as UTC since the files name no time zone; None if it is none."""
    try:
        return datetime.strptime(str(text), _MOMENT_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None


def _ours(turn: object, roles: dict[str, str]) -> Json:
    if not isinstance(turn, dict):
        raise BadValueError(f"{shown(turn)} is not a turn")
    speaker = turn.get("speaker")
    if not isinstance(speaker, str) or speaker not in roles:
        raise BadValueError(f"speaker: {shown(speaker)} is not {' or '.join(roles)}")
    return {
        "role": roles[speaker],
        "name": speaker,
        "id": turn.get("dia_id"),
        "content": turn.get("text"),
        "metadata": {key: value for key, value in turn.items() if key not in ("speaker", "dia_id", "text")},
    }
