"""Names and sentences use the field's terms: a newcomer looks for "stale", not for "in doubt"."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

FORBIDDEN = {
    r"\b(?:no|some|any)body\b": "user, caller, process …, or the active voice",
    r"\bbelieved?\b": "fresh",
    r"\bvouch\w*": "validated",
    r"\b(?:spoiled|overtaken)\b": "invalidated, superseded",
    r"\brespite\b": "backoff",
    r"\bin doubt\b|\bdoubts?\b": "stale",
    r"\bleft alone\b": "skipped; of a breaker: open",
    r"\bsettle[sd]?\b|\bsettling\b": "complete, finalize, record",
    r"\bvisitors?\b": "user",
    r"\bhot tier\b": "Redis cache",
    r"\b(?:to_the_end|leans_on_talk|TurnGate|GuardedCopies|SessionCopies|MANY)\b": "the names of docs/decisions/0018",
}
"""Pattern → what to write instead. Case does not matter, but for names."""

DATA = (
    "grounding/attribution.py",
    "grounding/claims/names.py",
    "grounding/lexicon.py",
    "grounding/prompt_injection.py",
    "chat/understanding/cues.py",
)
"""Modules whose patterns match what users write."""


def offenders(source: Path) -> Iterator[str]:
    """Where a forbidden word stands."""
    for path in sorted(source.rglob("*.py")):
        if not path.as_posix().endswith(DATA):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                for pattern, instead in FORBIDDEN.items():
                    if found := re.search(pattern, line, 0 if "MANY" in pattern else re.IGNORECASE):
                        yield f"{path.relative_to(source)}:{number}: {found[0]!r}; write {instead}"


def test_the_source_speaks_the_terms_of_the_field() -> None:
    """In names, docstrings, messages and logs alike."""
    assert list(offenders(SOURCE)) == []


@pytest.mark.parametrize(
    "text", ["# Nobody reads it.", "def settle(): ...", "believed = 1", 'log("the hot tier failed")']
)
def test_a_forbidden_word_is_found(text: str, tmp_path: Path) -> None:
    """Wherever it stands."""
    (tmp_path / "module.py").write_text(text, encoding="utf-8")
    assert len(list(offenders(tmp_path))) == 1
