"""Pagination of messages, of one thread or merged over the threads of a session, from newest to oldest.

Merging takes messages from the ends of the threads, the latest timestamp first, so that each thread keeps its own order
whatever timestamps its messages have. The cursor holds the position reached in each thread, so new messages never
shift older pages.
"""

import asyncio
import re
from collections.abc import Mapping

from wenmai.errors import InvalidInput
from wenmai.http.schemas.common import MAX_SAFE_INTEGER
from wenmai.memory.transcript import Transcript
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Message, Session

_POSITION = re.compile(r"([A-Za-z0-9_.:-]{1,128}):([1-9][0-9]{0,15})")

Positions = dict[str, int]
"""Persona id → ``seq`` of the oldest message read so far in its thread."""


async def thread_page(
    transcript: Transcript, scope: Scope, thread: ThreadKey, limit: int, before: str | None
) -> tuple[list[Message], str | None]:
    """The newest ``limit`` messages of one thread before the cursor, ascending, and the next cursor.

    Raises:
        InvalidInput: ``before`` is not a cursor of this list.
    """
    messages = await transcript.latest(scope, thread, limit, before=_parse_seq(before) if before else None)
    more = bool(messages) and messages[0].seq > 1
    return messages, str(messages[0].seq) if more else None


async def session_page(
    transcript: Transcript, scope: Scope, session: Session, limit: int, before: str | None
) -> tuple[list[Message], str | None]:
    """The newest ``limit`` messages of all threads before the cursor, ascending, and the next cursor.

    Raises:
        InvalidInput: ``before`` is not a cursor of this list.
    """
    positions: Mapping[str, int | None]
    if before is None:
        threads = await transcript.threads(scope, session.session_id, incarnation=session.incarnation)
        positions = {info.npc_id: None for info in threads}
    else:
        positions = _parse_cursor(before)
    ends = await asyncio.gather(
        *(
            transcript.latest(scope, session.thread(npc_id), limit, before=position)
            for npc_id, position in positions.items()
        )
    )
    tails = {npc_id: end for npc_id, end in zip(positions, ends, strict=True) if end}
    oldest_read: Positions = {npc_id: end[-1].seq + 1 for npc_id, end in tails.items()}
    page: list[Message] = []
    while len(page) < limit and any(tails.values()):
        newest = max(
            (end[-1].timestamp, npc_id) for npc_id, end in tails.items() if end
        )[1]  # fmt: skip
        message = tails[newest].pop()
        oldest_read[newest] = message.seq
        page.append(message)
    unread = {npc_id: seq for npc_id, seq in oldest_read.items() if seq > 1}
    return page[::-1], ",".join(f"{npc_id}:{seq}" for npc_id, seq in unread.items()) or None


def _parse_cursor(before: str) -> Positions:
    positions: Positions = {}
    for part in before.split(","):
        matched = _POSITION.fullmatch(part)
        if matched is None:
            raise InvalidInput("before", before, "the `next` of an earlier page")
        positions[matched[1]] = _parse_seq(matched[2])
    return positions


def _parse_seq(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:20]) <= MAX_SAFE_INTEGER):
        raise InvalidInput("before", text, "the `next` of an earlier page")
    return int(text)
