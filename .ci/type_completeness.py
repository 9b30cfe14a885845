"""Fails when less of the public interface has known types than the bound says."""

import json
import os
import subprocess
import sys
from pathlib import Path

BOUND = 0.97
"""Part of the exported symbols whose types are known without inference."""


def main() -> None:
    """Ask pyright and print the part, and the symbols below the bound."""
    command = [sys.executable, "-m", "pyright", "--verifytypes", "wenmai", "--ignoreexternal", "--outputjson"]
    # It looks for the package where the first `python` of the path does. It fails below 100 %.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    answered = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
    report = json.loads(answered.stdout)["typeCompleteness"]
    score = report["completenessScore"]
    print(f"{score:.1%} of the exported symbols have known types, the bound is {BOUND:.0%}")
    if score < BOUND:
        print("\n".join(symbol["name"] for symbol in report["symbols"] if not symbol["isTypeKnown"]))
        sys.exit(1)


if __name__ == "__main__":
    main()
