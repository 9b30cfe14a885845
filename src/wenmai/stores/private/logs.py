"""Logs whose messages are screened before they are written."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from wenmai.resilience.offload import run_by_size
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Logs
from wenmai.stores.private.screening import LARGE, Screening, size_of
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.structs import ActiveThreads, Appended, ThreadInfo, ThreadPart
from wenmai.stores.values import check_completion, check_messages


class PrivateLogs:
    """See :class:`wenmai.stores.contracts.Logs`."""

    def __init__(self, logs: Logs, screening: Screening) -> None:
        self._logs = logs
        self._screening = screening

    async def append(
        self, scope: Scope, thread: ThreadKey, messages: Sequence[NewMessage], *, tail: int = 0, slide: bool = True
    ) -> Appended:
        """Append the messages without private values; what is returned has none either."""
        screening = self._screening

        def screened() -> list[NewMessage]:
            return [screening.message(message) for message in messages]

        try:
            new = await run_by_size(size_of(list(messages), LARGE), LARGE, screened)
        except (UnicodeEncodeError, RecursionError):
            check_messages(messages)  # names the field
            raise
        return await self._logs.append(scope, thread, new, tail=tail, slide=slide)

    async def complete(
        self,
        scope: Scope,
        thread: ThreadKey,
        message: Message,
        *,
        content: str,
        completed: bool = True,
        tokens: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message | None:
        """Complete the message with a content and metadata without private values."""
        screening = self._screening

        def screened() -> tuple[str, Mapping[str, Any] | None]:
            return screening.text(content), screening.value(metadata)

        try:
            text, data = await run_by_size(size_of([content, metadata], LARGE), LARGE, screened)
        except (UnicodeEncodeError, RecursionError):
            check_completion(content, tokens, metadata)  # names the field
            raise
        return await self._logs.complete(
            scope, thread, message, content=text, completed=completed, tokens=tokens, metadata=data
        )

    async def latest(
        self, scope: Scope, thread: ThreadKey, limit: int, *, before: int | None = None, whole_turns: bool = False
    ) -> list[Message]:
        """As stored."""
        return await self._logs.latest(scope, thread, limit, before=before, whole_turns=whole_turns)

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """As stored."""
        return await self._logs.read(scope, thread, start=start, limit=limit)

    async def read_parts(self, scope: Scope, parts: Sequence[ThreadPart]) -> list[list[Message]]:
        """As stored."""
        return await self._logs.read_parts(scope, parts)

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """The threads of a session."""
        return await self._logs.threads(scope, session_id, incarnation=incarnation)

    async def active_threads(
        self, *, since: datetime | None = None, cursor: str | None = None, limit: int = 500
    ) -> ActiveThreads:
        """The threads of all scopes."""
        return await self._logs.active_threads(since=since, cursor=cursor, limit=limit)

    async def erase(
        self, scope: Scope, session_id: str, persona_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        """Remove threads."""
        return await self._logs.erase(scope, session_id, persona_id, incarnation=incarnation)

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """Remove the messages after one."""
        return await self._logs.truncate(scope, thread, last_seq)
