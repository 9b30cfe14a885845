"""``wenmai import``, ``export`` and ``ingest``: files in and out."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli_process import wenmai
from typer.testing import CliRunner, Result

from wenmai import blocking
from wenmai.cli.app import app
from wenmai.memory.recalled_items import RecalledItem


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def run(*arguments: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, list(arguments))


def write(name: str, *values: object) -> None:
    """Write a file of JSON lines; strings are written as they are."""
    lines = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


TALK = [
    {"session_id": "s1", "role": "user", "content": "你好", "npc_id": "ancestor_yan", "id": "m1"},
    {"session_id": "s1", "role": "assistant", "content": "后生好", "npc_id": "ancestor_yan", "id": "m2"},
    {"session_id": "s2", "role": "user", "content": "hello"},
]


def test_import_export_round_trip_from_the_shell(tmp_path: Path) -> None:
    """Import, export, import into another store, export: identical bytes; a second import adds nothing."""
    write("talk.jsonl", *TALK)
    first = wenmai("import", "talk.jsonl", folder=tmp_path)
    assert (first.returncode, first.stdout) == (0, "2 sessions (2 new), 3 messages added, 0 already stored\n")
    assert wenmai("export", "-o", "a.jsonl", folder=tmp_path).stderr == "a.jsonl: 2 sessions, 3 messages\n"
    other = ("--store", "sqlite:///other.db")
    again = wenmai("import", "a.jsonl", "talk.jsonl", *other, folder=tmp_path)
    assert again.stdout == "2 sessions (2 new), 3 messages added, 3 already stored\n"
    assert wenmai("export", *other, folder=tmp_path).stdout.encode() == Path("a.jsonl").read_bytes()


def test_import_names_bad_lines_and_fails() -> None:
    """Bad lines are reported on stderr with file and number, the rest is imported, the status is 1."""
    write("talk.jsonl", TALK[0], "{oops", {"session_id": "bad/id", "role": "user", "content": "x"})
    result = run("import", "talk.jsonl")
    assert result.exit_code == 1
    assert "1 session (1 new), 1 message added" in result.stdout
    named = result.stderr.splitlines()
    assert [line.partition(": ")[0] for line in named] == ["talk.jsonl:2", "talk.jsonl:3", "skipped"]


def test_many_bad_lines_are_counted_not_listed() -> None:
    """Twenty are listed; the rest are counted."""
    write("talk.jsonl", *["{oops"] * 30)
    assert run("import", "talk.jsonl").stderr.splitlines()[20:] == ["… and 10 more", "skipped: 30"]


def test_import_takes_format_persona_and_scope() -> None:
    """--format forces a reader, --persona sets the persona, and the sessions are visible in their own scope only."""
    Path("chat.json").write_text(json.dumps({"id": "c1", "messages": [{"role": "user", "content": "hi"}]}))
    scope = ("--tenant", "t1", "--site", "hall", "--user", "u@x")
    assert run("import", "chat.json", "--format", "openai", "--persona", "elder", *scope).exit_code == 0
    lines = [json.loads(line) for line in run("export", *scope).stdout.splitlines()]
    assert [(each["type"], each.get("npc_id")) for each in lines] == [("session", None), ("message", "elder")]
    assert run("export").stdout == ""
    assert run("import", "chat.json", "--format", "locomo").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("import", "nowhere.jsonl"), "nowhere.jsonl"),
        (("import", "talk.jsonl", "--format", "xml"), "xml"),
        (("import", "talk.jsonl", "--user", "a/b"), "--user"),
        (("import", "talk.jsonl", "--persona", "a b"), "persona_id"),
        (("import", "talk.jsonl", "--store", "ftp://x"), "known schemes"),
        (("export", "--store", "sqlite:///typo.db"), "typo.db"),
        (("export", "-o", "no/such/folder.jsonl"), "no/such/folder.jsonl"),
        (("import", "talk.jsonl", "--config", "none.toml"), "none.toml"),
        (("import", "talk.jsonl", "--profile", "nope"), "nope"),
        (("import", "talk.jsonl", "--store", "sqlite:///\udcff.db"), "text in UTF-8"),
        (("migrate", "--store", "sqlite:///\udcff.db"), "text in UTF-8"),
        (("keys", "list", "--store", "sqlite:///typo.db"), "typo.db"),
        (("keys", "revoke", "k1", "--store", "sqlite:///typo.db"), "typo.db"),
        (("eval", "recall", "deep.json"), "deep.json"),
        (("config", "--config", "deep.json"), "deep.json"),
        (("fly",), "fly"),
    ],
)
def test_bad_input_is_one_clear_message(arguments: tuple[str, ...], expected: str) -> None:
    """Status 2, the reason on stderr, no traceback, and nothing is created."""
    write("talk.jsonl", *TALK)
    write("deep.json", "[" * 10_000)
    if arguments[:2] == ("export", "-o"):
        run("import", "talk.jsonl")
    before = {path.name for path in Path().iterdir()}
    result = run(*arguments)
    assert result.exit_code == 2
    assert expected in result.stderr
    assert "Traceback" not in result.stderr
    assert {path.name for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    ("options", "text"),
    [((), b"password=hunter2\xff"), (("--json",), b"password=hunter2"), (("--json",), b'{"hunter2":' + b"[" * 10_000)],
)
def test_what_cannot_be_redacted_is_not_shown(options: tuple[str, ...], text: bytes) -> None:
    """The error names its place."""
    result = CliRunner().invoke(app, ["redact", *options], input=text)
    assert (result.exit_code, "hunter2" in result.output) == (2, False)
    assert ("byte 16" in result.stderr) or ("line 1" in result.stderr)


VISITS = [
    {"session_id": "s", "role": "user", "content": f"We saw the old museum {n}", "id": f"m{n}", "timestamp": time}
    for n, time in enumerate(["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"])
]


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ((), {}),
        (("--before", "2026-02-01T08:00:00+08:00"), {"before": datetime(2026, 2, 1, tzinfo=UTC)}),
        (("--after", "2026-02-01T00:00:00Z", "--top", "1"), {"after": datetime(2026, 2, 1, tzinfo=UTC), "top_k": 1}),
        (("--budget-tokens", "8"), {"budget_tokens": 8}),
        (("--unit", "turn", "--session", "s", "--persona", "assistant"), {"unit": "turn", "session_id": "s"}),
        (("--mmr-lambda", "0.2"), {"mmr_lambda": 0.2}),
    ],
)
def test_recall_prints_what_the_library_recalls(
    options: tuple[str, ...], limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same items with the same scores, in the same order."""
    monkeypatch.setenv("WENMAI_EMBEDDER", "none")
    write("talk.jsonl", *VISITS)
    store = ("--store", "sqlite:///talk.db")
    assert run("import", "talk.jsonl", *store).exit_code == 0
    result = run("recall", "the old museum", "--json", *options, *store)
    with blocking.open("sqlite:///talk.db") as memory:
        expected = memory.recall("the old museum", **limits)
    assert expected
    assert [msgspec.json.decode(line, type=RecalledItem) for line in result.stdout.splitlines()] == expected


