"""The gate's settings: layered key by key, checked, and 0 is a value."""

import pytest

from wenmai.chat.gate.policy import GatePolicy, layered
from wenmai.errors import InvalidInput


def test_without_layers_the_gate_closes_below_one_passage() -> None:
    """The defaults ask for one strong passage; an open gate is never the default."""
    assert layered() == GatePolicy(min_citations=1, min_score=0.3, max_citations=3, verified_only=False)


def test_a_later_layer_overrides_only_the_keys_it_names() -> None:
    """Site, persona and intent each change their own keys and leave the others."""
    policy = layered({"min_citations": 2, "min_score": 0.5}, {"min_score": 0.4}, {"verified_only": True})
    assert policy == GatePolicy(min_citations=2, min_score=0.4, max_citations=3, verified_only=True)


@pytest.mark.parametrize("key", ["min_citations", "min_score", "max_citations"])
def test_an_explicit_zero_beats_what_is_under_it(key: str) -> None:
    """A written 0 is a value and not an absence."""
    assert getattr(layered({key: 1}, {key: 0}), key) == 0


def test_a_whole_number_is_a_score() -> None:
    """YAML writes 1.0 as 1."""
    assert layered({"min_score": 1}).min_score == 1.0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("min_citations", -1),
        ("min_citations", 1.5),
        ("min_citations", True),
        ("min_citations", "1"),
        ("min_citations", None),
        ("min_score", 1.01),
        ("min_score", -0.1),
        ("min_score", "high"),
        ("min_score", float("nan")),
        ("max_citations", -3),
        ("verified_only", "yes"),
        ("verified_only", 1),
        ("min_cites", 1),
    ],
)
def test_a_bad_key_or_value_is_refused_by_name(key: str, value: object) -> None:
    """The error names the key as it would be written in a profile."""
    with pytest.raises(InvalidInput) as caught:
        layered({}, {key: value})
    assert caught.value.field == f"policy.{key}"
