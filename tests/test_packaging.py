"""What a user gets: version, licence, types, dependencies, and pages that say what is so."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gpuml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
EXTRAS = (
    *("gpu-cu12", "gpu-cu13", "dask", "dask-cu12", "dask-cu13", "dask-ml"),
    *("umap", "intel", "skops", "skrub", "onnx", "optuna", "genetics", "zarr", "examples", "test"),
    *("test-torch", "rivals", "docs"),
)
# What only those who change the library install.
FOR_DEVELOPERS = ("test", "test-torch", "rivals", "docs")
RECIPE = "docs/conda/recipe.yaml"
# Where the name of a distribution is not that of its package.
DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def distribution_names(requirements):
    return {re.match(r"[A-Za-z0-9-]+", line).group() for line in requirements}


def imported_at_top():
    """Third-party packages that some module of gpuml imports when it is imported itself."""
    names = set()
    for path in (ROOT / "gpuml").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module.split(".")[0])
    return names - sys.stdlib_module_names - {"gpuml"}


def anchors(page):
    """What its headings are called in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_installed_version_is_that_of_the_package():
    assert importlib.metadata.version("gpuml") == gpuml.__version__


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.+)$", citation, re.M)[1] == gpuml.__version__
    assert re.search(r"^  version: (.+)$", text_of(RECIPE), re.M)[1] == gpuml.__version__
    changelog = text_of("CHANGELOG.md")
    released = re.findall(r"^## \[(\d.*)\] - \d{4}-\d\d-\d\d$", changelog, re.M)
    first = f"This will be {gpuml.__version__}, the first release."
    assert released[0] == gpuml.__version__ if released else first in changelog


def text_of(name):
    return (ROOT / name).read_text()


def test_the_readme_is_short():
    assert len(text_of("README.md").split()) <= 900


def test_the_conda_recipe_needs_what_the_project_needs():
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load(text_of(RECIPE))
    python, *needed = (line.replace(" ", "") for line in found["requirements"]["run"])
    assert needed == PROJECT["dependencies"]
    assert python == f"python{PROJECT['requires-python']}"
    assert found["about"]["license"] == PROJECT["license"]


def test_the_conda_recipe_renders():
    rattler = pytest.importorskip("rattler_build", reason="needs py-rattler-build")
    recipe = rattler.Stage0Recipe.from_yaml(text_of(RECIPE))
    (variant,) = recipe.render(rattler.VariantConfig())
    rendered = variant.recipe.to_dict()
    assert rendered["package"] == {"name": "gpuml", "version": gpuml.__version__}
    assert rendered["build"]["noarch"] == "python"


def test_licences_of_all_dependencies_are_listed():
    extras = requirements_of(*(name for name in EXTRAS if name not in FOR_DEVELOPERS))
    needed = distribution_names([*PROJECT["dependencies"], *extras])
    row = re.compile(r"^\| ([^|]+) \| [^|]+ \| (?:always|`[^|]+`) \|$", re.M)
    listed = {
        name for cell in row.findall(text_of("docs/releasing.md")) for name in cell.split(", ")
    }
    needed = {re.sub(r"-cu(?:da)?1\dx?$", "", name) for name in needed}
    assert needed - {name.lower() for name in listed} == set()


