"""Inferred preferences as a derived function: from the user's messages of a thread, a window at a time."""

from collections.abc import AsyncIterator, Sequence

from wenmai.memory.derived import Progress, ThreadChange
from wenmai.memory.preferences import PreferenceBook
from wenmai.stores.contracts import Logs
from wenmai.stores.records import Message

MAX_READ = 500
"""Messages read together, at most."""

INCOGNITO = "incognito"
"""In a question's metadata: nothing is inferred from it."""

TURN_MESSAGES = 2
"""Added to the messages of a window: the question that it was for, with its answer."""

READ_CHARACTERS = 4_000
"""Of each message; a pasted document says nothing about how its user wants to be answered."""


class DerivedPreferences:
    """Infers the preferences of a session; see :mod:`wenmai.memory.derived`.

    Args:
        window: messages that are read together; a longer piece of a thread is read window by window.
        history_cap: the most messages that are read of a thread that was never read.
        topic_words: see :func:`wenmai.memory.inference.infer`.
    """

    name = "preferences"
    concurrency = 8
    of_session = False

    def __init__(
        self, book: PreferenceBook, logs: Logs, *, window: int, history_cap: int, topic_words: Sequence[str]
    ) -> None:
        self._book = book
        self._logs = logs
        self.newest: int = max(1, min(window + TURN_MESSAGES, history_cap, MAX_READ))
        self._reach = self.newest
        self._history_cap = history_cap
        self._topic_words = topic_words

    async def progress(self, change: ThreadChange) -> Progress:
        """Behind if a window with new messages would change them."""
        session_id = change.thread.session_id
        async for questions in self._windows(change):
            if await self._book.would_change(change.scope, session_id, questions, self._topic_words):
                return Progress.BEHIND
        return Progress.CURRENT

    async def derive(self, change: ThreadChange) -> Progress:
        """Infer from each window that has new messages, the oldest first."""
        session_id, incarnation = change.thread.session_id, change.thread.incarnation or ""
        async for questions in self._windows(change):
            await self._book.infer(change.scope, session_id, questions, self._topic_words, incarnation=incarnation)
        return Progress.CURRENT

    async def _windows(self, change: ThreadChange) -> AsyncIterator[list[tuple[str, str]]]:
        end = max(change.after, change.last - self._history_cap)
        while end < change.last:
            end = min(end + self._reach, change.last)
            yield await self._questions(change, end)

    async def _questions(self, change: ThreadChange, end: int) -> list[tuple[str, str]]:
        """The user's messages among those of completed turns in the window that ends with the number ``end``."""
        start = max(1, end - self._reach + 1)
        messages = change.newest
        if end < change.last or not messages or messages[0].seq > start:
            messages = await self._logs.read(change.scope, change.thread, start=start, limit=end - start + 1)
        unfinished = {message.turn_id for message in messages if not message.completed}
        return [
            (f"{message.persona_id}#{message.turn_id}", message.content[:READ_CHARACTERS])
            for message in messages
            if message.turn_id not in unfinished and _may_be_read(message)
        ]


def _may_be_read(message: Message) -> bool:
    return message.role == "user" and not message.metadata.get(INCOGNITO)
