"""The grounding policy: layered key by key, validated, and 0 is a value."""

import pytest

from wenmai.errors import InvalidInput
from wenmai.grounding.policy import GroundingPolicy, merge_policies


def test_the_defaults_require_one_passage() -> None:
    """The default is one strong passage, never none."""
    assert merge_policies() == GroundingPolicy(min_citations=1, min_score=0.05, max_citations=3, verified_only=False)


def test_a_later_layer_overrides_only_the_keys_it_names() -> None:
    """Site, persona and intent each override their own keys only."""
    policy = merge_policies({"min_citations": 2, "min_score": 0.5}, {"min_score": 0.4}, {"verified_only": True})
    assert policy == GroundingPolicy(min_citations=2, min_score=0.4, max_citations=3, verified_only=True)


@pytest.mark.parametrize("key", ["min_citations", "min_score", "max_citations"])
def test_an_explicit_zero_overrides_the_layer_below(key: str) -> None:
    """An explicit 0 is a value, not a missing one."""
    assert getattr(merge_policies({key: 1}, {key: 0}), key) == 0


def test_a_whole_number_is_a_score() -> None:
    """YAML writes 1.0 as 1."""
    assert merge_policies({"min_score": 1}).min_score == 1.0


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
    """The error names the key as written in a profile."""
    with pytest.raises(InvalidInput) as caught:
        merge_policies({}, {key: value})
    assert caught.value.field == f"policy.{key}"
