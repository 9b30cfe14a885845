"""Divides a prompt's token budget over the blocks of memory that can be shortened, by their weights."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class BlockWeight(NamedTuple):
    """The priority of a block: its share of the budget relative to the others, and its limit in tokens, if any."""

    weight: float
    limit: int | None = None


DEFAULT_WEIGHTS: Mapping[str, BlockWeight] = MappingProxyType(
    {"summary": BlockWeight(2, 600), "episodes": BlockWeight(2, 270), "history": BlockWeight(4)}
)
"""By the kind of block."""


def divide(room: int, wanted: Mapping[str, int], weights: Mapping[str, BlockWeight]) -> dict[str, int]:
    """The tokens of each block: what it wants if there is room for all, else by weight.

    A block that wants less than its share leaves the rest to the others, again by weight.

    Args:
        room: tokens for all of them; nothing is divided if it is negative.
        wanted: by the kind of block, the tokens of the whole block.
        weights: of these kinds, and possibly of others.
    """
    wanted = {kind: _limited(tokens, weights[kind].limit) for kind, tokens in wanted.items()}
    given = dict.fromkeys(wanted, 0)
    open_kinds, left = set(wanted), max(room, 0)
    while open_kinds:
        total = sum(weights[kind].weight for kind in open_kinds)
        shares = {kind: int(left * weights[kind].weight / total) if total else 0 for kind in open_kinds}
        satisfied = {kind for kind in open_kinds if wanted[kind] <= shares[kind]}
        if not satisfied:
            return given | shares
        for kind in satisfied:
            given[kind] = wanted[kind]
            left -= wanted[kind]
        open_kinds -= satisfied
    return given


def _limited(tokens: int, limit: int | None) -> int:
    return tokens if limit is None else min(tokens, limit)
