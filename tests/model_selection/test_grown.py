"""Boosters under adaptive searches go on from the round before, and share the cores."""

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn import ensemble
from sklearn import model_selection as sk
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from gpuml._arrays.threads import openmp_threads
from gpuml.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HyperbandSearchCV,
    grown,
)
from gpuml.model_selection.boosters import fit_threads, library_of
from gpuml.model_selection.candidates import CONTINUED, GROWN
from gpuml.model_selection.fold_fits import threads_of_each
from gpuml.model_selection.grown import grow, why_rounds_anew
from tests.boosting import catboost, lightgbm, xgboost

RNG = np.random.default_rng(2)
X = RNG.normal(size=(240, 5))
NUMBERS = X @ RNG.normal(size=5) + 0.5 * RNG.normal(size=240)
CLASSES = np.digitize(NUMBERS, [-1.0, 1.0])
LABELS = np.array(["b", "a", "c"])[CLASSES]
WEIGHTS = RNG.uniform(0.2, 2.0, size=240)


def sklearn(name, **params):
    return getattr(ensemble, name)(**params)


# name -> (how it is made, class, parameters, y)
CASES = {
    "histograms": (
        sklearn,
        "HistGradientBoostingClassifier",
        {"max_features": 0.5, "random_state": 0},
        LABELS,
    ),
    "histograms of numbers": (
        sklearn,
        "HistGradientBoostingRegressor",
        {"max_leaf_nodes": 7},
        NUMBERS,
    ),
    "histograms that may stop early": (
        sklearn,
        "HistGradientBoostingRegressor",
        {"early_stopping": True, "n_iter_no_change": 2, "random_state": 1, "learning_rate": 0.5},
        NUMBERS,
    ),
    "trees": (
        sklearn,
        "GradientBoostingClassifier",
        {"subsample": 0.7, "max_features": 2, "random_state": 0},
        LABELS,
    ),
    "xgboost": (xgboost, "XGBClassifier", {}, CLASSES),
    "xgboost of numbers": (xgboost, "XGBRegressor", {"max_bin": 16}, NUMBERS),
    "lightgbm": (lightgbm, "LGBMClassifier", {}, LABELS),
    "lightgbm of numbers": (lightgbm, "LGBMRegressor", {"num_leaves": 7}, NUMBERS),
}
# LightGBM adds up the trees of an ensemble that goes on in another order.
CLOSE = {"lightgbm": 1e-9}


@pytest.fixture(params=CASES)
def case(request):
    make, name, params, y = CASES[request.param]
    return make(name, **params), y, CLOSE.get(make.__name__, 1e-13)


def size_name(model):
    return library_of(model).sizes[type(model).__name__][0]


@pytest.mark.parametrize("weighted", [False, True])
def test_an_ensemble_that_goes_on_is_that_of_one_fit(case, weighted):
    model, y, rtol = case
    weight = {"sample_weight": WEIGHTS} if weighted else {}
    before = None
    for n_rounds in (3, 4, 11):
        unfitted = clone(model).set_params(**{size_name(model): n_rounds})
        said = None if before is None else before.predict(X)
        fitted, made = grow(unfitted, lambda own, **more: own.fit(X, y, **weight, **more), before)
        assert made.shared == (() if before is None else (CONTINUED,))
        if before is not None:
            np.testing.assert_array_equal(before.predict(X), said)
        before = fitted
        alone = clone(unfitted).fit(X, y, **weight)
        assert repr(fitted.get_params()) == repr(alone.get_params())
        method = "predict_proba" if hasattr(alone, "predict_proba") else "predict"
        np.testing.assert_allclose(getattr(fitted, method)(X), getattr(alone, method)(X), rtol=rtol)


def halved(model, y, **options):
    """Both searches by halving, over learning rates."""
    grid = {"learning_rate": [0.02, 0.1, 0.3, 0.5]}
    options = {
        "resource": size_name(model),
        "min_resources": 2,
        "max_resources": 8,
        "factor": 2,
        "cv": 3,
        "random_state": 0,
        **options,
    }
    return [
        search(model, grid, **options).fit(X, y)
        for search in (HalvingGridSearchCV, sk.HalvingGridSearchCV)
    ]


def assert_same_tables(ours, theirs, rtol=1e-13):
    assert ours.best_params_ == theirs.best_params_
    for name, values in theirs.cv_results_.items():
        if "score" in name and "time" not in name and "rank" not in name:
            np.testing.assert_allclose(ours.cv_results_[name], values, rtol=rtol)


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_halving_goes_on(case, n_jobs):
    model, y, rtol = case
    ours, theirs = halved(model, y, n_jobs=n_jobs)
    assert_same_tables(ours, theirs, rtol)
    assert ours.n_resources_ == [2, 4, 8]
    assert CONTINUED in str(ours.plan_)
    assert not vars(ours).keys() - vars(theirs).keys() - {"checkpoint", "plan_", "split_sizes_"}


