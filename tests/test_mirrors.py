"""What can be imported from a module of scikit-learn can be imported from ours of that name."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
import sklearn

import gpuml
from tests.test_architecture import ROOT

MIRRORS = [
    name
    for name in gpuml._PACKAGES
    if importlib.util.find_spec(f"sklearn.{name}") is not None and name != "kernel_ridge"
]
INSIDE = ("feature_extraction.image", "feature_extraction.text")
INSIDE += ("metrics.cluster", "metrics.pairwise")


@pytest.mark.parametrize("name", [*MIRRORS, *INSIDE])
def test_every_public_name_of_scikit_learn_is_there(name):
    ours, theirs = (importlib.import_module(f"{root}.{name}") for root in ("gpuml", "sklearn"))
    # Of one without a list, what it defines: scikit-learn's reference has the same.
    own = [n for n, v in vars(theirs).items() if getattr(v, "__module__", "") == theirs.__name__]
    public = getattr(theirs, "__all__", [n for n in own if not n.startswith("_")])
    assert set(public) <= set(dir(ours))
    for each in public:
        found = getattr(ours, each)
        assert found is not None
        assert each in getattr(ours, "__all__", ()) or found is getattr(theirs, each)
    assert not [each for each in dir(ours) if each.startswith("_")]
    with pytest.raises(AttributeError, match=f"module 'gpuml.{name}' has no attribute 'nothing'"):
        _ = ours.nothing


def test_every_module_of_estimators_is_there():
    found = {each.name for each in pkgutil.iter_modules(sklearn.__path__)}
    # Tools of developers, switches, and files.
    others = {"callback", "conftest", "experimental", "externals", "tests", "utils"}
    assert {name for name in found if not name.startswith("_")} - others <= set(gpuml._PACKAGES)


def test_modules_inside_are_all_there():
    """Public modules in scikit-learn's packages, but for those that hold files."""
    inside = {"gaussian_process.kernels", *INSIDE}
    for name in {*MIRRORS} - {"datasets"}:
        package = importlib.import_module(f"sklearn.{name}")
        for found in pkgutil.iter_modules(getattr(package, "__path__", ())):
            private = found.name.startswith("_") or found.name == "tests"
            assert private or f"{name}.{found.name}" in inside


def test_kernels_are_those_of_scikit_learn():
    ours, theirs = (
        importlib.import_module(f"{root}.gaussian_process.kernels") for root in ("gpuml", "sklearn")
    )
    own = [n for n, v in vars(theirs).items() if getattr(v, "__module__", "") == theirs.__name__]
    assert set(ours.__all__) == {name for name in own if not name.startswith("_")}
    assert all(getattr(ours, name) is getattr(theirs, name) for name in ours.__all__)


def test_the_most_common_line_there_is():
    from gpuml.model_selection import GridSearchCV, KFold, train_test_split

    assert GridSearchCV.__module__.startswith("gpuml.")
    assert KFold.__module__.startswith("sklearn.")
    rows, labels = np.arange(20).reshape(10, 2), np.arange(10) % 2
    found, expected = (
        split(rows, labels.tolist(), test_size=4, random_state=0, stratify=labels)
        for split in (train_test_split, sklearn.model_selection.train_test_split)
    )
    assert str(found) == str(expected)
    theirs = inspect.signature(sklearn.model_selection.train_test_split)
    assert inspect.signature(train_test_split) == theirs


def test_what_is_experimental_says_how_to_get_it():
    # In a process of its own: others may have switched it on.
    code = "from gpuml.impute import IterativeImputer"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "ImportError: IterativeImputer is experimental" in done.stderr


def test_packages_need_no_import_of_their_own():
    assert set(gpuml._PACKAGES) <= set(dir(gpuml))
    assert not [name for name in dir(gpuml) if name.startswith("_") and name != "__version__"]
    for name in gpuml._PACKAGES:
        assert getattr(gpuml, name) is importlib.import_module(f"gpuml.{name}")
