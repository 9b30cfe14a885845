"""What must hold of talks, whatever was killed, stopped or left: what visitors were told, compared with the store."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Any, NamedTuple, TypeAlias

from support import engine_at
from wenmai.config.settings import Settings
from wenmai.engine import Engine
from wenmai.memory.idempotency import key_digest
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import Message, TraceRecord

NPC = "ancestor_yan"
VISITOR = Scope("default", "default", "visitor")

Json: TypeAlias = dict[str, Any]


class Answered(NamedTuple):
    """What a visitor was told under a key."""

    key: str
    query: str
    answer: Json


async def wrong_talks(store: str, everything: Iterable[Answered]) -> list[str]:
    """What is not there that visitors were told, what is no whole turn, which turns ran at once; in words."""
    found = []
    of_session: dict[str, list[Answered]] = defaultdict(list)
    for each in everything:
        of_session[each.answer["session_id"]].append(each)
    async with engine_at(store) as engine:
        for session_id, answered in of_session.items():
            transcript = await transcript_of(engine, session_id)
            answers = [message for message in transcript if message.role == "assistant" and message.completed]
            traces = [await engine.traces.get(VISITOR, message.metadata["trace_id"]) for message in answers]
            found += broken_promises(answered, transcript) + met_another([trace.record for trace in traces])
    return found


async def transcript_of(engine: Engine, session_id: str) -> list[Message]:
    """The whole thread."""
    thread = ThreadKey(session_id, NPC)
    return [message async for message in engine.memory.transcript.read_all(VISITOR, thread)]


def broken_promises(answered: Iterable[Answered], transcript: Sequence[Message]) -> list[str]:
    """What of a thread contradicts what its visitors were told, or the order of a talk; in words."""
    return [*_lost_or_changed(answered, transcript), *_not_a_talk(transcript)]


def _without_attempt(message_id: str) -> str:
    """A message's id without what tells the attempts of an Idempotency-Key apart."""
    return re.sub(r"^(msg-idem-[0-9a-f]{12})[0-9a-f]+", r"\1", message_id)


def _lost_or_changed(answered: Iterable[Answered], transcript: Sequence[Message]) -> Iterator[str]:
    stored = {_without_attempt(message.id): message for message in transcript}
    told: dict[str, Json] = {}
    for key, query, answer in answered:
        if told.setdefault(key, answer) != answer:
            yield f"two answers: {key} was told {told[key]} and {answer}"
        question, reply = (stored.get(f"msg-idem-{key_digest(key)}{end}") for end in ("", "-answer"))
        if question is None or reply is None:
            yield f"lost: {key} was answered and is not there"
        elif (question.content, question.turn_id, reply.turn_id) != (query, answer["turn_id"], answer["turn_id"]):
            yield f"moved: {key} was answered as turn {answer['turn_id']}, is in {question.turn_id}"
        elif not reply.completed or reply.content != answer["answer_text"]:
            yield f"changed: {key} was told {answer['answer_text']!r}, {reply.content!r} is stored"
        elif reply.metadata["trace_id"] != answer["trace_id"]:
            yield f"changed: {key} was told of {answer['trace_id']}, {reply.metadata['trace_id']} made the answer"


def _not_a_talk(transcript: Sequence[Message]) -> Iterator[str]:
    if [message.seq for message in transcript] != list(range(1, len(transcript) + 1)):
        yield "gap: the numbers are not 1, 2, 3 …"
    for expected, (turn_id, turn) in enumerate(groupby(transcript, key=lambda message: message.turn_id), 1):
        roles = [message.role for message in turn]
        if turn_id != expected or roles != ["user", "assistant"]:
            yield f"interleaved: turn {expected} has the number {turn_id} and holds {roles}"
    for query, times in Counter(message.content for message in transcript if message.role == "user").items():
        if times > 1:
            yield f"doubled: {query!r} was asked once and is there {times} times"


def met_another(traces: Sequence[TraceRecord]) -> list[str]:
    """Turns of a thread that ran while another one did, or were answered without knowing the one before them."""
    return [
        f"{_asked(later)} began {_began(later)}, {_asked(earlier)} ended {earlier.completed_at}; known: {_known(later)}"
        for earlier, later in pairwise(sorted(traces, key=_began))
        if _began(later) < earlier.completed_at or (_in_window(earlier, later) and _asked(earlier) not in _known(later))
    ]


def _in_window(earlier: TraceRecord, later: TraceRecord) -> bool:
    """Whether the window shows it; a turn that was taken up again stands where it was begun, maybe further back."""
    return later.turn_id - earlier.turn_id <= Settings().window_messages // 2


def _began(trace: TraceRecord) -> datetime:
    """When the turn had the thread to itself, at the latest: its first step, opening, includes the waiting."""
    inside = sum(step.duration_ms for step in trace.tool_calls if step.name != "open")
    return trace.completed_at - timedelta(milliseconds=inside)


def _asked(trace: TraceRecord) -> str:
    """The question's key, which no other question has."""
    key: str = trace.request_input.query.rpartition(" ")[2]
    return key


def _known(trace: TraceRecord) -> str:
    return next((block.text for block in trace.blocks if block.kind == "history"), "")