def test_rounds_of_more_rows_are_fitted_anew():
    model = ensemble.HistGradientBoostingRegressor(max_iter=3, random_state=0)
    grid = {"learning_rate": [0.1, 0.3]}
    search = HalvingGridSearchCV(model, grid, random_state=0, factor=2, cv=2).fit(X, NUMBERS)
    assert CONTINUED not in str(search.plan_)


ANEW = {
    "subsample": (xgboost, "XGBRegressor", {"subsample": 0.5}),
    "booster='dart'": (xgboost, "XGBRegressor", {"booster": "dart"}),
    "colsample_bytree": (lightgbm, "LGBMRegressor", {"colsample_bytree": 0.5}),
    "leave data_sample_strategy out": (
        lightgbm,
        "LGBMRegressor",
        {"data_sample_strategy": "goss"},
    ),
    "n_iter_no_change": (
        sklearn,
        "GradientBoostingRegressor",
        {"n_iter_no_change": 2, "random_state": 0},
    ),
}


@pytest.mark.parametrize("reason", ANEW)
def test_what_would_be_another_ensemble_is_fitted_anew_and_says_why(reason):
    make, name, params = ANEW[reason]
    ours, theirs = halved(make(name, **params), NUMBERS)
    assert_same_tables(ours, theirs)
    assert CONTINUED not in str(ours.plan_)
    assert reason in ours.plan_.reasons[0]


def test_catboost_is_fitted_anew():
    ours, theirs = halved(catboost("CatBoostRegressor", iterations=3), NUMBERS, cv=2)
    assert_same_tables(ours, theirs)
    [reason] = ours.plan_.reasons
    assert "fits CatBoostRegressor anew" in reason
    assert "XGBoost and LightGBM are continued" in reason


INSIDE = (
    "fits HistGradientBoostingRegressor anew: it is inside of Pipeline; search "
    "HistGradientBoostingRegressor by itself"
)


def test_pipelines_are_fitted_anew_and_say_why():
    pipe = make_pipeline(StandardScaler(), ensemble.HistGradientBoostingRegressor(random_state=0))
    grid = {"histgradientboostingregressor__learning_rate": [0.1, 0.3]}
    resource = "histgradientboostingregressor__max_iter"
    options = {"resource": resource, "max_resources": 4, "factor": 2, "cv": 2, "random_state": 0}
    ours, theirs = (
        search(pipe, grid, **options).fit(X, NUMBERS)
        for search in (HalvingGridSearchCV, sk.HalvingGridSearchCV)
    )
    assert_same_tables(ours, theirs)
    assert ours.n_resources_ == [2, 4]
    assert ours.plan_.reasons
    assert all(INSIDE in told for told in ours.plan_.reasons)


def test_hyperband_of_pipelines_says_why():
    pipe = make_pipeline(StandardScaler(), ensemble.HistGradientBoostingRegressor())
    draws = {"histgradientboostingregressor__learning_rate": uniform(0.02, 0.5)}
    resource = "histgradientboostingregressor__max_iter"
    search = HyperbandSearchCV(pipe, draws, max_iter=3, resource=resource, random_state=0)
    assert any(INSIDE in told for told in search.fit(X, NUMBERS).plan_.reasons)


def test_reasons_of_rounds():
    alone = ensemble.HistGradientBoostingRegressor()
    pipe = make_pipeline(StandardScaler(), alone)
    rounds = "histgradientboostingregressor__max_iter"
    assert INSIDE in why_rounds_anew(pipe, {rounds: 3})
    assert why_rounds_anew(pipe, {"standardscaler__with_mean": False}) is None
    assert why_rounds_anew(pipe, {"of_nobody": 3}) is None
    # Rounds of boosters by themselves tell on their own, but those of a cluster.
    assert why_rounds_anew(alone, {"max_iter": 3}) is None
    on_cluster = why_rounds_anew(alone, {"max_iter": 3}, on_cluster=True)
    assert "workers keep no ensembles" in on_cluster
    assert "gpuml.model_selection" in on_cluster
    assert why_rounds_anew(alone, {"max_depth": 3}, on_cluster=True) is None
    warm = ensemble.HistGradientBoostingRegressor(warm_start=True)
    assert "warm_start" in why_rounds_anew(warm, {"max_iter": 3}, on_cluster=True)


