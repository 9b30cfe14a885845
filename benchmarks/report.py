"""The tables."""

from collections.abc import Iterator, Sequence

from benchmarks import search
from benchmarks.contenders import ENTRIES, FLOORS, POSTGRESQL, REDIS, SQLITE
from benchmarks.results import (
    CROWD,
    CROWD_ON_ONE,
    LENGTHS,
    ONE_OF_MANY,
    SLOW_DISK,
    SLOW_DISK_CROWD,
    Cell,
    Results,
    length_cell,
)

Row = Sequence[str]


def report(results: Results) -> str:
    """All tables as Markdown."""
    lines: list[str] = [" · ".join(f"{key}: {value}" for key, value in results.about.items())]
    one = [*(length_cell(length) for length in LENGTHS), ONE_OF_MANY]
    lines += ["", "## One task: p50 ms (times the floor)", "", *_latencies(results, one)]
    many = [CROWD_ON_ONE, CROWD]
    lines += ["", "## 32 tasks: turns/s (share of the floor), p50 and p99 ms", "", *_rates(results, many)]
    if results.slices.get(SLOW_DISK.name):
        lines += ["", "## 1 ms added to each fsync, one task: p50 ms (times the floor)", ""]
        lines += _latencies(results, [SLOW_DISK])
        lines += ["", "## 1 ms added to each fsync, 32 tasks", "", *_rates(results, [SLOW_DISK_CROWD])]
    lines += ["", "## What each is", "", *_table(_profile_rows(results))]
    lines += ["", "## Import and disk", "", *_table(_footprint_rows(results))]
    for on in (POSTGRESQL, REDIS):
        if _measured(results, on):
            lines += ["", f"## On {on}: p50 ms (times the floor)", "", *_latencies(results, [ONE_OF_MANY], on)]
            lines += ["", f"## On {on}, 32 tasks: turns/s (share of the floor)", "", *_rates(results, [CROWD], on)]
    lines += ["", "## Search: p50 ms of a query", "", *_table(list(search.rows(results.search)))]
    if results.local_cache_micros is not None:
        lines += ["", f"A window of ten from the local cache: {results.local_cache_micros:.0f} µs"]
    if results.http is not None:
        lines += ["", "## The whole turn over HTTP, offline model, 16 at a time", ""]
        http = results.http
        lines += [f"p50 {http.p50_ms:.1f} ms, p99 {http.p99_ms:.1f} ms, {http.per_second:.0f} turns/s"]
    for title, rows in results.evaluation.items():
        lines += ["", f"## {title}", "", *_table(rows)]
    lines += [f"\nskipped: {what}: {why}" for what, why in results.skipped.items()]
    return "\n".join(lines)


def _latencies(results: Results, cells: Sequence[Cell], on: str = SQLITE) -> Iterator[str]:
    floor, _ = FLOORS[on]

    def cell_text(cell: Cell, name: str) -> str:
        if not results.has(cell.name, name):
            return "–"
        ratio = results.ratio("p50_ms", (cell.name, name), (cell.name, floor))
        return f"{results.middle(cell.name, name, 'p50_ms'):.3f} ({ratio:.1f}×)"

    heads = ["", *(cell.name for cell in cells), "p99 of the last"]
    rows = [
        [
            name,
            *(cell_text(cell, name) for cell in cells),
            f"{results.middle(cells[-1].name, name, 'p99_ms'):.3f}",
        ]
        for name in _measured(results, on)
    ]
    return _table([heads, *rows])


def _rates(results: Results, cells: Sequence[Cell], on: str = SQLITE) -> Iterator[str]:
    _, floor = FLOORS[on]

    def cell_texts(cell: Cell, name: str) -> Iterator[str]:
        ratio = results.ratio("per_second", (cell.name, name), (cell.name, floor))
        yield f"{results.middle(cell.name, name, 'per_second'):.0f} ({ratio:.2f})"
        yield " / ".join(f"{results.middle(cell.name, name, what):.2f}" for what in ("p50_ms", "p99_ms"))
        kept = results.middle(cell.name, name, "kept")
        yield "all" if kept == 1 else f"{kept:.0%}"

    heads = ["", *(head for cell in cells for head in (cell.name, "p50 / p99 ms", "messages kept"))]
    rows = [[name, *(text for cell in cells for text in cell_texts(cell, name))] for name in _measured(results, on)]
    return _table([heads, *rows])


def _profile_rows(results: Results) -> Iterator[Row]:
    yield "", "what it does", "journal, synchronous", "fsyncs a turn, 1 task", "32 tasks", "peak MB"
    for name in _measured(results, SQLITE):
        profile = results.profiles[name]
        yield (
            name,
            ENTRIES[name].what,
            f"{profile.durability['journal_mode']}, {profile.durability['synchronous']}",
            _fsyncs(results, ONE_OF_MANY, name),
            _fsyncs(results, CROWD, name),
            f"{profile.peak_mb:.0f}",
        )


def _fsyncs(results: Results, cell: Cell, name: str) -> str:
    if any(each.fsyncs is None for each in results.slices[cell.name][name]):
        return "–"
    return f"{results.middle(cell.name, name, 'fsyncs'):.2f}"


def _footprint_rows(results: Results) -> Iterator[Row]:
    yield "", "import ms", "resident MB", "bytes a message on disk"
    for name, (took, resident) in results.imports.items():
        yield name, f"{took:.0f}", f"{resident:.0f}", ""
    for name, size in results.bytes_per_message.items():
        yield name, "", "", f"{size:.0f} (content {results.content_bytes:.0f})"


def _measured(results: Results, on: str) -> list[str]:
    return [name for name in ENTRIES if name in results.profiles and ENTRIES[name].on == on]


def _table(rows: Iterator[Row] | Sequence[Row]) -> Iterator[str]:
    head, *body = [list(row) for row in rows]
    widths = [max(len(row[at]) for row in (head, *body)) for at in range(len(head))]
    for number, row in enumerate((head, *body)):
        yield "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
