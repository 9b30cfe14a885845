"""The budget of a prompt, divided over the blocks of memory."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from support import engine_at
from wenmai.config.profile import load_profile
from wenmai.config.sources import profile_path
from wenmai.errors import InvalidInput
from wenmai.memory.block_budget import DEFAULT_WEIGHTS, BlockWeight, divide

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


async def test_a_profile_weighs_the_blocks_of_its_prompts(tmp_path: Path) -> None:
    """Of every prompt and context; a block that is not named keeps its default, an unknown one is refused."""
    path = tmp_path / "own.yaml"
    profile = yaml.safe_load(profile_path("npc").read_text(encoding="utf-8"))
    profile |= {"evidence": [], "lexicon": {}, "blocks": {"summary": {"weight": 0}}}
    path.write_text(yaml.safe_dump(profile), encoding="utf-8")
    async with engine_at("memory://", profile=str(path)) as engine:
        weights = engine.memory.policy.block_weights
        assert weights == {**DEFAULT_WEIGHTS, "summary": BlockWeight(0)}
        session = await engine.memory.session()
        for number in range(10):
            await session.append([{"role": "user", "content": f"q{number}"}, {"role": "assistant", "content": "a"}])
        await engine.memory.derived.catch_up()
        context = await session.context("next")
        assert "summary" not in [block.kind for block in context.blocks]
        assert isinstance(context.cut.summary, int)
    path.write_text("name: own\npersonas: []\nblocks: {gossip: {weight: 1}}\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="gossip"):
        load_profile(path)