@pytest.mark.parametrize("time", ["yesterday", "2026-01-01", "2026-01-01T00:00:00"])
def test_recall_refuses_a_time_that_is_none(time: str) -> None:
    """Or that has no time zone."""
    write("talk.jsonl", *VISITS)
    assert run("import", "talk.jsonl").exit_code == 0
    result = run("recall", "museum", "--before", time)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "before: " in result.stderr


def test_export_of_sessions_by_id() -> None:
    """--session selects sessions; an absent one fails and no file is written."""
    write("talk.jsonl", *TALK)
    run("import", "talk.jsonl")
    assert {json.loads(line)["session_id"] for line in run("export", "--session", "s2").stdout.splitlines()} == {"s2"}
    missing = run("export", "--session", "s9", "-o", "out.jsonl")
    assert (missing.exit_code, missing.stderr) == (1, "wenmai: no such session: s9\n")
    assert not list(Path().glob("out.jsonl*"))


def test_an_export_does_not_overwrite_a_database(tmp_path: Path) -> None:
    """Such as its own store: it is refused, and all is still there."""
    write("talk.jsonl", *TALK)
    run("import", "talk.jsonl")
    result = run("export", "-o", "wenmai.db")
    assert (result.exit_code, "a file other than a database" in result.stderr) == (2, True)
    assert run("export", "-o", "out.jsonl").stderr == "out.jsonl: 2 sessions, 3 messages\n"
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["out.jsonl", "talk.jsonl", "wenmai.db"]


