"""The budget of a prompt, divided over the blocks of memory."""

from hypothesis import given
from hypothesis import strategies as st

from wenmai.memory.block_budget import BlockWeight, divide

KINDS = ("summary", "episodes", "history")
wishes = st.dictionaries(st.sampled_from(KINDS), st.integers(0, 2000))
all_weights = st.fixed_dictionaries(
    {kind: st.builds(BlockWeight, st.integers(1, 8), st.none() | st.integers(0, 800)) for kind in KINDS}
)


@given(st.integers(-100, 4000), wishes, all_weights)
def test_the_room_is_used_and_never_exceeded(
    room: int, wanted: dict[str, int], weights: dict[str, BlockWeight]
) -> None:
    """No block gets more than it wants or may have; what one does not need goes to the others."""
    given_tokens = divide(room, wanted, weights)
    bounds = {kind: min(tokens, weights[kind].limit or 0) if weights[kind].limit is not None else tokens
              for kind, tokens in wanted.items()}  # fmt: skip
    assert given_tokens.keys() == wanted.keys()
    assert all(0 <= given_tokens[kind] <= bounds[kind] for kind in wanted)
    used = sum(given_tokens.values())
    assert used <= max(room, 0)
    assert used >= min(sum(bounds.values()), max(room, 0)) - len(KINDS)


def test_weights_are_priorities() -> None:
    """Blocks that want more than there is get it by their weights; one of weight 0 gets nothing."""
    weights = {"summary": BlockWeight(1), "history": BlockWeight(3), "episodes": BlockWeight(0)}
    assert divide(400, dict.fromkeys(weights, 1000), weights) == {"summary": 100, "history": 300, "episodes": 0}
    assert divide(400, {"summary": 50, "history": 1000}, weights) == {"summary": 50, "history": 350}
    assert divide(400, {"episodes": 10}, weights) == {"episodes": 0}
