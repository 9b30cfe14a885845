"""The business state of a session: how it follows from what the user says. Pure; every word is data of the rules.

1. Another intent begins an operation; nothing is carried over.
2. The same intent without an object continues the current operation: its object, domain and stage are inherited.
3. Another object begins an operation, at the stage that was said, else at the first.
4. A stage only advances in the declared order; an earlier or unknown one is kept out, and recorded.
5. A newly named customer replaces the current one and begins an operation.

An object in the place of one that the user did not mean (不是押品，是合同) corrects the current operation. Its stage
stays: the user had said it of that object.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from wenmai.business.rules import BusinessRules
from wenmai.business.understanding import MentionedObject, Recognized
from wenmai.stores.records import BusinessState, Operation, SeenWords, StateChange, StateRule

CHAIN = 10
"""Operations that a state keeps; earlier ones are in the audit."""


def advance(
    state: BusinessState, recognized: Recognized, rules: BusinessRules, now: datetime, *, turn: str = ""
) -> tuple[BusinessState, list[StateChange]]:
    """The state after a message, and its changes: one for each object that the message names, in order.

    Args:
        state: before the message.
        recognized: what the message says.
        rules: of the profile.
        now: time of the message.
        turn: ``persona_id#turn_id`` of the message. A repeated turn gets the changes that it made before, so that it
            does not take a step twice.
    """
    repeated = [change for change in state.changes if turn and change.turn == turn]
    if not recognized.named or repeated:
        return state, repeated
    changes: list[StateChange] = []
    for at, named in enumerate(recognized.objects or [MentionedObject()]):
        said = recognized if at == 0 else replace(recognized, customer="", rejected=[])
        state = _advance(state, said, named, rules, now, turn)
        changes.append(state.changes[-1])
    return state, changes


def _advance(
    state: BusinessState, said: Recognized, named: MentionedObject, rules: BusinessRules, now: datetime, turn: str
) -> BusinessState:
    current = state.current
    rule = _rule(state, said, named)
    intent = said.intent or (current.intent if current else rules.first_intent)
    same = current is not None and current.intent == intent
    inherits = rules.intents[intent].inherits if same and intent in rules.intents else []
    before = current if current is not None and not named.name else None
    object_ = named.name or (before.business_object if before and "object" in inherits else "")
    stage, kept_out = _stage(rule, current, said, named, rules, object_, inherits=inherits)
    domains = said.domains or (before.active_domain if before and "domain" in inherits else [])
    operation = Operation(
        intent=intent,
        active_domain=domains or rules.domains_of(intent, object_),
        business_object=object_,
        operation_stage=stage,
        last_action=said.text,
        last_update=now,
    )
    seen = SeenWords(
        intent=said.intent,
        domains=said.domains,
        business_object=named.name,
        stage=named.stage,
        customer=said.customer,
        rejected=said.rejected,
        matched=said.matched,
    )
    customer = said.customer or state.current_customer_id
    change = StateChange(
        version=state.state_version + 1,
        at=now,
        rule=rule,
        turn=turn,
        saw=seen,
        kept_out=kept_out,
        current_customer_id=customer,
        operation=operation,
    )
    return changed(state, change, continues=rule in ("inherited", "corrected"))


def _rule(state: BusinessState, said: Recognized, named: MentionedObject) -> StateRule:
    current = state.current
    if current is None:
        return "first"
    if said.customer and said.customer != state.current_customer_id:
        return "customer"
    if said.intent not in ("", current.intent):
        return "intent"
    if named.name in ("", current.business_object):
        return "inherited"
    return "corrected" if current.business_object in said.rejected else "object"


def _stage(
    rule: StateRule,
    current: Operation | None,
    said: Recognized,
    named: MentionedObject,
    rules: BusinessRules,
    object_: str,
    *,
    inherits: Sequence[str],
) -> tuple[str, str]:
    """The stage of the operation, and one that was named and not taken."""
    order = rules.stages_of(object_)
    continues = current is not None and rule in ("inherited", "corrected")
    kept = current.operation_stage if current and continues and ("stage" in inherits or named.name) else ""
    if kept not in order:
        kept = ""
    asked = named.stage or _neighbour(order, kept, said.step)
    if not asked:
        return kept or (order[0] if order and object_ and not (continues and rule == "inherited") else ""), ""
    if asked not in order or (kept and order.index(asked) < order.index(kept)):
        return kept or (order[0] if order and object_ else ""), asked
    return asked, ""


def _neighbour(order: Sequence[str], stage: str, step: int) -> str:
    """The stage a step further, or back; "" without one."""
    if not step or stage not in order:
        return ""
    at = order.index(stage) + step
    return order[at] if 0 <= at < len(order) else ""


def changed(state: BusinessState, change: StateChange, *, continues: bool) -> BusinessState:
    """The state with a change: its operation continues the current one, or is appended."""
    earlier = state.operation_chain[:-1] if continues else state.operation_chain
    chain = [] if change.operation is None else [*earlier, change.operation][-CHAIN:]
    return replace(
        state,
        current_customer_id=change.current_customer_id,
        operation_chain=chain,
        state_version=change.version,
        changes=[*state.changes, change],
    )


def carried(
    recognized: Recognized, changes: Sequence[StateChange], state: BusinessState, rules: BusinessRules
) -> list[str]:
    """The object and the stage that a message refers to without naming them; for the search.

    Args:
        recognized: what the message says.
        changes: that it made.
        state: after them.
        rules: of the profile.
    """
    current = state.current
    if current is None:
        return []
    kept_out = changes[-1].kept_out if changes else ""
    stage = rules.stage_word(current.business_object, kept_out or current.operation_stage)
    if is_restated(recognized, changes):
        declared = (kept_out or current.operation_stage) in rules.stages_of(current.business_object)
        about = current.business_object or _latest_object(state)
        return [word for word in (about, stage) if word] if declared else []
    if any(each.name for each in recognized.objects):
        return []
    rule = changes[-1].rule if changes else "inherited" if recognized.anaphoric else ""
    if rule in ("inherited", "intent") and not current.business_object:
        return [word for word in (_latest_object(state),) if word]
    if rule not in ("inherited", "customer"):
        return []
    named = rule == "inherited" and any(each.stage for each in recognized.objects)
    return [word for word in (current.business_object, "" if named or recognized.says_more else stage) if word]


def _latest_object(state: BusinessState) -> str:
    """The object of the latest operation that had one: an operation without one is probably about it."""
    return next((each.business_object for each in reversed(state.operation_chain) if each.business_object), "")


def is_restated(recognized: Recognized, changes: Sequence[StateChange]) -> bool:
    """Whether a message only points to an object and a stage: by their names, or as the next stage.

    A message that names several objects is about each of them.
    """
    return bool(changes) and (recognized.only_step or (recognized.only_names and len(recognized.objects) <= 1))
