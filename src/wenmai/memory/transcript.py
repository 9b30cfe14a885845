"""The transcript: append-only messages, in order; all other memory is derived from it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, cast, get_args

import msgspec

from wenmai.errors import InvalidInput
from wenmai.memory.chat_messages import EXTRA_FIELDS, RENAMED_ROLES, to_message_fields
from wenmai.memory.ids import checked_id, wrong_field
from wenmai.memory.sizes import count_message_tokens
from wenmai.memory.window import MAX_UNSUMMARISED, Window, WindowLimits, check_limits, cut_window
from wenmai.resilience.offload import run_by_size
from wenmai.resilience.shielded import run_to_completion
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Logs
from wenmai.stores.records import Message, NewMessage, Role
from wenmai.stores.structs import Appended, ThreadInfo
from wenmai.stores.validation import check_range
from wenmai.stores.values import MAX_INTEGER, check_messages
from wenmai.text.tokens import TokenCounter, estimate_tokens

CONTENT_LIMIT = 1_000_000
NAME_LIMIT = 256
READ_PAGE = 500
_ROLES = frozenset(get_args(Role))
_PLAIN_FIELDS = frozenset({"role", "content"})
LARGE = 100_000
"""From so many characters on, tokens are counted in a worker thread, which keeps the event loop free."""

MessageInput = Mapping[str, Any] | NewMessage
"""A message as callers write it: {role, content, id?, name?, timestamp?, tool_calls?, tool_call_id?, metadata?}.

OpenAI's chat messages are accepted too: see :mod:`wenmai.memory.chat_messages`.
"""


class Transcript:
    """Appends to threads and reads them.

    Args:
        history_cap: the most messages that a window reaches back.
        on_change: called with a thread to which messages were appended.
        on_complete: called with a thread and the number of a message that was completed.
        on_cut: awaited with a thread of which messages were removed.
        on_truncate: entered with a thread and the last message that is kept before messages are removed, and left
            afterwards.
    """

    def __init__(
        self,
        logs: Logs,
        *,
        history_cap: int = 500,
        count_tokens: TokenCounter = estimate_tokens,
        on_change: Callable[[Scope, ThreadKey], None] | None = None,
        on_complete: Callable[[Scope, ThreadKey, int], None] | None = None,
        on_cut: Callable[[Scope, ThreadKey], Awaitable[None]] | None = None,
        on_truncate: Callable[[Scope, ThreadKey, int], AbstractAsyncContextManager[None]] | None = None,
    ) -> None:
        self._logs = logs
        self._on_change = on_change
        self._on_complete = on_complete
        self._on_cut = on_cut
        self._on_truncate = on_truncate
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
        """Append the messages, all or none, and cut the window in the same store call if requested.

        Raises:
            InvalidInput: a message is not allowed; the field is named as ``messages[1].role``.
            SessionNotFound: the session is absent or foreign.
            SessionExpired: it is past its lifetime.
        """
        new = await self.prepare(messages)
        tail = 0 if window is None else self._reach(window)
        appended = await self._logs.append(scope, thread, new, tail=tail, slide=slide)
        if self._on_change is not None:
            known = thread.incarnation is not None
            self._on_change(scope, thread if known else thread._replace(incarnation=appended.incarnation))
        return appended, None if window is None else await self._cut(scope, thread, appended.tail, window)

    async def prepare(self, messages: Sequence[MessageInput]) -> list[NewMessage]:
        """The messages as :meth:`append` writes them, validated and with token counts.

        Raises:
            InvalidInput: a message is not allowed; the field is named as ``messages[1].role``.
        """
        if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
            raise InvalidInput("messages", messages, "a list of messages")
        messages = [*messages]
        plain = [_plain(message) for message in messages]
        new = [known or _converted(index, messages[index]) for index, known in enumerate(plain)]
        if None in plain:
            check_messages(new)
        for index, message in enumerate(new):
            _check(index, message)

        def count() -> list[NewMessage]:
            return [self._with_tokens(message) for message in new]

        return await run_by_size(_size(new), LARGE, count)

    async def complete(
        self,
        scope: Scope,
        thread: ThreadKey,
        message: Message,
        *,
        content: str,
        completed: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message | None:
        """Complete a message that was appended unfinished; None if it was deleted or already completed."""
        stored = await self._logs.complete(
            scope,
            thread,
            message,
            content=content,
            completed=completed,
            tokens=self._count_tokens(content),
            metadata=metadata,
        )
        if self._on_complete is not None and stored is not None and thread.incarnation is not None:
            self._on_complete(scope, thread, stored.seq)
        return stored

    async def window(self, scope: Scope, thread: ThreadKey, limits: WindowLimits) -> Window:
        """The newest completed turns that fit."""
        found = await self._logs.latest(scope, thread, self._reach(limits), whole_turns=True)
        return await self._cut(scope, thread, found, limits)

    async def shortened(self, window: Window, tokens: int) -> Window:
        """The newest turns of a window that fit into so many tokens."""
        limits = WindowLimits(messages=len(window.messages) if tokens else 0, characters=None, tokens=tokens)

        def cut() -> Window:
            return cut_window(window.messages, limits, count_tokens=self._count_tokens)

        cut_again = await run_by_size(_size(window.messages), LARGE, cut)
        return msgspec.structs.replace(
            cut_again, shortened=window.shortened + cut_again.shortened, more=window.more or cut_again.more
        )

    async def latest(self, scope: Scope, thread: ThreadKey, limit: int, *, before: int | None = None) -> list[Message]:
        """The newest ``limit`` messages, ascending, including unfinished ones."""
        return await self._logs.latest(scope, thread, limit, before=before)

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """The session's threads, in the order in which they began; see :meth:`wenmai.stores.contracts.Logs.threads`."""
        return await self._logs.threads(scope, session_id, incarnation=incarnation)

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """Delete the messages after ``last_seq``; returns how many.

        See :meth:`wenmai.stores.contracts.Logs.truncate`.
        """
        check_range("last_seq", last_seq, 0, MAX_INTEGER)
        return await run_to_completion(self._truncate(scope, thread, last_seq))

    async def _truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        watched = self._on_truncate if thread.incarnation is not None else None
        async with watched(scope, thread, last_seq) if watched else nullcontext():
            removed = await self._logs.truncate(scope, thread, last_seq)
        # Also if there is nothing to remove: an attempt before may have failed after it removed them.
        if self._on_cut is not None and thread.incarnation is not None:
            await self._on_cut(scope, thread)
        return removed

    async def read_all(self, scope: Scope, thread: ThreadKey) -> AsyncIterator[Message]:
        """Every message of the thread, ascending, read in pages."""
        start = 1
        while page := await self._logs.read(scope, thread, start=start, limit=READ_PAGE):
            for message in page:
                yield message
            start = page[-1].seq + 1

    def _reach(self, limits: WindowLimits) -> int:
        """How many messages to read: one more than may enter, to find the turn boundary, and those not summarised."""
        check_limits(limits)
        return min(limits.messages, self._history_cap) + MAX_UNSUMMARISED + 1

    async def _cut(self, scope: Scope, thread: ThreadKey, found: list[Message], limits: WindowLimits) -> Window:
        bounded = msgspec.structs.replace(limits, messages=min(limits.messages, self._history_cap))
        more = len(found) >= self._reach(limits)
        if more and bounded.messages > 0 and found[0].turn_id == found[-1].turn_id:
            # The turn is longer than the window: its question, and any older turns, are further back.
            reach = max(1, self._history_cap - len(found))
            rest = await self._logs.latest(scope, thread, reach, before=found[0].seq, whole_turns=True)
            beginning = [message for message in rest if message.turn_id == found[0].turn_id]
            more = len(rest) > len(beginning) or (len(rest) == reach and rest[0].turn_id > 1)
            found = [*beginning, *found]

        def cut() -> Window:
            return cut_window(found, bounded, count_tokens=self._count_tokens, more=more)

        return await run_by_size(_size(found), LARGE, cut)

    def _with_tokens(self, message: NewMessage) -> NewMessage:
        if message.tokens:
            return message
        return msgspec.structs.replace(message, tokens=count_message_tokens(message, self._count_tokens))


