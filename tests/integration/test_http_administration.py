"""Listings for administrators: all users of a site, keys, filtered traces, summaries, the chain of the audit log."""

from pathlib import Path
from typing import Any

from http_service import Service, open_service
from msgspec.structs import replace

from wenmai.scope import Scope

HELLO = {"messages": [{"role": "user", "content": "The harbour opens at seven."}]}


async def all_pages(service: Service, path: str, field: str, **query: Any) -> tuple[list[dict[str, Any]], int]:
    """The items of all pages, and the number of pages."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    for number in range(1, 100):
        page = (await service.client.get(path, params={**query, **cursor})).json()
        items += page[field]
        if page["next"] is None:
            return items, number
        cursor = {"cursor": page["next"]}
    raise AssertionError("the pages do not end")


async def test_threads_of_all_users_of_the_site_are_listed_in_pages(tmp_path: Path) -> None:
    """Each once, with user, persona and title; filtered; none of another site, deleted, or before a time."""
    async with open_service(tmp_path) as service:
        users = [service.client_of(X_User_ID=f"user-{number}") for number in range(5)]
        for number, user in enumerate(users):
            body = {"session_id": f"s-{number}", "npc_id": "doctor" if number % 2 else "elder", "title": f"T {number}"}
            await user.post("/v1/sessions", json=body)
            await user.post(f"/v1/sessions/s-{number}/messages", json=HELLO)
        elsewhere = service.client_of(X_User_ID="user-0", X_Site_ID="other")
        await elsewhere.post("/v1/sessions", json={"session_id": "elsewhere"})
        await elsewhere.post("/v1/sessions/elsewhere/messages", json=HELLO)
        await users[4].delete("/v1/sessions/s-4")

        found, pages = await all_pages(service, "/v1/threads", "threads", limit=2)
        expected = {(f"user-{n}", f"s-{n}", "doctor" if n % 2 else "elder", f"T {n}", 1) for n in range(4)}
        fields = ("user_id", "session_id", "npc_id", "title", "messages")
        assert sorted(tuple(each[field] for field in fields) for each in found) == sorted(expected)
        assert pages >= 2
        found, _ = await all_pages(service, "/v1/threads", "threads", npc_id="doctor")
        assert sorted(each["user_id"] for each in found) == ["user-1", "user-3"]
        titled = (await service.client.get("/v1/threads", params={"title": "ｔ 3"})).json()["threads"]
        assert [each["title"] for each in titled] == ["T 3"]
        assert (await service.client.get("/v1/threads", params={"title": "absent"})).json()["threads"] == []
        own = (await users[2].get("/v1/threads")).json()["threads"]
        assert [each["session_id"] for each in own] == ["s-2"]
        after = max(each["active_at"] for each in found)
        assert (await service.client.get("/v1/threads", params={"since": after})).json()["threads"] == []
        assert (await service.client.get("/v1/threads", params={"cursor": "forged"})).status_code == 422


async def test_topics_are_the_passages_that_answers_cited(tmp_path: Path) -> None:
    """Summed over users, by title; of one persona, since a time; never a text, and none of another site."""

    def answer(*cited: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": "Yes.", "metadata": {"evidence_ids": cited}}
        return {"messages": [{"role": "user", "content": "Is it so?", "metadata": {"evidence_ids": ["gate"]}}, message]}

    async with open_service(tmp_path) as service:
        passages = [
            {"evidence_id": each, "title": each.title(), "text": f"The {each} is old."} for each in ("gate", "bell")
        ]
        await service.client.post("/api/v1/evidence", json={"evidence": passages})
        for number in range(3):
            user = service.client_of(X_User_ID=f"user-{number}")
            await user.post(
                "/v1/sessions", json={"session_id": f"s-{number}", "npc_id": "doctor" if number else "elder"}
            )
            cited = ["bell", "said in secret", *(["gate"] if number else [])]
            await user.post(f"/v1/sessions/s-{number}/messages", json=answer(*cited))

        async def topics(**query: str) -> list[tuple[str, str, int]]:
            found, _ = await all_pages(service, "/v1/topics", "topics", **query)
            return [(each["evidence_id"], each["title"], each["answers"]) for each in found]

        assert await topics() == [("bell", "Bell", 3), ("gate", "Gate", 2)]
        assert await topics(npc_id="elder") == [("bell", "Bell", 1)]
        last = (await service.client_of(X_User_ID="user-2").get("/v1/sessions/s-2/messages")).json()["messages"][-1]
        assert await topics(since=last["timestamp"]) == []
        assert (await service.client_of(X_User_ID="user-0").get("/v1/topics")).json()["topics"][0]["answers"] == 1
        assert (await service.client_of(X_Site_ID="other").get("/v1/topics")).json()["topics"] == []
        await service.client.delete("/api/v1/evidence/bell")
        assert await topics() == [("gate", "Gate", 2)]


async def test_a_key_of_one_user_lists_no_other_user(tmp_path: Path) -> None:
    """Neither threads, nor keys of another tenant; and no key's digest."""
    async with open_service(tmp_path, auth="keys") as service:
        keys = service.engine.api_keys
        one, _ = await keys.create(tenant_id="acme", user_id="erin", rights=["read", "write", "admin"], name="One")
        every, _ = await keys.create(tenant_id="acme", rights=["read", "write", "admin"], name="Every")
        await keys.create(tenant_id="globex", rights=["read"])
        clients = [service.client_of(authorization=f"Bearer {text}") for text in (one, every)]
        for number, (client, user) in enumerate(zip(clients, ("erin", "frank"), strict=True)):
            named = {"X-User-ID": user}
            await client.post("/v1/sessions", json={"session_id": f"s-{number}"}, headers=named)
            await client.post(f"/v1/sessions/s-{number}/messages", json=HELLO, headers=named)
        seen = [
            sorted(thread["user_id"] for thread in (await client.get("/v1/threads")).json()["threads"])
            for client in clients
        ]
        assert seen == [["erin"], ["erin", "frank"]]
        listed = (await clients[1].get("/v1/keys")).json()
        assert [(each["name"], each["user_id"]) for each in listed["keys"]] == [("Every", ""), ("One", "erin")]
        assert "digest" not in listed["keys"][0]


