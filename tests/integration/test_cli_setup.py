"""``wenmai config``, ``doctor``, ``conformance``, ``version`` and help."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from cli_process import COMMAND, environment, wenmai
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

from redis_server import RedisServer
from wenmai.cli.app import app

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
HEAVY = {"langgraph", "langchain_core", "fastapi", "uvicorn", "prompt_toolkit", "numpy", "pydantic"}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def run(*arguments: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, list(arguments))


def results_of(result: Result) -> dict[str, tuple[str, str]]:
    """The state and text of each check of doctor."""
    rows = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    return {what: (state, text) for state, what, text in rows}


def test_help_and_version_from_the_shell(tmp_path: Path) -> None:
    """The help lists every command; the version is printed; from a new interpreter too."""
    shown = subprocess.run([*COMMAND, "--help"], env=environment(), capture_output=True, text=True, check=False)
    commands = ("serve", "chat", "ingest", "eval", "import", "export", "config", "doctor", "conformance", "version")
    assert shown.returncode == 0
    assert [name for name in commands if f" {name} " not in shown.stdout] == []
    assert wenmai("version", folder=tmp_path).stdout.startswith("wenmai ")


def test_output_that_cannot_be_written_is_one_clear_message(tmp_path: Path) -> None:
    """As on a full disk: status 1, the reason on stderr."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*COMMAND, "version"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ended.returncode, ended.stderr) == (1, "wenmai: [Errno 28] No space left on device\n")


def test_command_line_imports_nothing_slow(tmp_path: Path) -> None:
    """Importing all commands imports no graph library, web framework or line editor."""
    script = "import sys, wenmai.cli.app; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment(), cwd=tmp_path
    )
    assert {name.partition(".")[0] for name in done.stdout.split()} & HEAVY == set()


def test_missing_package_names_its_extra(tmp_path: Path) -> None:
    """Without typer the command prints what to install."""
    script = "import sys; sys.modules['typer'] = None; from wenmai.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "wenmai: typer is not installed; pip install 'wenmai[serve]'\n")


def test_config_shows_values_and_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Precedence: flags, environment, file, profile; secrets are masked."""
    Path("wenmai.toml").write_text('port = 9000\nlanguage = "en"\nwindow_messages = 4\n')
    monkeypatch.setenv("WENMAI_LANGUAGE", "zh-Hans")
    monkeypatch.setenv("WENMAI_MODEL_API_KEY", "sk-hidden")
    monkeypatch.setenv("REDIS_URL", "redis://me:hidden@cache/0")
    result = run("config", "--config", "wenmai.toml", "--store", "memory://", "--json")
    shown = json.loads(result.stdout)
    assert shown["store"] == {"value": "memory://", "origin": "flag --store"}
    assert shown["language"] == {"value": "zh-Hans", "origin": "environment WENMAI_LANGUAGE"}
    assert shown["port"] == {"value": 9000, "origin": "file wenmai.toml"}
    assert shown["session_lifetime_seconds"] == {"value": 86400, "origin": "profile"}
    assert shown["host"] == {"value": "127.0.0.1", "origin": "default"}
    assert (shown["model_api_key"]["value"], shown["hot"]["value"]) == ("***", "redis://me:***@cache/0")
    table = run("config", "--config", "wenmai.toml")
    assert "hidden" not in result.output + table.output
    assert ["port", "9000", "file", "wenmai.toml"] in [line.split() for line in table.stdout.splitlines()]


def test_config_error_names_key_and_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad value is status 2 and one line."""
    monkeypatch.setenv("WENMAI_PORT", "many")
    result = run("config")
    assert result.exit_code == 2
    assert result.stderr.startswith("wenmai: port: 'many'")
    assert "WENMAI_PORT" in result.stderr


def test_doctor_passes_on_a_valid_setup() -> None:
    """All checks pass in an empty folder, and no file is left behind."""
    result = run("doctor")
    assert (result.exit_code, {state for state, _ in results_of(result).values()} - {"warn"}) == (0, {"ok"})
    assert list(Path().iterdir()) == []


def test_doctor_reports_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failing check says what to do; the status is 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("WENMAI_PORT", str(taken.getsockname()[1]))
        found = run("doctor", "--store", "sqlite:///no/folder/x.db", "--model", "acme:none", "--embedder", "acme")
    states = {what: state for what, (state, _) in results_of(found).items()}
    assert found.exit_code == 1
    assert {what for what, state in states.items() if state == "fail"} == {"folder", "model", "embedder"}
    assert states["port"] == "warn"
    assert "mkdir -p" in results_of(found)["folder"][1]


def test_doctor_checks_the_cache(redis_server: RedisServer) -> None:
    """A reachable Redis is ok, an unreachable one fails, and without one there is no check."""
    assert "cache" not in results_of(run("doctor"))
    assert results_of(run("doctor", "--hot", redis_server.url))["cache"] == ("ok", redis_server.url)
    absent = run("doctor", "--hot", "redis://:secret@127.0.0.1:9/0")
    state, text = results_of(absent)["cache"]
    assert (absent.exit_code, state) == (1, "fail")
    assert "WENMAI_HOT" in text
    assert "secret" not in text


def test_doctor_refuses_another_programs_file() -> None:
    """A file that is no Wenmai store is a failure."""
    Path("notes.db").write_text("not a database, but long enough to be looked at\n" * 100)
    found = run("doctor", "--store", "sqlite:///notes.db")
    assert (found.exit_code, results_of(found)["store"][0]) == (1, "fail")


def test_every_command_and_option_is_documented() -> None:
    """The reference has a section for each command with all its options."""
    sections = re.split(r"^## `wenmai (\w+)", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    documented = dict(zip(sections[::2], sections[1::2], strict=True))
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    commands = group.commands
    assert documented.keys() == commands.keys()
    options = {(name, option) for name in commands for each in commands[name].params for option in each.opts}
    missing = {(name, option) for name, option in options if option[0] == "-" and option not in documented[name]}
    assert missing == set()


def test_conformance_prints_a_table_and_fails_on_what_cannot_be_opened() -> None:
    """A conforming backend passes; unknown cases and URLs without a backend are bad input."""
    passed = run("conformance", "memory://", "--only", "search")
    assert passed.exit_code == 0
    assert "search" in passed.stdout
    assert "FAILED" not in passed.stdout
    assert run("conformance", "memory://", "--only", "flight").exit_code == 2
    assert run("conformance", "ftp://x").exit_code == 2