def test_hyperband_goes_on(case, monkeypatch):
    model, y, rtol = case
    draws = {"learning_rate": uniform(0.02, 0.5)}
    options = {"max_iter": 9, "resource": size_name(model), "random_state": 0}
    found = HyperbandSearchCV(model, draws, **options).fit(X, y)
    assert CONTINUED in str(found.plan_)
    monkeypatch.setattr(grown, "grown_key", lambda model: None)
    anew = HyperbandSearchCV(model, draws, **options).fit(X, y)
    assert CONTINUED not in str(anew.plan_)
    np.testing.assert_allclose(
        found.cv_results_["test_score"], anew.cv_results_["test_score"], rtol=rtol
    )
    assert found.best_params_ == anew.best_params_


# ---------------------------------------------------------------- threads


def test_cores_are_divided():
    assert threads_of_each(3, 1, 8) == [None] * 3
    assert threads_of_each(4, 2, 8) == [4] * 4
    assert threads_of_each(5, 2, 8) == [4, 4, 4, 4, 8]
    assert threads_of_each(5, 3, 8) == [2, 2, 2, 4, 4]
    assert threads_of_each(5, 16, 8) == [1] * 5
    assert threads_of_each(2, 16, 8) == [4] * 2
    assert threads_of_each(0, 16, 8) == []


@pytest.mark.parametrize("given", [None, 1, -1])
def test_a_forest_uses_cores_that_are_free(given):
    model = ensemble.RandomForestRegressor(n_estimators=4, n_jobs=given)
    with fit_threads(model, 2):
        assert model.n_jobs == (2 if given is None else given)
    assert model.n_jobs == given


@pytest.mark.parametrize("n_jobs", [2, 6])
def test_forests_in_parallel_are_those_in_turn(n_jobs):
    """Trees that candidates share are grown once for each split, with as many threads as there are.

    Each family of candidates stays together, also if there are fewer splits than jobs.
    """
    model = ensemble.RandomForestRegressor(random_state=0)
    grid = {"n_estimators": [2, 5], "max_features": [1, 3]}
    options = {"cv": 3, "refit": False}
    one = GridSearchCV(model, grid, **options).fit(X, NUMBERS)
    several = GridSearchCV(model, grid, n_jobs=n_jobs, **options).fit(X, NUMBERS)
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], several.cv_results_["mean_test_score"]
    )
    assert GROWN in str(several.plan_)


def test_loops_of_openmp_are_bounded():
    def most():
        return max(i["num_threads"] for i in threadpool_info() if i["user_api"] == "openmp")

    library_of(ensemble.HistGradientBoostingRegressor())  # which has its loops loaded
    with openmp_threads(2):
        before = most()
        with openmp_threads(1):
            assert most() == 1
        assert most() == before
        with openmp_threads(64):  # the user's own bound stays
            assert most() == before
    with openmp_threads(None):
        pass


@pytest.mark.parametrize("given", [None, 1, 2, 7, -1])
@pytest.mark.parametrize("make", [xgboost, lightgbm])
def test_a_booster_uses_its_part_of_the_cores(make, given):
    name = "XGBRegressor" if make is xgboost else "LGBMRegressor"
    model = make(name).set_params(n_jobs=given)
    with fit_threads(model, 2):
        assert model.get_params()["n_jobs"] == (1 if given == 1 else 2)
    assert model.get_params()["n_jobs"] == given
    with fit_threads(model, None):
        assert model.get_params()["n_jobs"] == given


def test_catboost_uses_its_part_of_the_cores():
    module = pytest.importorskip("catboost")
    quiet = {"iterations": 2, "verbose": 0, "allow_writing_files": False}
    for given in ({}, {"thread_count": 1}):
        model = module.CatBoostRegressor(**quiet, **given)
        with fit_threads(model, 2):
            assert model.get_params()["thread_count"] == given.get("thread_count", 2)
            model.fit(X, NUMBERS)
        kept = {name: model.get_params().get(name) for name in (*quiet, "thread_count")}
        assert kept == {**quiet, "thread_count": None, **given}
        assert model.predict(X).shape == (240,)


def test_fits_side_by_side_are_told(monkeypatch):
    """Each of two fits in threads sees its part of the cores."""
    monkeypatch.setattr("gpuml.model_selection.fold_fits.cpu_count", lambda: 2)
    seen = []

    class Noting(ensemble.HistGradientBoostingRegressor):
        def fit(self, X, y, sample_weight=None):
            loops = [i["num_threads"] for i in threadpool_info() if i["user_api"] == "openmp"]
            seen.append(max(loops))
            return super().fit(X, y, sample_weight)

    from joblib import parallel_config

    with parallel_config("threading"):
        GridSearchCV(Noting(max_iter=2), {"max_depth": [1, 2]}, cv=2, n_jobs=2, refit=False).fit(
            X, NUMBERS
        )
    assert set(seen) == {1}
