"""The business state of sessions: read, advanced by what users say, corrected, and audited.

A change is one compare-and-set of the session's record, which has the newest changes with their causes; the loser of
two applies its message again to what the other wrote. Before a record has too many changes, the oldest are copied into
an audit record, so that each version is either in the one or in the other.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakValueDictionary

import msgspec

from wenmai.business.reply import UnderstandingReply, merged
from wenmai.business.rules import BusinessRules
from wenmai.business.understanding import Recognized, Vocabulary, in_own_words
from wenmai.clock import Clock
from wenmai.errors import SessionNotFound, VersionConflict
from wenmai.memory.state_audit import ARCHIVED, StateAudits
from wenmai.memory.state_correction import StateCorrection, corrected, reset
from wenmai.memory.state_machine import advance, carried, is_restated
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import BusinessState, StateChange
from wenmai.stores.structs import Stored
from wenmai.stores.update import update
from wenmai.stores.validation import check_range

RECENT = 256
"""States that a process keeps as it stored them last."""

MAX_CHANGES = 200


class StateUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it was recognized, and the state after it.

    Attributes:
        changes: that the message made.
        carried: the object and the stage that it refers to without naming them.
        by_model: whether a model recognized it, or the words of the rules.
    """

    recognized: Recognized
    state: BusinessState
    changes: list[StateChange] = []
    carried: list[str] = []
    by_model: bool = False

    @property
    def restated(self) -> bool:
        """Whether ``carried`` says all that the message asks: it only points to an object and a stage."""
        return bool(self.carried) and is_restated(self.recognized, self.changes)

    def in_own_words(self, text: str) -> str:
        """A part of the message, normalised, in the names of the rules; without customers and what was not meant."""
        return in_own_words(text, self.recognized.aliases)

    def search_text(self, query: str) -> str:
        """The message with what it refers to, for a search."""
        return " ".join(self.carried if self.restated else [*self.carried, query])


class _NothingToStore(Exception):
    """The state stays empty, and no record is made for it."""


class _TooManyChanges(Exception):
    """The oldest changes have to be archived first."""

    def __init__(self, state: BusinessState) -> None:
        super().__init__(state.session_id)
        self.state = state


