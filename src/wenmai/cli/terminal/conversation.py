"""A conversation in the terminal: questions go to the engine, lines that start with a slash are commands."""

from collections.abc import Awaitable, Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.cli.terminal.explanation import explain
from wenmai.cli.terminal.stream_printer import StreamPrinter
from wenmai.cli.terminal.texts import ui_text
from wenmai.config.profile import Persona
from wenmai.config.texts import in_language
from wenmai.engine import Engine
from wenmai.errors import WenmaiError
from wenmai.grounding.evidence.fields import detect_language
from wenmai.grounding.types import PolicyMode
from wenmai.memory.preferences import PreferenceChange
from wenmai.memory.sessions import began_at
from wenmai.scope import Scope
from wenmai.text.printable import printable

_MAX_SESSIONS = 20
_FIELDS = ("verbosity", "tone", "language")


class Conversation:
    """One conversation with a persona, and its commands.

    Attributes:
        language: ``zh`` or ``en``, the language of the last question.
        commands: the slash commands.
    """

    def __init__(
        self,
        engine: Engine,
        console: Console,
        scope: Scope,
        *,
        persona: Persona,
        session_id: str | None,
        incognito: bool,
        language: str,
        interactive: bool,
    ) -> None:
        self.language = language
        self._engine = engine
        self._console = console
        self._scope = scope
        self._persona = persona
        self._session_id = session_id
        self._incognito = incognito
        self._interactive = interactive
        self._trace_id: str | None = None
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "/persona": self._switch_persona,
            "/prefs": self._preferences,
            "/why": self._explain,
            "/new": self._new_session,
            "/sessions": self._sessions,
            "/help": self._help,
        }
        self.commands = [*self._commands, "/quit"]

    def print_welcome(self) -> None:
        """Print the persona's name and a hint to /help."""
        self._print(ui_text("welcome", self.language, name=self._name()), style="dim")

    def print_goodbye(self) -> None:
        """Print how to continue the session."""
        if self._session_id:
            self._print(ui_text("farewell", self.language, session=self._session_id), style="dim")

    def warn(self, line: str) -> None:
        """Print a warning."""
        self._print(line, style="yellow")

    async def handle_line(self, line: str) -> bool:
        """Answer a question or run a command; False if the user quits."""
        line = line.strip()
        if not line:
            return True
        name, _, rest = line.partition(" ")
        if name in ("/quit", "/exit"):
            return False
        try:
            if not line.startswith("/"):
                await self._ask(line)
            elif name in self._commands:
                await self._commands[name](rest.strip())
            else:
                self.warn(ui_text("unknown_command", self.language, name=name))
        except WenmaiError as problem:
            self._print(str(problem), style="red")
        return True

    async def _ask(self, question: str) -> None:
        self.language = detect_language(question)
        request = TurnRequest(
            scope=self._scope,
            persona_id=self._persona.persona_id,
            query=question,
            session_id=self._session_id,
            incognito=self._incognito,
        )
        if self._interactive:
            printer = StreamPrinter(self._console, f"{self._name()} › ", ui_text("final", self.language))
            try:
                answer = await self._engine.chat.ask(request, on_event=printer.on_event)
            finally:
                printer.end()
        else:
            answer = await self._engine.chat.ask(request)
            self._print(answer.answer_text)
        self._session_id, self._trace_id = answer.session_id, answer.trace_id
        self._print_sources(answer)

    def _print_sources(self, answer: TurnAnswer) -> None:
        """Print policy mode, degradation, sources and follow-up questions."""
        if answer.policy_mode is not PolicyMode.NORMAL:
            self._print(ui_text(answer.policy_mode.value, self.language), style="yellow")
        if answer.degraded:
            self._print(ui_text("degraded", self.language, parts=", ".join(answer.degraded)), style="yellow")
        if answer.citations:
            sources = "; ".join(f"{each.title} ({each.source_ref})" for each in answer.citations)
            self._print(f"{ui_text('sources', self.language)}: {sources}", style="dim")
        if answer.followup_questions and self._interactive:
            offered = " / ".join(answer.followup_questions)
            self._print(f"{ui_text('followups', self.language)}: {offered}", style="dim")

    async def _switch_persona(self, persona_id: str) -> None:
        if persona_id:
            self._persona = (await self._engine.personas.active_persona(self._scope, persona_id)).persona
            self._print(ui_text("persona_now", self.language, name=self._name()))
            return
        table = _table()
        for version in await self._engine.personas.all_active(self._scope):
            mark = "›" if version.persona_id == self._persona.persona_id else " "
            texts = (Text(printable(in_language(version.value[field], self.language))) for field in ("name", "summary"))
            table.add_row(mark, version.persona_id, *texts)
        self._console.print(table)

    async def _preferences(self, arguments: str) -> None:
        session_id = await self._ensure_session()
        preferences = self._engine.memory.preferences
        if arguments:
            await preferences.set(self._scope, session_id, self._change(arguments))
        values = (await preferences.get(self._scope, session_id)).values
        table = _table()
        for field in _FIELDS:
            table.add_row(field, getattr(values, field))
        table.add_row("interest_tags", Text(printable(", ".join(values.interest_tags))))
        self._console.print(table)
        self._print(ui_text("prefs_help", self.language), style="dim")

    def _change(self, arguments: str) -> PreferenceChange:
        fields: dict[str, str] = {}
        added, removed = [], []
        for word in arguments.split():
            field, equals, value = word.partition("=")
            if word.startswith("+"):
                added.append(word[1:])
            elif word.startswith("-"):
                removed.append(word[1:])
            elif equals and field in _FIELDS:
                fields[field] = value
            else:
                self.warn(ui_text("prefs_bad", self.language, word=word))
        return PreferenceChange(
            verbosity=fields.get("verbosity"),
            tone=fields.get("tone"),
            language=fields.get("language"),
            add_interest_tags=added,
            remove_interest_tags=removed,
        )

    async def _explain(self, trace_id: str) -> None:
        wanted = trace_id or self._trace_id
        if wanted is None:
            self.warn(ui_text("no_trace", self.language))
            return
        trace = (await self._engine.traces.get(self._scope, wanted)).record
        titles = {}
        for passage in trace.details.passages:
            stored = await self._engine.evidence.get(self._scope, passage.evidence_id)
            titles[passage.evidence_id] = stored.record.title if stored else ""
        explain(self._console, trace, titles, self.language)

    async def _new_session(self, _: str) -> None:
        self._session_id = self._trace_id = None
        self._print(ui_text("new", self.language))

    async def _sessions(self, session_id: str) -> None:
        if session_id:
            session = (await self._engine.memory.sessions.get(self._scope, session_id)).record
            self._session_id, self._trace_id = session_id, None
            title = session.title or ui_text("untitled", self.language)
            self._print(ui_text("continued", self.language, title=title))
            return
        page = await self._engine.memory.sessions.list(self._scope, limit=_MAX_SESSIONS)
        if not page.items:
            self._print(ui_text("no_sessions", self.language))
            return
        table = _table()
        for stored in page.items:
            mark = "›" if stored.record.session_id == self._session_id else " "
            title = stored.record.title or ui_text("untitled", self.language)
            when = began_at(stored).astimezone().strftime("%Y-%m-%d %H:%M")
            table.add_row(mark, stored.record.session_id, when, Text(printable(title)))
        self._console.print(table)

    async def _help(self, _: str) -> None:
        table = _table()
        for name in self.commands:
            table.add_row(name, ui_text(f"help_{name[1:]}", self.language))
        self._console.print(table)

    async def _ensure_session(self) -> str:
        """The id of the conversation's session; created now if there is none yet."""
        if self._session_id is None:
            self._session_id = (await self._engine.memory.sessions.open(self._scope)).session_id
        return self._session_id

    def _name(self) -> str:
        name: str = in_language(self._persona.name, self.language)
        return name

    def _print(self, line: str, style: str | None = None) -> None:
        self._console.print(printable(line), style=style, markup=False, soft_wrap=not self._interactive)


def _table() -> Table:
    return Table(box=None, show_header=False, pad_edge=False)
