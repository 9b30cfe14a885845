"""Names and sentences use the field's terms: a newcomer looks for "stale", not for "in doubt"."""

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

FORBIDDEN = {
    r"\b(?:no|some|any)body\b": "user, caller, process …, or the active voice",
    r"\bbelie(?:ved?|fs?)\b": "fresh",
    r"\bvouch\w*": "validated",
    r"\btold\b": "propagated; of a caller: gets, is answered",
    r"\b(?:spoiled|overtaken)\b": "invalidated, superseded",
    r"\brespite\b": "backoff",
    r"\bin doubt\b|\bdoubts?\b": "stale",
    r"\bleft alone\b": "skipped; of a breaker: open",
    r"\bsettle[sd]?\b|\bsettling\b": "complete, finalize, record",
    r"\bvisitors?\b": "user",
    r"\bthe talks?\b|_talk\b|\btalk_": "conversation",
    r"\bhot (?:tier|copy|copies)\b|\btiers?\b": "cache, Redis cache",
    r"\bquotable\b|\bto_the_end\b|\bleans_on_talk\b|\bunderstood\(": "the names of docs/decisions/0018",
}
"""Pattern, whatever its case → what to write instead."""

FORBIDDEN_NAMES = {
    r"\b(?:SessionCopies|GuardedCopies|TurnGate)\b|\bclass (?:Repair|Gate)\b": "the names of docs/decisions/0018",
    r"\bclass (?:Ground|Piece|Asked|Answering)\b": "PassageFacts, Segment, QuestionTarget, AnswerSpan",
    r"\bclass (?:Focus|Intent)\b": "AnswerType, DialogueAct",
    r"\bclass (?:Spent|Consumption|Usage|Standing)\b": "TokenUsage, UsageRecord, BudgetStatus",
    r"\bMANY\b": "MAX_KEYS",
}
"""The same for names, as they are written."""

OLD_MODULES = (
    *(
        "stores/tiers",
        "stores/registry.py",
        "stores/memory",
        "stores/base.py",
        "stores/fields.py",
        "stores/redis/gate.py",
    ),
    *("chat/gate", "chat/evidence", "chat/offline.py", "chat/registry.py", "chat/phrases.py"),
    *("memory/manager.py", "memory/finishing.py", "memory/turns.py"),
    *(f"http/{name}.py" for name in ("parts", "shapes", "shown", "running", "binding", "reply")),
    *(f"cli/{name}.py" for name in ("chat", "talk", "talking", "ingest", "ingestion", "serve", "service", "workers")),
    *(f"cli/{name}.py" for name in ("console", "wording", "remembering")),
)
"""Modules that have moved or have another name; see docs/decisions/0018."""

DATA = (
    "grounding/attribution.py",
    "grounding/claims/names.py",
    "grounding/lexicon.py",
    "grounding/prompt_injection.py",
    "chat/understanding/courtesies.py",
    "chat/understanding/cues.py",
)
"""Modules whose patterns match what users write."""


PATTERNS = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in FORBIDDEN.items()} | {
    re.compile(pattern): instead for pattern, instead in FORBIDDEN_NAMES.items()
}


def offenders(source: Path) -> Iterator[str]:
    """Where a forbidden word stands."""
    for path in sorted(source.rglob("*.py")):
        if not path.as_posix().endswith(DATA):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                for pattern, instead in PATTERNS.items():
                    if found := pattern.search(line):
                        yield f"{path.relative_to(source)}:{number}: {found[0]!r}; write {instead}"


def test_the_source_speaks_the_terms_of_the_field() -> None:
    """In names, docstrings, messages and logs alike."""
    assert list(offenders(SOURCE)) == []


def test_no_module_has_its_old_place() -> None:
    """A module is where its layer is, under the name of what it does."""
    assert [module for module in OLD_MODULES if (SOURCE / "wenmai" / module).exists()] == []


@pytest.mark.parametrize(
    "text",
    [
        "# Nobody reads it.",
        "def settle(): ...",
        "believed = 1",
        'log("the hot tier failed")',
        "class Usage:",
        "MANY = 2",
    ],
)
def test_a_forbidden_word_is_found(text: str, tmp_path: Path) -> None:
    """Wherever it stands."""
    (tmp_path / "module.py").write_text(text, encoding="utf-8")
    assert len(list(offenders(tmp_path))) == 1


@pytest.mark.parametrize("text", ["total = usage.calls", '"""Usage of a session."""', "tires = 4", "many = 2"])
def test_a_similar_word_is_not_found(text: str, tmp_path: Path) -> None:
    """The terms of the field that look like an old name stay usable."""
    (tmp_path / "module.py").write_text(text, encoding="utf-8")
    assert list(offenders(tmp_path)) == []


def names_on_the_wire(source: Path) -> Iterator[str]:
    """Where Python code uses a name of the wire, except as the keyword of an event or of a model with aliases."""
    for path in sorted(source.rglob("*.py")):
        if "npc_" not in path.read_text(encoding="utf-8"):
            continue
        with path.open(encoding="utf-8") as lines:
            for token in tokenize.generate_tokens(lines.readline):
                is_keyword = token.line[token.end[1] : token.end[1] + 1] == "="
                if token.type == tokenize.NAME and re.match("_?npc_(?:id|name)", token.string) and not is_keyword:
                    yield f"{path.relative_to(source)}:{token.start[0]}: {token.string}; write persona_…"


def test_a_persona_is_named_persona_id_in_python() -> None:
    """``npc_id`` is the name on the wire and in what is stored: it stands in strings."""
    assert list(names_on_the_wire(SOURCE)) == []


def test_a_name_of_the_wire_is_found(tmp_path: Path) -> None:
    """As a field, a parameter or an attribute, but not in a string or as a keyword."""
    lines = ['where = {"npc_id": ""}', 'emit(npc_id="")', "npc_id: str", "print(each.npc_name)"]
    (tmp_path / "module.py").write_text("\n".join(lines), encoding="utf-8")
    assert [found.partition(": ")[0] for found in names_on_the_wire(tmp_path)] == ["module.py:3", "module.py:4"]
