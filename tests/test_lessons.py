"""Lessons of the gallery: short, each runs as it is and draws one picture."""

import ast
import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.wheels import SETUPTOOLS, build_wheel

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


# -------------------------------------------------------------------------------- as notebooks


def test_examples_are_no_programs_with_options():
    """Those are in benchmarks/programs, and no notebook is made of one."""
    for path in LESSONS[0].parents[1].rglob("*.py"):
        assert "argparse" not in path.read_text(), path.name


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("_site_of_notebooks", SITE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def notebook(path, site):
    """The notebook that the site offers of a lesson, as sphinx-gallery makes it."""
    gallery = pytest.importorskip("sphinx_gallery.gen_gallery", reason="needs gpuml[docs]")
    from sphinx_gallery.notebook import jupyter_notebook
    from sphinx_gallery.py_source_parser import split_code_and_text_blocks

    _, blocks = split_code_and_text_blocks(path)
    conf = {**gallery.DEFAULT_GALLERY_CONF, "first_notebook_cell": site.INSTALL_CELL.rstrip()}
    return json.loads(json.dumps(jupyter_notebook(blocks, conf, path.parent)))


def code_cells(notebook):
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_notebook_of_a_lesson_has_all_of_its_code(path, site):
    install, *cells = code_cells(notebook(path, site))
    assert install == site.INSTALL_CELL.rstrip()
    assert not any(line.startswith("%") for cell in cells for line in cell.splitlines())
    code, script = ast.parse("\n".join(cells)), ast.parse(path.read_text())
    assert ast.unparse(code) == ast.unparse(ast.Module(script.body[1:], []))


@pytest.fixture(scope="module")
def beside_a_wheel(tmp_path_factory):
    """A folder with gpuml's wheel, in which kernels install it: not into this environment."""
    pytest.importorskip("setuptools", minversion=SETUPTOOLS)
    for needed in ("nbformat", "nbclient", "ipykernel", "pip"):
        pytest.importorskip(needed, reason="needs gpuml[test]")
    folder = tmp_path_factory.mktemp("notebooks")
    build_wheel(folder)
    (folder / "installed").mkdir()
    here = {
        "PIP_TARGET": str(folder / "installed"),
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_UPGRADE": "1",
        "PYTHONPATH": os.pathsep.join([str(folder / "installed"), *sys.path]),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in here.items():
            patch.setenv(name, value)
        yield folder


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_notebook_installs_the_wheel_runs_and_draws(path, beside_a_wheel, site):
    import nbclient
    import nbformat
    from traitlets.config import Config

    for package in NEEDED:
        pytest.importorskip(package, reason="needs gpuml[examples,optuna]")
    made = notebook(path, site)
    where = "import gpuml; print('gpuml of', gpuml.__file__)"
    cell = {"cell_type": "code", "outputs": [], "metadata": {}, "execution_count": None}
    made["cells"].append({**cell, "source": where})
    book = nbformat.reads(json.dumps(made), as_version=4)
    resources = {"metadata": {"path": str(beside_a_wheel)}}
    # Over files: of ports that Jupyter picks, another process may take one before the kernel does.
    # Paths of sockets have at most some 100 characters, which those of pytest may exceed.
    with TemporaryDirectory() as folder:
        sockets = Config(KernelManager={"transport": "ipc", "ip": str(Path(folder) / "kernel")})
        nbclient.NotebookClient(book, timeout=300, resources=resources, config=sockets).execute()
    outputs = [out for cell in book.cells for out in cell.get("outputs", ())]
    (picture,) = (out["data"] for out in outputs if "image/png" in out.get("data", {}))
    assert len(picture["image/png"]) > 7000
    assert not [out for out in outputs if out.output_type == "error"]
    # tqdm's is about ipywidgets, which draw its bars.
    text = "".join(out.get("text", "") for out in outputs)
    assert not re.search(r"^.*(?<!Tqdm)Warning.*$", text, re.MULTILINE)
    # Jupyter may send one line in several outputs.
    assert f"gpuml of {beside_a_wheel / 'installed'}" in text
