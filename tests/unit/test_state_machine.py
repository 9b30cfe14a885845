"""The rules of the business state, against a plain model of them, over hundreds of dialogues."""

from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.business.rules import BusinessRules
from wenmai.business.understanding import MentionedObject, Recognized
from wenmai.clock import MovableClock
from wenmai.memory.state_machine import CHAIN, advance
from wenmai.stores.records import BusinessState

STAGES = ["s1", "s2", "s3", "s4", "s5"]
OBJECTS: dict[str, list[str] | None] = {"a": None, "b": None, "short": ["s2", "s4"], "none": []}
INHERITS = {"i": ("domain", "object", "stage"), "j": ("domain", "object", "stage"), "forgets": ()}
DOMAIN_OF = {"i": ["d1"], "j": ["d2"], "forgets": []}
RULES = msgspec.convert(
    {
        "intents": {name: {"inherits": INHERITS[name], "domains": DOMAIN_OF[name]} for name in INHERITS},
        "domains": {"d1": [], "d2": [], "d3": []},
        "objects": {name: {"stages": stages} for name, stages in OBJECTS.items()},
        "stages": {stage: [] for stage in STAGES},
    },
    BusinessRules,
)
NOW = MovableClock()()

MESSAGES = st.builds(
    Recognized,
    intent=st.sampled_from(["", "", "i", "j", "forgets"]),
    domains=st.sampled_from([[], [], ["d3"]]),
    customer=st.sampled_from(["", "", "", "c1", "c2"]),
    objects=st.lists(
        st.builds(
            MentionedObject,
            name=st.sampled_from(["", "", *OBJECTS]),
            stage=st.sampled_from(["", "", *STAGES]),
        ),
        max_size=2,
        unique_by=lambda each: each.name,
    ).filter(lambda found: len(found) < 2 or all(each.name for each in found)),
    step=st.sampled_from([0, 0, 0, 1, -1]),
    rejected=st.sampled_from([[], [], ["a"], ["b"]]),
)


class Plain(NamedTuple):
    """The model's operation."""

    intent: str
    domains: list[str]
    object: str
    stage: str


class Model:
    """The five rules, written as a person would explain them; it knows nothing of records."""

    def __init__(self) -> None:
        self.customer: str | None = None
        self.chain: list[Plain] = []
        self.kept_out: list[str] = []

    def hear(self, said: Recognized) -> None:
        """Follow a message."""
        if not (said.intent or said.domains or said.customer or said.objects or said.step):
            return
        for number, named in enumerate(said.objects or [MentionedObject()]):
            first = number == 0
            self._hear(said, named, said.customer if first else "", said.rejected if first else [])

    def _hear(self, said: Recognized, named: MentionedObject, customer: str, rejected: list[str]) -> None:
        now = self.chain[-1] if self.chain else None
        new_customer = bool(customer) and customer != self.customer
        self.customer = customer or self.customer
        if now is None:
            self._begin(said.intent or "i", named.name, named.stage, said.domains)
        elif new_customer:  # rule 5; an object that is not named is the same as for the last customer
            intent = said.intent or now.intent
            same = intent == now.intent and not named.name
            kept = now.object if same and "object" in INHERITS[intent] else ""
            domains = now.domains if same and "domain" in INHERITS[intent] else []
            self._begin(intent, named.name or kept, named.stage, said.domains or domains)
        elif said.intent and said.intent != now.intent:  # rule 1
            self._begin(said.intent, named.name, named.stage, said.domains)
        elif named.name and named.name != now.object and now.object not in rejected:  # rule 3
            self._begin(now.intent, named.name, named.stage, said.domains)
        else:  # rule 2, or a correction
            self._continue(said, now, named)

    def _begin(self, intent: str, thing: str, stage: str, domains: list[str]) -> None:
        allowed = self._allowed(thing)
        first = allowed[0] if allowed and thing else ""
        self.kept_out.append(stage if stage and stage not in allowed else "")
        chosen = stage if stage in allowed else first
        self.chain.append(Plain(intent, domains or DOMAIN_OF[intent], thing, chosen))

    def _continue(self, said: Recognized, now: Plain, named: MentionedObject) -> None:
        inherits = INHERITS[now.intent]
        thing = named.name or (now.object if "object" in inherits else "")
        domains = said.domains or (now.domains if not named.name and "domain" in inherits else DOMAIN_OF[now.intent])
        allowed = self._allowed(thing)
        stage = now.stage if (named.name or "stage" in inherits) and now.stage in allowed else ""
        corrected = bool(named.name) and named.name != now.object
        asked = named.stage
        if not asked and said.step and stage:
            further = allowed.index(stage) + said.step
            asked = allowed[further] if 0 <= further < len(allowed) else ""
        # rule 4
        late_enough = asked in allowed and (not stage or allowed.index(asked) >= allowed.index(stage))
        self.kept_out.append("" if not asked or late_enough else asked)
        needs_first = thing and allowed and not stage and (corrected or (asked and not late_enough))
        chosen = asked if asked and late_enough else allowed[0] if needs_first else stage
        self.chain[-1] = Plain(now.intent, domains or DOMAIN_OF[now.intent], thing, chosen)

    def _allowed(self, thing: str) -> list[str]:
        stages = OBJECTS.get(thing)
        return STAGES if stages is None else stages


def seen(state: BusinessState) -> list[Plain]:
    """The operations of a state."""
    return [
        Plain(each.intent, each.active_domain, each.business_object, each.operation_stage)
        for each in state.operation_chain
    ]


@pytest.mark.parametrize("dialogues", [400, pytest.param(10_000, marks=pytest.mark.soak)])
def test_the_state_follows_the_rules(dialogues: int) -> None:
    """Customer, operations and what was kept out are the model's after every message; versions have no gap."""

    @settings(max_examples=dialogues, deadline=None)
    @given(st.lists(MESSAGES, max_size=12))
    def holds(dialogue: list[Recognized]) -> None:
        state, model, kept_out = BusinessState(session_id="s"), Model(), []
        for number, said in enumerate(dialogue, start=1):
            state, changes = advance(state, said, RULES, NOW, turn=f"assistant#{number}")
            model.hear(said)
            kept_out += [change.kept_out for change in changes]
            assert seen(state) == model.chain[-CHAIN:]
            assert state.current_customer_id == model.customer
        assert kept_out == model.kept_out
        assert [change.version for change in state.changes] == list(range(1, state.state_version + 1))

    holds()


@settings(max_examples=300, deadline=None)
@given(st.lists(MESSAGES, min_size=1, max_size=12))
def test_every_version_can_be_read_from_the_audit(dialogue: list[Recognized]) -> None:
    """The changes alone give the state of each version: its customer and its current operation."""
    state = BusinessState(session_id="s")
    for said in dialogue:
        before = state.state_version
        state, changes = advance(state, said, RULES, NOW)
        assert [change.version for change in changes] == list(range(before + 1, state.state_version + 1))
        if changes:
            newest = changes[-1]
            assert (newest.current_customer_id, newest.operation) == (state.current_customer_id, state.current)
            assert state.changes[-len(changes) :] == changes


def test_a_state_keeps_its_newest_operations() -> None:
    """Older ones are in the audit only."""
    state = BusinessState(session_id="s")
    for number in range(CHAIN + 5):
        named: dict[str, Any] = {"objects": [MentionedObject(name="ab"[number % 2])]}
        state, _ = advance(state, Recognized(**named), RULES, NOW)
    assert (len(state.operation_chain), state.state_version) == (CHAIN, CHAIN + 5)