def _size(messages: Sequence[Message | NewMessage]) -> int:
    # Tool call arguments are not measured: that would take as long as counting them.
    return sum([len(message.content) for message in messages])


def _check(index: int, new: NewMessage) -> None:
    """Reject what a store could keep but a transcript does not allow."""
    if len(new.content) > CONTENT_LIMIT or "\0" in new.content:
        allowed = f"at most {CONTENT_LIMIT} characters without NUL"
        raise InvalidInput(f"messages[{index}].content", new.content, allowed)
    if new.id is not None:
        checked_id(f"messages[{index}].id", new.id)
    if new.name is not None and (not 1 <= len(new.name) <= NAME_LIMIT or "\0" in new.name):
        raise InvalidInput(f"messages[{index}].name", new.name, f"1 to {NAME_LIMIT} characters without NUL")
    if new.tokens < 0:
        raise InvalidInput(f"messages[{index}].tokens", new.tokens, "0 or more")


def _plain(message: MessageInput) -> NewMessage | None:
    """The message if it has only a role and a text, as nearly all have; the store validates the rest."""
    if type(message) is dict and message.keys() == _PLAIN_FIELDS:
        role, content = message["role"], message["content"]
        if type(role) is str and role in _ROLES and type(content) is str:
            return NewMessage(role=cast("Role", role), content=content)
    return None


def _converted(index: int, message: MessageInput) -> NewMessage:
    if isinstance(message, NewMessage):
        return message
    if not isinstance(message, Mapping):
        raise InvalidInput(f"messages[{index}]", message, "an object with role and content, or a NewMessage")
    known = NewMessage.__struct_fields__
    for field in message:
        if field not in known and field not in EXTRA_FIELDS:
            raise InvalidInput(f"messages[{index}].{field}", message[field], f"one of {', '.join(known)}")
    try:
        given = {field: value for field, value in message.items() if field in known}
        extra = {field: value for field, value in message.items() if field not in known}
        return msgspec.convert(to_message_fields(given, extra), NewMessage)
    except msgspec.ValidationError as problem:
        field = wrong_field(problem)
        where = f"messages[{index}].{field}" if field else f"messages[{index}]"
        allowed = "one of " + ", ".join([*get_args(Role), *RENAMED_ROLES]) if field == "role" else f"allowed: {problem}"
        raise InvalidInput(where, message.get(field, dict(message)), allowed) from problem
