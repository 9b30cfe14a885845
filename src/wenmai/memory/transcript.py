"""The transcript: what was said, in order, append-only; everything else is derived from it (section 4)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, get_args

import msgspec

from wenmai.errors import InvalidInput
from wenmai.memory.ids import checked_id, wrong_field
from wenmai.memory.window import TokenCounter, Window, WindowLimits, cut_window
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Appended, Logs, ThreadInfo
from wenmai.stores.records import Message, NewMessage, Role
from wenmai.text.tokens import estimate_tokens

CONTENT_LIMIT = 1_000_000
NAME_LIMIT = 256
READ_PAGE = 500
ROLES: tuple[str, ...] = get_args(Role)

MessageInput = Mapping[str, Any] | NewMessage
"""A message as callers write it: {role, content, id?, name?, timestamp?, tool_calls?, tool_call_id?, metadata?}."""


class Transcript:
    """Appends to threads and reads them.

    Args:
        history_cap: windows never reach further back than so many messages.
    """

    def __init__(self, logs: Logs, *, history_cap: int = 500, count_tokens: TokenCounter = estimate_tokens) -> None:
        self._logs = logs
        self._history_cap = history_cap
        self._count_tokens = count_tokens

    async def append(
        self,
        scope: Scope,
        thread: ThreadKey,
        messages: Sequence[MessageInput],
        *,
        window: WindowLimits | None = None,
        slide: bool = True,
    ) -> tuple[Appended, Window | None]:
        """Append the messages, all or none, and cut the window in the same step if one is asked for.

        Raises:
            InvalidInput: a message is not allowed; the field is named as ``messages[1].role``.
            SessionNotFound: the session is absent or foreign.
            SessionExpired: it is past its lifetime.
        """
        fresh = [self._checked(index, message) for index, message in enumerate(messages)]
        tail = 0 if window is None else self._reach(window)
        appended = await self._logs.append(scope, thread, fresh, tail=tail, slide=slide)
        return appended, None if window is None else await self._cut(scope, thread, appended.tail, window)

    async def settle(
        self,
        scope: Scope,
        thread: ThreadKey,
        seq: int,
        *,
        content: str,
        completed: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message | None:
        """Fill a message that was appended unfinished; None if it is gone or was finished before."""
        return await self._logs.settle(
            scope,
            thread,
            seq,
            content=content,
            completed=completed,
            tokens=self._count_tokens(content),
            metadata=metadata,
        )

    async def window(self, scope: Scope, thread: ThreadKey, limits: WindowLimits) -> Window:
        """The newest completed turns that fit."""
        found = await self._logs.latest(scope, thread, self._reach(limits), whole_turns=True)
        return await self._cut(scope, thread, found, limits)

    async def latest(self, scope: Scope, thread: ThreadKey, limit: int, *, before: int | None = None) -> list[Message]:
        """The newest ``limit`` messages, ascending, unfinished ones too."""
        return await self._logs.latest(scope, thread, limit, before=before)

    async def threads(self, scope: Scope, session_id: str) -> list[ThreadInfo]:
        """The session's threads, in the order in which they began."""
        return await self._logs.threads(scope, session_id)

    async def read_all(self, scope: Scope, thread: ThreadKey) -> AsyncIterator[Message]:
        """Every message of the thread, ascending, read in pages."""
        start = 1
        while page := await self._logs.read(scope, thread, start=start, limit=READ_PAGE):
            for message in page:
                yield message
            start = page[-1].seq + 1

    def _reach(self, limits: WindowLimits) -> int:
        """How many messages to read: one more than enter, which tells where a turn begins."""
        return min(limits.messages, self._history_cap) + 1

    async def _cut(self, scope: Scope, thread: ThreadKey, found: list[Message], limits: WindowLimits) -> Window:
        bounded = msgspec.structs.replace(limits, messages=min(limits.messages, self._history_cap))
        more = len(found) > bounded.messages
        if more and bounded.messages > 0 and found[0].turn_id == found[-1].turn_id:
            # The turn is longer than the window: its question, and whether anything came before, is further back.
            reach = max(1, self._history_cap - len(found))
            rest = await self._logs.latest(scope, thread, reach, before=found[0].seq, whole_turns=True)
            beginning = [message for message in rest if message.turn_id == found[0].turn_id]
            more = len(rest) > len(beginning) or (len(rest) == reach and rest[0].turn_id > 1)
            found = [*beginning, *found]
        return cut_window(found, bounded, count_tokens=self._count_tokens, more=more)

    def _checked(self, index: int, message: MessageInput) -> NewMessage:
        fresh = message if isinstance(message, NewMessage) else _converted(index, message)
        where = f"messages[{index}]"
        if fresh.role not in ROLES:
            raise InvalidInput(f"{where}.role", fresh.role, f"one of {', '.join(ROLES)}")
        if len(fresh.content) > CONTENT_LIMIT or "\0" in fresh.content:
            raise InvalidInput(f"{where}.content", fresh.content, f"at most {CONTENT_LIMIT} characters without NUL")
        if fresh.id is not None:
            checked_id(f"{where}.id", fresh.id)
        if fresh.name is not None and (not 1 <= len(fresh.name) <= NAME_LIMIT or "\0" in fresh.name):
            raise InvalidInput(f"{where}.name", fresh.name, f"1 to {NAME_LIMIT} characters without NUL")
        if fresh.timestamp is not None and fresh.timestamp.tzinfo is None:
            raise InvalidInput(f"{where}.timestamp", fresh.timestamp, "a moment with a time zone")
        if fresh.tokens < 0:
            raise InvalidInput(f"{where}.tokens", fresh.tokens, "0 or more")
        if fresh.tokens:
            return fresh
        return msgspec.structs.replace(fresh, tokens=self._count_tokens(fresh.content))


def _converted(index: int, message: Mapping[str, Any]) -> NewMessage:
    known = NewMessage.__struct_fields__
    for field in message:
        if field not in known:
            raise InvalidInput(f"messages[{index}].{field}", message[field], f"one of {', '.join(known)}")
    try:
        return msgspec.convert(dict(message), NewMessage)
    except msgspec.ValidationError as problem:
        field = wrong_field(problem)
        where = f"messages[{index}].{field}" if field else f"messages[{index}]"
        raise InvalidInput(where, message.get(field, dict(message)), f"allowed: {problem}") from problem
