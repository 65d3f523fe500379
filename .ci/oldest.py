"""Prints the oldest supported version of each dependency, as requirements for pip.

    pip install dist/*.whl $(python .ci/oldest.py)

It takes the lower bounds of pyproject.toml; names of extras add theirs:

    python .ci/oldest.py optuna
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    print(*pinned([*project["dependencies"], *(line for e in sys.argv[1:] for line in extras[e])]))


def pinned(requirements: list[str]) -> list[str]:
    """Requirements whose lower bounds are the versions themselves; extras of gpuml are left out."""
    found = (re.match(r"([\w.-]+(?:\[.*\])?)>=([\d.]+)", line) for line in requirements)
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    main()
