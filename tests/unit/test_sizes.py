"""How long functions and modules of the package may be."""

import ast
from pathlib import Path
from statistics import median

import wenmai

SOURCES = sorted(Path(wenmai.__file__).parent.rglob("*.py"))

LONGEST_FUNCTION, MEDIAN_MODULE = 60, 120
"""Lines, with docstrings."""


def test_no_function_is_long() -> None:
    """A function fits on a screen, with its docstring."""
    lengths = {
        f"{path.name}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(lengths) > 1_000
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_most_modules_are_short() -> None:
    """Half of the modules hold one idea in few lines."""
    assert median(len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES) <= MEDIAN_MODULE
