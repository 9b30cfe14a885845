"""The audit log: administrative acts, in a chain that shows what was changed or removed."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_process import wenmai
from http_service import open_service
from msgspec.structs import replace
from test_http_registry import body_of

from wenmai.clock import MovableClock
from wenmai.engine import Engine
from wenmai.memory.audit import AuditLog, AuditStatus, digest_of
from wenmai.memory.library import open_memory
from wenmai.scope import Scope
from wenmai.stores.records import AuditEntry
from wenmai.stores.structs import Stored

ENTRIES = 30


@pytest.mark.each_store
async def test_a_chain_shows_what_was_changed_or_removed(engine: Engine) -> None:
    """Written by several processes at once, its numbers have no gaps; tenants have their own."""
    documents = engine.store.documents
    assert documents is not None
    logs = [AuditLog(documents, engine.clock) for _ in range(3)]
    await asyncio.gather(*(logs[at % 3].record("acme", "done", what=str(at)) for at in range(ENTRIES)))
    log = engine.memory.audit
    newest = await log.entries("acme", limit=2)
    assert [entry.number for entry in newest] == [ENTRIES, ENTRIES - 1]
    assert [entry.number for entry in await log.entries("acme", before=3)] == [2, 1]
    assert await log.verify("acme") == AuditStatus(ENTRIES, newest[0].digest, None)
    assert await log.verify("other") == AuditStatus(0, "", None)

    scope, key = Scope("acme", "*", ""), f"{7:012d}"
    stored = await documents.get(scope, AuditEntry, key)
    assert stored is not None
    await documents.put(scope, replace(stored.record, details={"what": "another"}))
    assert (await log.verify("acme")).broken_at == 7
    forged = replace(stored.record, details={"what": "another"})
    await documents.put(scope, replace(forged, digest=digest_of(forged)))
    assert (await log.verify("acme")).broken_at == 8, "the next one has the digest of the former"
    await documents.delete(scope, AuditEntry, key)
    assert (await log.verify("acme")).broken_at == 7
    await documents.put(scope, stored.record)
    assert (await log.verify("acme")).broken_at is None


async def test_appending_stays_quick_when_the_clock_has_gone_back() -> None:
    """The entries since then are not read for each further one."""
    clock = MovableClock()
    async with open_memory("memory://", clock=clock) as memory:
        await memory.audit.record("acme", "done")
        clock.advance(timedelta(days=-1))
        for _ in range(20):
            await memory.audit.record("acme", "done")
        read: list[int] = []
        get_many = memory.audit._documents.get_many

        async def counting(scope: Scope, of: type[AuditEntry], keys: Sequence[str]) -> dict[str, Stored[AuditEntry]]:
            found = await get_many(scope, of, keys)
            read.append(len(found))
            return found

        memory.audit._documents.get_many = counting  # type: ignore[method-assign,assignment]
        await memory.audit.record("acme", "done")
        assert read == [1]
        assert await memory.audit.verify("acme") == AuditStatus(
            22, (await memory.audit.entries("acme"))[0].digest, None
        )


async def test_many_entries_at_once_cost_no_more_than_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is written once: they do not compete for a number."""
    async with open_memory("memory://") as memory:
        written, put = [], memory.audit._documents.put

        async def counting(*given: Any, **options: Any) -> Any:
            written.append(given)
            await asyncio.sleep(0)
            return await put(*given, **options)

        monkeypatch.setattr(memory.audit._documents, "put", counting)
        await asyncio.gather(*(memory.audit.record("acme", "done") for _ in range(30)))
        assert len(written) == 30
        assert (await memory.audit.verify("acme")).entries == 30


async def test_administrative_requests_are_in_the_log_of_their_tenant(tmp_path: Path) -> None:
    """With the key that made them; an erasure without the name of its user. What changes nothing is no act."""
    async with open_service(tmp_path, auth="keys") as service:
        text, record = await service.engine.api_keys.create(
            tenant_id="acme", sites=["shop"], rights=["chat", "write", "admin", "erase"]
        )
        admin = service.client_of(authorization=f"Bearer {text}", X_User_ID="erin")
        await admin.post("/v1/sessions", json={"session_id": "s"})
        await admin.post("/api/v1/prompts", json=body_of("prompts", "说话要慢。"))
        await admin.post("/api/v1/prompts/doctor/set-active", json={"number": 1})
        for _ in range(2):
            await admin.patch("/v1/sessions/s/state", json={"current_customer_id": "C1"})
        for _ in range(2):
            await admin.delete("/v1/sessions/s/state")
        await admin.delete("/v1/users/erin")
        found = (await admin.get("/v1/audit")).json()["entries"]
        acts = ["user_erased", "erasure_began", "state_reset", "state_corrected", "prompt_activated"]
        assert [entry["act"] for entry in found] == acts
        assert {entry["actor"] for entry in found[1:]} == {record.key_id}
        assert all(entry["details"]["site"] == "shop" for entry in found)
        assert "erin" not in str(found)
        assert (await service.engine.memory.audit.verify("acme")).broken_at is None
        assert await service.engine.memory.audit.entries("default") == []


def test_the_command_shows_and_verifies_the_log(tmp_path: Path) -> None:
    """Keys are created and revoked on the command line."""
    store = ("--store", f"sqlite:///{tmp_path}/wenmai.db")
    created = wenmai("keys", "create", *store, folder=tmp_path)
    key_id = created.stdout[4:16]
    wenmai("keys", "revoke", key_id, *store, folder=tmp_path)
    lines = wenmai("audit", *store, folder=tmp_path).stdout.splitlines()
    assert [(line.split()[3], line.split()[4]) for line in lines] == [("key_revoked", "cli"), ("key_created", "cli")]
    assert all(f"key={key_id}" in line for line in lines)
    assert wenmai("audit", "--verify", *store, folder=tmp_path).stdout.startswith(
        "valid: 2 acts, the newest digest is "
    )
