"""Health and metrics over the real engine on SQLite."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, open_service
from prometheus_client.parser import text_string_to_metric_families

from wenmai.errors import StoreUnavailable


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service over a new file."""
    async with open_service(tmp_path) as opened:
        yield opened


async def samples(service: Service) -> dict[tuple[str, ...], float]:
    """Every sample of /metrics by its name and label values, in the labels' order by name."""
    text = (await service.client.get("/metrics")).text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_running_service_is_alive_and_ready(service: Service) -> None:
    """Every store is ok."""
    assert (await service.client.get("/healthz")).json() == {"status": "ok"}
    ready = (await service.client.get("/readyz")).json()
    search = {"state": "closed", "failures": 0, "refused": 0}
    assert ready == {
        "status": "ok",
        "stores": {"sqlite": {"state": "ok"}},
        "breakers": {"search": search},
        "degraded": [],
        "derived": {"threads": 0, "oldest_seconds": 0.0},
    }


async def test_with_a_store_down_it_is_alive_and_not_ready(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with the store, regardless of breakers; liveness does not check the store."""

    async def down(*_: Any) -> None:
        raise StoreUnavailable("sqlite", "gone")

    monkeypatch.setattr(service.engine.store, "ping", down)
    ready = await service.client.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["stores"]["sqlite"]["state"] == "down"
    assert (await service.client.get("/healthz")).status_code == 200


async def test_with_the_file_deleted_writes_are_503_and_it_is_not_ready(service: Service, tmp_path: Path) -> None:
    """Nothing is acknowledged that would be lost when the process exits."""
    for each in tmp_path.glob("*.db*"):  # noqa: ASYNC240 — as another program would
        each.unlink()
    created = await service.client.post("/v1/sessions", json={})
    assert created.status_code == 503
    ready = await service.client.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["stores"]["sqlite"]["state"] == "down"


async def test_derived_memory_that_is_behind_is_shown_and_does_not_change_readiness(service: Service) -> None:
    """In the metrics and in /readyz; a failure is counted by function and retried."""
    derived = service.engine.memory.derived
    session_id = await service.create_session()
    message = {"role": "user", "content": "请说得详细一点"}
    await service.client.post(f"/v1/sessions/{session_id}/messages", json={"messages": [message]})
    ready = (await service.client.get("/readyz")).json()
    assert (ready["status"], ready["derived"]["threads"]) == ("ok", 1)
    found = await samples(service)
    assert found["wenmai_derived_threads_behind",] == 1
    assert found["wenmai_derived_oldest_seconds",] > 0
    assert found["wenmai_derived_failures_total", "preferences"] == 0
    await derived.catch_up()
    assert (await samples(service))["wenmai_derived_threads_behind",] == 0
    assert (await service.client.get("/readyz")).json()["derived"] == {"threads": 0, "oldest_seconds": 0.0}


async def test_requests_and_turns_are_counted(service: Service) -> None:
    """By route template, method and status; turns by policy mode."""
    answer = await service.ask("你好")
    for session_id in ("a", "b", answer["session_id"]):
        await service.client.get(f"/api/v1/npc/sessions/{session_id}")
    found = await samples(service)
    route = "/api/v1/npc/sessions/{session_id}"
    assert found["wenmai_http_requests_total", "GET", route, "404"] == 2
    assert found["wenmai_http_requests_total", "GET", route, "200"] == 1
    assert found["wenmai_http_request_seconds_count", route] == 3
    assert found["wenmai_turns_total", "no", "normal"] == 1


async def test_labels_do_not_grow_with_what_callers_send(service: Service) -> None:
    """Unknown paths share one label value, and so do unknown methods."""
    for n in range(5):
        await service.client.get(f"/nowhere/{n}")
        await service.client.request(f"METHOD{n}", "/v1/sessions")
    found = await samples(service)
    requests = {labels for labels in found if labels[0] == "wenmai_http_requests_total"}
    assert ("wenmai_http_requests_total", "GET", "unmatched", "404") in requests
    assert not [labels for labels in requests if "nowhere" in str(labels) or "METHOD" in str(labels)]


async def test_metrics_of_two_applications_are_separate(service: Service, tmp_path: Path) -> None:
    """There is no process-wide registry."""
    await service.ask("你好")
    (tmp_path / "other").mkdir()
    async with open_service(tmp_path / "other") as other:
        assert ("wenmai_turns_total", "no", "normal") not in await samples(other)
