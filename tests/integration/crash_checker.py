"""Invariants after a crash: compares acknowledged writes with the contents of the store."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from crash_writer import Acknowledged, batch_contents, completed

from wenmai.stores.records import Message


class Found(NamedTuple):
    """The contents of one session after the crash: the transcript, and the newest whole turns."""

    session: str
    transcript: list[Message]
    window: list[Message]


def violations(acknowledged: Sequence[Acknowledged], found: Found) -> list[str]:
    """The violations in this session, as text; empty if there are none."""
    mine = [each for each in acknowledged if each.session == found.session]
    return [
        *_missing_or_changed(mine, found.transcript),
        *_duplicated(found.transcript),
        *_gaps(found.transcript),
        *_wrong_turns(found.transcript),
        *_torn_batches(found.transcript),
        *_out_of_order(mine),
        *_wrong_window(found),
    ]


def _missing_or_changed(acknowledged: Iterable[Acknowledged], transcript: Sequence[Message]) -> Iterator[str]:
    stored = {message.seq: message for message in transcript}
    filled = {(each.seqs[0], each.ids[0]): each.contents[0] for each in acknowledged if each.kind == "complete"}
    for each in acknowledged:
        for seq, message_id, turn, content in zip(each.seqs, each.ids, each.turns, each.contents, strict=True):
            message = stored.get(seq)
            if message is None or message.id != message_id:
                yield f"lost: {message_id} was acknowledged as number {seq}"
                continue
            if message.turn_id != turn:
                yield f"renumbered: {message_id} was in turn {turn}, is in {message.turn_id}"
            allowed = {filled[seq, message_id]} if (seq, message_id) in filled else {content, completed(content)}
            if message.content not in allowed:
                yield f"changed: {message_id} holds {message.content!r}"
            if (seq, message_id) in filled and not message.completed:
                yield f"lost: the answer {message_id} was acknowledged as completed"


def _duplicated(transcript: Iterable[Message]) -> Iterator[str]:
    for what, values in (
        ("id", (message.id for message in transcript)),
        ("content", (_plain(message) for message in transcript)),
    ):
        for value, times in Counter(values).items():
            if times > 1:
                yield f"doubled: the {what} {value!r} occurs {times} times"


def _gaps(transcript: Sequence[Message]) -> Iterator[str]:
    numbers = [message.seq for message in transcript]
    if numbers != list(range(1, len(numbers) + 1)):
        yield "gap: the numbers are not 1, 2, 3 …"


def _wrong_turns(transcript: Iterable[Message]) -> Iterator[str]:
    turn = 0
    for message in transcript:
        turn += message.role == "user"
        if message.turn_id != turn:
            yield f"turns: {message.id} should be in turn {turn}, is in {message.turn_id}"
            return


def _torn_batches(transcript: Iterable[Message]) -> Iterator[str]:
    for batch, messages in groupby(transcript, key=lambda message: _plain(message).split("|")[0]):
        contents = [_plain(message) for message in messages]
        size = int(contents[0].split("|")[2])
        if contents != batch_contents(batch, size):
            yield f"half batch: {batch} has only {contents}"


def _out_of_order(acknowledged: Iterable[Acknowledged]) -> Iterator[str]:
    """A writer waits for each acknowledgement, so its batches are numbered in write order.

    A writer that does not know whether its last batch was stored repeats it, and the batch keeps its number.
    """
    latest: dict[str, int] = {}
    for each in acknowledged:
        if each.kind != "append":
            continue
        writer = each.contents[0].split("|")[0].rpartition(".")[0]
        if each.seqs[0] < latest.get(writer, 0):
            yield f"order: {each.contents[0]} was numbered before an earlier batch"
        latest[writer] = each.seqs[0]


def _wrong_window(found: Found) -> Iterator[str]:
    unfinished = {message.turn_id for message in found.transcript if not message.completed}
    for message in found.window:
        if message.turn_id in unfinished:
            yield f"half turn: turn {message.turn_id} is unfinished and in the window"
    whole = [message for message in found.transcript if message.turn_id not in unfinished]
    if [message.seq for message in found.window] != [message.seq for message in whole[-len(found.window) :]]:
        yield "window: it does not hold the newest whole turns"
    if whole and not found.window:
        yield "window: it is empty"


def _plain(message: Message) -> str:
    return message.content.removeprefix("completed ")
