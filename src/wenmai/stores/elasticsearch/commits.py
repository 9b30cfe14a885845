"""Committing changes of threads: one bulk request with the head, the documents of its messages, and the session.

The head decides (see :mod:`.heads`): if it has changed meanwhile, the rest of the request is undone, and otherwise what
failed of the rest is done again, now or with the thread's next change.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from wenmai.clock import to_micros
from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope
from wenmai.stores.contracts import SLIDE_STEP
from wenmai.stores.elasticsearch.client import FAILED, Client, Done, Found, Ref, Write
from wenmai.stores.elasticsearch.heads import Head, OpenTurn, Pending, repaired_from, repaired_version, written_version
from wenmai.stores.elasticsearch.retrying import attempts
from wenmai.stores.elasticsearch.rows import Row, personas_json, row_of
from wenmai.stores.elasticsearch.threads import StoredHead, head_write, message_document, message_ref, name_ref
from wenmai.stores.records import Message, Session

_log = logging.getLogger(__name__)

MAX_THREADS, MAX_RECENT = 500, 40
"""Threads of which a process remembers what it has written, and messages of each."""

LONGEST = 4_000
"""Characters of a message that is remembered."""


class Written(NamedTuple):
    """What a process knows of a thread that it has changed: all up to that revision has its documents.

    Attributes:
        label: of the thread.
        rev: of the head.
        recent: its newest messages, by number, which are current while the head has that revision.
    """

    label: str
    rev: int
    recent: Mapping[int, Message]


class Commits:
    """Commits changes, and remembers which messages a head need not carry any longer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._written: OrderedDict[str, Written] = OrderedDict()

    def begin(self, ref: Ref, head: Head) -> Head:
        """The head of the next revision, without the messages that are known to be written."""
        known = self._written.get(ref.id)
        rev = known.rev if known is not None and known.label == head.label else 0
        kept = [each for each in head.pending if each.rev > rev]
        return msgspec.structs.replace(head, rev=head.rev + 1, open=_copied(head), pending=kept)

    def recent(self, ref: Ref, head: Head) -> Mapping[int, Message]:
        """The messages of the head that this process remembers."""
        known = self._written.get(ref.id)
        return known.recent if known is not None and (known.label, known.rev) == (head.label, head.rev) else {}

    async def commit(
        self,
        scope: Scope,
        session_id: str,
        ref: Ref,
        before: StoredHead,
        head: Head,
        also: Sequence[Write] = (),
    ) -> list[Done | None] | None:
        """Replace the head; None if it has changed since it was read, and otherwise what became of ``also``."""
        copies = [write for each in head.pending for write in self._copies(scope, session_id, head, each)]
        first = head_write(ref, head, before.found)
        committed, *done = await self._client.write([first, *also, *copies], first_decides=True)
        extra, done = done[: len(also)], done[len(also) :]
        results = list(zip(copies, done, strict=True))
        if not committed:
            # Copies of older changes were committed, whoever wrote them.
            new = [(write, result) for write, result in results if write.version == written_version(head.rev)]
            await self._client.write([Write(write.ref, None, result) for write, result in new if result])
            return None
        failed = [write for write, result in results if result is FAILED]
        superseded = [
            write for write, result in results if result is None and write.version == written_version(head.rev)
        ]
        if await self._repair([*failed, *superseded]):
            self._remember(ref, head)
        return extra

    def _remember(self, ref: Ref, head: Head) -> None:
        changed = {each.message.seq: each.message for each in head.pending}
        before = self.recent(ref, msgspec.structs.replace(head, rev=head.rev - 1))
        known = {seq: each for seq, each in before.items() if seq not in changed and seq <= head.last_seq}
        known |= {seq: each for seq, each in changed.items() if len(each.content) <= LONGEST}
        kept = sorted(known.items())[-MAX_RECENT:]
        self._written[ref.id] = Written(head.label, head.rev, dict(kept))
        self._written.move_to_end(ref.id)
        if len(self._written) > MAX_THREADS:
            self._written.popitem(last=False)

    async def _repair(self, copies: Sequence[Write]) -> bool:
        """Write copies of committed messages again, unless another process has; whether all are written then."""
        versions = [each.version or 0 for each in copies]
        again = [each._replace(version=repaired_from(version)) for each, version in zip(copies, versions, strict=True)]
        try:
            await self._client.write(again)
        except StoreUnavailable as problem:
            _log.warning("copies of committed messages are written with the next change: %s", problem)
            return False
        return True

    def _copies(self, scope: Scope, session_id: str, head: Head, pending: Pending) -> list[Write]:
        """The documents of a message."""
        version = (written_version if pending.rev == head.rev else repaired_version)(pending.rev)
        document = message_document(scope, session_id, head, pending.message)
        writes = [Write(message_ref(self._client, head, pending.message.seq), document, version=version)]
        if head.named:
            name = {"session": head.session, "label": head.label, "seq": pending.message.seq}
            writes.append(Write(name_ref(self._client, head, pending.message.id), name, version=version))
        return writes

    async def slide(self, ref: Ref, incarnation: str, now: datetime) -> None:
        """Move the session's expiry, though another process changes the session at the same time.

        The messages are committed: if it cannot be moved, the next append will move it.
        """
        try:
            async for _ in attempts(self._client.name):
                [found] = await self._client.get([ref])
                row = row_of(found)
                if row is None or row.deleted or row.incarnation != incarnation:
                    return
                write = slide_write(ref, row, found, now)
                if write is None or all(await self._client.write([write])):
                    return
        except StoreUnavailable as problem:
            _log.warning("the expiry of a session was not moved: %s", problem)

    async def register(self, ref: Ref, row: Row, found: Found | None, persona_id: str, now: datetime | None) -> bool:
        """Note in the session that the persona has a thread, before it has one, and slide it unless ``now`` is None.

        False if the session has changed.
        """
        row.threads = personas_json([*(each for each in row.personas if each != persona_id), persona_id])
        slid = slide_write(ref, row, found, now) if now else None
        return all(await self._client.write([slid or Write(ref, row.document(), found)]))


def slide_write(ref: Ref, row: Row, found: Found | None, now: datetime) -> Write | None:
    """The write that moves the session's expiry to one lifetime from now; None if it moves too little."""
    session = row.decoded(Session)
    lifetime = timedelta(seconds=session.lifetime_seconds)
    moved = now + lifetime - session.expires_at
    if moved < min(SLIDE_STEP, lifetime / 100):
        return None
    session = msgspec.structs.replace(session, expires_at=now + lifetime)
    row.record, row.updated_at = msgspec.json.encode(session).decode(), to_micros(now)
    return Write(ref, row.document(), found)


def _copied(head: Head) -> list[OpenTurn]:
    return [msgspec.structs.replace(turn, seqs=list(turn.seqs)) for turn in head.open]
