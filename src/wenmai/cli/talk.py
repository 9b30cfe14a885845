"""A talk in the terminal: questions go to the engine, lines that begin with a slash are commands."""

from collections.abc import Awaitable, Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wenmai.chat.evidence.fields import guess_language
from wenmai.chat.profile import Persona, in_language
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.chat.types import PolicyMode
from wenmai.cli.console import printable
from wenmai.cli.explanation import explain
from wenmai.cli.streamed import Streamed
from wenmai.cli.wording import say
from wenmai.engine import Engine
from wenmai.errors import WenmaiError
from wenmai.memory.preferences import PreferenceChange
from wenmai.scope import Scope

_SESSIONS_SHOWN = 20
_FIELDS = ("verbosity", "tone", "language")


class Talk:
    """One visit.

    Attributes:
        language: ``zh`` or ``en``, that of the last question.
        commands: what may be typed with a slash.
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
        chatty: bool,
    ) -> None:
        self.language = language
        self._engine = engine
        self._console = console
        self._scope = scope
        self._persona = persona
        self._session_id = session_id
        self._incognito = incognito
        self._chatty = chatty
        self._trace_id: str | None = None
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "/persona": self._switch_persona,
            "/prefs": self._prefer,
            "/why": self._explain,
            "/new": self._begin,
            "/sessions": self._continue,
            "/help": self._help,
        }
        self.commands = [*self._commands, "/quit"]

    def welcome(self) -> None:
        """Say with whom the visitor talks and what can be typed."""
        self._tell(say("welcome", self.language, name=self._name()), style="dim")

    def farewell(self) -> None:
        """Say how the talk can be continued."""
        if self._session_id:
            self._tell(say("farewell", self.language, session=self._session_id), style="dim")

    def warn(self, line: str) -> None:
        """Say that something did not work."""
        self._tell(line, style="yellow")

    async def hear(self, line: str) -> bool:
        """Answer a question or obey a command; False if the visitor leaves."""
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
                self.warn(say("unknown_command", self.language, name=name))
        except WenmaiError as problem:
            self._tell(str(problem), style="red")
        return True

    async def _ask(self, question: str) -> None:
        self.language = guess_language(question)
        request = TurnRequest(
            scope=self._scope,
            npc_id=self._persona.npc_id,
            query=question,
            session_id=self._session_id,
            incognito=self._incognito,
        )
        if self._chatty:
            shown = Streamed(self._console, f"{self._name()} › ", say("final", self.language))
            try:
                answer = await self._engine.chat.ask(request, on_event=shown.hear)
            finally:
                shown.end()
        else:
            answer = await self._engine.chat.ask(request)
            self._tell(answer.answer_text)
        self._session_id, self._trace_id = answer.session_id, answer.trace_id
        self._show_grounds(answer)

    def _show_grounds(self, answer: TurnAnswer) -> None:
        """What the answer rests on, how it was given, and what may be asked next."""
        if answer.policy_mode is not PolicyMode.NORMAL:
            self._tell(say(answer.policy_mode.value, self.language), style="yellow")
        if answer.degraded:
            self._tell(say("degraded", self.language, parts=", ".join(answer.degraded)), style="yellow")
        if answer.citations:
            sources = "; ".join(f"{each.title} ({each.source_ref})" for each in answer.citations)
            self._tell(f"{say('sources', self.language)}: {sources}", style="dim")
        if answer.followup_questions and self._chatty:
            offered = " / ".join(answer.followup_questions)
            self._tell(f"{say('followups', self.language)}: {offered}", style="dim")

    async def _switch_persona(self, npc_id: str) -> None:
        if npc_id:
            self._persona = (await self._engine.personas.answering(self._scope, npc_id)).persona
            self._tell(say("persona_now", self.language, name=self._name()))
            return
        table = _table()
        for version in await self._engine.personas.all_active(self._scope):
            mark = "›" if version.npc_id == self._persona.npc_id else " "
            texts = (Text(printable(in_language(version.value[field], self.language))) for field in ("name", "summary"))
            table.add_row(mark, version.npc_id, *texts)
        self._console.print(table)

    async def _prefer(self, wishes: str) -> None:
        session_id = await self._session()
        book = self._engine.memory.preferences
        if wishes:
            await book.set(self._scope, session_id, self._change(wishes))
        values = (await book.get(self._scope, session_id)).values
        table = _table()
        for field in _FIELDS:
            table.add_row(field, getattr(values, field))
        table.add_row("interest_tags", Text(printable(", ".join(values.interest_tags))))
        self._console.print(table)
        self._tell(say("prefs_help", self.language), style="dim")

    def _change(self, wishes: str) -> PreferenceChange:
        fields: dict[str, str] = {}
        added, removed = [], []
        for word in wishes.split():
            field, equals, value = word.partition("=")
            if word.startswith("+"):
                added.append(word[1:])
            elif word.startswith("-"):
                removed.append(word[1:])
            elif equals and field in _FIELDS:
                fields[field] = value
            else:
                self.warn(say("prefs_bad", self.language, word=word))
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
            self.warn(say("no_trace", self.language))
            return
        trace = (await self._engine.traces.get(self._scope, wanted)).record
        titles = {}
        for passage in trace.details.get("passages", []):
            stored = await self._engine.evidence.get(self._scope, passage["evidence_id"])
            titles[passage["evidence_id"]] = stored.record.title if stored else ""
        explain(self._console, trace, titles, self.language)

    async def _begin(self, _: str) -> None:
        self._session_id = self._trace_id = None
        self._tell(say("new", self.language))

    async def _continue(self, session_id: str) -> None:
        if session_id:
            session = (await self._engine.memory.sessions.get(self._scope, session_id)).record
            self._session_id, self._trace_id = session_id, None
            title = session.title or say("untitled", self.language)
            self._tell(say("continued", self.language, title=title))
            return
        page = await self._engine.memory.sessions.list(self._scope, limit=_SESSIONS_SHOWN)
        if not page.items:
            self._tell(say("no_sessions", self.language))
            return
        table = _table()
        for stored in page.items:
            mark = "›" if stored.record.session_id == self._session_id else " "
            title = stored.record.title or say("untitled", self.language)
            when = stored.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
            table.add_row(mark, stored.record.session_id, when, Text(printable(title)))
        self._console.print(table)

    async def _help(self, _: str) -> None:
        table = _table()
        for name in self.commands:
            table.add_row(name, say(f"help_{name[1:]}", self.language))
        self._console.print(table)

    async def _session(self) -> str:
        """The session of the talk; begun now if nothing was asked yet."""
        if self._session_id is None:
            self._session_id = (await self._engine.memory.sessions.open(self._scope)).session_id
        return self._session_id

    def _name(self) -> str:
        name: str = in_language(self._persona.name, self.language)
        return name

    def _tell(self, line: str, style: str | None = None) -> None:
        self._console.print(printable(line), style=style, markup=False, soft_wrap=not self._chatty)


def _table() -> Table:
    return Table(box=None, show_header=False, pad_edge=False)
