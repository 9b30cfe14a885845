"""One Idempotency-Key, one effect, one answer: over retries, processes and crashes (sections 3 and 16, G4).

The first attempt writes down that it is at work. The same key sent meanwhile waits for its answer; sent later, it
gets the stored one. If the attempt fails, the next takes over at once, if it dies, after ``ATTEMPT``; in the same
session either way. The effect is not doubled because the question's message id is made from the attempt id that the
first attempt wrote down, and a repeated id changes nothing. An attempt that was taken over while it slept gives its
successor's answer. A key that is sent again after it was forgotten has a new attempt id, and is a new question.

The answer is bound to its session and goes with it.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from wenmai.clock import Clock, from_micros
from wenmai.errors import IdempotencyMismatch, InvalidInput, SessionNotFound, VersionConflict
from wenmai.memory.finishing import to_the_end
from wenmai.memory.patience import Patience
from wenmai.scope import Scope
from wenmai.stores.base import Documents, Stored
from wenmai.stores.records import IdempotentTurn

_log = logging.getLogger(__name__)

ATTEMPT = timedelta(seconds=5)
RENEW_SECONDS = 1.0
POLL_SECONDS = 0.03
KEPT = timedelta(days=1)
_OVER = from_micros(0)
"""The end of an attempt that was given up: past for every clock."""
KEY_LIMIT = 255

Answer = dict[str, Any]


class ClaimLost(Exception):
    """Raised by work whose claim another attempt has taken over before it had an effect."""


async def _always() -> bool:
    return True


class Claim(msgspec.Struct, frozen=True):
    """What an attempt starts from.

    Attributes:
        session_id: where the first attempt began.
        attempt_id: the same for all attempts of a key.
        holds: whether the claim is still this attempt's. Work that waited asks it right before its effect, and raises
            :class:`ClaimLost` if it is not: the key may have gone with its session, and another attempt be at work.
    """

    session_id: str
    attempt_id: str
    holds: Callable[[], Awaitable[bool]] = _always

    @property
    def message_id(self) -> str:
        """The id of the question that was sent with the key."""
        return f"msg-idem-{self.attempt_id}"

    def successors(self) -> Callable[[], str]:
        """The ids of the sessions in which the question is asked if the one before is not continued, in this order.

        All attempts walk through the same ones, so a later attempt finds where an earlier one asked.
        """
        numbers = count(1)
        return lambda: f"session-idem-{self.attempt_id}-{next(numbers)}"


class Answered(msgspec.Struct, frozen=True):
    """What the work has led to: the answer, and the session that holds it."""

    answer: Answer
    session_id: str
    incarnation: str


Work = Callable[[Claim], Awaitable[Answered]]
"""Does the work, beginning in the session of the claim."""


def key_digest(key: str) -> str:
    """With what the attempt ids of a key begin, so that its messages are found in a transcript."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def checked_key(key: str) -> str:
    """The key, if it is one.

    Raises:
        InvalidInput: it is empty, longer than 255 characters, or not printable ASCII.
    """
    if not 1 <= len(key) <= KEY_LIMIT or not (key.isascii() and key.isprintable()):
        raise InvalidInput("Idempotency-Key", key, f"1 to {KEY_LIMIT} printable ASCII characters")
    return key


def _record_key(scope: Scope, key: str) -> str:
    """The store's keys are the whole site's; callers' keys are their own."""
    return hashlib.sha256(f"{scope.user_id}\0{key}".encode()).hexdigest()


