"""The examples run as they are, each as a program of its own in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_twice(example: Path, tmp_path: Path) -> None:
    """The second time beside what the first one left; the loop's conversation goes on."""
    shown = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(example)], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
        shown.append(done.stdout)
    if example.stem == "own_model_loop":
        assert shown[0].startswith("A new conversation.")
        assert shown[1].startswith("Welcome back.")
        assert "You have said 6 things" in shown[1]


def test_the_loop_is_among_the_examples() -> None:
    """Its runs are looked at more closely."""
    assert "own_model_loop" in [example.stem for example in EXAMPLES]
