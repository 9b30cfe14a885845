"""API keys: made once, stored as a digest, refused when they should be."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from wenmai.auth import keys as keys_module
from wenmai.auth.key_text import new_key, parse_key
from wenmai.auth.keys import KEYS_SCOPE, ApiKeys
from wenmai.auth.principal import RIGHTS, Principal
from wenmai.clock import MovableClock
from wenmai.errors import ApiKeyNotFound, Forbidden, InvalidInput, ScopeNotFound, StoreUnavailable, Unauthenticated
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.opening import open_store
from wenmai.stores.records import ApiKeyRecord

NOW = datetime(2031, 5, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> MovableClock:
    """A clock that tests move."""
    return MovableClock(NOW)


@pytest.fixture
async def documents(clock: MovableClock) -> AsyncIterator[Documents]:
    """The documents of a store in the process."""
    async with open_store("memory://", clock=clock) as store:
        assert store.documents is not None
        yield store.documents


async def test_a_key_speaks_for_whom_it_was_made(documents: Documents, clock: MovableClock) -> None:
    """Tenant, sites, user and rights; in another process too, which has the same pepper."""
    text, record = await ApiKeys(documents, clock, pepper="p").create(
        tenant_id="yan", sites=["hall", "shop"], user_id="u1", rights=["read", "chat", "read"], name="web"
    )
    principal = await ApiKeys(documents, clock, pepper="p").principal(text)
    assert principal == Principal(
        actor=record.key_id, tenant_id="yan", sites=("hall", "shop"), user_id="u1", rights=frozenset({"read", "chat"})
    )
    assert record.rights == ["chat", "read"]


async def test_the_stored_record_does_not_contain_the_key(documents: Documents, clock: MovableClock) -> None:
    """Neither the key nor its secret part, and with another pepper it is not recognised."""
    text, record = await ApiKeys(documents, clock, pepper="p").create(tenant_id="yan", rights=["read"])
    stored = await documents.get(KEYS_SCOPE, ApiKeyRecord, record.key_id)
    assert stored is not None
    assert text.rpartition("_")[2][:32] not in msgspec.json.encode(stored.record).decode()
    with pytest.raises(Unauthenticated):
        await ApiKeys(documents, clock, pepper="q").principal(text)


@pytest.mark.parametrize("change", ["", "x", "wmk_", "secret", "checksum", "id", " blank", "longer"])
async def test_any_other_text_is_refused(change: str, documents: Documents, clock: MovableClock) -> None:
    """A changed id, secret or checksum, and what is no key at all."""
    api_keys = ApiKeys(documents, clock)
    text, record = await api_keys.create(tenant_id="yan", rights=["read"])
    other = new_key().text
    changed = {
        "secret": f"wmk_{record.key_id}_{other.rpartition('_')[2]}",
        "checksum": text[:-1] + ("a" if text[-1] != "a" else "b"),
        "id": text.replace(record.key_id, other[4:16]),
        " blank": f" {text}",
        "longer": f"{text}0",
    }.get(change, change)
    with pytest.raises(Unauthenticated):
        await api_keys.principal(changed)


async def test_a_wrong_secret_with_a_right_checksum_is_refused(documents: Documents, clock: MovableClock) -> None:
    """The checksum is no protection; the digest is."""
    api_keys = ApiKeys(documents, clock)
    _, record = await api_keys.create(tenant_id="yan", rights=["read"])
    forged = new_key()
    await documents.put(KEYS_SCOPE, msgspec.structs.replace(record, key_id=forged.key_id), expected=0)
    assert parse_key(forged.text) is not None
    with pytest.raises(Unauthenticated):
        await api_keys.principal(forged.text)


async def test_an_expired_key_is_refused(documents: Documents, clock: MovableClock) -> None:
    """From its expiry on, also while it is cached."""
    api_keys = ApiKeys(documents, clock)
    text, _ = await api_keys.create(tenant_id="yan", rights=["read"], expires_at=NOW + timedelta(days=1))
    await api_keys.principal(text)
    clock.advance(timedelta(days=1))
    with pytest.raises(Unauthenticated):
        await api_keys.principal(text)


async def test_a_revoked_key_is_refused(
    documents: Documents, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the process that revoked it at once, by another one when its cache entry ends; revoking twice is harmless."""
    here, elsewhere = ApiKeys(documents, clock), ApiKeys(documents, clock)
    text, record = await here.create(tenant_id="yan", rights=["read"])
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    for each in (here, elsewhere):
        await each.principal(text)
    first = await here.revoke(record.key_id)
    assert await here.revoke(record.key_id) == first
    with pytest.raises(Unauthenticated):
        await here.principal(text)
    await elsewhere.principal(text)
    now = keys_module.CACHE_SECONDS
    with pytest.raises(Unauthenticated):
        await elsewhere.principal(text)
    with pytest.raises(ApiKeyNotFound):
        await here.revoke("absent")


