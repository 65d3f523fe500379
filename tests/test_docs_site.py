"""The pages of the site: their examples run, and what they quote is so. Sphinx is not needed."""

import ast
import importlib.util
import pkgutil
import re
import sys
import tomllib
import zlib
from pathlib import Path

import pytest

import gpuml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
# With what a page says that it prints.
ANSWERED = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
PAGES = (
    *("index", "start", "devices", "searches", "sessions", "troubleshooting"),
    *("from-scikit-learn", "from-cuml", "extending", "larger-than-memory", "multifit-protocol"),
    *("from-skrub", "from-glum", "linear-models", "neighbours-clusters-kernels", "ensembles"),
    *("feature-selection", "inference", "models", "pipelines"),
)
NEEDED = {"sessions": "optuna", "from-skrub": "skrub", "models": "onnxruntime"}
# Modules without an underscore that are for authors of estimators, and no page of the reference.
FOR_AUTHORS = {
    "gpuml": {
        *("adapters", "data", "designs", "divided", "feature_extraction", "files", "losses"),
        *("penalties", "persistence", "reading", "resampling", "solvers"),  # `save` is of gpuml
        # All that is in these is scikit-learn's, whose reference has it.
        *("base", "dummy", "frozen", "isotonic", "neural_network", "semi_supervised", "tree"),
    },
    "gpuml_dask": {
        *("client", "cluster", "fitting", "on_start", "planning", "rows"),
        *("scores", "searching", "sums", "waiting"),
    },
}


