"""Growth of a function's time: a quadratic one takes 16 times as long for 4 times the input."""

import time
from collections.abc import Callable
from itertools import count

from heap import freeze_heap

QUICK = 0.15
"""CPU seconds; a faster run at the full size is accepted at once."""

ATTEMPTS = 3

MOST_TIMES = 9
"""Between 4 (linear) and 16 (quadratic)."""

SUSPICIOUS_TIMES = {8: 4.8, 4: 5.5}
"""To an eighth and to a quarter, of what then exceeds MOST_TIMES: time with a linear and a quadratic term."""

_lengthened = count()


def processor_seconds(work: Callable[[], object]) -> float:
    """The CPU time of a call, independent of other load."""
    freeze_heap()
    begun = time.process_time()
    work()
    return time.process_time() - begun


def check_growth(work: Callable[[str], object], unit: str, size: int) -> None:
    """Fail if ``work`` takes quadratic time on up to ``size`` characters of a repeated unit.

    Where even quadratic time is quick, or time is linear up to an eighth or a quarter of the size, the size is not
    tried.
    """
    for part, times in SUSPICIOUS_TIMES.items():
        taken = _seconds(work, unit, size // part)
        if taken <= QUICK / part**2 or taken <= times * _seconds(work, unit, size // part // 4):
            return
    check_growth_throughout(work, unit, size)


def check_growth_throughout(work: Callable[[str], object], unit: str, size: int) -> None:
    """Fail if ``work`` on ``size`` characters of a repeated unit takes far more than 4 times as long as on a quarter.

    A quarter is tried first, so that quadratic time is detected before it takes minutes. A suspicious result is
    measured again, because of cold caches and other load.
    """

    def grows(smaller: int, larger: int) -> tuple[float, float] | None:
        taken = _seconds(work, unit, larger)
        if taken < QUICK:
            return None
        before = _seconds(work, unit, smaller)
        return None if taken < MOST_TIMES * max(before, QUICK / 4) else (before, taken)

    for part in (4, 1):
        for attempt in range(ATTEMPTS):
            found = grows(size // part // 4, size // part)
            if found is None:
                break
            assert attempt < ATTEMPTS - 1, (unit, *found)


def _seconds(work: Callable[[str], object], unit: str, characters: int) -> float:
    """The time for a text of about this length, which no cache of ``work`` has yet."""
    length = characters + next(_lengthened) % 64
    text = (unit * (length // len(unit) + 1))[:length]
    return processor_seconds(lambda: work(text))
