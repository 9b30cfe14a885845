"""Assembles the input of a model within one token budget, for prompts of personas and contexts of callers alike."""

from collections.abc import Callable, Sequence

import msgspec

from wenmai.memory.window import Window
from wenmai.stores.records import Block, Cut, HistoryCut, Message


class Assembly:
    """Required blocks are always included, preferences if they fit, and the conversation gets the rest.

    Args:
        budget_tokens: of everything together; None for no limit.
        required: blocks that are included even if they exceed the budget.

    Attributes:
        tokens: of everything included so far.
        cut: what was left out so far.
    """

    def __init__(self, budget_tokens: int | None, required: Sequence[Block]) -> None:
        self.tokens: int = sum(block.tokens for block in required)
        self.cut: Cut = Cut()
        self._budget = budget_tokens

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

    def add_window(self, window: Window) -> list[Message]:
        """The messages of a window that was cut to :attr:`room`."""
        self.tokens += window.tokens
        if window.more or window.shortened:
            self._cut_history(HistoryCut(turns_left_out=window.more, characters_shortened=window.shortened))
        return window.messages

    def add_turns(self, messages: Sequence[Message], as_block: Callable[[Sequence[Message]], Block]) -> list[Block]:
        """The newest whole turns that fit, as one block; no block without any.

        Args:
            messages: of the conversation, ascending.
            as_block: renders them.
        """
        kept = list(messages)
        block = as_block(kept) if kept else None
        while block is not None and not self._fits(block):
            oldest = kept[0].turn_id
            kept = [message for message in kept if message.turn_id != oldest]
            block = as_block(kept) if kept else None
        if len(kept) < len(messages):
            self._cut_history(HistoryCut(messages=len(messages) - len(kept)))
        if block is None:
            return []
        self.tokens += block.tokens
        return [block]

    def _fits(self, block: Block) -> bool:
        return self.room is None or block.tokens <= self.room

    def _cut_history(self, history: HistoryCut) -> None:
        self.cut = msgspec.structs.replace(self.cut, history=history)
