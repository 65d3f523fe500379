"""Lessons of the gallery: short, each runs as it is and draws one picture."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LESSONS = sorted((Path(__file__).parents[1] / "examples" / "lessons").glob("*.py"))
SITE = Path(__file__).parents[1] / "docs" / "_site.py"
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


# -------------------------------------------------------------------------------- as notebooks


def notebook(path, tmp_path):
    """The notebook that the site offers of a lesson, as sphinx-gallery makes it."""
    gallery = pytest.importorskip("sphinx_gallery.gen_gallery", reason="needs gpuml[docs]")
    from sphinx_gallery.notebook import jupyter_notebook
    from sphinx_gallery.py_source_parser import split_code_and_text_blocks

    spec = importlib.util.spec_from_file_location("_site_of_notebooks", SITE)
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    script = tmp_path / path.name
    script.write_text(site.with_title(path.read_text()))
    _, blocks = split_code_and_text_blocks(script)
    conf = {**gallery.DEFAULT_GALLERY_CONF, "first_notebook_cell": site.INSTALL_CELL}
    return json.loads(json.dumps(jupyter_notebook(blocks, conf, tmp_path)))


def code_cells(notebook):
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_notebook_of_a_lesson_installs_gpuml_and_has_all_of_its_code(path, tmp_path):
    install, *cells = code_cells(notebook(path, tmp_path))
    assert re.search(r"^%pip install .*gpuml\[examples,optuna\]", install, re.MULTILINE)
    assert not any(line.startswith("%") for cell in cells for line in cell.splitlines())
    code, script = ast.parse("\n".join(cells)), ast.parse(path.read_text())
    assert ast.unparse(code) == ast.unparse(ast.Module(script.body[1:], []))


@pytest.mark.exhaustive
@pytest.mark.parametrize("stem", ["01_grid_search", "20_save", "21_own_estimator"])
def test_a_notebook_runs_in_a_kernel(stem, tmp_path):
    """Three of them: the code is that of the scripts, which run above; the kernel is not."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat, nbclient and ipykernel")
    nbclient = pytest.importorskip("nbclient", reason="needs nbformat, nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="needs nbformat, nbclient and ipykernel")
    pytest.importorskip("matplotlib", reason="needs gpuml[examples]")
    made = notebook(LESSONS[0].with_name(f"{stem}.py"), tmp_path)
    made["cells"] = [c for c in made["cells"] if "%pip" not in "".join(c["source"])]
    book = nbformat.reads(json.dumps(made), as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=300, resources=resources).execute()
    outputs = [out for cell in book.cells for out in cell.get("outputs", ())]
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert not [out for out in outputs if out.output_type == "error"]
