"""Idempotency keys: one key, one effect, one answer, across retries, processes and crashes.

The first attempt stores a claim on the key. The same key sent meanwhile waits for the answer; sent later, it gets the
stored one. If the attempt fails, the next takes over at once; if its process dies, after ``ATTEMPT``; in the same
session either way. The effect is not repeated: the question's message id derives from the attempt id in the claim, and
appending a repeated id changes nothing. An attempt that was taken over while it slept returns its successor's answer.
A key used again after its retention gets a new attempt id, and is a new question.

The answer is bound to its session and is deleted with it.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from wenmai.clock import Clock, from_micros
from wenmai.errors import IdempotencyMismatch, InvalidInput, SessionNotFound, VersionConflict, WenmaiError
from wenmai.resilience.shielded import run_to_completion
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.lease_watch import LeaseWatch
from wenmai.stores.records import IdempotentTurn
from wenmai.stores.structs import Stored
from wenmai.stores.update import update

_log = logging.getLogger(__name__)

ATTEMPT = timedelta(seconds=5)
RENEW_SECONDS = 1.0
POLL_SECONDS = 0.03
RETENTION = timedelta(days=1)
_EXPIRED = from_micros(0)
"""Expiry of a released claim: in the past for every clock."""
KEY_LIMIT = 255

Answer = dict[str, Any]


class ClaimLost(Exception):
    """Raised by work when another attempt took its claim over before it had an effect."""


class _Held(Exception):
    """Another attempt has the claim."""


async def _always_held() -> bool:
    return True


class Claim(msgspec.Struct, frozen=True):
    """The claim on a key, handed to the work.

    Attributes:
        session_id: the session of the first attempt.
        attempt_id: the same for all attempts of a key.
        is_held: whether this attempt still has the claim. Work that waited checks it right before its effect, and
            raises :class:`ClaimLost` if not: the key may have been deleted with its session and claimed anew.
    """

    session_id: str
    attempt_id: str
    is_held: Callable[[], Awaitable[bool]] = _always_held

    @property
    def message_id(self) -> str:
        """The message id of the question sent with the key."""
        return f"msg-idem-{self.attempt_id}"

    def fallback_ids(self) -> Callable[[], str]:
        """Session ids to try in this order when a session cannot be continued.

        The same for all attempts, so a later attempt finds the session of an earlier one.
        """
        numbers = count(1)
        return lambda: f"session-idem-{self.attempt_id}-{next(numbers)}"


class WorkResult(msgspec.Struct, frozen=True):
    """The answer, and the session that it is bound to."""

    answer: Answer
    session_id: str
    incarnation: str


Work = Callable[[Claim], Awaitable[WorkResult]]
"""Does the work, starting in the claim's session."""


def key_digest(key: str) -> str:
    """Prefix of a key's attempt ids, by which its messages can be found in a transcript."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def checked_key(key: str) -> str:
    """The key, if it is valid.

    Raises:
        InvalidInput: it is empty, longer than 255 characters, or not printable ASCII.
    """
    if not 1 <= len(key) <= KEY_LIMIT or not (key.isascii() and key.isprintable()):
        raise InvalidInput("Idempotency-Key", key, f"1 to {KEY_LIMIT} printable ASCII characters")
    return key


def _record_key(scope: Scope, key: str) -> str:
    """Store keys are shared by the site; callers' keys belong to one user."""
    return hashlib.sha256(f"{scope.user_id}\0{key}".encode()).hexdigest()


