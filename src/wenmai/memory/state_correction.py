"""Corrections of a business state by its user: pure functions over the record."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from wenmai.business.rules import MAX_WORD, BusinessRules
from wenmai.errors import InvalidInput, VersionConflict
from wenmai.memory.state_machine import changed
from wenmai.stores.records import BusinessState, Operation, SeenWords, StateChange


class StateCorrection(msgspec.Struct, frozen=True, kw_only=True):
    """What the user sets; None keeps a value. A stage may be an earlier one.

    Attributes:
        current_customer_id: "" for none.
        intent: of the current operation; it is created if there is none.
        active_domain: if None while intent or object changes, the domains that the rules give to them.
        business_object: "" for none. Unless a stage is given, its stage is the present one, or else its first.
        operation_stage: "" for none.
        version: refuse if the state has another.
    """

    current_customer_id: str | None = None
    intent: str | None = None
    active_domain: list[str] | None = None
    business_object: str | None = None
    operation_stage: str | None = None
    version: int | None = None


def corrected(
    state: BusinessState, correction: StateCorrection, rules: BusinessRules | None, now: datetime
) -> BusinessState:
    """The state after a correction; the same if it changes nothing.

    Raises:
        InvalidInput: a value is not in the rules.
        VersionConflict: the state has another version than the correction names.
    """
    if correction.version not in (None, state.state_version):
        raise VersionConflict(state.spec.collection, state.session_id, expected=correction.version or 0)
    customer = correction.current_customer_id
    if customer is not None and (len(customer) > MAX_WORD or not customer.isprintable()):
        raise InvalidInput("current_customer_id", customer, f"at most {MAX_WORD} printable characters")
    kept = state.current_customer_id if customer is None else customer or None
    operation = _operation(state.current, correction, rules, now)
    if kept == state.current_customer_id and operation == state.current:
        return state
    seen = SeenWords(
        intent=correction.intent or "",
        domains=correction.active_domain or [],
        business_object=correction.business_object or "",
        stage=correction.operation_stage or "",
        customer=customer or "",
    )
    change = StateChange(
        version=state.state_version + 1, at=now, rule="set", saw=seen, current_customer_id=kept, operation=operation
    )
    return changed(state, change, continues=True)


def reset(state: BusinessState, now: datetime) -> BusinessState:
    """The state without customer and operations; the same if it has none."""
    if state.current is None and state.current_customer_id is None:
        return state
    return changed(state, StateChange(version=state.state_version + 1, at=now, rule="reset"), continues=False)


def _operation(
    current: Operation | None, correction: StateCorrection, rules: BusinessRules | None, now: datetime
) -> Operation | None:
    given = (correction.intent, correction.active_domain, correction.business_object, correction.operation_stage)
    if given == (None, None, None, None):
        return current
    if rules is None:
        raise InvalidInput("business", correction.intent, "set: the profile has no business rules")
    before = current or Operation(intent=rules.first_intent, last_update=now)
    intent = before.intent if correction.intent is None else _known("intent", correction.intent, rules.intents)
    object_ = before.business_object
    if correction.business_object is not None:
        object_ = _known("business_object", correction.business_object, ["", *rules.objects])
    moved = current is None or (intent, object_) != (before.intent, before.business_object)
    domains = rules.domains_of(intent, object_) if moved else before.active_domain
    if correction.active_domain is not None:
        domains = [_known("active_domain", domain, rules.domains) for domain in correction.active_domain]
    stages = rules.stages_of(object_)
    stage = before.operation_stage if before.operation_stage in stages else ""
    if correction.operation_stage is not None:
        stage = _known("operation_stage", correction.operation_stage, ["", *stages])
    elif moved and object_ and not stage:
        stage = next(iter(stages), "")
    after = msgspec.structs.replace(
        before, intent=intent, active_domain=domains, business_object=object_, operation_stage=stage
    )
    return after if after == current else msgspec.structs.replace(after, last_update=now)


def _known(field: str, value: str, allowed: Iterable[str]) -> str:
    names = list(allowed)
    if value not in names:
        raise InvalidInput(field, value, f"one of {', '.join(name for name in names if name)}")
    return value
