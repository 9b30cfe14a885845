"""The documentation is true: its examples run, its tables are complete, its links lead somewhere."""

import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from wenmai import errors
from wenmai.http.app import serve_app
from wenmai.http.metrics import Metrics
from wenmai.http.problems import KINDS
from wenmai.settings import ALIASES, SECRETS, Settings
from wenmai.stores.registry import schemes

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

NOT_RUN = {"docs/how-to/write-a-backend.md": 2, "docs/how-to/write-a-profile.md": 1}
"""How many Python examples of a page are marked as not run; each says why in the page."""

FORBIDDEN = {
    "a path of one machine": r"(?<![\w.])/[w]ork/|\.\./[s]hared",
    "the address of a package registry": r"[p]ypi\.org|[p]ythonhosted\.|--(?:extra-)?[i]ndex-url|[n]pmjs\.",
}
"""What no file of the repository may hold. (Written so that this file does not.)"""


class Example(NamedTuple):
    """A fenced Python block: its page, the line on which its code begins, and why it is not run, if so."""

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


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.page}:{example.line}")
def test_an_example_runs(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who pastes the block into a file and runs it gets no error, and its asserts hold."""
    if example.not_run:
        pytest.skip(example.not_run)
    monkeypatch.chdir(tmp_path)
    padded = "\n" * (example.line - 1) + example.code
    exec(compile(padded, str(ROOT / example.page), "exec"), {"__name__": "__main__"})  # noqa: S102 — our own


def test_examples_that_are_not_run_are_counted() -> None:
    """An example is left out on purpose only: one more needs a line here."""
    counted: dict[str, int] = {}
    for example in EXAMPLES:
        if example.not_run:
            counted[example.page] = counted.get(example.page, 0) + 1
    assert counted == NOT_RUN


def test_examples_are_found_with_their_marks() -> None:
    """The extractor sees a marked and an unmarked block, with the line that an editor shows."""
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
    """The settings page has a row for each key, in order, with the variable and the default in force."""
    rows = rows_of(DOCS / "reference/settings.md", "## All settings")
    defaults = Settings()
    expected = [[key, f"WENMAI_{key.upper()}", _shown(getattr(defaults, key))] for key in Settings.__struct_fields__]
    assert [row[:3] for row in rows] == expected
    assert all(row[3] for row in rows)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_alias_and_secret_setting_is_documented() -> None:
    """The settings page names the older variables with their keys, and which values are masked."""
    page = DOCS / "reference/settings.md"
    assert {row[0]: row[1] for row in rows_of(page, "## Older names")} == ALIASES
    text = page.read_text(encoding="utf-8")
    assert all(f"`{key}` is a secret" in text for key in SECRETS)


def error_classes() -> dict[str, type[Exception]]:
    """Every class of the error tree, by name."""
    found = inspect.getmembers(errors, inspect.isclass)
    return {name: each for name, each in found if issubclass(each, errors.WenmaiError)}


def test_every_error_is_documented_with_its_status() -> None:
    """The errors page has a row for each class, with the HTTP status that the service answers."""
    rows = rows_of(DOCS / "reference/errors.md", "## All errors")
    expected = {
        name: str(next(KINDS[ancestor] for ancestor in each.__mro__ if ancestor in KINDS).status)
        for name, each in error_classes().items()
    }
    assert {row[0]: row[1] for row in rows} == expected


def test_every_problem_type_is_documented() -> None:
    """The errors page names each type of problem that a body can carry."""
    text = (DOCS / "reference/errors.md").read_text(encoding="utf-8")
    assert [kind.slug for kind in KINDS.values() if f"`urn:problem:wenmai:{kind.slug}`" not in text] == []


def test_every_url_scheme_is_documented() -> None:
    """The stores page has a row for each scheme that can be opened, and for no other."""
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
    """Each metric of the service is named in the reference, as Prometheus shows it."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    told = re.findall(r"^# TYPE (wenmai_\w+) ", Metrics().text().decode(), re.MULTILINE)
    assert len(told) > 3
    assert [name for name in told if f"`{name}`" not in pages and f"`{name}{{" not in pages] == []


def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = _HEADING.findall(_FENCED.sub("", text))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Each link to a file of the repository names one that is there, and a heading that it has."""
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
    """A page that the index does not name is not found by anybody."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in _LINK.findall(index)}
    assert [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page not in linked] == ["index.md"]


def test_make_targets_that_are_named_exist() -> None:
    """What the pages tell a reader to type, `make` knows."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {"serve", "test"} <= named
    assert named <= targets


def tracked_files() -> list[Path]:
    """The files of the repository, and those that are about to be."""
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
def test_no_file_names_what_is_not_the_projects(what: str) -> None:
    """The repository speaks of Wenmai alone: no paths of a machine, no addresses of registries."""
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


def test_the_forbidden_words_are_recognised() -> None:
    """The patterns match what they are there for, and not a path that only looks like it."""
    machine, registry = (re.compile(pattern) for pattern in FORBIDDEN.values())
    assert machine.search("cd " + "/work" + "/main")
    assert machine.search("see .." + "/shared/data")
    assert not machine.search("the home" + "/work" + "/school triangle")
    assert registry.search("https://" + "pypi" + ".org/simple")
    assert registry.search("pip install " + "--index" + "-url x")
