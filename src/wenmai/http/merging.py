"""The messages of several threads as one list, page by page from the newest back.

Each page is taken from the ends of the threads, always the message with the latest time first, so that every
thread's own order stands whatever timestamps its messages were given. Where a page ends is said by how far
each thread has been read; messages that come later never move an older page.
"""

import asyncio
import re
from collections.abc import Mapping

from wenmai.errors import InvalidInput
from wenmai.http.shapes.common import LARGEST_NUMBER
from wenmai.memory.transcript import Transcript
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Message, Session

_PLACE = re.compile(r"([A-Za-z0-9_.:-]{1,128}):([1-9][0-9]{0,15})")

Places = dict[str, int]
"""Persona → ``seq`` before which its thread has not been read yet."""


async def page_of_thread(
    transcript: Transcript, scope: Scope, thread: ThreadKey, limit: int, before: str | None
) -> tuple[list[Message], str | None]:
    """The newest ``limit`` messages of one thread before that place, ascending, and the next place.

    Raises:
        InvalidInput: ``before`` is not a ``next`` of this list.
    """
    messages = await transcript.latest(scope, thread, limit, before=_seq(before) if before else None)
    more = bool(messages) and messages[0].seq > 1
    return messages, str(messages[0].seq) if more else None


async def page_of_session(
    transcript: Transcript, scope: Scope, session: Session, limit: int, before: str | None
) -> tuple[list[Message], str | None]:
    """The newest ``limit`` messages of all threads before that place, ascending, and the next place.

    Raises:
        InvalidInput: ``before`` is not a ``next`` of this list.
    """
    places: Mapping[str, int | None]
    if before is None:
        threads = await transcript.threads(scope, session.session_id, incarnation=session.incarnation)
        places = {info.npc_id: None for info in threads}
    else:
        places = _parsed(before)
    ends = await asyncio.gather(
        *(transcript.latest(scope, session.thread(npc_id), limit, before=place) for npc_id, place in places.items())
    )
    tails = {npc_id: end for npc_id, end in zip(places, ends, strict=True) if end}
    left: Places = {npc_id: end[-1].seq + 1 for npc_id, end in tails.items()}
    page: list[Message] = []
    while len(page) < limit and any(tails.values()):
        newest = max(
            (end[-1].timestamp, npc_id) for npc_id, end in tails.items() if end
        )[1]  # fmt: skip
        message = tails[newest].pop()
        left[newest] = message.seq
        page.append(message)
    unread = {npc_id: seq for npc_id, seq in left.items() if seq > 1}
    return page[::-1], ",".join(f"{npc_id}:{seq}" for npc_id, seq in unread.items()) or None


def _parsed(before: str) -> Places:
    found: Places = {}
    for part in before.split(","):
        matched = _PLACE.fullmatch(part)
        if matched is None:
            raise InvalidInput("before", before, "`next` of an earlier page")
        found[matched[1]] = _seq(matched[2])
    return found


def _seq(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:20]) <= LARGEST_NUMBER):
        raise InvalidInput("before", text, "`next` of an earlier page")
    return int(text)
