"""Evidence over HTTP, on the real engine and SQLite: ingest, list, search, delete."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, open_service

from wenmai.http.limits import MAX_UPLOAD_BYTES

BASE = "/api/v1/evidence"
SITE = {"X-Tenant-ID": "museum"}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service over a new file, for a site without evidence."""
    async with open_service(tmp_path) as opened:
        opened.client.headers.update(SITE)
        yield opened


async def ingest(service: Service, *passages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The report of an ingestion that succeeds."""
    response = await service.client.post(BASE, json={"evidence": passages, **more})
    assert response.status_code == 200, response.text
    report: dict[str, Any] = response.json()
    return report


async def listed(service: Service, **params: Any) -> list[str]:
    """The ids of the site's passages."""
    page = (await service.client.get(BASE, params=params)).json()
    return [each["evidence_id"] for each in page["evidence"]]


async def test_an_ingested_passage_is_read_as_it_was_given(service: Service) -> None:
    """All given fields are returned, the others have defaults, and the id works in the path."""
    given = {"text": "The bell was cast in 1651.", "title": "The bell", "evidence_id": "bell/1", "domains": ["bells"]}
    assert (await ingest(service, given))["evidence_ids"] == ["bell/1"]
    passage = (await service.client.get(f"{BASE}/bell/1")).json()
    assert {name: passage[name] for name in given} == given
    assert (passage["language"], passage["verified"], passage["confidence"]) == ("en", True, 1.0)
    assert passage["created_at"].endswith("Z")


async def test_ingesting_the_same_again_changes_nothing(service: Service) -> None:
    """The report counts new, changed and unchanged passages."""
    first = await ingest(service, {"text": "One."}, {"text": "Two.", "evidence_id": "two"})
    assert (first["added"], first["unchanged"]) == (2, 0)
    again = await ingest(service, {"text": "One."}, {"text": "Two, better.", "evidence_id": "two"})
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 1, 1)
    assert again["evidence_ids"][0] == first["evidence_ids"][0]


async def test_a_source_is_replaced_and_deleted_whole(service: Service) -> None:
    """Passages that are not ingested again are deleted; other sources are kept."""
    await ingest(service, {"text": "Old.", "source_ref": "book"}, {"text": "Other.", "source_ref": "film"})
    replaced = await ingest(service, {"text": "New.", "source_ref": "book"}, replace_source=True)
    assert (replaced["added"], replaced["removed"]) == (1, 1)
    assert len(await listed(service, source_ref="book")) == 1
    deleted = await service.client.delete(f"{BASE}?source_ref=book")
    assert deleted.json() == {"success": True, "deleted": 1}
    assert len(await listed(service)) == 1


async def test_passages_are_found_best_first_with_scores(service: Service) -> None:
    """The score is 0 to 1, the domain filter applies, and a deleted passage is no longer found."""
    await ingest(
        service,
        {"text": "The bell was cast in 1651.", "evidence_id": "bell", "domains": ["bells"]},
        {"text": "The bell tower burnt down.", "evidence_id": "tower", "domains": ["towers"]},
    )
    query = {"query": "When was the bell cast?"}
    found = (await service.client.post(f"{BASE}/search", json=query)).json()["passages"]
    assert found[0]["evidence_id"] == "bell"
    assert 1 >= found[0]["score"] >= found[-1]["score"] >= 0
    towers = await service.client.post(f"{BASE}/search", json=query | {"domains": ["towers"]})
    assert [each["evidence_id"] for each in towers.json()["passages"]] == ["tower"]
    assert (await service.client.delete(f"{BASE}/bell")).status_code == 200
    assert (await service.client.delete(f"{BASE}/bell")).status_code == 404
    left = (await service.client.post(f"{BASE}/search", json=query)).json()["passages"]
    assert "bell" not in [each["evidence_id"] for each in left]


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("text/markdown", "# The bell\n\nIt was cast in 1651."),
        ("text/plain; charset=utf-8", "It was cast in 1651."),
        ("application/jsonl", '{"text": "It was cast in 1651."}'),
        ("text/csv", 'text,title\n"It was cast in 1651.",The bell'),
    ],
)
async def test_a_file_is_taken_as_the_body(service: Service, media_type: str, data: str) -> None:
    """The content type gives the format."""
    response = await service.client.post(f"{BASE}/files", content=data, headers={"Content-Type": media_type})
    assert response.json()["added"] == 1
    assert response.json()["bad_line_count"] == 0


