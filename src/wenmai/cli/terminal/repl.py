"""The read-eval-print loop of ``wenmai chat``."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from rich.console import Console

from wenmai.cli.terminal.conversation import Conversation
from wenmai.cli.terminal.texts import ui_text
from wenmai.config.settings import Settings
from wenmai.engine import open_engine
from wenmai.errors import InvalidInput
from wenmai.memory.blocks import block_language
from wenmai.scope import Scope

_PIPED_WIDTH = 200
"""Table width in columns without a terminal."""


async def run_repl(
    settings: Settings,
    scope: Scope,
    *,
    persona_id: str | None,
    session_id: str | None,
    incognito: bool,
    history: Path | None,
) -> None:
    """Run the loop until the user quits or the input ends.

    Raises:
        WenmaiError: the engine cannot be opened, or the persona does not exist.
    """
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    console = Console(highlight=False, width=None if interactive else _PIPED_WIDTH)
    async with open_engine(settings) as engine:
        persona = await engine.personas.active_persona(scope, persona_id or engine.profile.personas[0].persona_id)
        conversation = Conversation(
            engine,
            console,
            scope,
            persona=persona.persona,
            session_id=session_id,
            incognito=incognito,
            language=block_language(settings.language),
            interactive=interactive,
        )
        if interactive:
            conversation.print_welcome()
        lines = _edited_lines(conversation, history or _history_file()) if interactive else _piped_lines()
        async for line in lines:
            if not await conversation.handle_line(line):
                break
        if interactive:
            conversation.print_goodbye()


async def _piped_lines() -> AsyncIterator[str]:
    """The lines of stdin, read without blocking the event loop.

    Raises:
        InvalidInput: they are not UTF-8.
    """
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            yield line
    except UnicodeDecodeError as problem:
        raise InvalidInput("standard input", problem.object[problem.start : problem.end], "text in UTF-8") from problem


async def _edited_lines(conversation: Conversation, history: Path) -> AsyncIterator[str]:
    """Lines from the editor, with a persistent history; Ctrl-D ends them."""
    session: PromptSession[str] = PromptSession(
        history=_history(history, conversation),
        auto_suggest=AutoSuggestFromHistory(),
        completer=WordCompleter(conversation.commands, sentence=True),
        complete_while_typing=False,
    )
    prompt: Callable[[], str] = lambda: f"{ui_text('you', conversation.language)} › "  # noqa: E731 — evaluated each time: the language may change
    while True:
        try:
            yield await session.prompt_async(prompt)
        except EOFError:
            return


def _history(path: Path, conversation: Conversation) -> History:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=True)
    except OSError as problem:
        conversation.warn(f"{path}: {problem.strerror}")
        return InMemoryHistory()
    return FileHistory(str(path))


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "wenmai" / "chat_history"
