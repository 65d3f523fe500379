"""Numbers of fitted models have the types that scikit-learn's have: programs call their methods."""

import importlib

import numpy as np
import pytest
import sklearn.covariance
from sklearn.utils import all_estimators

import gpuml


def _pairs():
    """Our class and scikit-learn's, of each name that we define."""
    for name, theirs in all_estimators():
        package = theirs.__module__.split(".")[1]
        if package in gpuml._PACKAGES:
            ours = getattr(importlib.import_module(f"gpuml.{package}"), name, theirs)
            if ours is not theirs:
                yield pytest.param(ours, theirs, id=name)


def _numbers(kind, X, y):
    """Types of the numbers of a fitted model; none if it needs other parameters or targets."""
    try:
        model = kind()
        if "random_state" in model.get_params():
            model.set_params(random_state=0)
        model.fit(X, y)
    except (TypeError, ValueError):
        return {}
    names = [
        n for n in dir(model) if n.endswith("_") and not n.startswith("_") and hasattr(model, n)
    ]
    found = {name: getattr(model, name) for name in names}
    if hasattr(model, "score"):
        found["score"] = model.score(X, y)
    last = {f"{n}[-1]": v[-1] for n, v in found.items() if isinstance(v, list) and v}
    return {n: type(v) for n, v in (found | last).items() if np.isscalar(v)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("ours", "theirs"), list(_pairs()))
def test_numbers_are_of_the_types_of_scikit_learn(rng, ours, theirs):
    X = rng.random((60, 4))
    y = (X[:, 0] > 0.5).astype(int) + (X[:, 1] > 0.7)
    mine, expected = (_numbers(kind, X, y) for kind in (ours, theirs))
    assert not [n for n, t in expected.items() if not issubclass(mine.get(n, object), t)]


@pytest.mark.parametrize("norm", ["frobenius", "spectral"])
def test_norms_are_of_the_type_of_scikit_learn(rng, norm):
    X = rng.random((60, 4))
    norms = (
        root.covariance.EmpiricalCovariance().fit(X).error_norm(np.eye(4), norm)
        for root in (gpuml, sklearn)
    )
    assert len(set(map(type, norms))) == 1
