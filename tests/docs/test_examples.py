"""The examples run as they are, each as a program of its own in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_twice(example: Path, tmp_path: Path) -> None:
    """The second time beside what the first one left."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(example)], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


def test_a_conversation_goes_on_in_the_next_run(tmp_path: Path) -> None:
    """What the loop's first run said is in the file that its second run reads."""
    example = next(each for each in EXAMPLES if each.stem == "own_model_loop")
    shown = [
        subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert shown[0].startswith("A new conversation.")
    assert shown[1].startswith("Welcome back.")
    assert "You have said 6 things" in shown[1]
