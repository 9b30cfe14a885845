"""Conversation files of the LoCoMo benchmark: two speakers, many dated sessions (Maharana et al., ACL 2024).

``speaker_a``, ``speaker_b``, and for each K ``session_K``, a list of turns, with ``session_K_date_time``.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from wenmai.errors import bounded_repr
from wenmai.interchange.items import (
    BadValueError,
    Item,
    Json,
    MessageItem,
    Note,
    SessionItem,
    Source,
    valid_id,
)
from wenmai.interchange.messages import new_message
from wenmai.memory.chat_messages import CAPTION
from wenmai.memory.sessions import TITLE_LIMIT
from wenmai.scope import ThreadKey

_SESSION = re.compile(r"session_(\d{1,6})(?:_date_time)?")
_MOMENT_FORMAT, _EXAMPLE = "%I:%M %p on %d %B, %Y", "1:56 pm on 8 May, 2023"
_MAX_LISTED_SESSIONS = 100
BETWEEN_MESSAGES = timedelta(seconds=1)
"""The files have dates of sessions only; each message is so much later than the previous one."""


def is_locomo(value: Json) -> bool:
    """Whether the object is such a conversation, or a benchmark sample that contains one."""
    inner = value.get("conversation", value)
    return isinstance(inner, dict) and "speaker_a" in inner


def read_locomo(source: Source, value: Json, line: int) -> Iterator[Item]:
    """Each session with turns becomes a session ``<file>-session_K``, in the order of the numbers.

    ``dia_id`` is the message's id; speaker_a is the user, speaker_b the assistant, ``name`` the speaker's name. A
    picture's caption is in the metadata.

    Raises:
        BadValueError: the speakers are not named.
    """
    conversation = value.get("conversation", value)
    speakers = {"user": conversation.get("speaker_a"), "assistant": conversation.get("speaker_b")}
    if not all(isinstance(name, str) and name for name in speakers.values()):
        raise BadValueError("speaker_a and speaker_b must name the speakers")
    roles = {name: role for role, name in speakers.items()}
    begin = valid_id("sample_id", value.get("sample_id") or source.slug)
    keys = _sessions(conversation)
    if empty := [key for key in keys if not conversation.get(key)]:
        named = ", ".join(empty[:_MAX_LISTED_SESSIONS]) + (", …" if len(empty) > _MAX_LISTED_SESSIONS else "")
        yield Note(f"{source.name}: dates without turns, left out: {named}")
    for key in keys:
        turns, dated = conversation.get(key), conversation.get(f"{key}_date_time")
        if not turns:
            continue
        began = _moment(dated)
        if began is None or not isinstance(turns, list):
            reason = "not a list of turns" if began else f"{key}_date_time {bounded_repr(dated)} is not like {_EXAMPLE}"
            yield source.bad(line, f"{key}: {reason}; the session is left out")
            continue
        thread = ThreadKey(f"{begin}-{key}", source.persona_id)
        yield SessionItem(thread.session_id, _session_fields(source, conversation, key), line)
        for index, turn in enumerate(turns):
            where = f"{key}[{index}]: "
            try:
                message = new_message(_to_fields(turn, roles) | {"timestamp": began + index * BETWEEN_MESSAGES})
            except BadValueError as problem:
                yield source.bad(line, f"{where}{problem}")
                continue
            yield MessageItem(thread, source.with_id(thread, message), line, where)


def _sessions(conversation: Json) -> list[str]:
    """The keys of the sessions, in numerical order; some have only a date."""
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
    """A session's time, read as UTC because the files have no time zone; None if invalid."""
    try:
        return datetime.strptime(str(text), _MOMENT_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None


def _to_fields(turn: object, roles: dict[str, str]) -> Json:
    if not isinstance(turn, dict):
        raise BadValueError(f"{bounded_repr(turn)} is not a turn")
    speaker = turn.get("speaker")
    if not isinstance(speaker, str) or speaker not in roles:
        raise BadValueError(f"speaker: {bounded_repr(speaker)} is not {' or '.join(roles)}")
    metadata = {key: value for key, value in turn.items() if key not in ("speaker", "dia_id", "text")}
    if "blip_caption" in turn:
        metadata[CAPTION] = turn["blip_caption"]
    return {
        "role": roles[speaker],
        "name": speaker,
        "id": turn.get("dia_id"),
        "content": turn.get("text"),
        "metadata": metadata,
    }