async def test_a_file_is_taken_from_a_form(service: Service) -> None:
    """Its name gives the format and is the source of its passages."""
    response = await service.client.post(f"{BASE}/files", files={"file": ("bell.md", b"# Bell\n\nCast in 1651.")})
    assert (response.json()["file"], response.json()["added"]) == ("bell.md", 1)
    assert len(await listed(service, source_ref="bell.md")) == 1


async def test_passages_of_a_file_that_name_no_domain_get_the_given_ones(service: Service) -> None:
    """So that personas find them; those that name one keep it."""
    data = '{"text": "One.", "evidence_id": "one"}\n{"text": "Two.", "evidence_id": "two", "domains": ["tower"]}\n'
    response = await service.client.post(f"{BASE}/files?name=a.jsonl&domain=hall&domain=village", content=data)
    assert (response.json()["added"], response.json()["warnings"][:1]) == (2, response.json()["warnings"])
    stored = (await service.client.get(BASE, params={"source_ref": "a.jsonl"})).json()["evidence"]
    domains = {each["evidence_id"]: each["domains"] for each in stored}
    assert domains == {"one": ["hall", "village"], "two": ["tower"]}
    refused = await service.client.post(f"{BASE}/files?name=a.jsonl&domain=%00", content=data)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "domain[0]")


async def test_bad_lines_are_reported_and_the_rest_is_ingested(service: Service) -> None:
    """Each with number and reason; a file without usable lines is rejected with its first bad line."""
    data = '{"text": "One."}\nnot json\n{"text": "Two.", "colour": "red"}\n{"text": "Three."}\n'
    response = await service.client.post(f"{BASE}/files?name=a.jsonl", content=data)
    report = response.json()
    assert (report["added"], [each["line"] for each in report["bad_lines"]]) == (2, [2, 3])
    assert "colour" in report["bad_lines"][1]["reason"]
    unusable = await service.client.post(f"{BASE}/files?name=b.jsonl", content="not json\n")
    assert unusable.status_code == 422
    assert [each["field"] for each in unusable.json()["errors"]] == ["b.jsonl:1"]


@pytest.mark.parametrize(
    ("url", "headers", "data", "field"),
    [
        ("/files?name=a.pdf", {}, b"x", "file"),
        ("/files", {}, "中文".encode("gb18030"), "file"),
        ("/files", {}, b"\0\1\2\3", "file"),
        ("/files", {"Content-Type": "multipart/form-data; boundary=x"}, b"hello", "body"),
    ],
)
async def test_a_file_that_cannot_be_read_is_refused(
    service: Service, url: str, headers: dict[str, str], data: bytes, field: str
) -> None:
    """422 with the field; nothing is stored."""
    response = await service.client.post(BASE + url, content=data, headers=headers)
    assert response.status_code == 422
    assert [each["field"] for each in response.json()["errors"]] == [field]
    assert await listed(service) == []


async def test_a_file_of_another_type_is_refused(service: Service) -> None:
    """415 lists the accepted types."""
    response = await service.client.post(f"{BASE}/files", content=b"x", headers={"Content-Type": "application/pdf"})
    assert response.status_code == 415
    assert "text/markdown" in response.json()["detail"]


async def test_a_file_over_the_limit_is_refused(service: Service) -> None:
    """413; a file beyond the limit of other bodies is accepted."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_UPLOAD_BYTES // 1_000_000 + 1):
            yield b"x" * 1_000_000

    too_large = await service.client.post(f"{BASE}/files", content=chunks(), headers={"Content-Type": "text/plain"})
    assert too_large.status_code == 413
    line = b'{"text": "' + b"x" * 19_000 + b'"}\n'
    large = await service.client.post(f"{BASE}/files?name=large.jsonl", content=line * 200)
    assert (large.status_code, large.json()["added"]) == (200, 1)


@pytest.mark.parametrize(
    ("passage", "field"),
    [
        ({}, "text"),
        ({"text": " "}, "text"),
        ({"text": "x", "confidence": 2}, "confidence"),
        ({"text": "x", "confidence": "1"}, "confidence"),
        ({"text": "x", "verified": "yes"}, "verified"),
        ({"text": "x", "domains": "a"}, "domains"),
        ({"text": "x", "language": "中文"}, "language"),
        ({"text": "x", "colour": "red"}, "colour"),
    ],
)
async def test_an_invalid_passage_is_rejected_with_its_position(
    service: Service, passage: dict[str, Any], field: str
) -> None:
    """All passages are stored or none."""
    response = await service.client.post(BASE, json={"evidence": [{"text": "good"}, passage]})
    assert [each["field"] for each in response.json()["errors"]] == [f"evidence[1].{field}"]
    assert await listed(service) == []
