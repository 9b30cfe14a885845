"""A streamed answer is verified off the event loop if its passages are long."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wenmai.chat.steps.generate import _CheckedStream
from wenmai.chat.turn import VERIFIED_AT_ONCE


class Verification:
    """Notes the threads in which it works."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def add(self, fragment: str) -> Iterator[str]:
        """Each fragment is a sentence."""
        self.threads.append(threading.get_ident())
        yield fragment


@pytest.mark.parametrize(
    ("passages", "piece", "on_loop"),
    [(0, 1, True), (VERIFIED_AT_ONCE, 1, False), (0, VERIFIED_AT_ONCE + 1, False)],
)
async def test_long_texts_are_verified_in_a_thread(passages: int, piece: int, *, on_loop: bool) -> None:
    """Long passages with a short sentence, or a long sentence."""
    emitted: list[Any] = []

    async def emit(event: object) -> None:
        emitted.append(event)

    verification = Verification()
    stream = _CheckedStream(cast("Any", SimpleNamespace(emit=emit)), cast("Any", verification), passages)
    await stream.add("a" * piece)
    assert [event.text for event in emitted] == ["a" * piece]
    assert (verification.threads == [threading.get_ident()]) is on_loop