class IdempotentTurns:
    """Runs work once per key."""

    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._running: dict[tuple[Scope, str], asyncio.Task[Answer]] = {}

    async def once(self, scope: Scope, key: str, request: Any, session_id: str, work: Work) -> Answer:
        """The answer to the request first sent with this key.

        Args:
            scope: the owner of the key; another user's same key is another key.
            key: the Idempotency-Key.
            request: JSON-like; a different request with the same key is rejected.
            session_id: where the work starts, unless an earlier attempt has a claim.
            work: produces the answer; if it raises, the same request may be retried.

        Raises:
            IdempotencyMismatch: the key was used with another request.
        """
        checked_key(key)
        # Keyed, or what a stored request had in place of its placeholders could be guessed from the digest.
        encoded = msgspec.json.encode(request, order="deterministic")
        fingerprint = hmac.digest(key.encode(), encoded, "sha256").hex()
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
                result = await work(Claim(mine.record.asked_session, mine.record.attempt_id, attempt.is_held))
        except ClaimLost:
            return await self._attempt(scope, key, fingerprint, session_id, work)
        try:
            await attempt.complete(result)
        except SessionNotFound:
            # The session was deleted meanwhile; the same key asks again.
            await attempt.release()
            return result.answer
        except VersionConflict:
            if await self._documents.get(scope, IdempotentTurn, mine.record.key) is None:
                return result.answer
            return await self._attempt(scope, key, fingerprint, session_id, work)
        return result.answer

    async def _claim_or_answer(
        self, scope: Scope, key: str, fingerprint: str, session_id: str
    ) -> Stored[IdempotentTurn]:
        """The record with its response, or our new claim."""
        record_key = _record_key(scope, key)
        watch = LeaseWatch(self._clock, ATTEMPT)

        def claimed(stored: Stored[IdempotentTurn] | None) -> IdempotentTurn:
            if stored is not None and stored.record.fingerprint != fingerprint:
                raise IdempotencyMismatch(key)
            if stored is not None and stored.record.response is not None:
                return stored.record
            if stored is not None and watch.is_held(stored, stored.record.attempt_expires_at):
                raise _Held
            return IdempotentTurn(
                idempotency_key=record_key,
                fingerprint=fingerprint,
                attempt_id=stored.record.attempt_id if stored else key_digest(key) + secrets.token_hex(6),
                asked_session=stored.record.asked_session if stored else session_id,
                holder=secrets.token_hex(8),
                attempt_expires_at=self._clock() + ATTEMPT,
            )

        while True:
            end = self._clock() + RETENTION
            try:
                return await update(self._documents, scope, IdempotentTurn, record_key, claimed, keep_until=end)
            except _Held:
                await asyncio.sleep(POLL_SECONDS)


class _Attempt:
    """Renews and completes a claim while its work runs."""

    def __init__(self, documents: Documents, clock: Clock, scope: Scope, claim: Stored[IdempotentTurn]) -> None:
        self._documents = documents
        self._clock = clock
        self._scope = scope
        self._claim = claim

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Renew the claim for as long as the context lasts; work that fails releases it, unless it was lost."""
        renewal = asyncio.create_task(self._renew_until_lost())
        failed = True
        try:
            yield
            failed = False
        except ClaimLost:
            failed = False
            raise
        finally:
            renewal.cancel()
            await asyncio.wait([renewal])
            if failed:
                await self.release()

    async def _renew_until_lost(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._put_expiry(self._clock() + ATTEMPT)
            except VersionConflict:
                return  # taken over; the conflict is handled when there is an answer
            except Exception as problem:  # noqa: BLE001 — a renewal must survive any store error
                _log.warning("the claim on an Idempotency-Key could not be renewed: %r", problem)

    async def is_held(self) -> bool:
        """Whether this attempt still has the claim: not taken over, not deleted with its session."""
        found = await self._documents.get(self._scope, IdempotentTurn, self._claim.record.key)
        return found is not None and found.record.holder == self._claim.record.holder

    async def complete(self, result: WorkResult) -> None:
        """Store the answer, bound to its session.

        Raises:
            VersionConflict: another attempt has taken over, or the key was deleted with its session.
            SessionNotFound: the session was deleted.
        """
        await self._put(
            msgspec.structs.replace(
                self._claim.record,
                response=result.answer,
                session_id=result.session_id,
                incarnation=result.incarnation,
            )
        )

    async def release(self) -> None:
        """Release the claim, so that the next attempt starts at once; the record is kept, as it names the session."""
        try:
            await self._put_expiry(_EXPIRED)
        except WenmaiError as problem:
            _log.warning("the claim on an Idempotency-Key could not be released: %r", problem)

    async def _put_expiry(self, expires_at: datetime) -> None:
        await self._put(msgspec.structs.replace(self._claim.record, attempt_expires_at=expires_at))

    async def _put(self, record: IdempotentTurn) -> None:
        await run_to_completion(self._put_and_record(record))

    async def _put_and_record(self, record: IdempotentTurn) -> None:
        try:
            self._claim = await self._put_over(record, self._claim.version)
        except VersionConflict:
            # Either another attempt has taken over, or the reply to our own last write was lost.
            found = await self._documents.get(self._scope, IdempotentTurn, record.key)
            if found is None or found.record.holder != record.holder:
                raise
            self._claim = await self._put_over(record, found.version)

    async def _put_over(self, record: IdempotentTurn, version: int) -> Stored[IdempotentTurn]:
        return await self._documents.put(self._scope, record, expected=version, keep_until=self._clock() + RETENTION)
