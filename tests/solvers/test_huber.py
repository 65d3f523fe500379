"""Sums of Huber regression: what is followed from elsewhere is what reading all rows gives."""

from dataclasses import astuple

import numpy as np
import pytest
import sklearn.linear_model as sk

from gpuml.linear_model import HuberRegressor
from gpuml.solvers import huber
from gpuml.solvers.huber import HuberRows


def rows(rng, m=3000, q=4):
    X = rng.normal(size=(m, q)) * rng.lognormal(size=(m, 1))
    coef = rng.normal(size=q)
    return HuberRows(X, X @ coef + rng.standard_t(2, m), rng.integers(0, 3, m).astype(float)), coef


def same(one, other):
    for a, b in zip(astuple(one), astuple(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("way", [0.0, 1e-12, 1e-6, 1e-3])
@pytest.mark.parametrize("beyond", [0.9, 1.0, 1.1])
def test_followed_sums_are_those_of_all_rows(way, beyond, rng, monkeypatch):
    known, coef = rows(rng)
    known.sums(coef, 1.0)
    there = coef + way * rng.normal(size=len(coef))
    with monkeypatch.context() as patch:
        patch.setattr(huber, "FOLLOWED", 1.0)
        patch.setattr(HuberRows, "_summed", None)  # not all of them
        found = known.sums(there, beyond)
    same(found, HuberRows(known.X, known.y, known.weight).sums(there, beyond))


def test_all_rows_are_read_where_many_may_change_sides(rng):
    known, coef = rows(rng)
    known.sums(coef, 1.0)
    before = known._reference
    same(known.sums(0 * coef, 1.0), HuberRows(known.X, known.y, known.weight).sums(0 * coef, 1.0))
    assert known._reference is not before


def test_rows_are_followed_only_until_that_takes_longer(rng):
    known, coef = rows(rng)
    references = []
    for turn in range(100):
        known.sums(coef + 1e-3 * rng.normal(size=len(coef)), 1.0 + 0.01 * (turn % 2))
        references.append(known._reference)
    assert 1 < len(set(map(id, references))) < 50


def test_sums_of_which_little_is_left_are_summed_anew(rng):
    known, coef = rows(rng)
    known.sums(coef + 1e9, 1.0)
    same(known.sums(coef, 1e-12), HuberRows(known.X, known.y, known.weight).sums(coef, 1e-12))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["integers", "twice", "constant", "few"])
@pytest.mark.parametrize(("epsilon", "alpha"), [(1.01, 0.01), (1.1, 1.0), (1.1, 30.0)])
def test_models_that_go_through_rows_are_no_worse_than_those_of_sklearn(kind, epsilon, alpha):
    """The scale that is left to rows on the model is next to 0, and only few rows are near."""
    for seed in range(2):
        X, y = rows_on_a_model(np.random.default_rng(seed), kind)
        ours = HuberRegressor(alpha=alpha, epsilon=epsilon, max_iter=1000).fit(X, y)
        theirs = sk.HuberRegressor(alpha=alpha, epsilon=epsilon, tol=1e-8, max_iter=2000)
        value, bound = (objective(each, X, y) for each in (ours, theirs.fit(X, y)))
        assert value <= bound + 1e-7 * bound + 1e-9


def rows_on_a_model(rng, kind):
    X = rng.normal(size=(12 if kind == "few" else 40, 5))
    if kind == "integers":
        X = np.round(np.clip(128 + 50 * X, 0, 255))
    elif kind == "twice":
        X[:, -1] = X[:, 0]
        X = np.vstack([X, X[:20]])
    elif kind == "constant":
        X = np.full((len(X), 1), 3.0)
    y = X.sum(axis=1) / 5 + rng.standard_t(2, len(X))
    return X, np.round(y) if kind == "constant" else y


def objective(model, X, y):
    s, epsilon, far = model.scale_, model.epsilon, abs(y - model.predict(X))
    near = far <= epsilon * s
    loss = np.where(near, far**2 / s, 2.0 * epsilon * far - s * epsilon**2)
    return np.sum(s + loss) + model.alpha * model.coef_ @ model.coef_
