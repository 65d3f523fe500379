"""Models of splits inside others: the same as without looking at those, in fewer passes."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from gpuml._arrays import to_host
from gpuml.data import Outside, Split
from gpuml.decomposition import PCA
from gpuml.linear_model import LogisticRegression, PoissonRegressor
from gpuml.pipeline import make_pipeline
from gpuml.pipeline._affine import affine_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.resampling.atoms import make_folds
from gpuml.solvers import inside
from gpuml.svm import LinearSVC
from gpuml.testing import array_libraries

N, P = 6000, 8
TIGHT = {"tol": 1e-9, "max_iter": 200}


def rows(kind):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, P)) * np.linspace(0.5, 2, P) + 1
    z = (X - 1) @ rng.normal(size=P) / 2
    if kind == "counts":
        return X, rng.poisson(np.exp(0.3 * z)).astype(float)
    if kind == "numbers":
        return X, z + rng.standard_t(3, size=N)
    n_classes = 3 if kind == "classes" else 2
    noisy = z[:, None] * np.arange(n_classes) + rng.gumbel(size=(N, n_classes))
    return X, np.argmax(noisy, axis=1)


def nested_splits(n_outer=3, n_inner=2):
    """Inner splits, each outer one behind its own, and whom each is inside of."""
    splits, owners = [], []
    for train, test in KFold(n_outer, shuffle=True, random_state=0).split(np.zeros(N)):
        inner = list(KFold(n_inner, shuffle=True, random_state=1).split(train))
        owners += [len(splits) + n_inner] * (n_inner + 1)
        splits += [Split(train[one], train[two]) for one, two in inner]
        splits.append(Split(train, test))
    return tuple(splits), tuple(owners)


def behind(*steps):
    """What fits a pipeline at once."""
    return affine_pipeline(make_pipeline(*steps), {})


# name -> (estimator, kind of targets, candidates)
CASES = {
    "logistic": (LogisticRegression(**TIGHT), "labels", [{"C": 0.01}, {"C": 10.0}]),
    "no intercept": (
        LogisticRegression(fit_intercept=False, **TIGHT),
        "labels",
        [{"C": 0.01}, {"C": 10.0}],
    ),
    "balanced": (LogisticRegression(class_weight="balanced", **TIGHT), "labels", [{"C": 1.0}]),
    "classes": (LogisticRegression(**TIGHT), "classes", [{"C": 0.1}, {"C": 10.0}]),
    "newton": (LogisticRegression(solver="newton-cholesky", **TIGHT), "classes", [{"C": 0.1}]),
    "l1": (
        LogisticRegression(solver="saga", l1_ratio=1.0, **TIGHT),
        "labels",
        [{"C": 0.005}, {"C": 1.0}],
    ),
    "poisson": (PoissonRegressor(**TIGHT), "counts", [{"alpha": 0.01}, {"alpha": 1.0}]),
    "machine": (LinearSVC(tol=1e-8), "classes", [{"C": 0.01}, {"C": 1.0}]),
    "scaled": (
        behind(StandardScaler(), LogisticRegression(**TIGHT)),
        "labels",
        [{"logisticregression__C": 0.1}, {"logisticregression__C": 10.0}],
    ),
    "components": (
        behind(StandardScaler(), PCA(4), LogisticRegression(**TIGHT)),
        "classes",
        [{"logisticregression__C": 0.1}],
    ),
}


def models(case, X, y, weight=None, *, knows=True):
    """Models of all candidates on all splits."""
    estimator, _, candidates = case
    splits, owners = nested_splits()
    folds = make_folds(estimator.multifit_batch(X, y, weight), list(splits))
    folds = replace(folds, outside=Outside(0, owners) if knows else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of wild rows in outer parts
        return estimator.multifit(folds, candidates)


def fitted(case, X, y, weight=None, *, knows=True):
    """Coefficients (C, S, ...) of models."""
    stack = models(case, X, y, weight, knows=knows)
    n_splits = len(nested_splits()[0])
    return np.asarray(
        [[_vector(stack.pick(c, s)) for s in range(n_splits)] for c in range(len(case[2]))]
    )


def _vector(attributes):
    attributes = attributes.get("last", attributes)  # of a pipeline
    return np.concatenate([np.ravel(to_host(attributes[n])) for n in ("coef_", "intercept_")])


@pytest.fixture
def notes(monkeypatch):
    """How many splits each solve was asked for."""
    found = []
    real = inside.solve

    def noted(data, penalty, start, options, **how):
        found.append(start.shape[1])
        return real(data, penalty, start, options, **how)

    monkeypatch.setattr(inside, "solve", noted)
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_models_are_those_without_a_look_at_outer_ones(name, weighted, notes):
    X, y = rows(CASES[name][1])
    weight = np.random.default_rng(5).uniform(0.2, 2, size=N) if weighted else None
    found = fitted(CASES[name], X, y, weight)
    expected = fitted(CASES[name], X, y, weight, knows=False)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert set(notes) == {3, 6}


def test_inner_models_take_fewer_passes():
    X, y = rows("labels")
    case = (LogisticRegression(), "labels", [{"C": C} for C in np.logspace(-3, 3, 7)])
    found, _ = iterations(case, X, y)
    alone, inner = iterations(case, X, y, knows=False)
    own = found[:, inner] - found[:, [2, 2, 5, 5, 8, 8]]
    assert 0 < own.mean() < alone[:, inner].mean()


def iterations(case, X, y, *, knows=True):
    """Iterations (C, S) of models, and which splits are inside others."""
    stack = models(case, X, y, knows=knows)
    owners = nested_splits()[1]
    inner = [s for s, owner in enumerate(owners) if s != owner]
    table = [
        [int(stack.pick(c, s)["n_iter_"][0]) for s in range(len(owners))]
        for c in range(len(case[2]))
    ]
    return np.asarray(table), inner


@pytest.mark.parametrize("value", [1e6, pytest.param(1e20, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", ["logistic", "classes", "poisson", "scaled"])
def test_rows_that_an_inner_split_holds_out_do_not_reach_its_models(name, value):
    """Though the outer model, at which it begins, was fitted to them."""
    X, y = rows(CASES[name][1])
    splits, owners = nested_splits()
    s = 0
    held_out = np.setdiff1d(splits[owners[s]].train, splits[s].train)
    wild = X.copy()
    wild[held_out[:40], :2] = [value, -value]
    expected = fitted(CASES[name], X, y)
    found = fitted(CASES[name], wild, y)
    np.testing.assert_allclose(found[:, s], expected[:, s], rtol=1e-5, atol=1e-6)


@pytest.mark.pairwise
@pytest.mark.parametrize("name", ["logistic", "l1", "components"])
@pytest.mark.parametrize("library", array_libraries())
def test_rows_of_any_library(name, library):
    X, y = rows(CASES[name][1])
    found = fitted(CASES[name], library.asarray(X), library.asarray(y))
    np.testing.assert_allclose(found, fitted(CASES[name], X, y), rtol=1e-5, atol=1e-6)


def test_outer_models_that_do_not_arrive_are_no_start(notes):
    X, y = rows("labels")
    few = (LogisticRegression(tol=1e-9, max_iter=3), "labels", [{"C": 1.0}])
    found, expected = (fitted(few, X, y, knows=knows) for knows in (True, False))
    np.testing.assert_allclose(found, expected, rtol=0.2, atol=0.05)
    counts, _ = iterations(few, X, y)
    assert counts.max() <= 3


def test_where_nothing_is_gained_all_are_solved_together(notes):
    X, y = rows("labels")
    _, owners = nested_splits()
    fitted(
        (LogisticRegression(**TIGHT), "labels", [{"C": 1.0}]), X[:, :1], y
    )  # Newton's method takes them at once
    assert notes == [len(owners)]
