"""The documentation is correct: examples run, tables are complete, links are valid."""

import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from wenmai import errors
from wenmai.config.settings import ALIASES, SECRETS, Settings
from wenmai.http.app import serve_app
from wenmai.http.metrics import Metrics
from wenmai.http.problems import PROBLEM_TYPES
from wenmai.stores.opening import schemes

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

NOT_RUN = {"docs/how-to/write-a-backend.md": 2, "docs/how-to/write-a-profile.md": 1}
"""Number of Python examples of a page that are marked as not run; the page states the reason."""

FORBIDDEN = {
    "a path of one machine": r"(?<![\w.])/[w]ork/|\.\./[s]hared",
    "the address of a package registry": r"[p]ypi\.org|[p]ythonhosted\.|--(?:extra-)?[i]ndex-url|[n]pmjs\.",
}
"""Patterns that no file of the repository may contain (written so that this file does not match)."""


class Example(NamedTuple):
    """A fenced Python block: its page, first line of code, and the reason if it is not run."""

    page: str
    line: int
    code: str
    not_run: str | None


_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n+)?^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def examples_of(page: str, text: str) -> Iterator[Example]:
    """The Python blocks of a page, in order."""
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("code")) + 1
        yield Example(page, line, block["code"], block["reason"])


EXAMPLES = [
    example for page in PAGES for example in examples_of(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(
    "example",
    [example for example in EXAMPLES if not example.not_run],
    ids=lambda example: f"{example.page}:{example.line}",
)
def test_an_example_runs(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block runs as a program without errors, and its asserts hold."""
    monkeypatch.chdir(tmp_path)
    padded = "\n" * (example.line - 1) + example.code
    exec(compile(padded, str(ROOT / example.page), "exec"), {"__name__": "__main__"})  # noqa: S102 — our own code


def test_examples_that_are_not_run_are_counted() -> None:
    """Every example that is not run is listed here."""
    counted: dict[str, int] = {}
    for example in EXAMPLES:
        if example.not_run:
            counted[example.page] = counted.get(example.page, 0) + 1
    assert counted == NOT_RUN


def test_examples_are_extracted_with_their_marks() -> None:
    """The extractor finds marked and unmarked blocks, with line numbers."""
    text = "# A\n\n```python\nx = 1\n```\n\n<!-- not run: needs a key -->\n```python\ny\n```\n```sh\nls\n```\n"
    assert list(examples_of("a.md", text)) == [
        Example("a.md", 4, "x = 1\n", None),
        Example("a.md", 9, "y\n", "needs a key"),
    ]


def rows_of(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading of the page, without its two head rows and code marks."""
    _, _, below = page.read_text(encoding="utf-8").partition(f"\n{heading}\n")
    table = re.search(r"(?:^\|.*\|\n)+", below, re.MULTILINE)
    assert table, f"no table below {heading!r} of {page.name}"
    rows = [line.strip("|").split("|") for line in table[0].splitlines()[2:]]
    return [[cell.strip().strip("`") for cell in row] for row in rows]


def test_every_setting_is_documented_with_its_default() -> None:
    """The settings page has a row for each key, in order, with variable and default."""
    rows = rows_of(DOCS / "reference/settings.md", "## All settings")
    defaults = Settings()
    expected = [
        [key, f"WENMAI_{key.upper()}", _default_text(getattr(defaults, key))] for key in Settings.__struct_fields__
    ]
    assert [row[:3] for row in rows] == expected
    assert all(row[3] for row in rows)


def _default_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_alias_and_secret_setting_is_documented() -> None:
    """The settings page lists the legacy variables with their keys, and the secrets."""
    page = DOCS / "reference/settings.md"
    assert {row[0]: row[1] for row in rows_of(page, "## Legacy variables")} == ALIASES
    text = page.read_text(encoding="utf-8")
    assert all(f"`{key}` is a secret" in text for key in SECRETS)


def error_classes() -> dict[str, type[Exception]]:
    """Every class of the error hierarchy, by name."""
    found = inspect.getmembers(errors, inspect.isclass)
    return {name: each for name, each in found if issubclass(each, errors.WenmaiError)}


def test_every_error_is_documented_with_its_status() -> None:
    """The errors page has a row for each class, with its HTTP status."""
    rows = rows_of(DOCS / "reference/errors.md", "## All errors")
    expected = {
        name: str(next(PROBLEM_TYPES[ancestor] for ancestor in each.__mro__ if ancestor in PROBLEM_TYPES).status)
        for name, each in error_classes().items()
    }
    assert {row[0]: row[1] for row in rows} == expected


def test_every_problem_type_is_documented() -> None:
    """The errors page lists each problem type."""
    text = (DOCS / "reference/errors.md").read_text(encoding="utf-8")
    assert [each.slug for each in PROBLEM_TYPES.values() if f"`urn:problem:wenmai:{each.slug}`" not in text] == []


def test_every_url_scheme_is_documented() -> None:
    """The stores page has a row for each supported scheme, and for no other."""
    rows = rows_of(DOCS / "reference/stores.md", "## URLs")
    assert {row[0].partition("://")[0] for row in rows} == set(schemes())


def test_every_route_is_documented() -> None:
    """The HTTP page has a line with the method and the path of each route of the OpenAPI."""
    lines = (DOCS / "reference/http.md").read_text(encoding="utf-8").splitlines()
    missing = [
        f"{method.upper()} {path}"
        for path, methods in serve_app(Settings()).openapi()["paths"].items()
        for method in methods
        if not any(re.search(rf"\b{method.upper()}\b.*{re.escape(path)}(?![\w/{{])", line) for line in lines)
    ]
    assert missing == []


def test_every_metric_is_documented() -> None:
    """The reference lists each metric by its Prometheus name."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    names = re.findall(r"^# TYPE (wenmai_\w+) ", Metrics().render().decode(), re.MULTILINE)
    assert len(names) > 3
    assert [name for name in names if f"`{name}`" not in pages and f"`{name}{{" not in pages] == []


def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = _HEADING.findall(_FENCED.sub("", text))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_are_valid(page: Path) -> None:
    """Each link to a file of the repository has an existing target and anchor."""
    broken = []
    for target in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors_of(file.read_text(encoding="utf-8"))):
            broken.append(target)
    assert broken == []


def test_every_page_is_in_the_index() -> None:
    """The index links every page."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in _LINK.findall(index)}
    assert [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page not in linked] == ["index.md"]


def test_documented_make_targets_exist() -> None:
    """Every `make` command in the pages has a target."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {"serve", "test"} <= named
    assert named <= targets


def tracked_files() -> list[Path]:
    """The files of the repository, and untracked files that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_contains_forbidden_text(what: str) -> None:
    """No paths of a machine, no addresses of package registries."""
    pattern = re.compile(FORBIDDEN[what])
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}"
            for number, line in enumerate(text.splitlines(), start=1)
            if pattern.search(line)
        ]
    assert found == []


def test_forbidden_text_is_recognized() -> None:
    """The patterns match what they should, and no similar path."""
    machine, registry = (re.compile(pattern) for pattern in FORBIDDEN.values())
    assert machine.search("cd " + "/work" + "/main")
    assert machine.search("see .." + "/shared/data")
    assert not machine.search("the home" + "/work" + "/school triangle")
    assert registry.search("https://" + "pypi" + ".org/simple")
    assert registry.search("pip install " + "--index" + "-url x")
