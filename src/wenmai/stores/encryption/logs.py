"""Logs whose messages are encrypted."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from wenmai.resilience.offload import run_by_size
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Logs
from wenmai.stores.encryption.ciphers import key_id_of, random_bytes
from wenmai.stores.encryption.data_keys import DataKeys
from wenmai.stores.encryption.records import (
    LARGE,
    completion_looks_sealed,
    open_message,
    seal_completion,
    seal_message,
    sealed_fields,
    size_of,
)
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.structs import ActiveThreads, Appended, ThreadInfo, ThreadPart
from wenmai.stores.validation import check_key
from wenmai.stores.values import check_completion, check_messages, check_owner

_COST = 200
"""Of decrypting a message, in characters."""


class EncryptedLogs:
    """See :class:`wenmai.stores.contracts.Logs`; the arguments are those of :class:`EncryptedDocuments`.

    Without ``writes`` only what looks like a ciphertext is encrypted: a reader would take it for one.
    """

    def __init__(self, logs: Logs, keys: DataKeys, *, writes: bool) -> None:
        self._logs = logs
        self._keys = keys
        self._writes = writes

    async def append(
        self, scope: Scope, thread: ThreadKey, messages: Sequence[NewMessage], *, tail: int = 0, slide: bool = True
    ) -> Appended:
        """Append the messages with their private fields encrypted, and return them with those."""
        check_messages(messages)
        encrypts = self._writes or any(map(sealed_fields, messages))
        new = await self._sealed(scope, thread, messages) if encrypts else messages
        appended = await self._logs.append(scope, thread, new, tail=tail, slide=slide)
        opened = await self._opened(scope, thread, [*appended.messages, *appended.tail])
        count = len(appended.messages)
        return replace(appended, messages=opened[:count], tail=opened[count:])

    async def _sealed(self, scope: Scope, thread: ThreadKey, messages: Sequence[NewMessage]) -> list[NewMessage]:
        """The messages encrypted, each with an id: that of its place is part of what is authenticated."""
        check_owner(scope, thread.session_id, thread.persona_id)
        check_key("persona_id", thread.persona_id)
        key = await self._keys.of_session(scope, thread.incarnation or "")

        def sealed() -> list[NewMessage]:
            named = [each if each.id else replace(each, id=f"msg-{random_bytes().hex()}") for each in messages]
            return [seal_message(key, scope, thread, each) for each in named]

        return await run_by_size(size_of(messages), LARGE, sealed)

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
        """Complete the message with an encrypted content and metadata, and return it with those."""
        check_completion(content, tokens, metadata)
        if self._writes or completion_looks_sealed(content, metadata):
            check_owner(scope, thread.session_id, thread.persona_id)
            key = await self._keys.of_session(scope, thread.incarnation or "")
            size = size_of([content, metadata])
            content, metadata = await run_by_size(
                size, LARGE, seal_completion, key, scope, thread, message, content, metadata
            )
        found = await self._logs.complete(
            scope, thread, message, content=content, completed=completed, tokens=tokens, metadata=metadata
        )
        return None if found is None else (await self._opened(scope, thread, [found]))[0]

    async def latest(
        self, scope: Scope, thread: ThreadKey, limit: int, *, before: int | None = None, whole_turns: bool = False
    ) -> list[Message]:
        """The messages, decrypted."""
        found = await self._logs.latest(scope, thread, limit, before=before, whole_turns=whole_turns)
        return await self._opened(scope, thread, found)

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """The messages, decrypted."""
        return await self._opened(scope, thread, await self._logs.read(scope, thread, start=start, limit=limit))

    async def read_parts(self, scope: Scope, parts: Sequence[ThreadPart]) -> list[list[Message]]:
        """The messages, decrypted."""
        found = await self._logs.read_parts(scope, parts)
        return [await self._opened(scope, part.thread, each) for part, each in zip(parts, found, strict=True)]

    async def _opened(self, scope: Scope, thread: ThreadKey, messages: list[Message]) -> list[Message]:
        sealed = [sealed_fields(each) for each in messages]
        named = {key_id_of(text) for each in sealed for text in each.values()}
        if not named:
            return messages
        keys = await self._keys.named(scope, named)

        def opened() -> list[Message]:
            together = zip(messages, sealed, strict=True)
            return [open_message(keys, scope, thread, message, own) for message, own in together]

        return await run_by_size(sum(len(each.content) + _COST for each in messages), LARGE, opened)

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
