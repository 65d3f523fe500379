"""Searches: agreement with scikit-learn, laws, plans, bad input."""

import os
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model as sk_linear
import sklearn.model_selection as sk
from sklearn import cluster as sk_cluster
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import gpuml
from gpuml import cluster
from gpuml._arrays import place_of
from gpuml.data import resident_batches
from gpuml.linear_model import LinearRegression, Ridge
from gpuml.metrics import get_scorer
from gpuml.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
)
from gpuml.testing import count_transfers

GRID = {"alpha": np.logspace(-3, 3, 10)}


def data(rng, n=120, p=8, t=None, mean=0.0, noise=1.0):
    X = rng.normal(mean, 1, size=(n, p))
    W = rng.normal(size=(p,) if t is None else (p, t))
    return X, X @ W + noise * rng.normal(size=(n,) if t is None else (n, t))


def groups(n):
    return np.arange(n) * 7 // n


# name -> (data arguments, search arguments, change of X, fit arguments)
PROBLEMS = {
    "plain": ({}, {}, None, None),
    "shuffled folds": ({}, {"cv": sk.KFold(4, shuffle=True, random_state=0)}, None, None),
    "repeated": ({}, {"cv": sk.RepeatedKFold(n_splits=3, n_repeats=4, random_state=1)}, None, None),
    "shuffle split": ({}, {"cv": sk.ShuffleSplit(9, test_size=0.3, random_state=2)}, None, None),
    "leave one out": ({"n": 25}, {"cv": sk.LeaveOneOut(), "scoring": "neg_mean_squared_error"}, None, None),
    "time series": ({}, {"cv": sk.TimeSeriesSplit(4)}, None, None),
    "groups": ({}, {"cv": sk.GroupKFold(4)}, None, "groups"),
    "bootstrap": ({}, {"cv": [(np.random.default_rng(i).integers(0, 120, 120), np.arange(i, 40)) for i in range(3)]}, None, None),
    "masks": ({}, {"cv": [(np.arange(120) % 3 != i, np.arange(120) % 3 == i) for i in range(3)]}, None, None),
    "train on test": ({}, {"cv": [(np.arange(120), np.arange(120))]}, None, None),
    "weights": ({}, {}, None, "weights"),
    "two folds": ({}, {"cv": 2}, None, None),
    "targets": ({"t": 3}, {}, None, None),
    "one target": ({"t": 1}, {}, None, None),
    "targets and weights": ({"t": 2}, {}, None, "weights"),
    "no intercept": ({}, {"intercept": False}, None, None),
    "no intercept, large means": ({"mean": 500.0}, {"intercept": False}, None, None),
    "one feature": ({"p": 1}, {}, None, None),
    "wide": ({"n": 40, "p": 90}, {}, None, None),
    "wide, weights": ({"n": 40, "p": 90}, {}, None, "weights"),
    "duplicated columns": ({}, {}, lambda X: np.c_[X, X], None),
    "constant column": ({}, {}, lambda X: np.c_[X, np.full(len(X), 3.3)], None),
    "large means": ({"mean": 500.0}, {}, None, None),
    "scales": ({}, {}, lambda X: X * 10.0 ** np.linspace(-6, 6, X.shape[1]), None),
    "hardly any noise": ({"noise": 1e-7}, {}, None, None),
    "many metrics": ({}, {"scoring": ["r2", "explained_variance", "neg_mean_squared_error", "neg_root_mean_squared_error", "neg_mean_absolute_error", "neg_median_absolute_error", "neg_max_error", "neg_mean_absolute_percentage_error"], "refit": "r2"}, None, None),
    "train scores": ({}, {"return_train_score": True}, None, "weights"),
    "many candidates": ({}, {"grid": {"alpha": np.logspace(-4, 4, 60)}}, None, None),
    "intercept as a candidate": ({"mean": 2.0}, {"grid": {"alpha": [0.1, 1.0, 10.0], "fit_intercept": [True, False]}}, None, None),
    "list of grids": ({}, {"grid": [{"alpha": [0.1, 1.0]}, {"fit_intercept": [False]}, {"solver": ["svd"]}]}, None, None),
}  # fmt: skip


