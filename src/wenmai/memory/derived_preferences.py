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

GROUP_MESSAGES, GROUP_CHARACTERS = 120, 20_000
"""Windows are read and inferred from together up to about so many messages and characters."""

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
        async for windows in self._windows(change):
            if await self._book.would_change(change.scope, session_id, windows, self._topic_words):
                return Progress.BEHIND
        return Progress.CURRENT

    async def derive(self, change: ThreadChange) -> Progress:
        """Infer from each window that has new messages, the oldest first."""
        session_id, incarnation = change.thread.session_id, change.thread.incarnation or ""
        async for windows in self._windows(change):
            await self._book.infer(change.scope, session_id, windows, self._topic_words, incarnation=incarnation)
        return Progress.CURRENT

    async def _windows(self, change: ThreadChange) -> AsyncIterator[list[list[tuple[str, str]]]]:
        """The windows with new messages, ascending, in groups that are read from together."""
        end = max(change.after, change.last - self._history_cap)
        while end < change.last:
            start = max(1, min(end + self._reach, change.last) - self._reach + 1)
            messages = await self._messages(change, start)
            if not messages or messages[-1].seq <= end:
                return  # removed meanwhile, which resets the watermark
            group: list[list[tuple[str, str]]] = []
            characters = 0
            while end < messages[-1].seq and characters < GROUP_CHARACTERS:
                end = min(end + self._reach, messages[-1].seq)
                group.append(_questions([each for each in messages if end - self._reach < each.seq <= end]))
                characters += sum(len(text) for _, text in group[-1])
            yield group

    async def _messages(self, change: ThreadChange, start: int) -> Sequence[Message]:
        """Messages of several windows, from a number on."""
        if change.newest and change.newest[0].seq <= start:
            return change.newest
        limit = min(change.last - start + 1, max(1, GROUP_MESSAGES // self._reach) * self._reach)
        return await self._logs.read(change.scope, change.thread, start=start, limit=limit)


def _questions(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """The user's messages of completed turns, each with the reference of its turn."""
    unfinished = {message.turn_id for message in messages if not message.completed}
    return [
        (f"{message.persona_id}#{message.turn_id}", message.content[:READ_CHARACTERS])
        for message in messages
        if message.turn_id not in unfinished and _may_be_read(message)
    ]


def _may_be_read(message: Message) -> bool:
    return message.role == "user" and not message.metadata.get(INCOGNITO)
