"""The values of a turn: request, state of the steps, events, answer."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, ClassVar, TypedDict

import msgspec
from msgspec import Meta

from wenmai.chat.budgets import BudgetKeeper
from wenmai.chat.metering import UsageMeter
from wenmai.chat.persona import ActivePersona, PersonaRegistry
from wenmai.chat.prompts import Prompt, PromptRegistry
from wenmai.chat.suggestions import Suggestions
from wenmai.chat.trace import TraceLedger
from wenmai.chat.understanding.dialogue_acts import Understanding
from wenmai.chat.understanding.focus import CitedTurns
from wenmai.chat.understanding.plan import Plan, Search
from wenmai.chat.understanding.rewrite import Rewrite
from wenmai.chat.understanding_model import ModelUnderstanding
from wenmai.chat.verifier import ModelVerifier
from wenmai.clock import Clock, from_micros
from wenmai.config.profile import Profile
from wenmai.grounding.answerability import Verdict
from wenmai.grounding.evidence import EvidenceBase
from wenmai.grounding.lexicon import Lexicon
from wenmai.grounding.types import Citation, Passage, PolicyMode
from wenmai.grounding.verified_answer import Removed
from wenmai.memory.idempotency import Claim
from wenmai.memory.library import Memory
from wenmai.memory.sessions import SessionTerms
from wenmai.memory.state import StateUpdate
from wenmai.memory.summaries import ThreadSummary
from wenmai.memory.thread_lock import OnConflict
from wenmai.memory.window import Window
from wenmai.providers.models import ChatModel
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import BudgetStatus, Message, Operation, Preferences, TurnStep
from wenmai.text.tokens import TokenCounter

QUERY_LIMIT = 4000
VERIFIED_AT_ONCE = 800
"""Characters of an answer and its passages above which it is verified off the event loop: about 5 ms."""

LARGE = 5_000
"""Characters above which a text is analysed off the event loop: about 5 ms."""


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a persona.

    Attributes:
        query: 1 to 4000 characters.
        session_id: None creates a session.
        incognito: neither use nor change preferences; the transcript is still kept.
        trace_id: the caller's own; None generates one.
        idempotency_key: a repeated key returns the first answer.
        on_conflict: what to do if another turn of the thread runs.
        role: of the user, one of the profile's; None for no role.
        received_at: set when the request is asked.
    """

    scope: Scope
    persona_id: str
    query: str
    session_id: str | None = None
    incognito: bool = False
    trace_id: str | None = None
    idempotency_key: str | None = None
    on_conflict: OnConflict = "wait"
    role: str | None = None
    received_at: datetime = from_micros(0)


class TurnBegan(msgspec.Struct, frozen=True):
    """The turn holds its thread, and its question is stored next."""

    kind: ClassVar[str] = "begin"


class TurnStarted(msgspec.Struct, frozen=True):
    """The question is stored."""

    kind: ClassVar[str] = "start"

    trace_id: str
    session_id: str
    turn_id: int
    persona_id: str = msgspec.field(name="npc_id")


class TurnUnderstood(msgspec.Struct, frozen=True, kw_only=True):
    """The message is understood; evidence is searched next.

    Attributes:
        rewritten_query: what is searched for.
        intent: the dialogue act.
        operation: the current operation of the business state, if there is one.
        language: of the answer.
    """

    kind: ClassVar[str] = "understood"

    rewritten_query: str
    intent: str
    operation: Operation | None
    language: str


class StepEnded(TurnStep, frozen=True):
    """A step has ended."""

    kind: ClassVar[str] = "step"


class Token(msgspec.Struct, frozen=True):
    """A verified slice of the answer."""

    kind: ClassVar[str] = "token"

    text: str


class Replacement(msgspec.Struct, frozen=True):
    """The whole answer, instead of the tokens before it."""

    kind: ClassVar[str] = "replace"

    text: str


TurnEvent = TurnBegan | TurnStarted | TurnUnderstood | StepEnded | Token | Replacement
"""An event of a running turn; ``kind`` names it on the wire.

The joined tokens since the last :class:`Replacement` are the answer that is returned.
"""

OnEvent = Callable[[TurnEvent], Awaitable[None]]


class TurnAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the user; stored before it is returned."""

    trace_id: Annotated[str, Meta(description="The id of the turn's trace.")]
    session_id: Annotated[str, Meta(description="The session's id.")]
    turn_id: Annotated[int, Meta(description="The turn's number in its thread, from 1.")]
    policy_mode: Annotated[
        PolicyMode,
        Meta(description="`normal`; `conservative` if the evidence is insufficient; `refuse` for a forbidden topic."),
    ]
    answer_text: Annotated[str, Meta(description="The whole answer.")]
    citations: Annotated[list[Citation], Meta(description="The passages that support the answer, best first.")]
    followup_questions: Annotated[list[str], Meta(description="Suggested follow-up questions.")]
    persona_id: Annotated[str, Meta(description="The persona that answered.")] = msgspec.field(name="npc_id")
    persona_name: Annotated[str, Meta(description="The persona's name, in the language of the answer.")] = (
        msgspec.field(name="npc_name")
    )
    latency_ms: Annotated[float, Meta(description="Milliseconds from the request to the answer.")]
    timestamp: Annotated[datetime, Meta(description="Time at which the answer was stored.")]
    degraded: Annotated[
        list[str], Meta(description="Components that failed or were skipped, such as `model`; normally empty.")
    ] = []


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """The turn's place in the transcript.

    Attributes:
        question: as stored.
        answer: the answer message, unfinished.
        window: the previous messages of the thread.
        recent: the window that they are of, with the turns before it.
        first: True if the session has no first question yet.
    """

    thread: ThreadKey
    turn_id: int
    question: Message
    answer: Message
    window: list[Message]
    recent: Window
    first: bool


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """The preferences that apply to the answer, and the summary of what was said before the window.

    Attributes:
        preferences: None if the turn is incognito.
        summary: None if the turn is incognito, or there is none.
        language: BCP 47 tag of the answer.
        verbosity: of the answer.
    """

    preferences: Preferences | None
    summary: ThreadSummary | None = None
    language: str
    verbosity: str


class Retrieved(msgspec.Struct, frozen=True, kw_only=True):
    """The passages found, best first, and the parts that failed.

    Attributes:
        found_for: the passages of each search.
        limited: the searches whose passages are those that the business state limits the question to.
    """

    passages: list[Passage] = []
    found_for: dict[Search, list[Passage]] = {}
    limited: frozenset[Search] = frozenset()
    degraded: list[str] = []


class AnswerPart(msgspec.Struct, frozen=True, kw_only=True):
    """One question of a message, as the user asked it, with its verdict."""

    asked: str
    verdict: Verdict


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An answer before verification.

    Attributes:
        model: ``offline`` if it was composed from the evidence.
        cited: numbers of the passages it quotes, if it was composed.
        failure: the error of the model, if it failed.
        cut_off: the model's text ended at a length limit.
        exhausted: the budget because of which the model was not called.
        budgets: before the model was called; empty if none was to be called.
    """

    text: str
    model: str
    cited: list[int] = []
    failure: str = ""
    cut_off: bool = False
    exhausted: str = ""
    budgets: list[BudgetStatus] = []


class CheckedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The verified answer.

    Attributes:
        removed: the model's statements without evidence, verbatim, with what took their place.
    """

    text: str
    mode: PolicyMode
    reason: str
    citations: list[Citation] = []
    removed: list[Removed] = []


class TurnState(TypedDict, total=False):
    """The state of the graph; each step adds its own values and changes no others."""

    request: TurnRequest
    persona: ActivePersona
    opened: Opened
    recalled: Recalled
    business: StateUpdate
    focus: CitedTurns
    plan: Plan
    rewritten: Rewrite
    understanding: Understanding
    retrieved: Retrieved
    verdict: Verdict
    parts: list[AnswerPart]
    prompt: Prompt
    draft: Draft
    checked: CheckedAnswer
    answer: TurnAnswer


@dataclass(frozen=True)
class TurnPolicy:
    """The settings that a turn needs."""

    memory_enabled: bool
    prompt_budget_tokens: int
    default_language: str


@dataclass(frozen=True)
class Services:
    """The services that steps use; injected, never looked up.

    Attributes:
        terms: of new sessions; None for the memory's.
    """

    memory: Memory
    evidence: EvidenceBase
    personas: PersonaRegistry
    prompts: PromptRegistry
    suggestions: Suggestions
    traces: TraceLedger
    budgets: BudgetKeeper
    profile: Profile
    lexicon: Lexicon
    policy: TurnPolicy
    clock: Clock
    model: ChatModel | None
    count_tokens: TokenCounter
    verifier: ModelVerifier | None = None
    understanding: ModelUnderstanding | None = None
    terms: SessionTerms | None = None


@dataclass
class TurnRun:
    """One run of the graph: the services, the event callback, and records for the trace.

    Attributes:
        resources: released when the turn ends, such as the thread lock.
        steps: name, status and duration in ms of each step so far.
        state: the state so far, for the trace of a failed turn.
        meter: usage of the model calls of this turn.
        claim: on the Idempotency-Key; None without a key.
        degradations: names of parts that failed or were skipped so far, as keys; filled while the turn runs.
    """

    services: Services
    trace_id: str
    started_at: datetime
    started: float
    on_event: OnEvent | None
    resources: AsyncExitStack
    degradations: dict[str, None]
    claim: Claim | None = None
    meter: UsageMeter = field(default_factory=UsageMeter)
    steps: list[TurnStep] = field(default_factory=list)
    state: TurnState = field(default_factory=TurnState)

    async def emit(self, event: TurnEvent) -> None:
        """Send an event, if there is a callback."""
        if self.on_event is not None:
            await self.on_event(event)