def make_problem(name, rng):
    data_args, search_args, change, extra = PROBLEMS[name]
    X, y = data(rng, **data_args)
    X = X if change is None else change(X)
    fit_args = {
        None: {},
        "groups": {"groups": groups(len(X))},
        "weights": {"sample_weight": rng.uniform(0.1, 3, len(X))},
    }[extra]
    options = {"scoring": "r2", **search_args}
    return X, y, options.pop("grid", GRID), options.pop("intercept", True), options, fit_args


def compare(ours, theirs, atol=1e-8):
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for key, expected in theirs.cv_results_.items():
        found = ours.cv_results_[key]
        if "time" in key:
            continue
        if key == "params":
            assert found == expected
            continue
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        if found.dtype.kind == "f":
            scale = np.maximum(1.0, np.abs(expected))
            np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=atol)
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_index_ == theirs.best_index_
    np.testing.assert_allclose(ours.best_score_, theirs.best_score_, rtol=atol)


@pytest.mark.each
@pytest.mark.filterwarnings("ignore:An ill-conditioned matrix:scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("problem", PROBLEMS)
def test_same_scores_as_sklearn(library, rng, problem):
    X, y, grid, intercept, options, fit_args = make_problem(problem, rng)
    theirs = sk.GridSearchCV(sk_linear.Ridge(fit_intercept=intercept), grid, **options)
    theirs.fit(X, y, **fit_args)
    ours = GridSearchCV(Ridge(fit_intercept=intercept), grid, **options)
    lib_args = {
        name: library.asarray(value) if name == "sample_weight" else value
        for name, value in fit_args.items()
    }
    ours.fit(library.asarray(X), library.asarray(y), **lib_args)
    compare(ours, theirs)
    assert ours.plan_.n_fits == len(theirs.cv_results_["params"]) * theirs.n_splits_
    assert ours.plan_.n_passes < ours.plan_.n_fits
    best = library.to_numpy(ours.best_estimator_.coef_)
    np.testing.assert_allclose(best, theirs.best_estimator_.coef_, rtol=1e-5, atol=1e-6)
    predicted = ours.predict(library.asarray(X))
    assert type(predicted) is type(library.asarray(X))


def test_multifit_is_one_by_one(library, rng):
    """The law of the protocol: a stack holds what separate fits would give."""
    from gpuml.data import Split, row_indices
    from gpuml.resampling.atoms import make_folds
    from gpuml.resampling.split import split_rows

    X, y = data(rng, t=2)
    w = rng.uniform(0, 2, 120)
    X_lib, y_lib, w_lib = (library.asarray(a) for a in (X, y, w))
    splits = split_rows(sk.KFold(3, shuffle=True, random_state=0), X, y, 120)
    for model, candidates in (
        (Ridge(), [{"alpha": 0.1}, {"alpha": 10.0}, {"fit_intercept": False}, {"alpha": [1.0, 2.0]}]),
        (LinearRegression(), [{}, {"fit_intercept": False}]),
    ):  # fmt: skip
        folds = make_folds(model.multifit_batch(X_lib, y_lib, w_lib), splits)
        stack = model.multifit(folds, candidates)
        for c, params in enumerate(candidates):
            for s, split in [*enumerate(splits), (None, Split(slice(0, 120), slice(0, 0)))]:
                rows = row_indices(split.train)
                one = clone(model).set_params(**params)
                one.fit(*(library.asarray(a[rows]) for a in (X, y)), library.asarray(w[rows]))
                for name, value in stack.pick(c, s).items():
                    np.testing.assert_allclose(
                        library.to_numpy(value) if not isinstance(value, str) else 0,
                        library.to_numpy(getattr(one, name)) if not isinstance(value, str) else 0,
                        rtol=1e-9,
                        atol=1e-9,
                    )


def test_plan_says_one_pass(rng):
    X, y = data(rng)
    search = GridSearchCV(Ridge(), GRID, cv=5).fit(X, y)
    assert str(search.plan_) == "50 fits in 1 pass on numpy:cpu (all candidates together)"
    by_fold = GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [1, 2]})
    assert by_fold.fit(X, y).plan_.n_passes == 5


