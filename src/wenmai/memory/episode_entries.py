"""Messages as entries of the recall index: pure functions.

The text of an entry is the previous message and this one, because an answer often has no word of what it answers. Its
fields are all that ranking reads, so that no message is read only to be ranked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, NamedTuple

from wenmai.clock import to_micros
from wenmai.memory.chat_messages import CAPTION
from wenmai.memory.derived_preferences import INCOGNITO
from wenmai.retrieval.time_expressions import DaySpan, find_spans
from wenmai.scope import ThreadKey
from wenmai.stores.records import Message
from wenmai.stores.structs import SearchEntry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 1
"""Of the entries; an index with those of another version must be built anew."""

INDEXED_CHARACTERS = 4_000
EMBEDDED_CHARACTERS = 1_500
"""Of a message; what is longer is shortened to its beginning and its end."""

LATEST = 2**53 - 2
"""The latest time of an entry, in microseconds since 1970; the earliest is its negative. A search holds no more."""

MAX_SPANS = 20
_END_SHARE = 4
_DIGITS = 16
_ROLES = frozenset({"user", "assistant"})
_QUESTION_MARKS = ("?", "？")


class MessageEntry(NamedTuple):
    """A message as indexed by words, and the text of its vector."""

    entry: SearchEntry
    embedded: str


def entry_id(thread: ThreadKey, seq: int) -> str:
    """The entry's id; those of a thread are in the order of its messages."""
    return f"{thread_prefix(thread)}{seq:0{_DIGITS}d}"


def thread_prefix(thread: ThreadKey) -> str:
    """The beginning of the ids of a thread's entries; none of its parts has a slash."""
    return f"{thread.session_id}/{thread.incarnation}/{thread.persona_id}/"


def parsed_id(id_: str) -> tuple[ThreadKey, int]:
    """The thread and the message's number of an entry."""
    session_id, incarnation, persona_id, seq = id_.split("/")
    return ThreadKey(session_id, persona_id, incarnation), int(seq)


def message_numbers(ids: Sequence[str]) -> NDArray[np.int64]:
    """Numbers of entries, which differ by one only for successive messages of a thread."""
    import numpy as np  # noqa: PLC0415 — only searches need it

    prefixes: dict[str, int] = {}
    threads = [prefixes.setdefault(id_[:-_DIGITS], len(prefixes)) for id_ in ids]
    seqs = np.array([int(id_[-_DIGITS:]) for id_ in ids], np.int64)
    # Two more than the greatest, so that no message is before the first one of the next thread.
    numbers: NDArray[np.int64] = np.array(threads, np.int64) * (seqs.max(initial=0) + 2) + seqs
    return numbers


def neighbour_ids(id_: str) -> tuple[str, str]:
    """The ids of the entries before and after this one, whether they exist or not."""
    prefix, seq = id_[:-_DIGITS], int(id_[-_DIGITS:])
    return f"{prefix}{seq - 1:0{_DIGITS}d}", f"{prefix}{seq + 1:0{_DIGITS}d}"


def entries_of(thread: ThreadKey, messages: Sequence[Message], first: int) -> Iterator[MessageEntry]:
    """The entries of the messages from the number ``first`` on.

    Indexed are the texts of completed messages of user and assistant, but not of incognito turns.

    Args:
        thread: with its incarnation.
        messages: ascending, from the beginning of the turn of the one before ``first``.
        first: the number of the first message to index.
    """
    previous: Message | None = None
    turn, turn_first, incognito = 0, 0, False
    for message in messages:
        if message.turn_id != turn:
            turn, turn_first, incognito = message.turn_id, message.seq, False
        incognito = incognito or bool(message.metadata.get(INCOGNITO))
        if incognito or not is_indexed(message):
            continue
        if message.seq >= first:
            yield _entry(thread, message, previous, turn_first)
        previous = message


def is_indexed(message: Message) -> bool:
    """Whether the message has an entry, unless its turn is incognito."""
    return message.completed and message.role in _ROLES and not message.content.isspace() and message.content != ""


def _entry(thread: ThreadKey, message: Message, previous: Message | None, turn_first: int) -> MessageEntry:
    own = shortened(message.content, INDEXED_CHARACTERS)
    day = message.timestamp.date()
    entry = SearchEntry(
        id=entry_id(thread, message.seq),
        text=f"{_spoken(previous)}\n{_spoken(message)}" if previous else _spoken(message),
        fields={
            "session": thread.session_id,
            "incarnation": thread.incarnation or "",
            "persona": thread.persona_id,
            "turn": message.turn_id,
            "turn_first": turn_first,
            "seq": message.seq,
            "message": message.id,
            "role": message.role,
            "speaker": message.name or "",
            "at": index_time(message.timestamp, LATEST),
            "day": day.isoformat(),
            "month_day": day.isoformat()[5:],
            "spans": [encoded_span(span.near(day)) for span in find_spans(own, day)[:MAX_SPANS]],
            "question": int(own.rstrip().endswith(_QUESTION_MARKS)),
            "length": len(message.content),
        },
        private=("speaker", "spans"),
    )
    return MessageEntry(entry, shortened(_with_caption(message), EMBEDDED_CHARACTERS))


def index_time(moment: datetime, limit: int = LATEST + 1) -> int:
    """Microseconds since 1970, within the limit; that of a bound is beyond the times of all entries."""
    return max(-limit, min(limit, to_micros(moment)))


def _spoken(message: Message) -> str:
    text = shortened(_with_caption(message), INDEXED_CHARACTERS)
    return f"{message.name}: {text}" if message.name else text


def _with_caption(message: Message) -> str:
    """The text, and the description of what is attached to it, if the caller gave one."""
    caption = message.metadata.get(CAPTION)
    return f"{message.content}\n[{caption}]" if isinstance(caption, str) and caption else message.content


def shortened(text: str, length: int) -> str:
    """The text, or its beginning and its end, of about this length."""
    if len(text) <= length:
        return text
    end = length // _END_SHARE
    return f"{text[: length - end]} … {text[-end:]}"


def encoded_span(span: DaySpan) -> str:
    """The span as a value of a field."""
    return f"{span.first.isoformat()}/{span.last.isoformat()}"


def decoded_span(value: str) -> DaySpan:
    """The inverse of :func:`encoded_span`."""
    first, _, last = value.partition("/")
    return DaySpan(date.fromisoformat(first), date.fromisoformat(last))
