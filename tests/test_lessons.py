"""Lessons of the gallery: short, each runs as it is and draws one picture."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LESSONS = sorted((Path(__file__).parents[1] / "examples" / "lessons").glob("*.py"))
NEEDED = ("optuna", "distributed", "matplotlib", "pandas")


def test_lessons_are_numbered_in_an_order_that_teaches():
    numbers = [int(path.name[:2]) for path in LESSONS]
    assert numbers == list(range(1, len(LESSONS) + 1))
    assert len(LESSONS) >= 20


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_is_short_and_has_a_title_text_and_one_picture(path):
    text = path.read_text()
    assert 30 <= text.count("\n") <= 60
    title, rule, empty, *words = ast.get_docstring(ast.parse(text)).splitlines()
    assert rule == "=" * len(title)
    assert not empty
    assert words
    assert text.count("# %%\n# ") >= 2
    assert text.count("plt.show()") == 1
    assert "argparse" not in text


def test_every_lesson_is_in_the_index():
    index = (LESSONS[0].parents[1] / "README.md").read_text()
    assert re.findall(r"\(lessons/(.+\.py)\)", index) == [path.name for path in LESSONS]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_runs_and_draws(path, tmp_path):
    """In a process of its own, as a reader runs it; its picture is saved where it would be shown."""
    text = path.read_text()
    for package in NEEDED:
        if re.search(rf"\b{package}\b|gpuml_dask" if package == "distributed" else package, text):
            pytest.importorskip(package)
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("needs gpuml[examples]")
    script, picture = tmp_path / path.name, tmp_path / "picture.png"
    script.write_text(text.replace("plt.show()", f"plt.savefig({str(picture)!r})"))
    env = {**os.environ, "MPLBACKEND": "Agg"}
    command = [sys.executable, "-W", "error::RuntimeWarning", str(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=env
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert picture.stat().st_size > 5000
