"""Builds gpuml's wheel for tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("gpuml", "gpuml_dask")
# Oldest setuptools that pyproject.toml allows.
SETUPTOOLS = "77"


def build_wheel(folder):
    """The wheel, built from a copy: building leaves files behind, which others may be reading."""
    copy = folder / "copy"
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, copy / package, ignore=ignored)
    # A folder of tests and one of notes lie beside the packages, as in the repository.
    for name in ("tests", "docs"):
        (copy / name).mkdir()
        (copy / name / "__init__.py").write_text("")
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    code = "import setuptools.build_meta as b, sys; b.build_wheel(sys.argv[1])"
    run([sys.executable, "-c", code, str(folder)], copy)
    (wheel,) = folder.glob("*.whl")
    return wheel


def run(command, folder, **environment):
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout
