"""The newest messages of a session, for queries that only point back to them."""

from collections.abc import Iterator

from wenmai.memory.derived_preferences import INCOGNITO
from wenmai.memory.episode_entries import is_indexed
from wenmai.memory.history import History
from wenmai.memory.recalled_items import RecallQuery
from wenmai.memory.sessions import Sessions
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Message, Session

NEWEST = 6
"""Messages that *just now* refers to."""


class RecentMessages:
    """Reads them from the transcript, since they may not be in the index yet."""

    def __init__(self, sessions: Sessions, history: History) -> None:
        self._sessions = sessions
        self._history = history

    async def read(self, scope: Scope, asked: RecallQuery) -> list[tuple[ThreadKey, list[Message]]]:
        """The messages, or turns, of the session asked about or of the user's latest one; the newest first.

        Raises:
            SessionNotFound: the session is absent or foreign.
            StoreError: the store failed.
        """
        session = await self._session(scope, asked)
        if session is None:
            return []
        page = await self._history.page(
            scope, session.session_id, NEWEST, persona_id=asked.persona_id, incarnation=session.incarnation
        )
        turns: dict[tuple[str, int], list[Message]] = {}
        for message in page.messages:
            turns.setdefault((message.persona_id, message.turn_id), []).append(message)
        units = [
            (session.thread(persona_id), unit)
            for (persona_id, _), messages in turns.items()
            if not any(message.metadata.get(INCOGNITO) for message in messages)
            for unit in _units(asked, messages)
        ]
        return sorted(units, key=lambda each: (each[1][-1].timestamp, each[1][-1].seq), reverse=True)

    async def _session(self, scope: Scope, asked: RecallQuery) -> Session | None:
        if asked.session_id is not None:
            return (await self._sessions.get(scope, asked.session_id, incarnation=asked.incarnation)).record
        newest = (await self._sessions.list(scope, limit=1)).items
        return newest[0].record if newest else None


def _units(asked: RecallQuery, turn: list[Message]) -> Iterator[list[Message]]:
    wanted = [message for message in turn if is_indexed(message) and asked.allows(message)]
    if asked.unit == "turn" and wanted:
        yield wanted
    elif asked.unit == "message":
        yield from ([message] for message in wanted)