def test_device_data_is_not_copied_to_the_host(rng):
    strict = pytest.importorskip("array_api_strict")
    X, y = data(rng, n=2000)
    device = strict.Device("device1")
    X_dev, y_dev = strict.asarray(X, device=device), strict.asarray(y, device=device)
    with count_transfers(max_to_host=16 * 1024) as moved:
        GridSearchCV(Ridge(), GRID, scoring=["r2", "neg_max_error"], refit="r2").fit(X_dev, y_dev)
    assert moved.to_host < X.nbytes / 8


@pytest.mark.gpu
def test_transfers_on_a_gpu(rng):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    X, y = (a.astype(np.float32) for a in data(rng, n=200_000, p=50))
    X_dev, y_dev = cupy.asarray(X), cupy.asarray(y)
    GridSearchCV(Ridge(), GRID).fit(X_dev, y_dev)
    small = 2**16 + 5 * 8 * 52**2  # moments of each fold, which come to CPU memory
    with count_transfers(max_to_host=small) as moved:
        GridSearchCV(Ridge(), GRID, scoring="r2").fit(X_dev, y_dev)
    assert moved.counts_everyone
    free, total = cupy.cuda.runtime.memGetInfo()
    if free < total // 8 + 2**30:  # which `fits` leaves alone
        pytest.skip("other programs have the GPU's memory: rows are read block by block, twice")
    with gpuml.config_context(device="cuda"), count_transfers() as moved:
        search = GridSearchCV(Ridge(), GRID, scoring=["r2", "neg_max_error"], refit="r2").fit(X, y)
    assert moved.to_device < 1.01 * (X.nbytes + y.nbytes) + 2**16
    assert moved.to_host < small
    assert "cupy" in search.plan_.place
    assert isinstance(search.best_estimator_.coef_, np.ndarray)


def polars_frame(X):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(X, schema=[f"c{i}" for i in range(8)])


def place_on_second_device(monkeypatch):
    """Host rows are worked on elsewhere and do not fit there, so that they stream in blocks."""
    strict = pytest.importorskip("array_api_strict")
    place = place_of(strict.zeros(1, device=strict.Device("device1")))
    monkeypatch.setattr(resident_batches, "compute_place", lambda *args: place)
    monkeypatch.setattr(resident_batches, "fits", lambda *args: False)


@pytest.mark.parametrize("p", [8, 200])
def test_rows_that_do_not_fit_on_the_device_stream_through(rng, monkeypatch, p):
    X, y = data(rng, p=p)
    w = rng.uniform(0.1, 2, 120)
    options = {"scoring": ["r2", "neg_median_absolute_error"], "refit": "r2", "cv": 3}
    theirs = sk.GridSearchCV(sk_linear.Ridge(), GRID, **options).fit(X, y, sample_weight=w)
    place_on_second_device(monkeypatch)
    with gpuml.config_context(block_bytes=4000):
        ours = GridSearchCV(Ridge(), GRID, **options).fit(X, y, sample_weight=w)
    compare(ours, theirs)
    assert "device1" in ours.plan_.place
    assert isinstance(ours.best_estimator_.coef_, np.ndarray)
    careful = Ridge(solver="svd").fit(X, y)
    np.testing.assert_allclose(careful.coef_, sk_linear.Ridge().fit(X, y).coef_, rtol=1e-6)


