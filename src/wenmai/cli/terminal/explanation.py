"""Prints a trace: why an answer was given as it was."""

from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wenmai.cli.terminal.texts import ui_text
from wenmai.stores.records import TraceRecord
from wenmai.text.printable import printable

_BLOCK_CHARACTERS = 60
"""Characters of a block that are printed."""

_STATUS_STYLES = {"ok": "green", "skipped": "dim", "degraded": "yellow", "blocked": "yellow", "error": "red"}


def explain(console: Console, trace: TraceRecord, titles: Mapping[str, str], language: str) -> None:
    """Print the trace: question, decision, steps, evidence, prompt blocks.

    Args:
        console: the output.
        trace: the trace of one turn.
        titles: titles of its evidence, by id.
        language: ``zh`` or ``en``.
    """
    request = trace.request_input
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_row("trace", trace.trace_id)
    facts.add_row(ui_text("why_question", language), _text(request.query))
    if request.rewritten_query != request.query:
        facts.add_row(ui_text("why_searched", language), _text(request.rewritten_query))
    facts.add_row(ui_text("why_intent", language), _text(f"{trace.intent} {_joined(trace.details.matched)}"))
    facts.add_row(ui_text("why_mode", language), _text(f"{trace.policy_mode}  {trace.policy_reason}"))
    usage = f"{trace.prompt_tokens} + {trace.completion_tokens} {ui_text('tokens', language)}"
    facts.add_row(ui_text("why_model", language), f"{trace.model}  {usage}  {trace.latency_ms:.1f} ms")
    if trace.details.removed:
        facts.add_row(ui_text("why_removed", language), _text(_joined([each.text for each in trace.details.removed])))
    if trace.error:
        facts.add_row("error", _text(trace.error, "red"))
    console.print(facts)
    console.print(_steps(trace, language))
    if trace.details.passages:
        console.print(_evidence(trace, titles, language))
    if trace.blocks:
        console.print(_blocks(trace, language))


def _steps(trace: TraceRecord, language: str) -> Table:
    table = _titled(ui_text("why_steps", language))
    for step in trace.tool_calls:
        status = Text(step.status, style=_STATUS_STYLES.get(step.status, ""))
        table.add_row(step.name, status, f"{step.duration_ms:.2f} ms")
    return table


def _evidence(trace: TraceRecord, titles: Mapping[str, str], language: str) -> Table:
    table = _titled(ui_text("why_evidence", language))
    for passage in trace.details.passages:
        evidence_id = passage.evidence_id
        mark = "✓" if evidence_id in trace.evidence_ids else " "
        table.add_row(f"{mark} {passage.score:.2f}", _text(titles.get(evidence_id, "")), _text(evidence_id))
    return table


def _blocks(trace: TraceRecord, language: str) -> Table:
    table = _titled(ui_text("why_blocks", language))
    cut = msgspec.to_builtins(trace.details.cut)
    cut |= cut.get("others", {})
    for block in trace.blocks:
        text = " ".join(block.text.split())
        tokens = f"{block.tokens} {ui_text('tokens', language)}"
        table.add_row(
            block.kind,
            tokens,
            _text(text[:_BLOCK_CHARACTERS] + ("…" if len(text) > _BLOCK_CHARACTERS else "")),
            str(cut.get(block.kind, "")),
        )
    return table


def _titled(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False)


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)


def _joined(words: Sequence[str]) -> str:
    return f"({', '.join(words)})" if words else ""
