"""Advance the business state by the message; rewriting and retrieval use what the message inherits from it."""

import logging
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from wenmai.business.enumeration import enumerated
from wenmai.business.reply import InvalidReply, UnderstandingReply
from wenmai.business.rules import BusinessRules
from wenmai.chat.structured_reply import ReplyFailed
from wenmai.chat.turn import TurnRun, TurnState
from wenmai.chat.understanding.plan import JudgedOn, Plan, Query, QueryKind, Wording
from wenmai.errors import Conflict, SessionNotFound, StoreUnavailable
from wenmai.memory.state import StateUpdate
from wenmai.resilience.degradation import note_degraded
from wenmai.text.cjk import normalise, query_terms

_log = logging.getLogger(__name__)

BEGINNING = frozenset({"first", "intent", "object", "customer"})
"""Rules by which a message begins an operation, which inherits nothing."""

_TERSE = 4
"""Index terms up to which a question that names nothing of the rules is asked of the current operation only."""

STATE, UNDERSTANDING = "state", "understanding"
"""Keys in ``degraded``: the business state could not be read or changed; the model's understanding was not used."""


async def update_state(state: TurnState, run: TurnRun) -> TurnState:
    """What the message says in the words of the profile's business rules; nothing without rules, or incognito."""
    request, opened, rules = state["request"], state["opened"], run.services.profile.business
    if rules is None or request.incognito or not run.services.policy.memory_enabled:
        return {}
    thread = opened.thread
    understand = partial(
        run.services.memory.states.understand,
        request.scope,
        thread.session_id,
        request.query,
        incarnation=thread.incarnation or "",
        turn=f"{thread.persona_id}#{opened.turn_id}",
        rules=rules,
    )
    reply = await _reply(state, run, rules)
    try:
        try:
            update = await understand(reply=reply)
        except InvalidReply as problem:
            _log.warning("a message is understood by its words alone: %s", problem)
            note_degraded(UNDERSTANDING)
            update = await understand()
    except (StoreUnavailable, Conflict):
        note_degraded(STATE)
        return {}
    except SessionNotFound:
        return {}  # deleted meanwhile; completing the turn finds that out
    return {"business": update}


async def _reply(state: TurnState, run: TurnRun, rules: BusinessRules) -> UnderstandingReply | None:
    """What the model says of the message; None without one, or if it failed."""
    model, request, opened = run.services.understanding, state["request"], state["opened"]
    if model is None:
        return None
    try:
        return await model.reply(request.scope, opened.thread.session_id, request.query, opened.window, rules)
    except ReplyFailed as problem:
        _log.warning("a message is understood by its words alone: %s", problem)
        note_degraded(UNDERSTANDING)
        return None


def with_state(plan: Plan, update: StateUpdate, *, in_conversation: bool) -> Plan:
    """The plan, with what the message takes from the state.

    A message that only points to an object and a stage is replaced by them, or if it names one of them also asked as
    it is. It challenges no answer, even if it begins so (不对，是合同). One that names several
    objects with a stage each, or enumerates objects, asks about each. Otherwise a wording with the carried words is
    tried: first, or last if the message names nothing of the rules, since the conversation then explains it better. A
    new operation is not asked about in the passages cited last. A wording in the rules' own names is tried last. A
    message that names nothing of the rules is asked within the current operation first.
    """
    words, said = update.carried, update.recognized
    challenges = any(query.kind is QueryKind.CHALLENGE for query in plan.queries)
    if update.restated and (challenges or not (said.only_names and len(plan.queries) == 1)):
        return Plan(queries=(_query([*words]),), carried=words)
    pairs = _asked_separately(update, len(plan.queries))
    if pairs:
        return replace(plan, queries=tuple(_query(pair, about=pair[0]) for pair in pairs))
    if parts := enumerated(said.text, said):
        return replace(plan, queries=tuple(_query([part], about=name) for name, part in parts.items()))
    first = bool(update.changes) or not in_conversation
    queries = [_with_wording(query, words, first=first) if words else query for query in plan.queries]
    if update.changes and update.changes[-1].rule in BEGINNING:
        queries = [_without_focus(query) for query in queries]
    queries = [_in_own_words(query, words, update) for query in queries]
    if not update.changes:
        queries = [_continuing(query, update) for query in queries]
    if update.restated:
        restated = Wording(text=" ".join(words))
        queries = [replace(queries[0], wordings=(restated, *queries[0].wordings))]
    carried = [*words, *(word for word in plan.carried if word not in words)]
    return replace(plan, queries=tuple(queries), carried=carried)