@pytest.mark.gpu
def test_host_rows_on_a_gpu(rng, monkeypatch):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    X, y = data(rng, n=5000, p=20)
    options = {"scoring": ["r2", "neg_median_absolute_error"], "refit": "r2", "cv": 3}
    small = GridSearchCV(Ridge(), GRID, **options).fit(X, y)
    assert small.plan_.place == "numpy:cpu"
    with gpuml.config_context(device="cuda"):
        compare(GridSearchCV(Ridge(), GRID, **options).fit(X, y), small)
        monkeypatch.setattr(resident_batches, "fits", lambda *args: False)
        with gpuml.config_context(block_bytes=10_000):
            streamed = GridSearchCV(Ridge(), GRID, **options).fit(X, y)
    compare(streamed, small)
    assert streamed.plan_.place == "cupy:cuda:0"


@pytest.mark.gpu
def test_containers_of_device_memory(rng):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    cudf = pytest.importorskip("cudf")
    X, y = data(rng)
    expected = GridSearchCV(Ridge(), GRID).fit(X, y)

    class Held:
        def __init__(self, x):
            self.x = cupy.asarray(x)
            self.__cuda_array_interface__ = self.x.__cuda_array_interface__
            self.shape = x.shape

    for held in (cudf.DataFrame(X), Held(X)):
        target = cudf.Series(y) if isinstance(held, cudf.DataFrame) else Held(y)
        search = GridSearchCV(Ridge(), GRID).fit(held, target)
        compare(search, expected)
        assert isinstance(search.best_estimator_.coef_, cupy.ndarray)


def test_searches_in_threads_leave_blas_as_it_was(rng):
    from concurrent.futures import ThreadPoolExecutor

    from gpuml._arrays.threads import blas_threads, one_blas_thread

    before = blas_threads()
    X, y = data(rng, n=2000, p=60)

    def search(seed):
        with one_blas_thread():
            return GridSearchCV(Ridge(), GRID).fit(X, y).best_score_

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(search, range(40)))) == 1
    assert blas_threads() == before


@pytest.mark.parametrize("container", [pd.DataFrame, polars_frame, np.ndarray.tolist])
def test_containers(rng, container):
    X, y = data(rng)
    held = container(X)
    ours = GridSearchCV(Ridge(), GRID).fit(held, pd.Series(y) if container is pd.DataFrame else y)
    theirs = sk.GridSearchCV(sk_linear.Ridge(), GRID).fit(X, y)
    compare(ours, theirs)
    assert isinstance(ours.best_estimator_.coef_, np.ndarray)


def test_feature_names_are_kept(rng):
    X, y = data(rng)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)])
    search = GridSearchCV(Ridge(), GRID).fit(frame, y)
    assert list(search.feature_names_in_) == list(frame.columns)
    assert search.n_features_in_ == 8
    with pytest.raises(ValueError, match="feature names"):
        search.predict(frame.rename(columns={"x0": "z"}))


def test_own_scorers(library, rng):
    X, y = data(rng)

    def spread(estimator, X, y):
        return -abs(float(estimator.score(X, y)) - 0.5)

    for scoring in (spread, {"a": spread, "r2": "r2"}, make_scorer(mean_absolute_error)):
        if library.name == "array_api_strict" and not callable(scoring):
            continue
        if library.name not in ("numpy", "numpy-readonly") and not isinstance(scoring, dict):
            scoring = spread
        refit = "a" if isinstance(scoring, dict) else True
        ours = GridSearchCV(Ridge(), GRID, scoring=scoring, refit=refit)
        ours.fit(library.asarray(X), library.asarray(y))
        theirs = sk.GridSearchCV(sk_linear.Ridge(), GRID, scoring=scoring, refit=refit).fit(X, y)
        compare(ours, theirs)


def test_callable_with_several_metrics(rng):
    X, y = data(rng)

    def both(estimator, X, y):
        return {"a": estimator.score(X, y), "b": -estimator.score(X, y)}

    ours = GridSearchCV(Ridge(), GRID, scoring=both, refit="b").fit(X, y)
    theirs = sk.GridSearchCV(sk_linear.Ridge(), GRID, scoring=both, refit="b").fit(X, y)
    compare(ours, theirs)


