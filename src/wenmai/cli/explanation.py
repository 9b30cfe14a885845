"""A trace, readably: why an answer was given as it was."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wenmai.cli.console import printable
from wenmai.cli.wording import say
from wenmai.stores.records import TraceRecord

_BEGINNING = 60
"""Characters that are shown of a block."""

_STATUS_STYLES = {"ok": "green", "skipped": "dim", "degraded": "yellow", "blocked": "yellow", "error": "red"}


def explain(console: Console, trace: TraceRecord, titles: Mapping[str, str], language: str) -> None:
    """Print the trace: what was asked and decided, the steps, the evidence, the blocks.

    Args:
        console: where to.
        trace: of one turn.
        titles: of the evidence that it names, by id.
        language: ``zh`` or ``en``.
    """
    asked = trace.request_input
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_row("trace", trace.trace_id)
    facts.add_row(say("why_question", language), _text(asked["query"]))
    if asked["rewritten_query"] != asked["query"]:
        facts.add_row(say("why_searched", language), _text(asked["rewritten_query"]))
    facts.add_row(say("why_intent", language), _text(f"{trace.intent} {_listed(trace.details.get('matched'))}"))
    facts.add_row(say("why_mode", language), _text(f"{trace.policy_mode}  {trace.policy_reason}"))
    spent = f"{trace.prompt_tokens} + {trace.completion_tokens} {say('tokens', language)}"
    facts.add_row(say("why_model", language), f"{trace.model}  {spent}  {trace.latency_ms:.1f} ms")
    if trace.details.get("unsupported"):
        facts.add_row(say("why_unsupported", language), _text(_listed(trace.details["unsupported"])))
    if trace.error:
        facts.add_row("error", _text(trace.error, "red"))
    console.print(facts)
    console.print(_steps(trace, language))
    if trace.details.get("passages"):
        console.print(_evidence(trace, titles, language))
    if trace.blocks:
        console.print(_blocks(trace, language))


def _steps(trace: TraceRecord, language: str) -> Table:
    table = _titled(say("why_steps", language))
    for step in trace.tool_calls:
        status = Text(step["status"], style=_STATUS_STYLES.get(step["status"], ""))
        table.add_row(step["name"], status, f"{step['duration_ms']:.2f} ms")
    return table


def _evidence(trace: TraceRecord, titles: Mapping[str, str], language: str) -> Table:
    table = _titled(say("why_evidence", language))
    for passage in trace.details["passages"]:
        evidence_id = passage["evidence_id"]
        mark = "✓" if evidence_id in trace.evidence_ids else " "
        table.add_row(f"{mark} {passage['score']:.2f}", _text(titles.get(evidence_id, "")), _text(evidence_id))
    return table


def _blocks(trace: TraceRecord, language: str) -> Table:
    table = _titled(say("why_blocks", language))
    cut = trace.details.get("cut", {})
    for block in trace.blocks:
        text = " ".join(block["text"].split())
        tokens = f"{block['tokens']} {say('tokens', language)}"
        table.add_row(
            block["kind"],
            tokens,
            _text(text[:_BEGINNING] + ("…" if len(text) > _BEGINNING else "")),
            str(cut.get(block["kind"], "")),
        )
    return table


def _titled(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False)


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)


def _listed(words: object) -> str:
    return f"({', '.join(map(str, words))})" if isinstance(words, list) and words else ""