def test_the_licence_is_whole_and_named():
    text = (ROOT / "LICENSE").read_text()
    assert PROJECT["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert re.search(r"Copyright 20\d\d gpuml developers", text)


def test_the_package_is_marked_as_typed():
    assert (ROOT / "gpuml" / "py.typed").exists()


def test_what_an_import_needs_is_declared():
    needed = {DISTRIBUTIONS.get(name, name).replace("_", "-") for name in imported_at_top()}
    assert needed <= distribution_names(PROJECT["dependencies"])


def test_every_dependency_is_used():
    sources = "\n".join(path.read_text() for path in (ROOT / "gpuml").rglob("*.py"))
    package = {distribution: name for name, distribution in DISTRIBUTIONS.items()}
    for name in distribution_names(PROJECT["dependencies"]):
        name = package.get(name, name.replace("-", "_"))
        assert re.search(rf"^\s*(import|from) {name}\b", sources, re.MULTILINE), name


def test_the_extras_are_there_and_bounded_below():
    extras = PROJECT["optional-dependencies"]
    assert set(EXTRAS) <= set(extras)
    for line in (line for name in EXTRAS for line in extras[name]):
        assert line.startswith("gpuml[") or ">=" in line or "==" in line, line


def test_the_oldest_versions_are_printed_for_pip():
    command = [sys.executable, str(ROOT / ".ci" / "oldest.py"), "optuna"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    lines = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["optuna"]]
    assert printed == [line.partition(",")[0].replace(">=", "==") for line in lines]


def requirements_of(*extras):
    """What extras ask for, those that they name included."""
    found = {}
    for extra in extras:
        for line in PROJECT["optional-dependencies"][extra]:
            named = re.fullmatch(r"gpuml\[(.*)\]", line)
            inner = requirements_of(*named.group(1).split(",")) if named else [line]
            found.update(dict.fromkeys(inner))
    return list(found)


def pip(*arguments):
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def index():
    """Skips where pip finds no index, or nothing there."""
    look = ("install", "--dry-run", "--ignore-installed", "--no-deps", "--retries=1")
    if pip(*look, "cloudpickle").returncode != 0:
        pytest.skip("pip reaches no package index")


# What can be installed together can be in parts: dask-cu12 has gpu-cu12 and dask in it.
SETS = {
    "CUDA 12": {"dask-cu12"},
    "CUDA 13": {"dask-cu13"},
    "no CUDA": {extra for extra in EXTRAS if not re.search(r"-cu1\d", extra)},
}


def test_every_extra_is_in_a_set_that_is_resolved():
    for extra in PROJECT["optional-dependencies"]:
        asked = set(requirements_of(extra))
        assert any(asked <= set(requirements_of(*extras)) for extras in SETS.values()), extra


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="RAPIDS has wheels for Linux alone")
@pytest.mark.parametrize("name", SETS)
def test_extras_can_be_installed(name, index):
    asked = [*PROJECT["dependencies"], *requirements_of(*sorted(SETS[name]))]
    found = pip("install", "--dry-run", "--ignore-installed", *asked)
    assert found.returncode == 0, found.stderr[-3000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        assert other.exists(), target
        if anchor:
            assert anchor in anchors(other), target


def test_modules_that_the_design_names_exist():
    text = (ROOT / "docs" / "design.md").read_text()
    names = set(re.findall(r"`((?:gpuml|gpuml_dask|tests)/[\w/.]+)`", text))
    assert names
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []


@pytest.mark.exhaustive
def test_the_python_in_the_readme_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        # Those that start workers are written as scripts are.
        exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.count("alpha") == 2


# What a citation file of version 1.2.0 must have, and what else it may (those of its fields that
# one of a package has): https://github.com/citation-file-format/citation-file-format.
CITATION_NEEDS = {"authors", "cff-version", "message", "title"}
CITATION_MAY = {"abstract", "date-released", "doi", "identifiers", "keywords", "license"} | {
    *("preferred-citation", "references", "repository-code", "type", "url", "version")
}
PERSON = {"family-names", "given-names", "orcid", "affiliation", "email", "name", "website"}


def test_the_citation_file_is_valid_and_of_this_version():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert set(citation) >= CITATION_NEEDS
    assert set(citation) <= CITATION_NEEDS | CITATION_MAY
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation["version"] == gpuml.__version__
    assert citation["license"] == PROJECT["license"]
    assert "gpuml" in citation["title"]
    assert citation["authors"]
    for author in citation["authors"]:
        assert author.keys() <= PERSON
        assert "name" in author or {"family-names", "given-names"} <= author.keys()
    assert [a["name"] for a in citation["authors"]] == [a["name"] for a in PROJECT["authors"]]
    texts = [*citation["keywords"], citation["message"], citation["abstract"], citation["title"]]
    assert all(isinstance(text, str) and text.strip() for text in texts)