def test_scorers_that_fail_for_some_models(rng):
    X, y = data(rng, mean=1.0)
    y = np.abs(y)
    ours = GridSearchCV(Ridge(), {"alpha": [1e-3, 1e6]}, scoring="neg_mean_squared_log_error")
    theirs = sk.GridSearchCV(sk_linear.Ridge(), ours.param_grid, scoring=ours.scoring)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours.fit(X, y)
        theirs.fit(X, y)
    for key in ("split0_test_score", "mean_test_score", "rank_test_score"):
        np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key])


def test_one_bad_candidate_does_not_sink_the_others(rng):
    X, y = data(rng)
    with pytest.warns((FitFailedWarning, UserWarning), match="fits failed|non-finite"):
        search = GridSearchCV(Ridge(), {"alpha": [1.0, -1.0]}).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"][0])
    assert np.isnan(search.cv_results_["mean_test_score"][1])
    with pytest.raises(ValueError, match="alpha"):
        GridSearchCV(Ridge(), {"alpha": [1.0, -1.0]}, error_score="raise").fit(X, y)


BAD = {
    "nan": (lambda X, y: (np.where(X > 2, np.nan, X), y), {}, ValueError, "contains NaN"),
    "inf": (lambda X, y: (np.where(X > 2, np.inf, X), y), {}, ValueError, "X contains inf"),
    "empty": (lambda X, y: (X[:0], y[:0]), {}, ValueError, "sample"),
    "1-D X": (lambda X, y: (X[:, 0], y), {}, ValueError, "2D array"),
    "lengths": (lambda X, y: (X, y[:-3]), {}, ValueError, "inconsistent numbers of samples"),
    "no y": (lambda X, y: (X, None), {}, ValueError, "requires y"),
    "complex": (lambda X, y: (X + 1j, y), {}, ValueError, "Complex data not supported"),
    "negative alpha": (None, {"param_grid": {"alpha": [-1.0]}}, ValueError, "alpha"),
    "empty grid": (None, {"param_grid": {"alpha": []}}, ValueError, "alpha"),
    "bare value": (None, {"param_grid": {"alpha": 1.0}}, TypeError, "alpha"),
    "unknown parameter": (None, {"param_grid": {"beta": [1.0]}}, ValueError, "beta"),
    "unknown solver": (None, {"param_grid": {"solver": ["magic"]}}, ValueError, "solver"),
    "unknown scorer": (None, {"scoring": "magic"}, ValueError, "scoring"),
    "several scorers, no refit": (None, {"scoring": ["r2", "neg_max_error"]}, ValueError, "refit"),
    "cv=1": (None, {"cv": 1}, ValueError, "n_splits"),
    "cv": (None, {"cv": "five"}, ValueError, "cv"),
    "more folds than rows": (None, {"cv": 1000}, ValueError, "n_splits=1000"),
    "error_score": (None, {"error_score": "maybe"}, ValueError, "error_score"),
    "n_jobs": (None, {"n_jobs": "all"}, ValueError, "n_jobs"),
    "no jobs": (None, {"n_jobs": 0}, ValueError, "n_jobs == 0"),
}


@pytest.mark.each
@pytest.mark.filterwarnings("ignore:.*fits failed")
@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_argument_and_changes_nothing(library, rng, case):
    change, options, error, text = BAD[case]
    X, y = data(rng)
    search = GridSearchCV(Ridge(), GRID).fit(library.asarray(X), library.asarray(y))
    before = dict(vars(search))
    search.set_params(**options)
    if change is not None:
        X, y = change(X, y)
    with pytest.raises(error, match=text):
        search.fit(library.asarray(X), None if y is None else library.asarray(y))
    assert {n for n in vars(search) if n.endswith("_")} == {n for n in before if n.endswith("_")}
    assert search.best_estimator_ is before["best_estimator_"]


@pytest.mark.parametrize("weight", [np.ones(3), -np.ones(120), np.zeros(120), np.full(120, np.nan)])
@pytest.mark.filterwarnings("ignore")
def test_bad_weights(library, rng, weight):
    X, y = data(rng)
    with pytest.raises(ValueError, match="weight"):
        GridSearchCV(Ridge(), GRID, error_score="raise").fit(
            library.asarray(X), library.asarray(y), sample_weight=library.asarray(weight)
        )


