"""``wenmai config``, ``doctor``, ``conformance``, ``version`` and help."""

import asyncio
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
import typer
from cli_process import COMMAND, environment, wenmai
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

from redis_server import RedisServer
from wenmai import open as open_memory
from wenmai.cli.app import app
from wenmai.stores.encryption.settings import Encryption, new_master_key

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


def test_doctor_says_what_encryption_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No master key, an unreadable file, keys that are not the store's, a lost store of keys; no key is shown."""
    key, other = new_master_key("first"), new_master_key("other")
    monkeypatch.setenv("WENMAI_STORE_POLICY", "encrypt")
    missing = encryption_of(run("doctor"))
    assert missing[0] == "fail"
    assert "WENMAI_MASTER_KEYS_FILE" in missing[1]
    monkeypatch.setenv("WENMAI_MASTER_KEYS_FILE", "master")
    unreadable = encryption_of(run("doctor"))
    assert unreadable[0] == "fail"
    assert "a readable file" in unreadable[1]
    Path("master").write_text(key)
    monkeypatch.setenv("WENMAI_KEYS_STORE", "sqlite:///keys.db")
    assert encryption_of(run("doctor")) == ("ok", "master keys first; no data key is stored in tables of this version")
    assert [path.name for path in Path().iterdir()] == ["master"], "doctor creates nothing"

    store_encrypted(key)
    assert encryption_of(run("doctor")) == ("ok", "master keys first; opened all data keys that are stored: 1")
    Path("master").write_text(other)
    refused = run("doctor")
    assert (refused.exit_code, encryption_of(refused)[0]) == (1, "fail")
    assert "no key with the id first" in encryption_of(refused)[1]
    assert not any(each.partition(":")[2] in refused.stdout for each in (key, other))
    Path("master").write_text(key)
    for path in Path().glob("keys.db*"):
        path.unlink()
    lost = encryption_of(run("doctor"))
    assert lost[0] == "fail"
    assert "keys_store" in lost[1]
    assert list(Path().glob("keys.db*")) == []


def test_doctor_finds_encrypted_data_without_keys_and_a_damaged_data_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under another policy a store with encrypted data needs the keys; a data key that cannot be opened is named."""
    key = new_master_key("first")
    assert "encryption" not in results_of(run("doctor"))
    monkeypatch.setenv("WENMAI_KEYS_STORE", "sqlite:///keys.db")
    store_encrypted(key)
    without = encryption_of(run("doctor"))
    assert without[0] == "fail"
    assert "which has encrypted data" in without[1]
    monkeypatch.setenv("WENMAI_MASTER_KEYS", key)
    found = encryption_of(run("doctor"))
    assert found[0] == "ok"
    assert "store_policy is redact" in found[1]
    connection = apsw.Connection("keys.db")
    connection.execute("UPDATE data_keys SET wrapped = 'AAAA'")
    connection.close()
    damaged = encryption_of(run("doctor"))
    assert damaged[0] == "fail"
    assert "the master key first did not wrap" in damaged[1]


def encryption_of(result: Result) -> tuple[str, str]:
    """The state and text of doctor's check of the encryption."""
    return results_of(result)["encryption"]


def store_encrypted(master_keys: str) -> None:
    """A message in the default store, with its data key in ``keys.db``."""

    async def store() -> None:
        encryption = Encryption(master_keys=master_keys, keys_store="sqlite:///keys.db")
        async with open_memory("sqlite:///wenmai.db", store_policy="encrypt", encryption=encryption) as memory:
            session = await memory.session("s1")
            await session.append([{"role": "user", "content": "about zebras"}])

    asyncio.run(store())


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