@pytest.fixture(scope="module")
def site():
    """The module `docs/_site.py`."""
    spec = importlib.util.spec_from_file_location("_site_of_docs", DOCS / "_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(name):
    return (DOCS / f"{name}.md").read_text()


@pytest.fixture
def settings():
    before = gpuml.get_config()
    yield
    gpuml.set_config(**before)


# ------------------------------------------------------------------------------------- pages


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PAGES)
def test_the_examples_of_a_page_run(name, capsys, tmp_path, monkeypatch, settings):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name], reason=f"needs {NEEDED[name]}")
    monkeypatch.chdir(tmp_path)
    blocks = ANSWERED.findall(page(name))
    assert blocks
    names = {"__name__": f"page_{name}"}
    monkeypatch.setitem(sys.modules, names["__name__"], type(sys)(names["__name__"]))
    for block, answer in blocks:
        exec(compile(block, f"{name}.md", "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        expected = re.findall(r"print\(.*\)  # (.*)", block)
        assert printed == (expected or answer.splitlines())


# With cuML it takes seconds, and leaves CuPy with another allocator.
@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="shows a CPU's answer")
def test_what_doctor_prints_is_so(capsys):
    (block,) = BLOCK.findall(page("installation"))
    exec(compile(block, "installation.md", "exec"), {})
    lines = re.sub(r" +", " ", capsys.readouterr().out)
    parts = re.findall(r"^    (\w+) +(?:ok|-|missing) ", page("installation"), re.MULTILINE)
    assert parts
    for part in parts:
        assert re.search(rf"^{part} (ok|-|missing|broken) ", lines, re.MULTILINE), part


def strings_of_the_sources():
    for package in ("gpuml", "gpuml_dask"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
                elif isinstance(node, ast.JoinedStr):
                    yield "".join(str(getattr(part, "value", "{}")) for part in node.values)


def test_messages_under_troubleshooting_exist():
    quoted = re.findall(r"^### `(.*)`$", page("troubleshooting"), re.MULTILINE)
    assert len(quoted) >= 15
    assert quoted == list(dict.fromkeys(quoted))
    sources = "\n".join(strings_of_the_sources())
    assert [words for words in quoted if words not in sources] == []


def test_the_lowest_versions_are_those_that_are_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [f"Python{project['requires-python']}", *project["dependencies"]]
    asked += [line for lines in project["optional-dependencies"].values() for line in lines]
    lowest = {}
    for line in asked:
        if found := re.match(r"([A-Za-z-]+?)(?:-cu\w+|\[.*\])?>=([\d.]+)", line):
            lowest[found[1].lower()] = found[2]
    lowest["cupy"] = lowest.pop("cupy", None) or next(
        re.search(r">=([\d.]+)", line)[1] for line in asked if line.startswith("cupy-cuda13x")
    )
    row = r"^\| ([\w, -]+?)(?: \(\w+\))? \| ([\d.]+)(?:, below [\d.]+)? \|"
    rows = re.findall(row, page("policy"), re.MULTILINE)
    assert len(rows) >= 8
    for names, version in rows:
        for name in names.lower().split(", "):
            assert lowest[name] == version, name


def test_code_that_extending_shows_exists():
    shown = re.findall(r"```{literalinclude} (\S+)\n(.*?)```", page("extending"), re.DOTALL)
    assert len(shown) >= 4
    for path, options in shown:
        text = (DOCS / path).read_text()
        for words in re.findall(r"^:(?:start-at|end-before): \"?(.*?)\"?$", options, re.MULTILINE):
            assert words in text, words


# --------------------------------------------------------------------------------- reference


def test_every_public_module_is_in_the_reference(site):
    listed = set(site.public_modules())
    for package, others in FOR_AUTHORS.items():
        path = [str(ROOT / package)]
        public = {m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_")}
        missing = {f"{package}.{name}" for name in public - others} - listed
        assert not missing
    table = re.findall(r"^\| (`gpuml.*?) \|", page("index"), re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`([\w.]+)`", cell)}
    assert named <= listed


@pytest.mark.exhaustive
def test_sphinx_can_show_the_source_of_every_module():
    pycode = pytest.importorskip("sphinx.pycode")
    for package in ("gpuml", "gpuml_dask"):
        for path in sorted((ROOT / package).rglob("*.py")):
            assert pycode.ModuleAnalyzer.for_file(path, path.stem).find_tags() is not None


def test_every_public_object_is_in_the_reference(site):
    if importlib.util.find_spec("dask") is None:
        pytest.skip("needs gpuml[dask]")
    pages = site.reference()
    described = {
        id(getattr(importlib.import_module(module), name))
        for module, names in pages.items()
        for kind in ("classes", "functions")
        for name in names[kind]
    }
    for module in pages:
        found = importlib.import_module(module)
        for name in getattr(found, "__all__", site.public_names(module)):
            value = getattr(found, name)
            if callable(value):
                assert id(value) in described, f"{module}.{name}"
                assert (value.__doc__ or "").strip(), f"{module}.{name}"
    assert "Ridge" in pages["gpuml.linear_model"]["classes"]
    assert "gpuml_dask.GridSearchCV" in pages["gpuml_dask.model_selection"]["elsewhere"]


# -------------------------------------------------------------------------------------- site


def test_every_page_has_its_place_on_the_site(site):
    sections = "\n".join(path.read_text() for path in (DOCS / "site").glob("*.rst"))
    placed = re.findall(r"^   \.\./([\w-]+)$", sections, re.MULTILINE)
    assert len(placed) == len(set(placed))
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert pages - set(placed) == set()
    assert set(placed) <= pages


def test_links_of_a_code_host_become_links_of_the_site(site):
    text = site.page_source("index", "see [it](../CONTRIBUTING.md#set-up), [that](svd.md)\n")
    assert text.startswith("see [it](/contributing.md#set-up), [that](/svd.md)\n")
    readme = site.page_source("readme", "")
    assert readme.startswith("# gpuml")
    assert "(/design.md)" in readme
    assert not re.search(r"\]\((?:docs|benchmarks)/", readme)
    picture = site.page_source("svd", "![a line](benchmarks/ratios.svg)\n")
    assert picture == "![a line](/benchmarks/ratios.svg)\n"
    lessons = site.page_source("svd", "[lessons](../examples/README.md)\n")
    assert lessons == "[lessons](/auto_examples/index.rst)\n"
    block = "```python\nx = [a](../README.md)\n```\n"
    assert site.page_source("svd", block) == block


def test_docstrings_of_scikit_learn_lose_what_only_its_site_has(site):
    assert site.docstring_lines(["Read the :ref:`User Guide <kmeans>`."]) == [
        "Read the *User Guide*."
    ]
    assert site.docstring_lines(["x : array (n_features_in_,)"]) == [
        "x : array (n_features_in\\_,)"
    ]
    assert site.docstring_lines([">>> model.coef_"]) == [">>> model.coef_"]
    lines = ["Sum.", "", "On a GPU:", "cuML does it.", "", "Notes", "-----", "Text."]
    assert site.docstring_lines(lines) == [
        "Sum.",
        "",
        ".. admonition:: On a GPU",
        "",
        "   cuML does it.",
        *("", "Notes", "-----", "Text."),
    ]


def test_the_search_knows_the_words_of_names(site):
    page = "reference/generated/gpuml.model_selection.RandomizedSearchCV"
    assert ":keywords: Randomized Search CV\n" in site.keywords(page)
    assert ":keywords: svd compressed\n" in site.keywords("reference/generated/a.svd_compressed")


def test_the_landing_page_has_tabs_and_cards_that_a_code_host_shows_as_text(site):
    text = "<!-- tabs -->\n\n### On a CPU\n\n```python\nx\n```\n\n### On a GPU\n\ny\n\n<!-- end of tabs -->\n"
    assert site.with_tabs(text) == (
        "`````{tab-set}\n````{tab-item} On a CPU\n```python\nx\n```\n````\n"
        "````{tab-item} On a GPU\ny\n````\n`````\n"
    )
    table = "| you want to | read |\n| --- | --- |\n| install it | [Installation](a.md) |\n"
    assert site.with_cards(f"<!-- cards -->\n\n{table}\n<!-- end of cards -->\n") == (
        "`````{grid} 1 2 3 3\n:gutter: 3\n\n"
        "````{grid-item-card} Install it\n[Installation](a.md)\n````\n`````\n"
    )
    landing = site.page_source("index", page("index"))
    assert landing.count("{tab-item}") == 3
    assert landing.count("{grid-item-card}") >= 6
    assert "<!--" not in landing


def test_links_to_sources_and_to_the_sites_of_others(site, tmp_path):
    assert site.source_module("gpuml.linear_model", "Ridge") == "gpuml.linear_model.ridge"
    # Inherited members, attributes of instances and what others define have no page of their own.
    for name in ("Ridge.get_params", "Ridge.coef_", "Ridge.fit"):
        assert site.source_module("gpuml.linear_model", name) == "gpuml.linear_model"
    if importlib.util.find_spec("dask") is not None:
        inherited = ("gpuml_dask.decomposition", "PCA.multifit_batch")
        assert site.source_module(*inherited) == "gpuml_dask.decomposition"
    online = site.inventories("1")
    assert set(online) >= {"sklearn", "numpy", "scipy", "dask"}
    assert all(names is None for _, names in online.values())
    (tmp_path / "numpy.inv").write_bytes(b"")
    assert site.inventories(str(tmp_path)) == {
        "numpy": ("https://numpy.org/doc/stable/", str(tmp_path / "numpy.inv"))
    }


def test_without_a_network_names_of_scikit_learn_link_to_their_pages(site, tmp_path, monkeypatch):
    monkeypatch.setattr(site, "DOCS", tmp_path)
    (tmp_path / "reference").mkdir()
    ((name, (url, path)),) = site.inventories("").items()
    assert (name, url) == ("sklearn", "https://scikit-learn.org/stable/")
    head, _, rest = Path(path).read_bytes().partition(b"zlib.\n")
    assert head.startswith(b"# Sphinx inventory version 2\n")
    listed = zlib.decompress(rest).decode().splitlines()
    for name, kind in (
        ("linear_model.Ridge", "class"),
        ("metrics.pairwise.pairwise_kernels", "function"),
        ("config_context", "function"),
    ):
        assert f"sklearn.{name} py:{kind} 1 modules/generated/$.html#$ -" in listed
