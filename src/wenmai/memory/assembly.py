"""Assembles the input of a model within one token budget, for prompts of personas and contexts of callers alike."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from wenmai.memory.block_budget import BlockWeight, divide
from wenmai.memory.window import Window
from wenmai.stores.records import Block, Cut, HistoryCut, Message


class Assembly:
    """Required blocks are always included, preferences if they fit; the rest is divided by weight.

    The conversation is added last and also gets what other blocks did not use.

    Args:
        budget_tokens: of everything together; None for no limit.
        required: blocks that are included even if they exceed the budget.
        weights: see :mod:`wenmai.memory.block_budget`.

    Attributes:
        tokens: of everything included so far.
        cut: what was left out so far.
    """

    def __init__(
        self, budget_tokens: int | None, required: Sequence[Block], weights: Mapping[str, BlockWeight]
    ) -> None:
        self.tokens: int = sum(block.tokens for block in required)
        self.cut: Cut = Cut()
        self._budget = budget_tokens
        self._weights = weights
        self._shares: dict[str, int] = {}

    @property
    def room(self) -> int | None:
        """The tokens that are left, negative if the required blocks exceed the budget; None without one."""
        return None if self._budget is None else self._budget - self.tokens

    def add_preferences(self, block: Block) -> list[Block]:
        """The block, or nothing if it does not fit."""
        if self._fits(block):
            self.tokens += block.tokens
            return [block]
        self.cut = msgspec.structs.replace(self.cut, preferences=block.tokens)
        return []

    def divide(self, wanted: Mapping[str, int]) -> None:
        """Divide the room over blocks of these kinds, which want so many tokens."""
        room = sum(wanted.values()) if self.room is None else self.room
        self._shares = divide(room, wanted, self._weights)

    def add_shortened(self, whole: Block, shorten: Callable[[int], Block | None]) -> list[Block]:
        """The block, or a shorter one within its share; nothing if even that does not fit.

        Args:
            whole: the block, for which room was divided.
            shorten: renders it in at most so many tokens.
        """
        share = self._shares[whole.kind]
        block = whole if whole.tokens <= share else shorten(share)
        included = block.tokens if block is not None else 0
        self.tokens += included
        if included < whole.tokens:
            self._cut_block(whole.kind, whole.tokens - included)
        return [] if block is None else [block]

    def add_window(self, window: Window, *, wanted: int) -> list[Message]:
        """The messages of a window that was cut to :attr:`room`; whole, they would be so many tokens."""
        self.tokens += window.tokens
        if window.more or window.shortened:
            tokens = wanted - window.tokens if wanted > window.tokens else UNSET
            self._cut_history(
                HistoryCut(turns_left_out=window.more, characters_shortened=window.shortened, tokens=tokens)
            )
        return window.messages

    def add_turns(self, messages: Sequence[Message], as_block: Callable[[Sequence[Message]], Block]) -> list[Block]:
        """The newest whole turns that fit, as one block; no block without any.

        Args:
            messages: of the conversation, ascending.
            as_block: renders them.
        """
        kept = list(messages)
        block = whole = as_block(kept) if kept else None
        while block is not None and not self._fits(block):
            oldest = kept[0].turn_id
            kept = [message for message in kept if message.turn_id != oldest]
            block = as_block(kept) if kept else None
        included = block.tokens if block is not None else 0
        if whole is not None and len(kept) < len(messages):
            self._cut_history(HistoryCut(messages=len(messages) - len(kept), tokens=whole.tokens - included))
        self.tokens += included
        return [] if block is None else [block]

    def _fits(self, block: Block) -> bool:
        return self.room is None or block.tokens <= self.room

    def _cut_block(self, kind: str, tokens: int) -> None:
        if kind in Cut.__struct_fields__:
            self.cut = msgspec.structs.replace(self.cut, **{kind: tokens})
        else:
            self.cut = msgspec.structs.replace(self.cut, others={**(self.cut.others or {}), kind: tokens})

    def _cut_history(self, history: HistoryCut) -> None:
        self.cut = msgspec.structs.replace(self.cut, history=history)