def test_randomized_search_draws_sklearns_candidates(rng):
    from scipy.stats import loguniform

    X, y = data(rng)
    options = {"param_distributions": {"alpha": loguniform(1e-3, 1e3)}, "random_state": 0}
    compare(
        RandomizedSearchCV(Ridge(), **options).fit(X, y),
        sk.RandomizedSearchCV(sk_linear.Ridge(), **options).fit(X, y),
    )


def test_cross_validation(library, rng):
    X, y = data(rng)
    X_lib, y_lib = library.asarray(X), library.asarray(y)
    for ours, theirs in ((Ridge(), sk_linear.Ridge()), (LinearRegression(), sk_linear.LinearRegression())):  # fmt: skip
        found = cross_validate(ours, X_lib, y_lib, return_train_score=True, return_indices=True,
                               return_estimator=True, scoring=["r2", "neg_max_error"])  # fmt: skip
        expected = sk.cross_validate(theirs, X, y, return_train_score=True, return_indices=True,
                                     return_estimator=True, scoring=["r2", "neg_max_error"])  # fmt: skip
        assert found.keys() == expected.keys()
        for name in (k for k in expected if k.startswith(("test", "train"))):
            np.testing.assert_allclose(found[name], expected[name], atol=1e-9)
        for a, b in zip(found["estimator"], expected["estimator"], strict=True):
            np.testing.assert_allclose(library.to_numpy(a.coef_), b.coef_, atol=1e-9)
        for a, b in zip(found["indices"]["train"], expected["indices"]["train"], strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(
            cross_val_score(ours, X_lib, y_lib), sk.cross_val_score(theirs, X, y), atol=1e-9
        )


class InPlace(RegressorMixin, BaseEstimator):
    """Spoils its X if it may, as estimators with copy=False do."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y):
        if X.flags.writeable:
            X *= np.nan
        self.mean_ = float(np.mean(X)) + self.shift
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_candidates_fitted_one_by_one_cannot_spoil_shared_rows(rng):
    X, y = data(rng)
    original = X.copy()
    for cv in (5, sk.KFold(5, shuffle=True, random_state=0)):
        search = GridSearchCV(InPlace(), {"shift": [0.0, 1.0]}, cv=cv, refit=False).fit(X, y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        np.testing.assert_array_equal(X, original)


@pytest.mark.parametrize("kind", [sk_cluster.KMeans, sk_cluster.BisectingKMeans, cluster.KMeans])
@pytest.mark.parametrize("cv", [3, sk.KFold(3, shuffle=True, random_state=0)])
def test_models_that_work_in_place_get_rows_of_their_own(rng, kind, cv):
    # scikit-learn's k-means with copy_x=False fails on rows that are read-only.
    X, _ = data(rng)
    original, grid = X.copy(), {"n_clusters": [2, 3], "algorithm": ["elkan"]}
    model = kind(copy_x=False, n_init=1, random_state=0)
    found = GridSearchCV(model, grid, cv=cv, refit=False, error_score="raise").fit(X)
    theirs = getattr(sk_cluster, kind.__name__)(n_init=1, random_state=0)
    wanted = sk.GridSearchCV(theirs, grid, cv=cv, refit=False).fit(X)
    for name in ("split0_test_score", "mean_test_score"):
        np.testing.assert_allclose(found.cv_results_[name], wanted.cv_results_[name], rtol=1e-9)
    np.testing.assert_array_equal(X, original)


@pytest.mark.exhaustive
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_other_estimators_give_what_sklearn_gives(rng, n_jobs):
    X, y = data(rng)
    labels = (y > 0).astype(int)
    options = {"cv": 3, "return_train_score": True, "n_jobs": n_jobs}
    for estimator, grid, target in (
        (SVC(), {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 1.0]}, labels),
        (make_pipeline(StandardScaler(), sk_linear.Ridge()), {"ridge__alpha": [0.1, 1.0]}, y),
    ):
        compare(
            GridSearchCV(estimator, grid, **options).fit(X, target),
            sk.GridSearchCV(estimator, grid, **options).fit(X, target),
        )


def test_precomputed_kernels_are_cut_on_both_sides(rng):
    X, y = data(rng)
    labels = y > 0
    ours = GridSearchCV(SVC(kernel="precomputed"), {"C": [0.1, 1.0]}).fit(X @ X.T, labels)
    theirs = sk.GridSearchCV(SVC(kernel="precomputed"), {"C": [0.1, 1.0]}).fit(X @ X.T, labels)
    compare(ours, theirs)


def test_constant_target(library, rng):
    X, _ = data(rng)
    for value in (0.0, 0.1):
        y = np.full(120, value)
        search = GridSearchCV(Ridge(), GRID, scoring=["r2", "neg_mean_squared_error"], refit="r2")
        search.fit(library.asarray(X), library.asarray(y))
        assert set(search.cv_results_["mean_test_r2"]) <= {0.0, 1.0}
        assert np.abs(search.cv_results_["mean_test_neg_mean_squared_error"]).max() < 1e-30


@pytest.mark.exhaustive
def test_inside_sklearns_own_tools(rng):
    X, y = load_diabetes(return_X_y=True)
    ours = sk.GridSearchCV(Ridge(), GRID, scoring=get_scorer("r2")).fit(X, y)
    compare(ours, sk.GridSearchCV(sk_linear.Ridge(), GRID).fit(X, y))
    np.testing.assert_allclose(
        sk.cross_val_score(GridSearchCV(Ridge(), GRID, cv=3), X, y),
        sk.cross_val_score(sk.GridSearchCV(sk_linear.Ridge(), GRID, cv=3), X, y),
    )
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), Ridge()).fit(X, y)
    expected = make_pipeline(StandardScaler(), sk_linear.Ridge()).fit(X, y)
    np.testing.assert_allclose(pipeline.predict(X), expected.predict(X))
    search = pickle.loads(pickle.dumps(GridSearchCV(Ridge(), GRID).fit(X, y)))
    np.testing.assert_allclose(search.predict(X), ours.predict(X))
    assert "best_estimator_" in search._repr_html_()


@pytest.mark.filterwarnings("ignore:The estimator Ridge does not support callbacks")
def test_callbacks_of_sklearn_follow_single_fits(rng):
    from sklearn.callback import ProgressBar

    X, y = data(rng)
    followed = GridSearchCV(Ridge(), GRID)
    followed.set_callbacks(ProgressBar())
    compare(followed.fit(X, y), GridSearchCV(Ridge(), GRID).fit(X, y))
    assert "one by one" in str(followed.plan_)


def test_callbacks_of_an_estimator_are_told_where_in_the_search_a_fit_is():
    from sklearn.callback import ScoringMonitor

    X, y = load_iris(return_X_y=True)
    told = []
    for search in (GridSearchCV, sk.GridSearchCV):
        monitor = ScoringMonitor(scoring="accuracy")
        model = sk_linear.LogisticRegression(max_iter=200).set_callbacks(monitor)
        search(model, {"C": [1.0, 0.1]}, cv=2).fit(X, y)
        log = monitor.get_logs().data_as_pandas
        told.append(sorted(zip(log["parent_task_id_path"], log["task_id"], strict=True), key=str))
    assert told[0] == told[1]
    assert any(path == (0, 0) for path, _ in told[0])


class Registered(sk_linear.Ridge):
    """Has a parameter that is a list, in which all that are fitted register."""

    def __init__(self, registry=None):
        super().__init__()
        self.registry = registry

    def fit(self, X, y):
        self.registry.append(self)
        return super().fit(X, y)


class Shared(list):
    """Stays one list where estimators are cloned."""

    def __deepcopy__(self, memo):
        return self


def test_estimators_that_hold_a_list_of_themselves(rng):
    X, y = data(rng)
    registry = Shared()
    model = Registered(registry)
    registry.append(model)
    search = GridSearchCV(model, {"registry": [registry]}, cv=2).fit(X, y)
    assert search.n_features_in_ == X.shape[1]
    assert len(registry) == 4


def test_verbose_prints_what_users_know(rng, capsys):
    X, y = data(rng)
    GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=3, verbose=3).fit(X, y)
    printed = capsys.readouterr().out
    assert "Fitting 3 folds for each of 2 candidates, totalling 6 fits" in printed
    assert (
        len(re.findall(r"\[CV [123]/3\] END \.+alpha=[12]\.0;, score=\S+ total time=", printed))
        == 6
    )
    assert "6 fits in 1 pass" in printed


def test_metadata_is_routed(rng):
    import sklearn

    X, y = data(rng)
    w = rng.uniform(0.1, 3, 120)
    with sklearn.config_context(enable_metadata_routing=True):
        for fit, score in ((True, True), (True, False), (False, True)):

            def search(linear, module, scorer, fit=fit, score=score):
                estimator = linear.set_fit_request(sample_weight=fit)
                scoring = scorer.set_score_request(sample_weight=score)
                return module(estimator, GRID, scoring=scoring).fit(X, y, sample_weight=w)

            ours = search(Ridge(), GridSearchCV, get_scorer("r2"))
            import sklearn.metrics

            compare(
                ours, search(sk_linear.Ridge(), sk.GridSearchCV, sklearn.metrics.get_scorer("r2"))
            )


def test_refit_by_function_and_not_at_all(rng):
    X, y = data(rng)
    last = GridSearchCV(Ridge(), GRID, refit=lambda results: 9).fit(X, y)
    assert last.best_params_ == {"alpha": 1e3}
    assert not hasattr(last, "best_score_")
    none = GridSearchCV(Ridge(), GRID, refit=False).fit(X, y)
    assert not hasattr(none, "best_estimator_")
    with pytest.raises(AttributeError, match="predict"):
        none.predict(X)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
def test_a_hundred_searches_leave_no_memory_behind(rng):
    X, y = data(rng, n=20_000, p=30)
    sizes = []
    for _ in range(100):
        GridSearchCV(Ridge(), GRID, scoring=["r2", "neg_max_error"], refit="r2").fit(X, y)
        sizes.append(resident_bytes())
    assert sizes[-1] < 1.01 * max(sizes[:2])


@pytest.mark.gpu
def test_a_hundred_searches_leave_no_device_memory_behind(rng):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    pool = cupy.get_default_memory_pool()
    X, y = data(rng, n=50_000, p=30)
    used = []
    with gpuml.config_context(device="cuda"):
        for _ in range(100):
            GridSearchCV(Ridge(), GRID, scoring=["r2", "neg_max_error"], refit="r2").fit(X, y)
            used.append((pool.used_bytes(), pool.total_bytes()))
    assert used[-1][0] <= 1.01 * used[0][0] + 1024
    assert used[-1][1] <= 1.01 * used[0][1] + 1024


class OutOfMemoryError(Exception):
    """Named as the exceptions of CuPy and torch are."""


def test_smaller_blocks_when_memory_runs_out(rng, monkeypatch):
    from gpuml.solvers import moments

    X, y = data(rng, n=5000)
    X = X + 10.0  # whose blocks are copied, because their means are far from 0
    expected = GridSearchCV(Ridge(), GRID).fit(X, y)
    real, seen = moments.design, []

    def design(X, *args):
        seen.append(len(X))
        if len(X) > limit:
            raise OutOfMemoryError
        return real(X, *args)

    monkeypatch.setattr(moments, "design", design)
    limit = 700
    with gpuml.config_context(block_bytes=5000 * 80):
        compare(GridSearchCV(Ridge(), GRID).fit(X, y), expected)
    assert max(seen) > limit >= seen[-1]
    limit = 10
    with pytest.raises(MemoryError, match=r"set a smaller gpuml.set_config\(block_bytes"):
        Ridge().fit(X, y)
