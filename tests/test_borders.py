"""What is imported of other packages: their private names in one place, and names they still have."""

import importlib
import tomllib

import pytest

from gpuml import _sklearn
from tests.test_architecture import ROOT, SOURCES, imports, is_private

# What releases rename. Not here: what may be absent, and what needs a GPU to be imported.
OTHERS = ("array_api_compat", "dask", "distributed", "joblib", "narwhals", "scipy", "sklearn")


def lacks(module, name):
    """Whether a package has no longer a name, or a module of that name."""
    try:
        return not hasattr(importlib.import_module(module), name) and not importlib.import_module(
            f"{module}.{name}"
        )
    except ImportError:
        return True


def names_of_others():
    """What both packages import of others, with private names of scikit-learn: (module, name)."""
    found = {(module, name) for name, module in _sklearn.MODULES.items()}
    for source in SOURCES.values():
        for each in imports(source):
            module, _, name = each.target.rpartition(".")
            if module.split(".")[0] in OTHERS:
                found.add((module, name))
    return sorted(found)


def test_what_is_installed_has_all_names_that_are_imported():
    # After a release of scikit-learn or Dask: the names that it no longer has.
    gone = [f"{module}.{name}" for module, name in names_of_others() if lacks(module, name)]
    assert gone == []


def test_each_private_name_of_scikit_learn_is_used_and_needs_to_be():
    used = {
        each.target.removeprefix("gpuml._sklearn.")
        for source in SOURCES.values()
        for each in imports(source)
    }
    assert [name for name in _sklearn.MODULES if name not in used] == []
    public = [
        name for name, module in _sklearn.MODULES.items() if not is_private(f"{module}.{name}")
    ]
    assert public == []


def test_a_private_name_that_scikit_learn_lacks_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(_sklearn.MODULES, "_renamed", "sklearn.utils.validation")
    with pytest.raises(
        ImportError, match=r"needs '_renamed' of sklearn.*pip install 'scikit-learn"
    ):
        _ = _sklearn._renamed


def test_scikit_learn_has_a_ceiling_that_pages_and_messages_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (requirement,) = (each for each in project["dependencies"] if each.startswith("scikit-learn"))
    assert "<" in requirement
    assert requirement in SOURCES["gpuml._sklearn"]
