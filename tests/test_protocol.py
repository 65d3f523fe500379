"""The protocol of batched fits: one file of the standard library, and searches that use it.

The law: models of `__sklearn_multifit__` are those of one fit per candidate and split.
"""

import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV as Theirs
from sklearn.model_selection import KFold, ParameterGrid
from sklearn.preprocessing import PolynomialFeatures

from gpuml.model_selection import GridSearchCV
from gpuml.model_selection.fold_fits import families
from gpuml.pipeline import make_pipeline
from gpuml.protocol import (
    Group,
    SupportsMultifit,
    fit_candidates,
    group_candidates,
    multifit,
    supports_multifit,
)
from tests.test_architecture import SOURCES, imports


class Batched(Ridge):
    """scikit-learn's Ridge: one matrix of second moments for all penalties of a split."""

    __sklearn_multifit_params__ = ("alpha",)
    calls: list = []  # noqa: RUF012

    def __sklearn_multifit__(self, X, y, splits, candidates, sample_weight=None):
        self.calls.append(len(candidates))
        if self.positive:
            return NotImplemented
        models = [[] for _ in candidates]
        for train, _ in splits:
            w = np.ones(len(train)) if sample_weight is None else sample_weight[train]
            mean, offset = (np.average(a[train], axis=0, weights=w) for a in (X, y))
            Z, t = X[train] - mean, y[train] - offset
            gram, right = (Z.T * w) @ Z, Z.T @ (w * t)
            for row, candidate in zip(models, candidates, strict=True):
                model = clone(self).set_params(**candidate)
                model.coef_ = np.linalg.solve(gram + model.alpha * np.eye(len(gram)), right)
                model.intercept_ = offset - mean @ model.coef_
                model.n_features_in_ = X.shape[1]
                row.append(model)
        return models


class OwnFit(Batched):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, -y, sample_weight)


class SecondFails(Batched):
    def fit(self, X, y, sample_weight=None):
        if self.alpha == 2.0:
            raise FloatingPointError("alpha of two")
        return super().fit(X, y, sample_weight)

    def __sklearn_multifit__(self, X, y, splits, candidates):
        models = super().__sklearn_multifit__(X, y, splits, candidates)
        if models is NotImplemented:
            return models
        return [
            [FloatingPointError("alpha of two")] * len(splits) if each["alpha"] == 2.0 else row
            for each, row in zip(candidates, models, strict=True)
        ]


class TooFew(Batched):
    def __sklearn_multifit__(self, X, y, splits, candidates):
        return super().__sklearn_multifit__(X, y, splits, candidates)[1:]


GRID = {"alpha": [0.5, 2.0, 8.0]}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, X @ [1.0, 2.0, 3.0] + rng.normal(size=60), rng.uniform(1, 2, 60)


@pytest.fixture(autouse=True)
def calls():
    Batched.calls.clear()
    return Batched.calls


def test_the_module_needs_the_standard_library_only():
    targets = {found.target.partition(".")[0] for found in imports(SOURCES["gpuml.protocol"])}
    assert targets <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("estimator", "supports"),
    [(Ridge(), False), (Batched(), True), (OwnFit(), False), (SecondFails(), True)],
)
def test_a_class_with_a_fit_of_its_own_needs_a_method_of_its_own(estimator, supports):
    assert supports_multifit(estimator) is supports
    assert isinstance(estimator, SupportsMultifit) is (type(estimator) is not Ridge)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (np.array([1.0, 2.0]), np.array([1.0, 2.0]), True),
        (np.array([1.0]), np.array([1.0, 1.0]), False),
        (object(), object(), False),
    ],
)
def test_candidates_of_a_group_have_equal_shared_values(first, second, same):
    candidates = [{"shared": first, "alpha": 1}, {"shared": second, "alpha": 2}]
    groups = group_candidates(candidates, ["alpha"])
    assert [group.positions for group in groups] == ([[0, 1]] if same else [[0], [1]])
    assert groups[0] == Group(
        {"shared": first}, [{"alpha": n} for n in (1, 2)[: 1 + same]], [0, 1][: 1 + same]
    )


