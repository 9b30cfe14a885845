"""``wenmai chat``, piped and in a terminal."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_process import COMMAND, SECONDS, environment, wenmai
from typer.testing import CliRunner, Result

from wenmai.cli.app import app


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def chat(*lines: str, options: tuple[str, ...] = ()) -> Result:
    """Chat in this process, with these input lines."""
    return CliRunner().invoke(app, ["chat", *options], input="\n".join(lines) + "\n")


def test_piped_lines_are_answered_from_evidence(tmp_path: Path) -> None:
    """Each line is a question of one conversation: the second is understood in the context of the first."""
    done = wenmai("chat", folder=tmp_path, typed="家训第一条是什么？\n有什么具体的故事吗？\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "孝悌为本" in done.stdout
    assert "让田" in done.stdout
    assert done.stdout.count("出处") == 2


def test_lines_that_are_not_utf_8_are_an_error() -> None:
    """Status 2, and no traceback."""
    result = CliRunner().invoke(app, ["chat"], input=b"\xff\xfe\n")
    assert (result.exit_code, "text in UTF-8" in result.stderr) == (2, True)


def test_why_explains_the_last_answer() -> None:
    """Steps with durations, intent, mode and reason, evidence with scores, blocks with tokens."""
    shown = chat("/why", "家训第一条是什么？", "/why").stdout
    assert "还没有可解释的回答" in shown
    for expected in (
        r"trace-[0-9a-f]{16}",
        r"意图\s+fact_seeking",
        r"模式\s+normal",
        r"retrieve\s+ok\s+\d+\.\d\d ms",
        r"✓ \d\.\d\d\s+家训第一条",
        r"evidence\s+\d+ 词元",
    ):
        assert re.search(expected, shown), expected


def test_commands_switch_and_show() -> None:
    """Personas, preferences and sessions are listed and changed; errors are printed and the conversation continues."""
    shown = chat(
        "/persona", "/persona no-persona", "/persona village_elder", "/prefs tone=casual +茶 what", "/prefs tone=loud",
        "", "hello", "/sessions", "/new", "/sessions session-nope", "/fly", "/help", "/quit", "never asked",
    ).stdout  # fmt: skip
    for expected in (
        r"› +ancestor_yan", "no such persona: no-persona", "现在由村中长者作答", r"tone +casual", "看不懂 what",
        "tone: 'loud' is not one of", r"› +session-[0-9a-f]{16} .*hello", "A new session begins",
        "no such session: session-nope", "There is no /fly", "/quit +quit",
    ):  # fmt: skip
        assert re.search(expected, shown), expected
    assert "never asked" not in shown


def test_interface_language_follows_the_user() -> None:
    """Interface texts are in the language of the last question."""
    shown = chat("What is the first precept of the family?", "/new", "你好", "/new").stdout
    assert "Sources: " in shown
    assert shown.index("A new session begins.") < shown.index("新的会话开始了。")


def test_session_is_continued() -> None:
    """--session continues an earlier conversation: its context is used."""
    chat("家训第一条是什么？", options=("--session", "visit-1"))
    assert "让田" in chat("有什么具体的故事吗？", options=("--session", "visit-1")).stdout


def test_unknown_persona_or_bad_id_is_an_error() -> None:
    """An unknown persona ends with status 1; a malformed session id is reported at the first question."""
    assert chat("hi", options=("--persona", "no-persona")).exit_code == 1
    assert "session_id: 'a b'" in chat("hi", options=("--session", "a b")).stdout


class Terminal:
    """A chat in a pseudo-terminal."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, "chat", "--history", "typed.txt"],
            cwd=folder,
            env=environment(TERM="xterm", PROMPT_TOOLKIT_NO_CPR="1"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""
        self._rest = b""

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read until the text appears after the match of the previous wait."""
        end = time.monotonic() + SECONDS
        shown, self._rest = self._rest, b""
        while text.encode() not in shown:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{text!r} was not shown, but: {shown.decode(errors='replace')}"
            shown += os.read(self._ours, 65536)
        before, found, self._rest = shown.partition(text.encode())
        self.seen += (before + found).decode(errors="replace")

    def close(self) -> None:
        """Kill the chat if it is still running."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A chat in a terminal, at its prompt."""
    opened = Terminal(tmp_path)
    opened.wait_for("›")
    yield opened
    opened.close()


def test_terminal_has_prompt_history_and_quiet_ends(terminal: Terminal, tmp_path: Path) -> None:
    """Welcome, answers with the persona's name, how to continue; typed lines are kept in the history file."""
    terminal.type("你好\r")
    terminal.wait_for("严氏先祖 ›")
    terminal.wait_for("你 ›")
    terminal.type("\x04")
    terminal.wait_for("wenmai chat --session session-")
    assert terminal.process.wait(SECONDS) == 0
    assert "/help" in terminal.seen
    assert "你好" in (tmp_path / "typed.txt").read_text(encoding="utf-8")


def test_ctrl_c_ends_quietly(terminal: Terminal) -> None:
    """Ctrl-C at the prompt ends with status 130 and no traceback."""
    terminal.type("\x03")
    assert terminal.process.wait(SECONDS) == 130
    assert "Traceback" not in terminal.seen