def test_an_export_goes_where_a_link_or_pipe_leads(tmp_path: Path) -> None:
    """They are not replaced by a file."""
    write("talk.jsonl", *TALK)
    run("import", "talk.jsonl")
    Path("link").symlink_to("out.jsonl")
    assert run("export", "-o", "link").exit_code == 0
    assert Path("link").is_symlink()
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit((tmp_path / "pipe").read_bytes)
        assert run("export", "-o", "pipe").exit_code == 0
        assert read.result(5) == Path("out.jsonl").read_bytes()
    assert Path("pipe").is_fifo()


def test_ingest_reads_folders_and_names_what_it_skips() -> None:
    """Files of supported types below a folder are ingested; bad lines and unreadable files are reported."""
    Path("sources/deep").mkdir(parents=True)
    Path("sources/hall.md").write_text("# Hall\n\nThe hall was built in 1896 by the Yan clan.\n", encoding="utf-8")
    Path("sources/deep/fields.txt").write_text("Rice is planted in April.\n", encoding="utf-8")
    write("sources/lines.jsonl", {"text": "Tea grows on the slope.", "domains": ["tea"]}, "{oops")
    Path("sources/picture.png").write_bytes(b"\x89PNG")
    first = run("ingest", "sources", "--domain", "village")
    assert first.exit_code == 1
    assert first.stderr.splitlines()[0].startswith("lines.jsonl:2: ")
    assert first.stdout == "3 files: 3 passages added, 0 changed, 0 unchanged, 0 removed\n"
    Path("sources/lines.jsonl").unlink()
    second = run("ingest", "sources", "--domain", "village")
    assert (second.exit_code, "2 unchanged" in second.stdout) == (0, True)


def test_ingest_replaces_a_source() -> None:
    """With --replace, passages that a source no longer contains are deleted; without it they are kept."""
    write("facts.jsonl", {"text": "One."}, {"text": "Two."})
    run("ingest", "facts.jsonl")
    write("facts.jsonl", {"text": "One."})
    assert run("ingest", "facts.jsonl").stdout.endswith("1 unchanged, 0 removed\n")
    assert run("ingest", "facts.jsonl", "--replace").stdout.endswith("1 unchanged, 1 removed\n")


def test_ingesting_what_no_persona_finds_is_warned_of() -> None:
    """Passages without a domain of the profile's personas: the warning has their number and the available domains."""
    Path("notes.txt").write_text("The bell was cast in 1651.\n", encoding="utf-8")
    hidden = run("ingest", "notes.txt")
    assert hidden.exit_code == 0
    assert "warning: no persona finds 1 of the 1 passages" in hidden.stderr
    assert "--domain" in hidden.stderr
    domain = hidden.stderr.partition("as their domain: ")[2].partition(",")[0]
    assert "warning" not in run("ingest", "notes.txt", "--domain", domain).stderr


def test_ingest_refuses_what_it_cannot_read() -> None:
    """A file of unknown type is skipped and reported; an empty folder or an unknown embedder is bad input."""
    Path("picture.png").write_bytes(b"\x89PNG")
    Path("empty").mkdir()
    skipped = run("ingest", "picture.png")
    assert (skipped.exit_code, "picture.png" in skipped.stderr) == (1, True)
    assert run("ingest", "empty").exit_code == 2
    assert run("ingest", "picture.png", "--embedder", "nope").exit_code == 2
