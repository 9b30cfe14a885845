"""The transcript: what was said, in order, append-only; everything else is derived from it (section 4)."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast, get_args

import msgspec

from wenmai.errors import InvalidInput
from wenmai.memory.chat_messages import BESIDES, RENAMED_ROLES, in_our_fields
from wenmai.memory.ids import checked_id, wrong_field
from wenmai.memory.sizes import count_message_tokens
from wenmai.memory.window import Window, WindowLimits, cut_window
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Appended, Logs, ThreadInfo
from wenmai.stores.records import Message, NewMessage, Role
from wenmai.stores.values import check_messages
from wenmai.text.tokens import TokenCounter, estimate_tokens

CONTENT_LIMIT = 1_000_000
NAME_LIMIT = 256
READ_PAGE = 500
_ROLES = frozenset(get_args(Role))
_PLAIN_FIELDS = frozenset({"role", "content"})
LARGE = 100_000
"""Characters that are counted in a thread, so that the event loop goes on meanwhile."""

MessageInput = Mapping[str, Any] | NewMessage
"""A message as callers write it: {role, content, id?, name?, timestamp?, tool_calls?, tool_call_id?, metadata?}.

What OpenAI's chat API takes and gives is taken too: see :mod:`wenmai.memory.chat_messages`.
"""


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
        fresh = await self.prepare(messages)
        tail = 0 if window is None else self._reach(window)
        appended = await self._logs.append(scope, thread, fresh, tail=tail, slide=slide)
        return appended, None if window is None else await self._cut(scope, thread, appended.tail, window)

    async def prepare(self, messages: Sequence[MessageInput]) -> list[NewMessage]:
        """The messages as :meth:`append` takes them, checked and with their tokens.

        Raises:
            InvalidInput: a message is not allowed; the field is named as ``messages[1].role``.
        """
        plain = [_plain(message) for message in messages]
        fresh = [known or _converted(index, messages[index]) for index, known in enumerate(plain)]
        if None in plain:
            check_messages(fresh)
        for index, message in enumerate(fresh):
            _check(f"messages[{index}]", message)

        def count() -> list[NewMessage]:
            return [self._counted(message) for message in fresh]

        return await asyncio.to_thread(count) if _is_large(fresh) else count()

    async def settle(
        self,
        scope: Scope,
        thread: ThreadKey,
        message: Message,
        *,
        content: str,
        completed: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message | None:
        """Fill a message that was appended unfinished; None if it is gone or was finished before."""
        return await self._logs.settle(
            scope,
            thread,
            message,
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

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """The session's threads, in the order in which they began; see :meth:`wenmai.stores.base.Logs.threads`."""
        return await self._logs.threads(scope, session_id, incarnation=incarnation)

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """Remove the messages after that number; how many there were. See :meth:`wenmai.stores.base.Logs.truncate`."""
        return await self._logs.truncate(scope, thread, last_seq)

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

        def cut() -> Window:
            return cut_window(found, bounded, count_tokens=self._count_tokens, more=more)

        return await asyncio.to_thread(cut) if _is_large(found) else cut()

    def _counted(self, message: NewMessage) -> NewMessage:
        if message.tokens:
            return message
        return msgspec.structs.replace(message, tokens=count_message_tokens(message, self._count_tokens))


def _is_large(messages: Sequence[Message | NewMessage]) -> bool:
    # Arguments of tool calls are not measured: that would take as long as to count them.
    return sum([len(message.content) for message in messages]) > LARGE


def _check(where: str, fresh: NewMessage) -> None:
    """Refuse what a store could keep and a transcript does not take."""
    if len(fresh.content) > CONTENT_LIMIT or "\0" in fresh.content:
        raise InvalidInput(f"{where}.content", fresh.content, f"at most {CONTENT_LIMIT} characters without NUL")
    if fresh.id is not None:
        checked_id(f"{where}.id", fresh.id)
    if fresh.name is not None and (not 1 <= len(fresh.name) <= NAME_LIMIT or "\0" in fresh.name):
        raise InvalidInput(f"{where}.name", fresh.name, f"1 to {NAME_LIMIT} characters without NUL")
    if fresh.tokens < 0:
        raise InvalidInput(f"{where}.tokens", fresh.tokens, "0 or more")


def _plain(message: MessageInput) -> NewMessage | None:
    """The message if it is just a role and a text, as nearly every one is; the store checks what is left to check."""
    if type(message) is dict and message.keys() == _PLAIN_FIELDS:
        role, content = message["role"], message["content"]
        if type(role) is str and role in _ROLES and type(content) is str:
            return NewMessage(role=cast("Role", role), content=content)
    return None


def _converted(index: int, message: MessageInput) -> NewMessage:
    if isinstance(message, NewMessage):
        return message
    known = NewMessage.__struct_fields__
    for field in message:
        if field not in known and field not in BESIDES:
            raise InvalidInput(f"messages[{index}].{field}", message[field], f"one of {', '.join(known)}")
    try:
        given = {field: value for field, value in message.items() if field in known}
        besides = {field: value for field, value in message.items() if field not in known}
        return msgspec.convert(in_our_fields(given, besides), NewMessage)
    except msgspec.ValidationError as problem:
        field = wrong_field(problem)
        where = f"messages[{index}].{field}" if field else f"messages[{index}]"
        allowed = "one of " + ", ".join([*get_args(Role), *RENAMED_ROLES]) if field == "role" else f"allowed: {problem}"
        raise InvalidInput(where, message.get(field, dict(message)), allowed) from problem
