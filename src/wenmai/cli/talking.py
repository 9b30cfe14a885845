"""The loop of ``wenmai chat``: where lines come from, and what becomes of each."""

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

from wenmai.cli.talk import Talk
from wenmai.cli.wording import say
from wenmai.engine import open_engine
from wenmai.memory.blocks import wording
from wenmai.scope import Scope
from wenmai.settings import Settings

_PIPED_WIDTH = 200
"""Columns of tables where there is no terminal."""


async def talk(
    settings: Settings,
    scope: Scope,
    *,
    npc_id: str | None,
    session_id: str | None,
    incognito: bool,
    history: Path | None,
) -> None:
    """Talk until the visitor leaves or the input ends.

    Raises:
        WenmaiError: the engine cannot be opened, or there is no such persona.
    """
    typed = sys.stdin.isatty() and sys.stdout.isatty()
    console = Console(highlight=False, width=None if typed else _PIPED_WIDTH)
    async with open_engine(settings) as engine:
        persona = await engine.personas.answering(scope, npc_id or engine.profile.personas[0].npc_id)
        visit = Talk(
            engine,
            console,
            scope,
            persona=persona.persona,
            session_id=session_id,
            incognito=incognito,
            language=wording(settings.language),
            chatty=typed,
        )
        if typed:
            visit.welcome()
        lines = _typed_lines(visit, history or _history_file()) if typed else _piped_lines()
        async for line in lines:
            if not await visit.hear(line):
                break
        if typed:
            visit.farewell()


async def _piped_lines() -> AsyncIterator[str]:
    """The lines of stdin; the loop goes on while one is waited for."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line


async def _typed_lines(visit: Talk, history: Path) -> AsyncIterator[str]:
    """Lines from the editor, with a history that outlives the talk; Ctrl-D ends them."""
    session: PromptSession[str] = PromptSession(
        history=_history(history, visit),
        auto_suggest=AutoSuggestFromHistory(),
        completer=WordCompleter(visit.commands, sentence=True),
        complete_while_typing=False,
    )
    prompt: Callable[[], str] = lambda: f"{say('you', visit.language)} › "  # noqa: E731 — it changes with the language
    while True:
        try:
            yield await session.prompt_async(prompt)
        except EOFError:
            return


def _history(path: Path, visit: Talk) -> History:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=True)
    except OSError as problem:
        visit.warn(f"{path}: {problem.strerror}")
        return InMemoryHistory()
    return FileHistory(str(path))


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "wenmai" / "chat_history"
