"""The routes of the business state, for applications with their own model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from http_service import Service, open_service

from clinic import write_clinic

STATE = "/v1/sessions/s1/state"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service with the clinic's rules, and a session."""
    async with open_service(tmp_path, profile=str(write_clinic(tmp_path))) as opened:
        assert (await opened.client.post("/v1/sessions", json={"session_id": "s1"})).status_code == 201
        yield opened


async def test_a_message_is_understood_from_the_one_before(service: Service) -> None:
    """The second message inherits the object; its search text has it, and the audit says why."""
    first, second = [
        await service.client.post("/v1/sessions/s1/understand", json={"query": query, "turn_id": turn})
        for turn, query in ((1, "核磁怎么预约？"), (2, "那取报告呢？"))
    ]
    assert (first.status_code, second.status_code) == (200, 200)
    body = second.json()
    assert body["search_text"] == "核磁共振 取报告"
    assert body["recognized"]["objects"] == [{"name": "", "stage": "取报告"}]
    current = (await service.client.get(STATE)).json()["operation_chain"][-1]
    assert current == body["state"]["operation_chain"][-1]
    assert (current["business_object"], current["operation_stage"]) == ("核磁共振", "取报告")
    changes = (await service.client.get(f"{STATE}/changes")).json()["changes"]
    assert [(change["version"], change["rule"], change["turn"]) for change in changes] == [
        (1, "first", "assistant#1"),
        (2, "inherited", "assistant#2"),
    ]


async def test_a_correction_is_checked_against_the_rules(service: Service) -> None:
    """An unknown object is 422, a stale version 409; a reset leaves an empty state with the next version."""
    await service.client.post("/v1/sessions/s1/understand", json={"query": "核磁怎么取报告？"})
    corrected = await service.client.patch(STATE, json={"operation_stage": "预约", "version": 1})
    assert corrected.json()["operation_chain"][-1]["operation_stage"] == "预约"
    assert (await service.client.patch(STATE, json={"business_object": "合同"})).status_code == 422
    assert (await service.client.patch(STATE, json={"business_object": "超声", "version": 1})).status_code == 409
    reset = (await service.client.delete(STATE)).json()
    assert (reset["operation_chain"], reset["version"]) == ([], 3)


async def test_a_deleted_session_leaves_no_state(service: Service) -> None:
    """Under the id taken again nothing of it is seen."""
    await service.client.post("/v1/sessions/s1/understand", json={"query": "核磁怎么取报告？"})
    await service.client.delete("/v1/sessions/s1")
    assert (await service.client.get(STATE)).status_code == 404
    await service.client.post("/v1/sessions", json={"session_id": "s1"})
    assert (await service.client.get(STATE)).json()["version"] == 0
    assert (await service.client.get(f"{STATE}/changes")).json() == {"changes": []}
