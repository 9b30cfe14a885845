"""API keys: created once, stored as a digest, checked with each request, revoked by id."""

import hmac
import time
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, cast

from msgspec.structs import replace

from wenmai.auth.key_text import KeyText, new_key, parse_key
from wenmai.auth.principal import RIGHTS, Principal, Right
from wenmai.auth.rates import parse_rate
from wenmai.clock import Clock
from wenmai.errors import ApiKeyNotFound, InvalidInput, Unauthenticated
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import ApiKeyRecord
from wenmai.stores.structs import Page, Stored
from wenmai.stores.update import update

KEYS_SCOPE = Scope("*", "*", "")
"""Keys are found before their tenant is known, so they are kept where no request can write."""

CACHE_SECONDS = 5.0
"""A revocation is seen by other processes within so long."""

MAX_CACHED = 10_000
MAX_NAME = 200
_PAGE = 200


class _Checked(NamedTuple):
    record: ApiKeyRecord | None
    until: float


class ApiKeys:
    """The API keys of a store.

    Args:
        documents: keep them.
        clock: decides expiry.
        pepper: a secret outside of the store that enters the digests; a copy of the store then proves no key.
    """

    def __init__(self, documents: Documents, clock: Clock, *, pepper: str = "") -> None:
        self._documents = documents
        self._clock = clock
        self._pepper = b"wenmai api key" + pepper.encode()
        self._cache: OrderedDict[str, _Checked] = OrderedDict()

    async def create(
        self,
        *,
        tenant_id: str,
        rights: Sequence[Right],
        sites: Sequence[str] = (),
        user_id: str = "",
        name: str = "",
        expires_at: datetime | None = None,
        rate_limit: str = "",
    ) -> tuple[str, ApiKeyRecord]:
        """A new key, which is shown only now, and its record.

        Args:
            tenant_id: the tenant that it speaks for.
            rights: what it may do.
            sites: the sites; empty for all of the tenant.
            user_id: the user; empty for all of the tenant.
            name: whose it is, or what for.
            expires_at: refused from then on.
            rate_limit: of its own, such as ``60/minute``; empty for that of the setting.

        Raises:
            InvalidInput: a right does not exist, there is none, the name is too long or not printable, the expiry is
                past, or the rate has another form.
            StoreError: the key may not be stored.
        """
        unknown = [right for right in rights if right not in RIGHTS]
        if unknown or not rights:
            raise InvalidInput("rights", unknown, f"one or more of {', '.join(RIGHTS)}")
        if len(name) > MAX_NAME or not name.isprintable():  # a line break would make two lines of a list
            raise InvalidInput("name", name, f"at most {MAX_NAME} printable characters")
        if expires_at is not None and expires_at <= self._clock():
            raise InvalidInput("expires_at", expires_at.isoformat(), "in the future")
        if rate_limit:
            parse_rate(rate_limit)
        key = new_key()
        record = ApiKeyRecord(
            key_id=key.key_id,
            name=name,
            digest=self._digest(key),
            for_tenant=tenant_id,
            for_sites=list(sites),
            for_user=user_id,
            rights=sorted(set(rights), key=RIGHTS.index),
            expires_at=expires_at,
            rate_limit=rate_limit,
        )
        await self._documents.put(KEYS_SCOPE, record, expected=0)
        return key.text, record

    async def all(self) -> list[Stored[ApiKeyRecord]]:
        """All keys, newest first, the revoked and expired ones too.

        Raises:
            StoreError: the store cannot be read.
        """
        found: list[Stored[ApiKeyRecord]] = []
        cursor: str | None = None
        while True:
            page = await self.page(limit=_PAGE, cursor=cursor)
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def page(self, *, limit: int, cursor: str | None = None) -> Page[ApiKeyRecord]:
        """One page of the keys of all tenants, newest first, the revoked and expired ones too.

        Raises:
            InvalidInput: the cursor is invalid.
            StoreError: the store cannot be read.
        """
        return await self._documents.list(KEYS_SCOPE, ApiKeyRecord, limit=limit, cursor=cursor)

    async def revoke(self, key_id: str) -> ApiKeyRecord:
        """Refuse the key from now on: in this process at once, in others within :data:`CACHE_SECONDS`.

        Raises:
            ApiKeyNotFound: there is no such key.
            StoreError: the revocation may not be stored.
        """

        def revoked(stored: Stored[ApiKeyRecord] | None) -> ApiKeyRecord:
            if stored is None:
                raise ApiKeyNotFound(key_id)
            return replace(stored.record, revoked_at=stored.record.revoked_at or self._clock())

        stored = await update(self._documents, KEYS_SCOPE, ApiKeyRecord, key_id, revoked)
        self._cache.pop(key_id, None)
        return stored.record

    async def principal(self, text: str) -> Principal:
        """For whom a key speaks.

        Raises:
            Unauthenticated: it is malformed, unknown, expired or revoked.
            StoreError: it cannot be checked.
        """
        key = parse_key(text)
        record = await self._record(key.key_id) if key else None
        # Compared in any case, so that an unknown key takes as long as one with a wrong secret.
        matches = hmac.compare_digest(self._digest(key or KeyText("", text)), record.digest if record else "")
        if record is None or not matches or not self._is_valid(record):
            raise Unauthenticated
        return Principal(
            actor=record.key_id,
            tenant_id=record.for_tenant,
            sites=tuple(record.for_sites),
            user_id=record.for_user,
            rights=frozenset(cast("list[Right]", record.rights)),
            rate=parse_rate(record.rate_limit) if record.rate_limit else None,
        )

    def _is_valid(self, record: ApiKeyRecord) -> bool:
        return record.revoked_at is None and (record.expires_at is None or record.expires_at > self._clock())

    async def _record(self, key_id: str) -> ApiKeyRecord | None:
        checked = self._cache.get(key_id)
        if checked is None or checked.until <= time.monotonic():
            # The time before the read: a revocation after it is not covered.
            until = time.monotonic() + CACHE_SECONDS
            stored = await self._documents.get(KEYS_SCOPE, ApiKeyRecord, key_id)
            checked = _Checked(stored.record if stored else None, until)
            self._cache[key_id] = checked
        self._cache.move_to_end(key_id)
        while len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)
        return checked.record

    def _digest(self, key: KeyText) -> str:
        return hmac.digest(self._pepper, key.text.encode(), "sha256").hex()
