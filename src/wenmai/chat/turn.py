"""One turn: what is asked, what is gathered step by step, what is answered."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from wenmai.chat.budgets import BudgetKeeper, Standing
from wenmai.chat.evidence import EvidenceBase
from wenmai.chat.gate.before import Verdict
from wenmai.chat.intent import Understanding
from wenmai.chat.metering import Meter
from wenmai.chat.persona import ActivePersona, PersonaRegistry
from wenmai.chat.profile import Profile
from wenmai.chat.prompts import Prompt, PromptRegistry
from wenmai.chat.rewrite import Rewrite
from wenmai.chat.trace import TraceLedger
from wenmai.chat.types import Citation, Passage, PolicyMode
from wenmai.clock import Clock
from wenmai.memory.idempotency import Claim
from wenmai.memory.manager import Memory
from wenmai.memory.turns import OnConflict
from wenmai.providers.models import ChatModel
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Message, Preferences
from wenmai.text.tokens import TokenCounter

QUERY_LIMIT = 4000


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a visitor asks.

    Attributes:
        query: 1 to 4000 characters.
        session_id: None begins a session.
        incognito: use and change no preferences; the transcript is kept all the same.
        trace_id: the caller's own, else one is made.
        idempotency_key: the same key again gives the first answer.
        on_conflict: what to do if another turn of the thread runs.
    """

    scope: Scope
    npc_id: str
    query: str
    session_id: str | None = None
    incognito: bool = False
    trace_id: str | None = None
    idempotency_key: str | None = None
    on_conflict: OnConflict = "wait"


class TurnEvent(msgspec.Struct, frozen=True):
    """Something that happens while a turn runs.

    ``begin`` has nothing: the turn holds its thread, and its question is stored next. ``start`` has trace_id,
    session_id, turn_id and npc_id; ``step`` has name, status and duration_ms; ``token`` has text, a slice of the answer
    that has passed the gate; ``replace`` has text, the whole answer instead of the tokens before it. The tokens joined,
    from the last ``replace`` on, are the answer that is returned.
    """

    kind: Literal["begin", "start", "step", "token", "replace"]
    data: dict[str, Any]


OnEvent = Callable[[TurnEvent], Awaitable[None]]


class TurnAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the visitor gets; stored before it is returned."""

    trace_id: str
    session_id: str
    turn_id: int
    policy_mode: PolicyMode
    answer_text: str
    citations: list[Citation]
    followup_questions: list[str]
    npc_id: str
    npc_name: str
    latency_ms: float
    timestamp: datetime
    degraded: list[str] = []


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """The turn in the transcript.

    Attributes:
        answer: the record of the answer, unfinished.
        window: what was said before in the thread.
        first: True if the session has no question yet.
        untitled: True if nobody has settled the session's title yet.
    """

    thread: ThreadKey
    turn_id: int
    answer: Message
    window: list[Message]
    first: bool
    untitled: bool


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of how to answer.

    Attributes:
        preferences: None if the turn is incognito.
        language: BCP 47 tag of the answer.
        verbosity: of the answer.
    """

    preferences: Preferences | None
    language: str
    verbosity: str


class Retrieved(msgspec.Struct, frozen=True, kw_only=True):
    """The passages found, best first, and what failed on the way."""

    passages: list[Passage] = []
    degraded: list[str] = []


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An answer before it is checked.

    Attributes:
        model: ``offline`` if it was composed from the evidence.
        cited: numbers of the passages it quotes, if it was composed.
        failure: what was wrong with the model, if it was asked in vain.
        cut_off: the model's text ended at a limit of length.
        exhausted: the budget because of which it was not asked.
    """

    text: str
    model: str
    cited: list[int] = []
    failure: str = ""
    cut_off: bool = False
    exhausted: str = ""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """The answer as it may be given.

    Attributes:
        unsupported: what the model claimed without evidence, as it wrote it.
    """

    text: str
    mode: PolicyMode
    reason: str
    citations: list[Citation] = []
    unsupported: list[str] = []


class TurnState(TypedDict, total=False):
    """The state of the graph; each step adds its own value and changes no other's."""

    request: TurnRequest
    persona: ActivePersona
    opened: Opened
    recalled: Recalled
    rewritten: Rewrite
    understood: Understanding
    retrieved: Retrieved
    verdict: Verdict
    prompt: Prompt
    draft: Draft
    settled: Settled
    answer: TurnAnswer


@dataclass(frozen=True)
class TurnPolicy:
    """What of the settings the turn needs."""

    memory_enabled: bool
    prompt_budget_tokens: int
    default_language: str


@dataclass(frozen=True)
class Services:
    """What the steps work with; handed in, never looked up."""

    memory: Memory
    evidence: EvidenceBase
    personas: PersonaRegistry
    prompts: PromptRegistry
    traces: TraceLedger
    budgets: BudgetKeeper
    profile: Profile
    policy: TurnPolicy
    clock: Clock
    model: ChatModel | None
    count_tokens: TokenCounter


@dataclass
class TurnRun:
    """One run of the graph: the services, where events go, and what has been recorded for the trace.

    Attributes:
        held: what is held until the turn ends, such as the thread.
        steps: name, status and duration in ms of each step so far.
        state: all that the steps have added so far, for the trace of a turn that fails.
        prompt_source: ``prompt_registry`` or ``npc_profile``, and the version of it.
        meter: what the model calls of this turn have used.
        counted: True once that has been added to session, user and tenant.
        claim: what an attempt at an Idempotency-Key starts from; None without a key.
        standings: how the budgets stood before the model was called; empty where none was to be asked.
        noted: what failed or was left alone below the steps so far, as keys; others add to it while the turn runs.
    """

    services: Services
    trace_id: str
    started_at: datetime
    started: float
    on_event: OnEvent | None
    held: AsyncExitStack
    noted: dict[str, None]
    claim: Claim | None = None
    meter: Meter = field(default_factory=Meter)
    counted: bool = False
    standings: list[Standing] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    state: TurnState = field(default_factory=TurnState)
    prompt_source: tuple[str, int | None] = ("npc_profile", None)

    async def emit(self, kind: Literal["begin", "start", "step", "token"], **data: Any) -> None:
        """Tell the listener, if there is one."""
        if self.on_event is not None:
            await self.on_event(TurnEvent(kind, data))
