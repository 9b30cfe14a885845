"""The assistant with all of its data in OpenSearch: two tabs, a node that fails, and a deleted session."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import httpx
import pytest
from http_service import Service, open_service, profile_settings
from test_opensearch_store import raw

from fault_proxy import FaultProxy, fault_proxy
from opensearch_server import OpenSearchServer
from wenmai.scope import Scope

pytestmark = pytest.mark.xdist_group("opensearch")

CLERK = Scope(user_id="10000")


class Served(NamedTuple):
    """The service, the proxy before its node, and the URL of the node itself."""

    service: Service
    proxy: FaultProxy
    node: str

    async def post(self, path: str, **body: Any) -> httpx.Response:
        """The response to a JSON body."""
        return await self.service.client.post(path, json=body)

    async def ask(self, question: str, session_id: str) -> Any:
        """The body of the response to a question that is answered."""
        answer = await self.post("/api/query", question=question, session_id=session_id)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def served(tmp_path: Path, opensearch_server: OpenSearchServer) -> AsyncIterator[Served]:
    """A service with the profile `assistant`, in indices of its own."""
    node = f"{opensearch_server.url(f'test{token_hex(4)}')}?timeout=20"
    async with fault_proxy(opensearch_server.port) as proxy:
        store = node.replace(f":{opensearch_server.port}", f":{proxy.port}").replace("timeout=20", "timeout=2")
        async with open_service(tmp_path, **profile_settings("assistant"), store=store) as service:
            yield Served(service, proxy, node)
    await asyncio.to_thread(raw, node, "/{}_*", method="DELETE")


def documents_with(node: str, text: str) -> list[str]:
    """The indices with a document that contains the text, read without our code."""
    raw(node, "/{}_*/_refresh", method="POST")
    found = raw(node, "/{}_*/_search", {"size": 10_000}, "POST")["hits"]["hits"]
    return sorted({each["_index"] for each in found if text in str(each)})


async def test_the_assistant_runs_on_opensearch_and_outlives_its_failures(served: Served) -> None:
    """An elliptic question inherits, two tabs lose no operation; a node that fails loses no turn and invents none."""
    created = (await served.post("/api/query", question="怎么创建押品？")).json()
    session_id = created["session_id"]
    assert [citation["title"].rpartition(" · ")[2] for citation in created["citations"]] == ["创建押品"]
    inherited = await served.ask("那入库呢？", session_id)
    assert "押品入库" in str(inherited["citations"])
    tabs = {"合同怎么审批？": "合同审批", "授信怎么创建？": "创建授信"}
    answers = await asyncio.gather(*(served.ask(question, session_id) for question in tabs))
    assert all(title in str(answer["citations"]) for title, answer in zip(tabs.values(), answers, strict=True))
    state = await served.service.engine.memory.states.get(CLERK, session_id)
    assert [change.version for change in state.changes] == [1, 2, 3, 4]
    for fault in ("refuse", "hang"):
        await served.proxy.break_with(fault)
        refused = await served.post("/api/query", question="怎么查询合同？", session_id=session_id)
        assert (refused.status_code, "Retry-After" in refused.headers) == (503, True), fault
        await served.proxy.heal()
    turns = await _turns_until_cited(served, "怎么查询合同？", session_id)
    history = await served.service.client.get("/api/conversation-history", params={"session_id": session_id})
    questions = [message["content"] for message in history.json()["history"] if message["role"] == "user"]
    assert (questions[:2], sorted(questions[2:4])) == (["怎么创建押品？", "那入库呢？"], sorted(tabs))
    assert questions[4:] == ["怎么查询合同？"] * turns
    assert await asyncio.to_thread(documents_with, served.node, session_id)
    assert (await served.post("/api/session-delete", session_id=session_id)).status_code == 200
    assert await asyncio.to_thread(documents_with, served.node, session_id) == []


async def _turns_until_cited(served: Served, question: str, session_id: str) -> int:
    """How many turns it takes until the breakers have noticed that the node is back; others say what they lack."""
    turns = 0
    for _ in range(50):
        answer = await served.post("/api/query", question=question, session_id=session_id)
        turns += answer.status_code == 200
        if answer.status_code == 200 and answer.json()["citations"]:
            return turns
        assert answer.status_code == 503 or answer.json()["degraded"] == ["search"], answer.text
        await asyncio.sleep(0.2)
    raise AssertionError("the service does not use its node again")
