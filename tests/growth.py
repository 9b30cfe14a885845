"""Growth of a function's time: a quadratic one takes 16 times as long for 4 times the input."""

import time
from collections.abc import Callable

from heap import heap_frozen

QUICK = 0.15
"""CPU seconds; a faster run at the full size is accepted at once."""

ATTEMPTS = 3

MOST_TIMES = 9
"""Between 4 (linear) and 16 (quadratic)."""


def processor_seconds(work: Callable[[], object]) -> float:
    """The CPU time of a call, independent of other load."""
    with heap_frozen():
        begun = time.process_time()
        work()
        return time.process_time() - begun


def check_growth(work: Callable[[str], object], unit: str, size: int) -> None:
    """Fail if ``work`` on ``size`` characters of a repeated unit takes far more than 4 times as long as on a quarter.

    A quarter is tried first, so that quadratic time is detected before it takes minutes. A suspicious result is
    measured again, because of cold caches and other load.
    """

    def seconds(characters: int) -> float:
        text = (unit * (characters // len(unit) + 1))[:characters]
        return processor_seconds(lambda: work(text))

    def grows(smaller: int, larger: int) -> tuple[float, float] | None:
        taken = seconds(larger)
        if taken < QUICK:
            return None
        before = seconds(smaller)
        return None if taken < MOST_TIMES * max(before, QUICK / 4) else (before, taken)

    for part in (4, 1):
        for attempt in range(ATTEMPTS):
            found = grows(size // part // 4, size // part)
            if found is None:
                break
            assert attempt < ATTEMPTS - 1, (unit, *found)
