"""What was measured, as plain data: it goes between processes, into the JSON file and into the tables."""

from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

LENGTHS = (10, 100, 1_000, 10_000)


@dataclass(frozen=True)
class Cell:
    """One way to load a contender.

    Attributes:
        name: as the tables call it.
        history: messages in a thread before the first turn.
        tasks: asyncio tasks that take turns at once.
        sessions: threads in use at once; with one, the next fresh one follows after ``stay`` turns.
        turns: at most so many in one slice.
        stay: turns in one thread before the next.
        fsync_micros: added to each fsync.
    """

    name: str
    history: int
    tasks: int = 1
    sessions: int = 1
    turns: int = 240
    stay: int = 240
    fsync_micros: int = 0


def length_cell(history: int) -> Cell:
    """One task in one thread of this length, which grows by a fifth at most, threefold if it is short."""
    return Cell(f"{history:,} messages".replace(",", " "), history, stay=max(8, history // 10))


ONE_OF_MANY = Cell("1 task, 1 000 sessions", 10, sessions=1_000, turns=2_000)
CROWD_ON_ONE = Cell("32 tasks, 1 session", 10, tasks=32, turns=4_000, stay=4_000)
CROWD = Cell("32 tasks, 1 000 sessions", 10, tasks=32, sessions=1_000, turns=8_000)
SLOW_DISK = Cell("1 task, fsync + 1 ms", 10, turns=200, stay=5, fsync_micros=1_000)
SLOW_DISK_CROWD = Cell(
    "32 tasks, 1 000 sessions, fsync + 1 ms", 10, tasks=32, sessions=1_000, turns=8_000, fsync_micros=1_000
)


@dataclass(frozen=True)
class Slice:
    """One contender's share of one cell in one round.

    Attributes:
        p50_ms, p99_ms: of a turn, from the wish to take it until its window is there.
        per_second: turns.
        fsyncs: per turn; None if nobody counted.
        kept: the share of the messages of acknowledged turns that are in the store.
    """

    p50_ms: float
    p99_ms: float
    per_second: float
    turns: int
    fsyncs: float | None
    kept: float


class Searched(NamedTuple):
    """Milliseconds of a query by words, by a vector and by both, medians."""

    words_ms: float
    vectors_ms: float
    both_ms: float


@dataclass(frozen=True)
class Profile:
    """What a contender is, apart from its speed."""

    durability: dict[str, str]
    peak_mb: float


@dataclass
class Results:
    """A whole run.

    Attributes:
        slices: cell → contender → one slice per round.
        profiles: contender → what it is.
        skipped: contender or part → why it was left out.
        imports: module → (milliseconds, resident MB); ``python`` is the interpreter alone.
        bytes_per_message: contender → on disk, of many messages.
        content_bytes: of a message, UTF-8, on average.
        http: the whole turn over HTTP, if it was measured.
        search: store → entries → what a query takes.
        local_cache_micros: reading a window from the local cache; the median.
        evaluation: title → table of the repository's labelled cases.
    """

    about: dict[str, str]
    slices: dict[str, dict[str, list[Slice]]] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    imports: dict[str, tuple[float, float]] = field(default_factory=dict)
    bytes_per_message: dict[str, float] = field(default_factory=dict)
    content_bytes: float = 0.0
    http: Slice | None = None
    search: dict[str, dict[int, Searched]] = field(default_factory=dict)
    local_cache_micros: float | None = None
    evaluation: dict[str, list[list[str]]] = field(default_factory=dict)

    def add(self, cell: str, contender: str, measured: Slice) -> None:
        """Note one slice."""
        self.slices.setdefault(cell, {}).setdefault(contender, []).append(measured)

    def middle(self, cell: str, contender: str, what: str) -> float:
        """The median over the rounds of one field of the slices."""
        return float(median(getattr(each, what) for each in self.slices[cell][contender]))

    def ratio(self, what: str, above: tuple[str, str], below: tuple[str, str]) -> float:
        """The median over the rounds of the ratio between two (cell, contender)s of the same round."""
        pairs = zip(self.slices[above[0]][above[1]], self.slices[below[0]][below[1]], strict=True)
        return float(median(getattr(one, what) / getattr(other, what) for one, other in pairs))

    def has(self, cell: str, *contenders: str) -> bool:
        """True if all of these were measured in that cell."""
        return all(contender in self.slices.get(cell, {}) for contender in contenders)