async def test_a_store_that_fails_lets_nobody_in(
    documents: Documents, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreadable store is an error, not an open door; and no answer that a key is wrong."""
    api_keys = ApiKeys(documents, clock)

    async def fail(*_: object) -> None:
        raise StoreUnavailable("sqlite", "gone")

    monkeypatch.setattr(documents, "get", fail)
    with pytest.raises(StoreUnavailable):
        await api_keys.principal(new_key().text)


async def test_all_keys_are_listed_newest_first(documents: Documents, clock: MovableClock) -> None:
    """Over more than one page."""
    api_keys = ApiKeys(documents, clock)
    made = []
    for number in range(keys_module._PAGE + 3):
        clock.advance(timedelta(seconds=1))
        made.append((await api_keys.create(tenant_id=f"t{number}", rights=["read"]))[1].key_id)
    assert [stored.record.key_id for stored in await api_keys.all()] == made[::-1]


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("rights", {"rights": []}),
        ("rights", {"rights": ["read", "root"]}),
        ("name", {"rights": ["read"], "name": "x" * 201}),
        ("expires_at", {"rights": ["read"], "expires_at": NOW}),
        ("name", {"rights": ["chat"], "name": "web\n0123  2031-05-01  valid"}),
    ],
)
async def test_bad_arguments_are_refused(
    field: str, arguments: dict[str, object], documents: Documents, clock: MovableClock
) -> None:
    """The error names the field."""
    with pytest.raises(InvalidInput) as refused:
        await ApiKeys(documents, clock).create(tenant_id="yan", **arguments)  # type: ignore[arg-type]
    assert refused.value.field == field


BOUND = Principal(actor="k", tenant_id="yan", sites=("hall", "shop"), user_id="u1", rights=frozenset(RIGHTS))
OF_A_TENANT = Principal(actor="k", tenant_id="yan", rights=frozenset({"read"}))


@pytest.mark.parametrize(
    ("principal", "named", "scope"),
    [
        (BOUND, (None, None, None), Scope("yan", "hall", "u1")),
        (BOUND, ("yan", "shop", "u1"), Scope("yan", "shop", "u1")),
        (OF_A_TENANT, (None, None, None), Scope("yan", "default", "anonymous")),
        (OF_A_TENANT, (None, "any", "u2"), Scope("yan", "any", "u2")),
    ],
)
def test_the_scope_of_a_principal(
    principal: Principal, named: tuple[str | None, str | None, str | None], scope: Scope
) -> None:
    """What a request does not name comes from the principal, then from the defaults."""
    assert principal.scope(*named) == scope


@pytest.mark.parametrize(
    ("principal", "named"),
    [
        (BOUND, ("wang", None, None)),
        (BOUND, ("default", None, None)),
        (BOUND, (None, "default", None)),
        (BOUND, (None, None, "u2")),
        (BOUND, (None, None, "anonymous")),
        (OF_A_TENANT, ("wang", None, None)),
    ],
)
def test_a_scope_of_somebody_else_is_not_found(
    principal: Principal, named: tuple[str | None, str | None, str | None]
) -> None:
    """Another tenant, site or user, the default ones too."""
    with pytest.raises(ScopeNotFound):
        principal.scope(*named)


def test_a_right_does_not_include_another() -> None:
    """The error names the missing right."""
    admin = msgspec.structs.replace(OF_A_TENANT, rights=frozenset({"admin"}))
    admin.require("admin")
    with pytest.raises(Forbidden, match="read"):
        admin.require("read")