def test_a_result_of_the_wrong_shape_is_an_error(rows):
    X, y, _ = rows
    splits = list(KFold(3).split(X))
    with pytest.raises(ValueError, match=r"must return 2 lists .* lengths \[3\]"):
        multifit(TooFew(), X, y, splits, [{"alpha": 1.0}, {"alpha": 2.0}])


@pytest.mark.parametrize("kind", [Batched, SecondFails, OwnFit, Ridge])
@pytest.mark.parametrize("positive", [False, True])
def test_fit_candidates_gives_the_models_of_single_fits(kind, positive, rows):
    X, y, _ = rows
    splits = list(KFold(3).split(X))
    candidates = list(ParameterGrid({**GRID, "positive": [positive]}))
    found = fit_candidates(kind(), X, y, splits, candidates, clone=clone)
    for candidate, row in zip(candidates, found, strict=True):
        for model, (train, _) in zip(row, splits, strict=True):
            if kind is SecondFails and candidate["alpha"] == 2.0:
                assert isinstance(model, FloatingPointError)
                continue
            alone = kind(**candidate).fit(X[train], y[train])
            np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-8, atol=1e-8)
            assert model.get_params() == alone.get_params()


@pytest.mark.parametrize(
    ("before", "grid", "weighted", "n_calls"),
    [
        ([], GRID, False, 3),
        ([], GRID, True, 3),
        ([], {**GRID, "positive": [False, True]}, False, 6),
        ([PolynomialFeatures(include_bias=False)], GRID, False, 3),
    ],
)
def test_a_search_calls_the_method_once_per_fold_and_group(
    before, grid, weighted, n_calls, rows, calls
):
    X, y, weight = rows
    ours, theirs = (
        make_pipeline(*before, kind()) if before else kind() for kind in (Batched, Ridge)
    )
    more = {"sample_weight": weight} if weighted else {}

    def named(estimator):
        last = f"{type(estimator[-1]).__name__.lower()}__" if before else ""
        return {last + name: values for name, values in grid.items()}

    search = GridSearchCV(ours, named(ours), cv=3).fit(X, y, **more)
    expected = Theirs(theirs, named(theirs), cv=3).fit(X, y, **more)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-8
    )
    assert calls == [3] * n_calls
    assert "fits shared by __sklearn_multifit__" in str(search.plan_)
    assert ("Batched.__sklearn_multifit__ refused" in str(search.plan_)) is ("positive" in grid)


def test_candidates_of_one_call_stay_together_on_a_cluster():
    grid = list(ParameterGrid({**GRID, "positive": [False, True]}))
    found = families(Batched(), grid)
    assert sorted(sorted(each) for each in found) == [[0, 2, 4], [1, 3, 5]]
    pipe = make_pipeline(PolynomialFeatures(), Batched())
    assert len(families(pipe, [{"batched__alpha": value} for value in (1.0, 2.0)])) == 1


def test_a_candidate_that_fails_fails_alone(rows):
    X, y, _ = rows
    search = GridSearchCV(SecondFails(), GRID, cv=3, error_score=-7.0)
    with pytest.warns(Warning, match="alpha of two"):
        search.fit(X, y)
    expected = Theirs(Ridge(), GRID, cv=3).fit(X, y).cv_results_["mean_test_score"].copy()
    expected[1] = -7.0
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-8)


def test_a_method_that_raises_is_a_warning_and_single_fits(rows):
    X, y, _ = rows
    search = GridSearchCV(TooFew(), GRID, cv=3)
    with pytest.warns(RuntimeWarning, match="must return 3 lists"):
        search.fit(X, y)
    expected = Theirs(Ridge(), GRID, cv=3).fit(X, y)
    assert search.best_params_ == expected.best_params_
    assert search.plan_.n_passes == 9
