"""The head of a thread: one small document, whose replacement is what commits every change of the thread.

A change is committed when the head is replaced, on condition that it is unchanged: that makes an append atomic, and its
numbers unique. The head carries the messages of the last changes itself (``pending``); their documents in the index of
messages are written with the same request, but count only as copies until their writer knows that they were written.

Documents of messages are written with a version that follows from the head's revision, so a late write of an older
change cannot replace a newer one. What lies beyond ``last_seq`` was not committed, and is ignored.

Two processes may write the same number in the same revision, of which one commits it. It writes a copy that the other
was faster with again, with a greater version (:func:`repaired_version`); the other removes its own, which leaves a
version in between. Whoever finds a message in ``pending`` and did not write it does the same.
"""

from collections.abc import Iterator

import msgspec

from wenmai.stores.records import Message

_VERSIONS = 4
"""Versions of a document in each revision: as written, removed again, free, and as repaired."""


def written_version(rev: int) -> int:
    """The version of a document that is written in that revision."""
    return _VERSIONS * rev


def repaired_version(rev: int) -> int:
    """The version of a document that was committed in that revision, and is written again later."""
    return _VERSIONS * rev + _VERSIONS - 1


def repaired_from(version: int) -> int:
    """The version with which a document of that version is repaired; its own if it is a repair."""
    return repaired_version(version // _VERSIONS)


class OpenTurn(msgspec.Struct, array_like=True):
    """A turn with messages that are not completed.

    Attributes:
        turn: its number.
        first: number of its first message.
        last: of its last one; 0 while it is the thread's last turn.
        seqs: of the messages that are not completed.
    """

    turn: int
    first: int
    last: int
    seqs: list[int]


class Pending(msgspec.Struct, array_like=True):
    """A message, and the revision in which it was written."""

    rev: int
    message: Message


class Head(msgspec.Struct, kw_only=True, omit_defaults=True):
    """See the module.

    Attributes:
        session: document of the session.
        incarnation: of the session.
        persona_id: of the thread.
        label: random, in the ids of its documents.
        rev: number of changes.
        turn_first: number of the first message of the last turn.
        first_at, last_at: of the first and the last message, ISO 8601.
        named: whether messages came with an id of their own.
        open: turns that have messages which are not completed, ascending.
    """

    session: str
    incarnation: str
    persona_id: str
    label: str
    rev: int = 0
    last_seq: int = 0
    last_turn: int = 0
    turn_first: int = 1
    first_at: str = ""
    last_at: str = ""
    named: bool = False
    open: list[OpenTurn] = []
    pending: list[Pending] = []

    def add(self, message: Message) -> None:
        """Append a message with the next number."""
        self.last_seq = message.seq
        if message.turn_id != self.last_turn:
            if self.open and not self.open[-1].last:
                self.open[-1].last = message.seq - 1
            self.last_turn, self.turn_first = message.turn_id, message.seq
        stamp = message.timestamp.isoformat()
        self.first_at, self.last_at = self.first_at or stamp, stamp
        if not message.completed:
            self._add_open(message)
        self.put(message)

    def put(self, message: Message) -> None:
        """Write a message in this revision."""
        self.pending = [each for each in self.pending if each.message.seq != message.seq]
        self.pending.append(Pending(self.rev, message))

    def complete(self, message: Message) -> None:
        """Write a message that was not completed; it is now, unless it says otherwise."""
        self.put(message)
        if message.completed:
            for turn in self.open:
                turn.seqs = [seq for seq in turn.seqs if seq != message.seq]
            self.open = [turn for turn in self.open if turn.seqs]

    def is_open(self, seq: int) -> bool:
        """Whether that message is not completed."""
        return any(seq in turn.seqs for turn in self.open)

    def visible(self, limit: int, *, before: int | None = None, whole_turns: bool = False) -> list[int]:
        """The numbers of the newest ``limit`` messages, ascending; see :meth:`wenmai.stores.contracts.Logs.latest`."""
        end = self.last_seq if before is None else min(before - 1, self.last_seq)
        numbers: list[int] = []
        for first, last in self._ranges(end, whole_turns=whole_turns):
            wanted = limit - len(numbers)
            numbers += range(last, max(first - 1, last - wanted), -1)
            if len(numbers) >= limit:
                break
        return numbers[::-1]

    def without(self, last_seq: int, last: Message, turn_first: int) -> "Head":
        """The head of the next revision, without the messages after ``last``, which has that number."""
        kept = [
            OpenTurn(turn.turn, turn.first, 0 if turn.turn == last.turn_id else turn.last, seqs)
            for turn in self.open
            if (seqs := [seq for seq in turn.seqs if seq <= last_seq])
        ]
        return msgspec.structs.replace(
            self,
            rev=self.rev + 1,
            last_seq=last_seq,
            last_turn=last.turn_id,
            turn_first=turn_first,
            last_at=last.timestamp.isoformat(),
            open=kept,
            pending=[each for each in self.pending if each.message.seq <= last_seq],
        )

    def _add_open(self, message: Message) -> None:
        if not self.open or self.open[-1].turn != message.turn_id:
            self.open.append(OpenTurn(message.turn_id, self.turn_first, 0, []))
        self.open[-1].seqs.append(message.seq)

    def _ranges(self, end: int, *, whole_turns: bool) -> Iterator[tuple[int, int]]:
        """First and last number of runs of messages up to ``end``, descending."""
        for turn in reversed(self.open if whole_turns else []):
            if (turn.last or self.last_seq) < end:
                yield (turn.last or self.last_seq) + 1, end
            end = min(end, turn.first - 1)
        if end > 0:
            yield 1, end
