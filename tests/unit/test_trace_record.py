"""Traces that earlier and later versions stored remain readable."""

import msgspec

from wenmai.stores.records import Block, Cut, HistoryCut, TraceRecord, TurnInput, TurnStep

_EARLIER = b"""{"ref": "u/t", "trace_id": "t", "started_at": "2026-01-05T14:00:00Z",
"completed_at": "2026-01-05T14:00:01Z", "request_input": {"query": "q"},
"tool_calls": [{"name": "open", "status": "ok", "duration_ms": 1.5}],
"blocks": [{"kind": "system", "text": "s", "tokens": 1}],
"details": {"cut": {"history": {"messages": 4}}, "carried": ["x"], "answer": null, "title": {"calls": 1}}}"""


def test_a_trace_without_newer_fields_is_read_with_their_defaults() -> None:
    """Stored JSON has the same shape as before its parts were typed."""
    trace = msgspec.json.decode(_EARLIER, type=TraceRecord)
    assert trace.request_input == TurnInput(query="q")
    assert trace.tool_calls == [TurnStep("open", "ok", 1.5)]
    assert trace.blocks == [Block("system", "s", 1)]
    assert (trace.details.cut, trace.details.carried) == (Cut(history=HistoryCut(messages=4)), ["x"])
    assert trace.details.title
    assert trace.details.title.calls == 1
    assert not trace.details.budget


def test_unknown_fields_are_ignored() -> None:
    """A later version may add fields at every level."""
    later = msgspec.json.decode(_EARLIER)
    for part in (later, later["request_input"], later["tool_calls"][0], later["blocks"][0], later["details"]):
        part["added_later"] = {"x": 1}
    assert msgspec.convert(later, TraceRecord) == msgspec.json.decode(_EARLIER, type=TraceRecord)


def test_an_encoded_trace_keeps_its_shape() -> None:
    """What was stored is stored again, except that omitted fields get their defaults."""
    before = msgspec.json.decode(_EARLIER)
    after = msgspec.to_builtins(msgspec.json.decode(_EARLIER, type=TraceRecord))
    assert after["details"].keys() - before["details"].keys() == {
        "matched",
        "passages",
        "premises",
        "sources_disagree",
        "removed",
    }
    for field in ("tool_calls", "blocks"):
        assert after[field] == before[field]
    assert after["details"]["cut"] == before["details"]["cut"]
