"""Selectors select what scikit-learn's select, wherever the rows are and whatever the models are made from."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.feature_selection as sk
import sklearn.linear_model as sk_linear
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpuml import as_sklearn
from gpuml._arrays import device_of
from gpuml.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from gpuml.feature_selection._from_sums import FROM_SUMS, NEARLY_DEPENDENT
from gpuml.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from gpuml.testing import array_libraries

MODELS = [
    Ridge(),
    Ridge(0.0),
    Ridge(50.0, fit_intercept=False),
    LinearRegression(),
    LinearRegression(fit_intercept=False),
]
SPLITTERS = [
    3,
    KFold(4, shuffle=True, random_state=0),
    RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    ShuffleSplit(3, random_state=0),
    TimeSeriesSplit(3),
]
SCORINGS = [None, "r2", "neg_mean_squared_error", "neg_root_mean_squared_error"]
FOREST = RandomForestRegressor(5, random_state=0)
LASSO = Lasso(0.5, tol=1e-12, max_iter=100_000)
NEWTON = LogisticRegression(solver="newton-cholesky", tol=1e-9)
SELECTORS = {
    "forward": SequentialFeatureSelector(None, n_features_to_select=4),
    "backward": SequentialFeatureSelector(None, n_features_to_select=4, direction="backward"),
    "forward-tol": SequentialFeatureSelector(None, tol=1e-3),
    "backward-tol": SequentialFeatureSelector(None, tol=-1e-3, direction="backward"),
    "rfe": RFE(None),
    "rfe-share": RFE(None, n_features_to_select=0.3, step=0.2),
    "rfecv": RFECV(None),
    "rfecv-step": RFECV(None, step=3, min_features_to_select=2),
}


def regression(rng, n_rows=200, n_features=8, n_targets=None):
    """Correlated features, some of which matter."""
    X = rng.normal(size=(n_rows, n_features)) @ rng.normal(size=(n_features, n_features)) + 3.0
    coef = rng.normal(size=(4, n_targets or 1))
    y = X[:, :4] @ coef + 2.0 * rng.normal(size=(n_rows, n_targets or 1)) + 10.0
    return X, y if n_targets else y[:, 0]


def theirs(selector):
    """scikit-learn's selector of scikit-learn's model, with the same parameters."""
    params = selector.get_params(deep=False) | {"estimator": as_sklearn(selector.estimator)}
    return getattr(sk, type(selector).__name__)(**params)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.get_support(), expected.get_support())
    for name in ("n_features_to_select_", "n_features_", "n_features_in_"):
        one, other = (getattr(each, name, None) for each in (found, expected))
        assert one == other
        assert type(one) is type(other)
    if hasattr(expected, "ranking_"):
        np.testing.assert_array_equal(found.ranking_, expected.ranking_)
    if hasattr(expected, "cv_results_"):
        assert list(found.cv_results_) == list(expected.cv_results_)
        for name, values in expected.cv_results_.items():
            np.testing.assert_allclose(found.cv_results_[name], values, rtol=1e-8, atol=1e-10)


@pytest.mark.each
@pytest.mark.parametrize("name", SELECTORS)
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("library", array_libraries())
def test_selections_are_those_of_scikit_learn(name, model, library, rng):
    X, y = regression(rng, n_targets=2 if library.name == "torch" else None)
    selector = clone(SELECTORS[name]).set_params(estimator=model)
    selector.fit(library.asarray(X), library.asarray(y))
    expected = theirs(selector).fit(X, y)
    assert_same(selector, expected)
    assert [step.why for step in selector.plan_.steps] == [FROM_SUMS]
    assert selector.plan_.n_passes == 1
    # Rows stay where they are, and come back with zeros in the places of what was left out.
    chosen = selector.transform(library.asarray(X))
    back = selector.inverse_transform(chosen)
    there = device_of(library.asarray(X))
    assert device_of(chosen) == device_of(back) == there
    kept = expected.transform(X)
    np.testing.assert_array_equal(library.to_numpy(chosen), kept)
    np.testing.assert_array_equal(library.to_numpy(back), expected.inverse_transform(kept))


@pytest.mark.each
@pytest.mark.parametrize("name", ["forward", "rfecv"])
@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
@pytest.mark.parametrize("scoring", SCORINGS)
def test_splits_and_scores_of_every_kind_come_from_sums(name, cv, scoring, rng):
    X, y = regression(rng)
    selector = clone(SELECTORS[name]).set_params(estimator=Ridge(), cv=cv, scoring=scoring)
    assert_same(selector.fit(X, y), theirs(selector).fit(X, y))
    assert selector.plan_.n_passes == 1


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("degenerate", ["constant", "repeated", "sum", "no residuals"])
def test_sums_make_no_models_of_features_that_depend_on_others(direction, degenerate, rng):
    X, y = regression(rng, n_features=6)
    if degenerate == "constant":
        X[:, 2] = 7.0
    elif degenerate == "repeated":
        X[:, 5] = X[:, 0]
    elif degenerate == "sum":
        X[:, 5] = X[:, 0] - 2.0 * X[:, 1] + 1e-9 * rng.normal(size=len(X))
    else:
        y = X[:, :3] @ [1.0, 2.0, 3.0]
    selector = SequentialFeatureSelector(
        Ridge(1e-10), n_features_to_select=5, direction=direction
    ).fit(X, y)
    expected = theirs(selector).fit(X, y)
    # Which of equal features is selected is a matter of rounding; the scores are not.
    scores = [
        cross_val_score(sk_linear.Ridge(1e-10), X[:, found.get_support()], y).mean()
        for found in (selector, expected)
    ]
    np.testing.assert_allclose(*scores, rtol=1e-7)
    if degenerate == "constant":
        assert selector.plan_.n_passes == 1
    elif degenerate != "no residuals":
        assert NEARLY_DEPENDENT in " ".join(selector.plan_.reasons)


@pytest.mark.parametrize("seed", range(16))
def test_dummies_of_every_level_are_eliminated_without_a_warning(seed):
    rng = np.random.default_rng(seed)
    X = np.hstack([np.eye(2)[rng.integers(0, 2, 12)] for _ in range(2)])
    selector = RFE(LinearRegression()).fit(X, rng.normal(size=12))
    assert selector.n_features_ == 2


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        (SequentialFeatureSelector(Lasso(), n_features_to_select=2, cv=2), "Lasso is not Ridge"),
        (RFE(LogisticRegression()), "LogisticRegression is not Ridge"),
        (RFE(Ridge(), importance_getter="coef_"), "importance_getter='coef_'"),
        (RFECV(Ridge(), scoring="neg_mean_absolute_error", cv=2), "not made from sums"),
        (RFECV(sk_linear.Ridge(), cv=2), "Ridge is not Ridge or LinearRegression of gpuml"),
    ],
    ids=str,
)
def test_plans_say_why_models_were_fitted_one_by_one(selector, words, rng):
    X, y = regression(rng, 60, 5)
    y = (y > y.mean()).astype(float)
    selector = clone(selector).fit(X, y)
    assert_same(selector, theirs(selector).fit(X, y))
    assert words in " ".join(selector.plan_.reasons)


@pytest.mark.parametrize("spread", [1.0, 1e-7])
@pytest.mark.parametrize("selector", [RFE(None, n_features_to_select=4), RFECV(None, cv=3)])
@pytest.mark.parametrize("model", MODELS)
def test_the_model_of_what_is_left_is_that_of_a_fit(selector, model, spread, rng):
    X = rng.normal(size=(90, 8)) + 10.0
    # Sums over the rows lose the digits of what is nearly another feature, but it is eliminated.
    X[:, 7] = X[:, 0] + spread * X[:, 7]
    y = X[:, :4] @ [3.0, 2.0, -4.0, 1.0] + rng.normal(size=90)
    found = clone(selector).set_params(estimator=model).fit(X, y)
    expected = clone(model).fit(X[:, found.support_], y)
    assert vars(found.estimator_).keys() == vars(expected).keys()
    assert found.estimator_.n_features_in_ == found.n_features_
    for name in ("coef_", "intercept_"):
        own, other = getattr(found.estimator_, name), getattr(expected, name)
        np.testing.assert_allclose(own, other, rtol=1e-8, atol=1e-10)


def test_sparse_rows_are_fitted_one_by_one(rng):
    X, y = regression(rng, 60, 5)
    for selector in (RFE(Ridge()), SequentialFeatureSelector(Ridge(), cv=3)):
        dense = clone(selector).fit(X, y).get_support()
        np.testing.assert_array_equal(selector.fit(sp.csr_array(X), y).get_support(), dense)
        assert "X is sparse" in " ".join(selector.plan_.reasons)
        assert sp.issparse(selector.transform(sp.csr_array(X)))


def test_groups_reach_the_splitter(rng):
    X, y = regression(rng, 120)
    groups = rng.integers(0, 9, 120)
    selector = RFECV(Ridge(), cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert_same(selector, theirs(selector).fit(X, y, groups=groups))


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("model", [Ridge(), Ridge(solver="svd")], ids=["sums", "step by step"])
def test_the_splitter_is_asked_once(model, library, rng):
    """A generator has its splits once, and a splitter with a state others each time."""
    X, y = regression(rng, 60)
    there = library.asarray(X), library.asarray(y)
    splits = list(KFold(3, shuffle=True, random_state=5).split(X))
    expected = RFECV(model, cv=splits).fit(X, y)
    for cv in (iter(splits), KFold(3, shuffle=True, random_state=np.random.RandomState(5))):
        selector = RFECV(model, cv=cv).fit(*there)
        assert selector.cv is cv
        for name, table in expected.cv_results_.items():
            np.testing.assert_allclose(selector.cv_results_[name], table, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RFECV(model, cv=splits).fit(library.asarray(X[:50]), there[1])


def test_weights_are_given_to_every_step(rng):
    X, y = regression(rng, 80, 6)
    weight = rng.integers(1, 4, 80)
    selector = RFE(Ridge(), n_features_to_select=2).fit(X, y, sample_weight=weight)
    repeated = RFE(Ridge(), n_features_to_select=2).fit(X.repeat(weight, 0), y.repeat(weight))
    np.testing.assert_array_equal(selector.ranking_, repeated.ranking_)
    np.testing.assert_allclose(selector.estimator_.coef_, repeated.estimator_.coef_, rtol=1e-9)
    assert "sample_weight" in " ".join(selector.plan_.reasons)


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("model", [LASSO, Ridge(), NEWTON, FOREST], ids=str)
def test_important_features_are_selected_where_the_rows_are(library, model, rng):
    X, y = regression(rng, 120)
    y = (y > y.mean()).astype(int) if isinstance(model, LogisticRegression) else y
    if isinstance(model, RandomForestRegressor) and not library.name.startswith("numpy"):
        pytest.skip("scikit-learn's forests fit NumPy's arrays")
    for params in ({}, {"threshold": "0.5*median"}, {"max_features": 3, "threshold": -np.inf}):
        found = SelectFromModel(model, **params).fit(library.asarray(X), library.asarray(y))
        expected = sk.SelectFromModel(as_sklearn(model), **params).fit(X, y)
        np.testing.assert_array_equal(found.get_support(), expected.get_support())
        np.testing.assert_allclose(found.threshold_, expected.threshold_, rtol=1e-3)
        chosen = found.transform(library.asarray(X))
        np.testing.assert_array_equal(library.to_numpy(chosen), X[:, found.get_support()])
        fitted = SelectFromModel(found.estimator_, prefit=True, **params)
        again = fitted.transform(library.asarray(X))
        np.testing.assert_array_equal(library.to_numpy(again), library.to_numpy(chosen))


def test_names_of_columns_are_kept(rng):
    X, y = regression(rng, 60, 5)
    frame = pd.DataFrame(X, columns=list("abcde"))
    for selector in (
        *(RFE(Ridge()), SequentialFeatureSelector(Ridge()), SelectFromModel(Ridge())),
        *(RFE(Lasso(0.01)), RFECV(Ridge()), RFECV(Lasso(0.01))),
        *(SequentialFeatureSelector(Lasso(0.01)), SelectFromModel(Lasso(0.01))),
    ):
        selector.set_output(transform="pandas").fit(frame, y)
        names = list(np.array(list("abcde"))[selector.get_support()])
        assert list(selector.get_feature_names_out()) == names
        assert list(selector.transform(frame).columns) == names


# Those that fit from sums, and those that fit step by step.
CROSS_VALIDATED, MODELS = (RFECV, SequentialFeatureSelector), (Ridge(), Ridge(solver="svd"))


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        (SequentialFeatureSelector(Ridge(), n_features_to_select=9), "must be < n_features"),
        (SequentialFeatureSelector(Ridge(), tol=-1.0), "strictly positive"),
        (SequentialFeatureSelector(Ridge(), direction="up"), "direction"),
        (RFE(Ridge(), step=0), "step"),
        (RFECV(Ridge(), cv=1), "cv"),
        *((each(model, cv=[]), "gave no splits") for each in CROSS_VALIDATED for model in MODELS),
        *(
            (each(model, cv=[([0, 1], [])]), "0 sample")
            for each in CROSS_VALIDATED
            for model in MODELS
        ),
    ],
    ids=str,
)
def test_wrong_parameters_are_errors_and_nothing_is_left_behind(selector, words, rng):
    selector = clone(selector)
    with pytest.raises(ValueError, match=words):
        selector.fit(*regression(rng, 60, 5))
    assert not [name for name in vars(selector) if name.endswith("_")]


STEP_BY_STEP = {
    "logistic": (LogisticRegression(C=10, tol=1e-8), 2),
    "several classes": (LogisticRegression(C=10, tol=1e-8), 3),
    "counts": (PoissonRegressor(alpha=0.01, tol=1e-8), 0),
    "sums that are not used": (Ridge(solver="svd"), 0),
}


@pytest.mark.each
@pytest.mark.parametrize("case", STEP_BY_STEP)
@pytest.mark.parametrize("library", array_libraries())
def test_other_models_are_eliminated_where_the_rows_are(library, case, rng):
    model, n_classes = STEP_BY_STEP[case]
    X = rng.normal(size=(120, 6))
    eta = X @ [1.0, -0.8, 0.6, 0.4, 0.2, 0.1]
    cuts = np.quantile(eta, np.arange(1, n_classes) / n_classes) if n_classes else ()
    y = np.searchsorted(cuts, eta + rng.normal(size=120)) if n_classes else rng.poisson(np.exp(eta))
    there = library.asarray(X), library.asarray(y if n_classes else y.astype(float))
    for selector in (RFE(model, n_features_to_select=2, step=2), RFECV(model, cv=3, step=2)):
        theirs = getattr(sk, type(selector).__name__)(**selector.get_params(deep=False)).fit(X, y)
        ours = clone(selector).fit(*there)
        np.testing.assert_array_equal(ours.support_, theirs.support_)
        np.testing.assert_array_equal(ours.ranking_, theirs.ranking_)
        assert type(ours.transform(there[0])) is type(there[0])
        assert ours.score(*there) == pytest.approx(theirs.score(X, y), rel=1e-5)
        with pytest.raises(ValueError, match="requires y to be passed"):
            clone(selector).fit(there[0], None)
        assert ours.plan_.n_passes == len(np.unique(theirs.ranking_)) + (
            3 * len(theirs.cv_results_["n_features"]) if hasattr(theirs, "cv_results_") else 0
        )
        for name, table in getattr(theirs, "cv_results_", {}).items():
            np.testing.assert_allclose(ours.cv_results_[name], table, rtol=1e-5, atol=1e-6)


def test_rows_on_a_device_take_no_parameters_in_rfecv(rng):
    X = torch_or_skip(rng.normal(size=(40, 3)))
    with pytest.raises(ValueError, match="passes no parameters to the estimator"):
        RFECV(LogisticRegression()).fit(X, np.arange(40) % 2, sample_weight=np.ones(40))


def test_groups_are_for_the_splitter_of_a_sequential_selector(rng):
    X, groups, weight = rng.normal(size=(40, 4)), np.arange(40) % 5, rng.random(40)
    y = X @ [1.0, 0.5, 0.1, 0.0] + rng.normal(size=40)
    with config_context(enable_metadata_routing=True):
        ridge = Ridge().set_fit_request(sample_weight="weight")
        ours, theirs = (
            kind(ridge, n_features_to_select=2, cv=GroupKFold(3))
            .fit(X, y, groups=groups, weight=weight)
            .support_
            for kind in (SequentialFeatureSelector, sk.SequentialFeatureSelector)
        )
    np.testing.assert_array_equal(ours, theirs)


def torch_or_skip(x):
    return pytest.importorskip("torch").asarray(x)


def test_weights_that_no_step_says_anything_about_are_an_error(rng):
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    with config_context(enable_metadata_routing=True):
        for kind, ridge in (
            (SequentialFeatureSelector, Ridge()),
            (sk.SequentialFeatureSelector, sk_linear.Ridge()),
        ):
            selector = kind(make_pipeline(StandardScaler(), ridge), n_features_to_select=1, cv=3)
            with pytest.raises(ValueError, match="not explicitly set as requested or not"):
                selector.fit(X, y, sample_weight=np.ones(30))
