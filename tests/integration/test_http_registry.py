"""Personas and prompts by version, over the real engine on SQLite."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, open_service

PERSONA = {
    "name": {"zh": "村医", "en": "The Doctor"},
    "summary": {"zh": "村里的郎中。"},
    "system": {"zh": "你是村医。"},
    "greetings": {"zh": ["你好，请坐。"]},
    "openings": {"zh": ["据记载："]},
    "closings": {"zh": []},
    "conservative": {"zh": ["{topic}，记载不详。"]},
    "refusals": {"zh": ["此事不谈。"]},
    "out_of_scope": {"zh": ["这个我不懂。"]},
    "clarifications": {"zh": ["请说清楚些。"]},
    "acknowledgements": {"zh": ["好的。"]},
}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service over a new file."""
    async with open_service(tmp_path) as opened:
        yield opened


def body_of(what: str, mark: str, persona_id: str = "doctor") -> dict[str, Any]:
    """The body that creates a version with the text ``mark``."""
    if what == "personas":
        return {"npc_id": persona_id, "persona": PERSONA | {"system": {"zh": mark}}, "note": mark}
    return {"npc_id": persona_id, "text": mark, "note": mark}


async def create(service: Service, what: str, mark: str, persona_id: str = "doctor") -> dict[str, Any]:
    """The created version."""
    response = await service.client.post(f"/api/v1/{what}", json=body_of(what, mark, persona_id))
    assert response.status_code == 201, response.text
    version: dict[str, Any] = response.json()
    return version


@pytest.mark.parametrize("what", ["personas", "prompts"])
async def test_versions_are_created_activated_and_deleted(service: Service, what: str) -> None:
    """The first is activated at once, the next explicitly; the active one cannot be deleted."""
    base = f"/api/v1/{what}/doctor"
    assert (await create(service, what, "one"))["active"]
    second = await create(service, what, "two")
    assert (second["number"], second["active"]) == (2, False)
    assert (await service.client.get(base)).json()["note"] == "one"
    activation = await service.client.post(f"{base}/set-active", json={"number": 2, "expected": 1})
    assert activation.json() == {"previous": 1, "current": 2}
    assert (await service.client.get(base)).json()["note"] == "two"
    assert (await service.client.delete(f"{base}/versions/2")).status_code == 409
    assert (await service.client.delete(f"{base}/versions/1")).status_code == 204
    assert (await service.client.get(f"{base}/versions/1")).status_code == 404
    assert (await create(service, what, "three"))["number"] == 3


@pytest.mark.parametrize("what", ["personas", "prompts"])
async def test_an_activation_that_expects_another_version_conflicts(service: Service, what: str) -> None:
    """Compare-and-set: 409, and the active version is unchanged."""
    await create(service, what, "one")
    await create(service, what, "two")
    late = await service.client.post(f"/api/v1/{what}/doctor/set-active", json={"number": 2, "expected": 2})
    assert late.status_code == 409
    assert late.json()["type"].endswith("version-conflict")
    assert (await service.client.get(f"/api/v1/{what}/doctor")).json()["number"] == 1


@pytest.mark.parametrize("what", ["personas", "prompts"])
async def test_versions_are_listed_newest_first_page_by_page(service: Service, what: str) -> None:
    """Following ``next`` gives every version once; an unknown id is 404."""
    for mark in ("one", "two", "three"):
        await create(service, what, mark)
    first = (await service.client.get(f"/api/v1/{what}/doctor/versions?limit=2")).json()
    second = (await service.client.get(f"/api/v1/{what}/doctor/versions?limit=2&cursor={first['next']}")).json()
    assert [version["number"] for version in first["versions"] + second["versions"]] == [3, 2, 1]
    assert second["next"] is None
    assert (await service.client.get(f"/api/v1/{what}/unknown/versions")).status_code == 404
    assert (await service.client.get(f"/api/v1/{what}/unknown")).status_code == 404
    assert (await service.client.post(f"/api/v1/{what}/unknown/set-active", json={"number": 1})).status_code == 404


async def test_the_profiles_personas_are_version_1_and_cannot_be_deleted(service: Service) -> None:
    """They are not stored, and cannot be deleted even when another version is active."""
    listed = (await service.client.get("/api/v1/personas")).json()["versions"]
    assert {(version["npc_id"], version["number"]) for version in listed} == {
        ("ancestor_yan", 1),
        ("village_elder", 1),
    }
    assert (await create(service, "personas", "two", "ancestor_yan"))["number"] == 2
    await service.client.post("/api/v1/personas/ancestor_yan/set-active", json={"number": 2})
    assert (await service.client.delete("/api/v1/personas/ancestor_yan/versions/1")).status_code == 409


async def test_a_registered_persona_answers_and_the_trace_names_the_versions(service: Service) -> None:
    """The trace has persona and prompt versions and the source of the prompt."""
    await create(service, "personas", "你是村医。")
    await create(service, "prompts", "说话要慢。")
    answer = await service.ask("你好", npc_id="doctor")
    assert (answer["npc_name"], answer["answer_text"]) == ("村医", "你好，请坐。")
    asked = (await service.client.get(f"/api/v1/npc/traces/{answer['trace_id']}")).json()["request_input"]
    assert asked["persona_version"] == 1
    assert (asked["prompt_source"], asked["prompt_version"]) == ("prompt_registry", 1)


@pytest.mark.parametrize(
    "change",
    [{"name": None}, {"name": {}}, {"greetings": {}}, {"greetings": "hello"}, {"humour": "dry"}, {"policy": {"x": 1}}],
)
async def test_an_invalid_persona_is_rejected(service: Service, change: dict[str, Any]) -> None:
    """422, and it is not stored."""
    response = await service.client.post("/api/v1/personas", json={"npc_id": "doctor", "persona": PERSONA | change})
    assert response.status_code == 422, response.text
    assert (await service.client.get("/api/v1/personas/doctor")).status_code == 404


async def test_the_problem_of_a_persona_names_its_field_once(service: Service) -> None:
    """In words that need no knowledge of the validator's paths; a persona that names another one is refused."""
    for change, field in (({"name": {}}, "persona.name"), ({"npc_id": "elder"}, "persona.npc_id")):
        body = {"npc_id": "doctor", "persona": PERSONA | change}
        (problem,) = (await service.client.post("/api/v1/personas", json=body)).json()["errors"]
        assert problem["field"] == field
        assert not {"$", "allowed:"} & set(problem["allowed"].replace("`", " ").split())
    created = await service.client.post("/api/v1/personas", json={"npc_id": "doctor", "persona": PERSONA})
    again = {"npc_id": "doctor", "persona": created.json()["value"]}
    assert (await service.client.post("/api/v1/personas", json=again)).status_code == 201