async def test_a_key_with_a_user_or_sites_lists_the_keys_that_may_act_there(tmp_path: Path) -> None:
    """Not those of other users and sites of the tenant; those that are for all, too."""
    async with open_service(tmp_path, auth="keys") as service:
        made = {}
        for name, user, sites in (
            ("erin", "erin", []),
            ("frank", "frank", []),
            ("north", "", ["n"]),
            ("both", "", ["n", "s"]),
            ("south", "", ["s"]),
            ("all", "", []),
        ):
            made[name], _ = await service.engine.api_keys.create(
                tenant_id="acme", user_id=user, sites=sites, rights=["admin"], name=name
            )
        for name, seen in (("erin", {*made} - {"frank"}), ("south", {*made} - {"north"}), ("all", {*made})):
            async with service.client_of(authorization=f"Bearer {made[name]}") as client:
                listed = (await client.get("/v1/keys")).json()["keys"]
            assert {each["name"] for each in listed} == seen


async def test_traces_are_filtered_by_degradation_and_latency(tmp_path: Path) -> None:
    """In pages that may be shorter than their limit."""
    async with open_service(tmp_path) as service:
        documents = service.engine.store.documents
        assert documents is not None
        answers = [await service.ask("你好") for _ in range(4)]
        for number, answer in enumerate(answers):
            stored = await service.engine.traces.get(Scope(), answer["trace_id"])
            changed = replace(stored.record, latency_ms=100.0 * number, degraded=["model"] if number == 1 else [])
            await documents.put(Scope(), changed)
        ids = [answer["trace_id"] for answer in answers]
        for query, wanted in (
            ({"degraded": True}, [ids[1]]),
            ({"degraded": False, "min_latency_ms": 150}, [ids[3], ids[2]]),
            ({"min_latency_ms": 300}, [ids[3]]),
        ):
            found, pages = await all_pages(service, "/api/v1/npc/traces", "traces", limit=2, **query)
            assert ([each["trace_id"] for each in found], pages) == (wanted, 2), query


async def test_summaries_and_the_chain_of_the_audit_log_are_shown(tmp_path: Path) -> None:
    """A long thread has a summary; a changed entry of the log is found."""
    async with open_service(tmp_path) as service:
        session_id = await service.create_session(npc_id="elder")
        for number in range(30):
            content = f"The {number}th lighthouse keeper was called Brandt {number} and lived at the north pier."
            turn = [{"role": "user", "content": content}, {"role": "assistant", "content": "Noted."}]
            await service.client.post(f"/v1/sessions/{session_id}/messages", json={"messages": turn})
        assert (await service.client.get("/v1/sessions/absent/summaries")).status_code == 404
        await service.engine.memory.derived.catch_up(10)
        found = (await service.client.get(f"/v1/sessions/{session_id}/summaries")).json()["summaries"]
        assert (found[0]["npc_id"], found[0]["written_by"]) == ("elder", "rules")
        assert found[0]["covered_message_count"] > 0
        assert "Brandt" in found[0]["text"]

        log, documents = service.engine.memory.audit, service.engine.store.documents
        assert documents is not None
        entries = [await log.record("default", "done", what=str(number)) for number in range(3)]
        status = (await service.client.get("/v1/audit/status")).json()
        assert status == {"entries": 3, "newest": entries[2].digest, "broken_at": None}
        await documents.put(Scope("default", "*", ""), replace(entries[1], details={"what": "other"}))
        assert (await service.client.get("/v1/audit/status")).json()["broken_at"] == 2