def _continuing(query: Query, update: StateUpdate) -> Query:
    """A question that names nothing of the rules: asked of the current operation first, then of everything."""
    if update.state.current is None:
        return query
    within = [
        replace(wording, judged_on=JudgedOn.BOTH) if wording.judged_on is JudgedOn.FOUND else wording
        for wording in query.wordings
    ]
    beyond = [replace(wording, anywhere=True) for wording in query.wordings if wording.judged_on is not JudgedOn.FOCUS]
    return replace(query, wordings=(*within, *(beyond if len(query_terms(query.asked)) > _TERSE else ())))


def _asked_separately(update: StateUpdate, questions: int) -> list[tuple[str, str]]:
    """The objects with a stage each, or the stages of one object, where each is asked about; else nothing."""
    said = update.recognized
    pairs = [(each.name, each.stage) for each in said.objects]
    if len(pairs) == 1 and len(said.stages) == questions:
        pairs = [(pairs[0][0], stage) for stage in said.stages]
    separate = len(pairs) > 1 and questions in (1, len(pairs)) and all(all(pair) for pair in pairs)
    return pairs if separate else []


def _without_focus(query: Query) -> Query:
    wordings = tuple(wording for wording in query.wordings if wording.judged_on is not JudgedOn.FOCUS)
    return replace(query, wordings=wordings or query.wordings)


def _query(words: Sequence[str], *, about: str = "") -> Query:
    text = " ".join(words)
    return Query(asked=text, wordings=(Wording(text=text, about=about),))


def _with_wording(query: Query, words: Sequence[str], *, first: bool) -> Query:
    asked = normalise(query.wordings[0].text)
    missing = [word for word in words if normalise(word) not in asked]
    if not missing:
        return query
    wording = Wording(text=" ".join([*missing, query.asked]), judged_on=JudgedOn.BOTH)
    return replace(query, wordings=(wording, *query.wordings) if first else (*query.wordings, wording))


def _in_own_words(query: Query, words: Sequence[str], update: StateUpdate) -> Query:
    """The query, with a last wording in which the rules' names stand for other words, and no customer."""
    named = update.in_own_words(query.asked)
    if named == normalise(query.asked):
        return query
    missing = [word for word in words if normalise(word) not in named]
    return replace(query, wordings=(*query.wordings, Wording(text=" ".join([*missing, named]))))


def search_filters(update: StateUpdate | None, filters: Sequence[str], allowed: Sequence[str]) -> dict[str, list[str]]:
    """Limits of the search by the operations that the message is about; empty for none.

    Args:
        update: the message and the state after it.
        filters: what of an operation limits the search, as in the business rules.
        allowed: the persona's domains; empty for all. Others are never searched.
    """
    if update is None or update.state.current is None:
        return {}
    operations = [change.operation for change in update.changes if change.operation] or [update.state.current]
    limits: dict[str, list[str]] = {}
    domains = {domain for each in operations for domain in each.active_domain}
    if "domain" in filters and (within := sorted(domains & {*allowed} if allowed else domains)):
        limits["domains"] = within
    objects = sorted({each.business_object for each in operations if each.business_object})
    if "object" in filters and objects:
        limits["tags"] = objects
    return limits