class StateBook:
    """Reads and changes the business states of sessions.

    Attributes:
        rules: of the profile; None recognizes nothing.
    """

    def __init__(self, documents: Documents, clock: Clock, rules: BusinessRules | None = None) -> None:
        self._documents = documents
        self._clock = clock
        self._audits = StateAudits(documents)
        self.rules: BusinessRules | None = rules
        self._vocabularies: list[tuple[BusinessRules, Vocabulary]] = []
        self._recent: OrderedDict[tuple[Scope, str], Stored[BusinessState]] = OrderedDict()
        """States as this process stored them; the next change begins with them, and the store refuses stale ones."""
        self._changing: WeakValueDictionary[tuple[Scope, str], asyncio.Lock] = WeakValueDictionary()
        """Changes of this process are made one after another: of many at once each would lose against the others."""

    async def get(self, scope: Scope, session_id: str, *, incarnation: str = "") -> BusinessState:
        """The state of the session; an empty one if there is none, or the session is foreign or another incarnation."""
        stored = await self._documents.get(scope, BusinessState, session_id)
        if stored is None or incarnation not in ("", stored.record.incarnation):
            return BusinessState(session_id=session_id, incarnation=incarnation)
        return stored.record

    async def understand(
        self,
        scope: Scope,
        session_id: str,
        query: str,
        *,
        incarnation: str = "",
        turn: str = "",
        rules: BusinessRules | None = None,
        reply: UnderstandingReply | None = None,
    ) -> StateUpdate:
        """Understand a message and advance the state; a message that names nothing costs no write.

        Args:
            scope: the owner of the session.
            session_id: of the session.
            query: the message.
            incarnation: of the session; "" for the one that has the id now.
            turn: ``persona_id#turn_id`` of the message, for the audit; a repeated turn changes nothing again.
            rules: instead of this book's.
            reply: what a model says of the message, instead of its words alone.

        Raises:
            InvalidReply: the model's reply is not in the terms of the rules; nothing is changed.
            SessionNotFound: the session is absent, foreign, or another incarnation.
        """
        empty = BusinessState(session_id=session_id, incarnation=incarnation)
        rules = rules or self.rules
        if rules is None:
            return StateUpdate(recognized=Recognized(), state=empty)
        vocabulary, now = await self._vocabulary_of(rules), self._clock()
        said = vocabulary.understand(query)
        if reply is not None:
            said = merged(said, reply, rules, query)
        if not said.named:
            state = await self.get(scope, session_id, incarnation=incarnation)
            words = carried(said, [], state, rules)
            return StateUpdate(recognized=said, state=state, carried=words, by_model=reply is not None)
        result = StateUpdate(recognized=said, state=empty)

        def advanced(state: BusinessState) -> BusinessState:
            nonlocal result
            current = state.current.business_object if state.current else ""
            heard = vocabulary.understand(query, current_object=current) if said.ambiguous and current else said
            after, changes = advance(state, heard, rules, now, turn=turn)
            words = carried(heard, changes, after, rules)
            result = StateUpdate(recognized=heard, state=after, changes=changes, carried=words)
            return after

        stored = await self._update(scope, session_id, incarnation, advanced)
        return msgspec.structs.replace(result, state=stored, by_model=reply is not None)

    async def _vocabulary_of(self, rules: BusinessRules) -> Vocabulary:
        for known, vocabulary in self._vocabularies:
            if known is rules:
                return vocabulary
        vocabulary = await asyncio.to_thread(Vocabulary, rules)
        self._vocabularies.append((rules, vocabulary))
        return vocabulary

    async def correct(
        self, scope: Scope, session_id: str, correction: StateCorrection, *, incarnation: str = ""
    ) -> BusinessState:
        """Apply the user's correction; returns the state.

        Raises:
            InvalidInput: a value is not in the rules; nothing is changed.
            VersionConflict: the state has another version than the correction names.
            SessionNotFound: the session is absent, foreign, or another incarnation.
        """
        now = self._clock()
        return await self._update(
            scope, session_id, incarnation, lambda state: corrected(state, correction, self.rules, now)
        )

    async def reset(self, scope: Scope, session_id: str, *, incarnation: str = "") -> BusinessState:
        """Forget customer and operations; the audit stays until the session is deleted. An empty state stays as it is.

        Raises:
            SessionNotFound: the session is absent, foreign, or another incarnation.
        """
        now = self._clock()
        return await self._update(scope, session_id, incarnation, lambda state: reset(state, now))

    async def changes(
        self, scope: Scope, session_id: str, limit: int = 50, *, before: int | None = None, incarnation: str = ""
    ) -> list[StateChange]:
        """The newest changes of the session's state, ascending; ``before`` is a version.

        Raises:
            InvalidInput: ``limit`` is not 1 to 200.
        """
        check_range("limit", limit, 1, MAX_CHANGES)
        state = await self.get(scope, session_id, incarnation=incarnation)
        return (await self._audits.collect(scope, state, enough=limit, before=before))[-limit:]

    async def all_changes(self, scope: Scope, state: BusinessState) -> list[StateChange]:
        """Every change of the state, ascending."""
        return await self._audits.collect(scope, state)

    async def restore(self, scope: Scope, state: BusinessState) -> bool:
        """Store a state with all its changes, unless the session has one; whether it was stored.

        Raises:
            InvalidInput: a value cannot be stored.
            SessionNotFound: the session is absent, foreign, or another incarnation.
        """
        if await self._documents.get(scope, BusinessState, state.session_id) is not None:
            return False
        try:
            await self._documents.put(scope, await self._audits.archive_all(scope, state), expected=0)
        except VersionConflict:
            return False
        return True

    async def _update(
        self, scope: Scope, session_id: str, incarnation: str, edit: Callable[[BusinessState], BusinessState]
    ) -> BusinessState:
        lock = self._changing.setdefault((scope, session_id), asyncio.Lock())
        async with lock:
            return await self._edit(scope, session_id, incarnation, edit)

    async def _edit(
        self, scope: Scope, session_id: str, incarnation: str, edit: Callable[[BusinessState], BusinessState]
    ) -> BusinessState:
        archived = "", 0

        def edited(stored: Stored[BusinessState] | None) -> BusinessState:
            if stored is not None and incarnation not in ("", stored.record.incarnation):
                raise SessionNotFound(session_id)
            before = stored.record if stored else BusinessState(session_id=session_id, incarnation=incarnation)
            if before.incarnation == archived[0]:
                left = [change for change in before.changes if change.version > archived[1]]
                before = msgspec.structs.replace(before, changes=left)
            if len(before.changes) >= 2 * ARCHIVED:
                raise _TooManyChanges(before)
            after = edit(before)
            if stored is None and after == before:
                raise _NothingToStore
            return after

        while True:
            try:
                return await self._change(scope, session_id, incarnation, edited)
            except _NothingToStore:
                return BusinessState(session_id=session_id, incarnation=incarnation)
            except _TooManyChanges as full:
                archived = await self._audits.archive(scope, full.state)

    async def _change(
        self,
        scope: Scope,
        session_id: str,
        incarnation: str,
        edited: Callable[[Stored[BusinessState] | None], BusinessState],
    ) -> BusinessState:
        """Update the record, beginning with the state that this process stored last."""
        known = self._recent.pop((scope, session_id), None)
        if known is not None and incarnation not in ("", known.record.incarnation):
            known = None  # of a session that another process deleted
        stored = await update(self._documents, scope, BusinessState, session_id, edited, known=known)
        self._recent[scope, session_id] = stored
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)
        return stored.record
