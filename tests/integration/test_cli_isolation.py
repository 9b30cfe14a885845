"""On every command, what belongs to another tenant, site or user looks absent; no command is left out."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
from typer.testing import CliRunner

from wenmai.cli.app import app

OWNER = ("t1", "s1", "u1")
OTHERS = [("t1", "s1", "u2"), ("t1", "s2", "u1"), ("t2", "s1", "u1")]
OWN, ABSENT = "own-session", "any-session"
SAID = "屋后的老樟树下埋着一坛酒"
QUESTION = "樟树下埋着什么"
MESSAGES = [
    {"session_id": OWN, "role": role, "content": f"{number}：{SAID}。", "npc_id": "ancestor_yan", "id": f"m{number}"}
    for number in range(12)
    for role in [("user", "assistant")[number % 2]]
]


class Row(NamedTuple):
    """A command of a scope.

    Attributes:
        arguments: ``{}`` stands for the id of a session.
        seen: what the owner sees.
        options: those of the scope that it takes.
        typed: its standard input.
        varies: whether its wording differs from run to run.
    """

    arguments: tuple[str, ...]
    seen: str
    options: tuple[str, ...] = ("--tenant", "--site", "--user")
    typed: str = ""
    varies: bool = False


KEY = Row(("keys", "create"), "wmk_")
IMPORT = Row(("import", "talk.jsonl"), "12 already stored")
INGEST = Row(("ingest", "passages.jsonl"), "1 unchanged", ("--tenant", "--site"))
EXPORT = Row(("export",), SAID)
ROWS: dict[str, tuple[Row, ...]] = {
    "audit": (Row(("audit",), "key_created", ("--tenant",)),),
    "chat": (Row(("chat", "--session", "{}"), SAID, typed=f"/sessions\n/sessions {OWN}\n/sessions\n", varies=True),),
    "erase": (Row(("erase",), '"what": "conversations"'),),
    "export": (Row(("export", "--session", "{}"), SAID), EXPORT),
    "import": (IMPORT,),
    "ingest": (INGEST,),
    "keys create": (KEY,),
    "rebuild episodes": (Row(("rebuild", "episodes", "--session", "{}"), "1 thread"),),
    "rebuild summaries": (Row(("rebuild", "summaries", "--session", "{}"), "1 thread"),),
    "recall": (Row(("recall", QUESTION, "--session", "{}"), SAID), Row(("recall", QUESTION), SAID)),
}
OF_OPERATORS = {
    *("config", "conformance", "doctor", "eval answers", "eval recall", "eval verification", "graph", "migrate"),
    *("encryption new-key", "encryption rewrap", "keys list", "keys revoke", "redact", "serve", "version"),
}
"""Commands over all tenants, or over none."""


def run(row: Row, scope: tuple[str, str, str], session: str) -> tuple[int, str]:
    """The exit status, and everything that the command prints, with a mark for the id of the session."""
    values = dict(zip(("--tenant", "--site", "--user"), scope, strict=True))
    options = [part for option in row.options for part in (option, values[option])]
    arguments = [each.format(session) for each in row.arguments]
    result = CliRunner().invoke(app, [*arguments, *options], input=row.typed, env={"WENMAI_EMBEDDER": "none"})
    return result.exit_code, (result.stdout + result.stderr).replace(session, "{}")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a talk of 12 messages, a passage and a key of the owner."""
    folder = tmp_path_factory.mktemp("filled")
    lines = [json.dumps(each, ensure_ascii=False) for each in MESSAGES]
    (folder / "talk.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    passage = {"evidence_id": "p1", "title": "樟树", "text": f"{SAID}。"}
    (folder / "passages.jsonl").write_text(json.dumps(passage, ensure_ascii=False) + "\n", encoding="utf-8")
    with contextlib.chdir(folder):
        for row in (IMPORT, INGEST, KEY):
            assert run(row, OWNER, OWN)[0] == 0
    return folder


@pytest.fixture
def _in_a_copy(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(filled, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")


def names(command: Any, prefix: str = "") -> Iterator[str]:
    """The names of the commands within a group."""
    for name, each in getattr(command, "commands", {}).items():
        yield from names(each, f"{prefix}{name} ")
    if not hasattr(command, "commands"):
        yield prefix.strip()


def test_every_command_says_whose_things_it_shows() -> None:
    """A new command has a row, or is of operators."""
    assert sorted(names(typer.main.get_command(app))) == sorted({*ROWS, *OF_OPERATORS})


@pytest.mark.usefixtures("_in_a_copy")
@pytest.mark.parametrize(
    "row", [row for rows in ROWS.values() for row in rows], ids=lambda row: " ".join(row.arguments[:2])
)
def test_what_is_anothers_looks_absent(row: Row) -> None:
    """Status and output are those of an id that nobody has, and nothing of the owner's changes."""
    before = run(EXPORT, OWNER, OWN)
    for other in OTHERS:
        foreign = run(row, other, OWN)
        if "{}" in row.arguments and not row.varies:
            assert foreign == run(row, other, ABSENT)
        assert SAID not in foreign[1]
    assert run(EXPORT, OWNER, OWN) == before
    assert row.seen in run(row, OWNER, OWN)[1]