class IdempotentTurns:
    """Runs work once per key."""

    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._running: dict[tuple[Scope, str], asyncio.Task[Answer]] = {}

    async def once(self, scope: Scope, key: str, request: Any, session_id: str, work: Work) -> Answer:
        """The answer to the request that was first sent with this key.

        Args:
            scope: whose key it is; another user's same key is another key.
            key: the Idempotency-Key.
            request: what was asked, JSON-like; a different one with the same key is refused.
            session_id: where the work goes on, unless an earlier attempt has chosen already.
            work: makes the answer; if it raises, the same request may be sent again.

        Raises:
            IdempotencyMismatch: the key was used with another request.
        """
        checked_key(key)
        fingerprint = hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()
        running = self._running.get((scope, key))
        if running is None:
            attempt = self._attempt(scope, key, fingerprint, session_id, work)
            running = asyncio.create_task(attempt)
            self._running[scope, key] = running
            running.add_done_callback(lambda _: self._running.pop((scope, key), None))
            return await running
        await asyncio.wait([running])
        return await self.once(scope, key, request, session_id, work)

    async def _attempt(self, scope: Scope, key: str, fingerprint: str, session_id: str, work: Work) -> Answer:
        mine = await self._claim_or_answer(scope, key, fingerprint, session_id)
        if mine.record.response is not None:
            return mine.record.response
        attempt = _Attempt(self._documents, self._clock, scope, mine)
        try:
            async with attempt.renewed():
                answered = await work(Claim(mine.record.asked_session, mine.record.attempt_id, attempt.holds))
        except ClaimLost:
            return await self._attempt(scope, key, fingerprint, session_id, work)
        except BaseException:
            await attempt.abandon()
            raise
        try:
            await attempt.finish(answered)
        except SessionNotFound:
            # The session was deleted meanwhile; the same key asks anew.
            await attempt.abandon()
            return answered.answer
        except VersionConflict:
            if await self._documents.get(scope, IdempotentTurn, mine.record.key) is None:
                return answered.answer
            return await self._attempt(scope, key, fingerprint, session_id, work)
        return answered.answer

    async def _claim_or_answer(
        self, scope: Scope, key: str, fingerprint: str, session_id: str
    ) -> Stored[IdempotentTurn]:
        """The record with its response, or claimed for us."""
        record_key = _record_key(scope, key)
        patience = Patience(self._clock, ATTEMPT)
        while True:
            stored = await self._documents.get(scope, IdempotentTurn, record_key)
            if stored is not None and stored.record.fingerprint != fingerprint:
                raise IdempotencyMismatch(key)
            if stored is not None and stored.record.response is not None:
                return stored
            if stored is not None and patience.is_held(stored, stored.record.attempt_expires_at):
                await asyncio.sleep(POLL_SECONDS)
                continue
            claim = IdempotentTurn(
                idempotency_key=record_key,
                fingerprint=fingerprint,
                attempt_id=stored.record.attempt_id if stored else key_digest(key) + secrets.token_hex(6),
                asked_session=stored.record.asked_session if stored else session_id,
                holder=secrets.token_hex(8),
                attempt_expires_at=self._clock() + ATTEMPT,
            )
            try:
                return await self._documents.put(
                    scope, claim, expected=stored.version if stored else 0, keep_until=self._clock() + KEPT
                )
            except VersionConflict:
                continue


class _Attempt:
    """The claim on a key while its work runs."""

    def __init__(self, documents: Documents, clock: Clock, scope: Scope, claim: Stored[IdempotentTurn]) -> None:
        self._documents = documents
        self._clock = clock
        self._scope = scope
        self._claim = claim

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Keep the claim for as long as the context lasts."""
        renewal = asyncio.create_task(self._renew_until_lost())
        try:
            yield
        finally:
            renewal.cancel()
            await asyncio.wait([renewal])

    async def _renew_until_lost(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._put_end(self._clock() + ATTEMPT)
            except VersionConflict:
                return  # taken over; what becomes of the answer is decided when there is one
            except Exception as problem:  # noqa: BLE001 — a renewal must survive what a store raises
                _log.warning("the claim on an Idempotency-Key could not be renewed: %r", problem)

    async def holds(self) -> bool:
        """Whether no other attempt has taken over, and the key has not gone with its session."""
        found = await self._documents.get(self._scope, IdempotentTurn, self._claim.record.key)
        return found is not None and found.record.holder == self._claim.record.holder

    async def finish(self, answered: Answered) -> None:
        """Store the answer, bound to its session.

        Raises:
            VersionConflict: another attempt has taken over, or the key was deleted with its session.
            SessionNotFound: the session is gone.
        """
        await self._put(
            msgspec.structs.replace(
                self._claim.record,
                response=answered.answer,
                session_id=answered.session_id,
                incarnation=answered.incarnation,
            )
        )

    async def abandon(self) -> None:
        """Let the next attempt begin at once; the record stays, because it says in which session."""
        try:
            await self._put_end(_OVER)
        except Exception as problem:  # noqa: BLE001 — what made the attempt fail is being raised
            _log.warning("the claim on an Idempotency-Key was not given up: %r", problem)

    async def _put_end(self, end: datetime) -> None:
        await self._put(msgspec.structs.replace(self._claim.record, attempt_expires_at=end))

    async def _put(self, record: IdempotentTurn) -> None:
        await to_the_end(self._put_and_note(record))

    async def _put_and_note(self, record: IdempotentTurn) -> None:
        try:
            self._claim = await self._put_over(record, self._claim.version)
        except VersionConflict:
            # Either another attempt has taken over, or the answer to our own last change was lost.
            found = await self._documents.get(self._scope, IdempotentTurn, record.key)
            if found is None or found.record.holder != record.holder:
                raise
            self._claim = await self._put_over(record, found.version)

    async def _put_over(self, record: IdempotentTurn, version: int) -> Stored[IdempotentTurn]:
        return await self._documents.put(self._scope, record, expected=version, keep_until=self._clock() + KEPT)
