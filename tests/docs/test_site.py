"""The site that `make docs` builds has every page; MkDocs itself checks its links, where it is installed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def pages_of(nav: list[Any]) -> Iterator[str]:
    """The pages of a navigation, in order."""
    for entry in nav:
        for target in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(target, list):
                yield from pages_of(target)
            else:
                yield target


def test_every_page_is_in_the_navigation_once() -> None:
    """Those of docs/, and those of the root, whose names on the site are lower-case."""
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    root = [page.name.lower() for page in ROOT.glob("*.md") if page.name != "README.md"]
    assert sorted(pages_of(CONFIG["nav"])) == sorted([*pages, *root, "overview.md"])


def test_the_site_is_strict_and_loads_nothing_from_elsewhere() -> None:
    """A warning fails the build, and the theme's fonts of Google are off."""
    assert CONFIG["strict"] is True
    assert set(CONFIG["validation"]["nav"].values()) | set(CONFIG["validation"]["links"].values()) == {"warn"}
    assert CONFIG["theme"]["font"] is False
