"""What each check of the verification, and each of its thresholds, is worth on labelled statements.

    python -m benchmarks.calibrate tests/grounding/bank tests/grounding/camera …

Prints false statements that leak and true ones that are removed: as it is, with each check switched off, and with each
threshold lowered and raised. A check that changes nothing can go; a threshold is moved only if neither figure gets
worse. Name no folder that is to stay unseen.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from wenmai.config.profile import load_profile
from wenmai.config.settings import Settings
from wenmai.config.sources import profile_path
from wenmai.evaluation.cases import StatementSet
from wenmai.evaluation.loading import load_statement_set
from wenmai.evaluation.statements import verify_set
from wenmai.grounding import statement_verifier
from wenmai.grounding.checks import agents, coverage, list_items, polarity, records, roles, values

_THRESHOLDS: dict[ModuleType, Sequence[str]] = {
    agents: ("_ALIGNED", "_CLOSE", "_AGENT", "_SPAN"),
    coverage: ("_VALUE", "_UNTRANSLATED", "_LEAST"),
    list_items: ("_HELD",),
    polarity: ("_ALIGNED", "_TRANSLATED", "_CLOSE", "_WHOLE", "_HEAD", "_SCOPE"),
    records: ("_HELD",),
    roles: ("_ALIGNED", "_CLOSE", "_KNOWN", "_COPIED", "_LONGEST_SLOT"),
    values: ("_ALIGNED", "_CLOSE", "_OTHERS", "_LESS"),
}
_STEPS = (0.8, 1.2)


def main(folders: Sequence[str]) -> None:
    """Print a line for each variant."""
    sets = [load_statement_set(Path(folder) / "verification.yaml", Path(folder).name) for folder in folders]
    for label, module, name, value in _variants():
        with mock.patch.object(module, name, value):
            leaked, removed = _figures(sets)
        print(f"{leaked:4} leaked {removed:4} removed  {label}", flush=True)


def _figures(sets: Sequence[StatementSet]) -> tuple[int, int]:
    """False statements that leak, and true ones that are removed."""
    statements = [
        each
        for given in sets
        for each in verify_set(given, load_profile(profile_path(given.profile or Settings().profile))).statements
    ]
    leaked = sum(each.kept and not each.statement.true for each in statements)
    return leaked, sum(not each.kept and each.statement.true for each in statements)


def _variants() -> Iterator[tuple[str, ModuleType, str, Any]]:
    """The label, and the module attribute to replace, with its value."""
    yield "as it is", coverage, "SAME_LANGUAGE", coverage.SAME_LANGUAGE
    for name in sorted(each for each in vars(statement_verifier) if each.startswith("find_") and each != "find_claims"):
        yield f"without {name}", statement_verifier, name, lambda *_: ()
    for module, names in _THRESHOLDS.items():
        for name in names:
            value = vars(module)[name]
            for step in _STEPS:
                moved = round(value * step, 3) if isinstance(value, float) else max(1, round(value * step))
                if moved != value:
                    yield f"{module.__name__.rpartition('.')[2]}.{name} = {moved}", module, name, moved
    for language, limits in coverage.SAME_LANGUAGE.items():
        for name in ("sentence", "clause", "new"):
            for step in _STEPS:
                moved = round(getattr(limits, name) * step, 3)
                others = {each: getattr(limits, each) for each in ("sentence", "clause", "new")}
                changed = {**coverage.SAME_LANGUAGE, language: coverage.Thresholds(**{**others, name: moved})}
                yield f"coverage {language} {name} = {moved}", coverage, "SAME_LANGUAGE", changed


if __name__ == "__main__":
    main(sys.argv[1:])
