"""The install step of the tutorials works: it installs the package from the checkout."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs/tutorial").glob("*.md"))

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "false", "PIP_NO_CACHE_DIR": "1"}
"""This environment already has all dependencies, including the build tool."""


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_install_step_of_a_tutorial_works(page: Path, tmp_path: Path) -> None:
    """Run as written in the root of the checkout; the installed package can be imported and has its profiles."""
    section = page.read_text(encoding="utf-8").partition("## 1. Install\n")[2].partition("\n## ")[0]
    (command,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    installed = tmp_path / "installed"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    quiet = {"PIP_TARGET": str(installed), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=ROOT,
        env={**os.environ, **OFFLINE, **quiet, "PATH": path},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    script = (
        "import wenmai; from wenmai.config.sources import profile_path; print(wenmai.__file__, profile_path('npc'))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(each.startswith(str(installed)) for each in shown.stdout.split())


def test_no_page_installs_wenmai_from_a_package_index() -> None:
    """The package is not published, so it is installed from a checkout or a wheel."""
    from_index = re.compile(r"pip install [^\n`]*\bwenmai(?!-)")
    assert [page.name for page in PAGES if from_index.search(page.read_text(encoding="utf-8"))] == []
