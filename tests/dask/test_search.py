"""Searches on a cluster: the scores of a search on one device, exactly."""

import importlib
import inspect
import pickle
import re
import sys
import time
import warnings
from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pytest
from dask import delayed
from distributed import Client
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gpuml
from gpuml._persistence.checkpoint import Checkpoint
from gpuml.decomposition import PCA
from gpuml.impute import SimpleImputer
from gpuml.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge, RidgeClassifier
from gpuml.model_selection import GridSearchCV as OneDevice
from gpuml.model_selection import RandomizedSearchCV as OneDeviceRandomized
from gpuml.model_selection.fold_fits import families
from gpuml.preprocessing import MinMaxScaler, StandardScaler
from gpuml_dask import model_selection
from gpuml_dask.model_selection import GridSearchCV, RandomizedSearchCV
from gpuml_dask.rows.placement import place
from gpuml_dask.searching.rounds import cut_families
from tests.dask.idle import wait_until_idle

N_ROWS = 240


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6))
    y = X @ rng.normal(size=6) + rng.normal(size=N_ROWS)
    return X, y, np.digitize(y, [-1.5, 1.5])


def regression(X, y, labels):
    return X, y


def classification(X, y, labels):
    return X, labels


ALPHAS = [0.01, 1.0, 100.0]
CASES = {
    "ridge": (Ridge(), {"alpha": ALPHAS}, regression),
    "several groups": (Ridge(), {"alpha": ALPHAS, "solver": ["cholesky", "svd"]}, regression),
    "lasso": (Lasso(), {"alpha": [0.001, 0.1]}, regression),
    "elastic net": (ElasticNet(), {"alpha": [0.01, 0.1], "l1_ratio": [0.2, 0.8]}, regression),
    "logistic": (LogisticRegression(), {"C": ALPHAS}, classification),
    "ridge classifier": (RidgeClassifier(), {"alpha": ALPHAS}, classification),
    "affine pipeline": (
        make_pipeline(StandardScaler(), PCA(), LogisticRegression()),
        {"pca__n_components": [2, 4], "logisticregression__C": ALPHAS},
        classification,
    ),
    # Behind steps that are not affine, candidates of each fold are fitted together, so that units
    # must not part them.
    "common prefix": (
        make_pipeline(SplineTransformer(), StandardScaler(), LogisticRegression()),
        {"splinetransformer__degree": [1, 2], "logisticregression__C": [0.01, 0.1, 1.0, 10.0]},
        classification,
    ),
    "a step as candidate": (
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"standardscaler": [StandardScaler(), "passthrough"], "logisticregression__C": ALPHAS},
        classification,
    ),
    "tree": (DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 5]}, classification),
    "forest": (
        RandomForestClassifier(random_state=0),
        {"n_estimators": [2, 5], "max_depth": [2, 4]},
        classification,
    ),
    "neighbours": (KNeighborsClassifier(), {"n_neighbors": [1, 3, 9]}, classification),
    "matrix of pairs": (SVC(kernel="precomputed"), {"C": [0.1, 1.0]}, lambda X, y, c: (X @ X.T, c)),
    "some fail": (Ridge(), {"alpha": [-1.0, 1.0]}, regression),
}


def scores(search):
    results = search.cv_results_
    return {name: results[name] for name in results if "_score" in name or "param" in name}


def assert_same_search(found, expected):
    assert scores(found).keys() == scores(expected).keys()
    for name, values in scores(expected).items():
        if name == "params":
            assert str(found.cv_results_[name]) == str(values)
        elif (
            values.dtype.kind == "f"
            and "_score" in name
            and "rank" not in name
            and "time" not in name
        ):
            assert np.array_equal(found.cv_results_[name], values, equal_nan=True), name
    assert found.best_index_ == expected.best_index_


@pytest.mark.some
@pytest.mark.bits
@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_of_one_device(client, rows, name):
    estimator, grid, kind = CASES[name]
    X, y = kind(*rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.simplefilter("ignore", UserWarning)
        expected = OneDevice(estimator, grid, cv=3, return_train_score=True).fit(X, y)
        found = GridSearchCV(estimator, grid, cv=3, return_train_score=True, client=client)
        found.fit(X, y)
    assert_same_search(found, expected)
    assert np.array_equal(found.predict(X), expected.predict(X))
    assert found.plan_.n_fits == expected.plan_.n_fits


def of_rows(kind):
    """Models of gpuml, or of gpuml_dask, and what candidates of them vary."""
    models, scalers = modules(kind, "linear_model", "preprocessing")
    (parts,), (bayes,) = modules(kind, "decomposition"), modules(kind, "naive_bayes")
    (clusters,) = modules(kind, "cluster" if kind == "gpuml" else "clustering")
    return {
        "ridge": (models.Ridge(), {"alpha": ALPHAS}),
        "poisson": (models.PoissonRegressor(), {"alpha": ALPHAS}),
        "logistic": (models.LogisticRegression(), {"C": ALPHAS}),
        "bayes": (bayes.GaussianNB(), {"var_smoothing": [1e-9, 0.1]}),
        "clusters": (clusters.KMeans(random_state=0), {"n_clusters": [2, 3]}),
        "components": (parts.PCA(), {"n_components": [1, 2]}),
        "steps": (
            make_pipeline(scalers.RobustScaler(), parts.PCA(2), models.Lasso()),
            {"pca__n_components": [1, 2], "lasso__alpha": [0.01, 0.1]},
        ),
    }


def modules(package, *names):
    return [importlib.import_module(f"{package}.{name}") for name in names]


@pytest.mark.parametrize("name", of_rows("gpuml"))
def test_classes_of_gpuml_dask_are_searched_as_those_of_gpuml(client, rows, name):
    X, y, labels = rows
    y = {"logistic": labels, "bayes": labels, "poisson": np.abs(y)}.get(name, y)
    for search, plan in [(OneDevice, None), (GridSearchCV, None), (GridSearchCV, "rows")]:
        ours, theirs = (of_rows(kind)[name] for kind in ("gpuml_dask", "gpuml"))
        with dask.config.set({"gpuml.plan": plan}):
            found, expected = (search(*each, cv=2).fit(X, y) for each in (ours, theirs))
        assert "all candidates together" in str(expected.plan_)
        assert str(found.plan_) == str(expected.plan_)
        np.testing.assert_allclose(
            found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-9
        )
        assert type(found.best_estimator_) is type(ours[0])


def test_randomized_search_draws_the_same_candidates(client, rows):
    X, y, _ = rows
    space = {"alpha": loguniform(1e-3, 1e3)}
    expected = OneDeviceRandomized(Ridge(), space, random_state=3).fit(X, y)
    found = RandomizedSearchCV(Ridge(), space, random_state=3, client=client).fit(X, y)
    assert_same_search(found, expected)


def test_several_metrics_weights_and_a_user_s_refit(client, rows):
    X, y, _ = rows
    weight = np.linspace(0.5, 2, len(y))
    options = {"scoring": ["r2", "neg_mean_squared_error"], "refit": "r2"}
    expected = OneDevice(Ridge(), {"alpha": ALPHAS}, **options).fit(X, y, sample_weight=weight)
    found = GridSearchCV(Ridge(), {"alpha": ALPHAS}, **options, client=client)
    assert_same_search(found.fit(X, y, sample_weight=weight), expected)
    assert np.array_equal(found.best_estimator_.coef_, expected.best_estimator_.coef_)


def test_the_current_client_is_used_and_without_one_this_process(client, rows):
    X, y, _ = rows
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}).fit(X, y)
    assert all(address in client.nthreads() for address in search.cv_results_["worker"])
    here = GridSearchCV(Ridge(), {"alpha": ALPHAS}, scheduler="threads").fit(X, y)
    assert "worker" not in here.cv_results_
    assert_same_search(search, here)


def test_an_address_is_a_client(client, rows):
    X, y, _ = rows
    address = client.scheduler.address
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, scheduler=address).fit(X, y)
    assert len(search.cv_results_["worker"]) == len(ALPHAS)


@pytest.mark.parametrize("wrong", ["nowhere", 3])
def test_what_is_no_client_is_refused(rows, wrong):
    with pytest.raises((TypeError, ValueError), match="must be a Client|client must be"):
        GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=wrong).fit(*rows[:2])


def test_results_name_worker_and_device(client, rows):
    X, _, labels = rows
    tree = DecisionTreeClassifier(random_state=0)
    results = GridSearchCV(tree, {"max_depth": [1, 2, 3]}, client=client).fit(X, labels).cv_results_
    for words in results["worker"]:
        assert set(words.split(", ")) <= set(client.nthreads())
    assert list(results["device"]) == ["cpu"] * 3


# ---------------------------------------------------------------- rows of Dask


def remote_forms(client, X, y):
    chunks = [100, 80, 60]
    bounds = np.cumsum([0, *chunks])
    return {
        "dask arrays": (
            da.from_array(X, (tuple(chunks), X.shape[1])),
            da.from_array(y, (tuple(chunks),)),
        ),
        "futures": tuple(client.scatter([a[i:j] for i, j in pairwise(bounds)]) for a in (X, y)),
        "delayed": (delayed(X), delayed(y)),
    }


@pytest.mark.each
@pytest.mark.parametrize("form", ["dask arrays", "futures", "delayed"])
@pytest.mark.parametrize("cv", [3, KFold(3, shuffle=True, random_state=0)], ids=["folds", "KFold"])
def test_rows_on_workers(client, rows, form, cv):
    X, _, labels = rows
    there = remote_forms(client, X, labels)[form]
    tree = DecisionTreeClassifier(random_state=0)
    grid = {"max_depth": [1, 2, 3]}
    expected = OneDevice(tree, grid, cv=cv).fit(X, labels)
    found = GridSearchCV(tree, grid, cv=cv, client=client).fit(*there)
    assert_same_search(found, expected)


def test_a_placed_table_serves_several_searches(client, rows):
    X, y, _ = rows
    expected = OneDevice(Ridge(), {"alpha": ALPHAS}).fit(X, y)
    with place(X, y, client=client) as table:
        for _ in range(2):
            found = GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client).fit(table.X, table.y)
            assert_same_search(found, expected)


def test_predictions_of_rows_of_dask_are_lazy(client, rows):
    X, _, labels = rows
    search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2]})
    search.fit(X, labels)
    lazy = search.predict(da.from_array(X, (100, X.shape[1])))
    assert lazy.chunks == ((100, 100, 40),)
    assert np.array_equal(lazy.compute(), search.predict(X))
    assert np.array_equal(search.predict_proba(da.from_array(X)).compute(), search.predict_proba(X))
    assert not hasattr(search, "transform")


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
def test_rows_of_dask_are_scored_on_workers(client, rows, scoring):
    X, y, _ = rows
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, scoring=scoring, client=client).fit(X, y)
    found = search.score(da.from_array(X, (100, 6)), da.from_array(y, 100))
    assert found == pytest.approx(search.score(X, y), rel=1e-12)


def test_weights_and_groups_on_workers(client, rows):
    X, y, _ = rows
    weight = np.linspace(0.5, 2, len(y))
    expected = OneDevice(Ridge(), {"alpha": ALPHAS}).fit(X, y, sample_weight=weight)
    found = GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client)
    found.fit(da.from_array(X), da.from_array(y), sample_weight=da.from_array(weight))
    assert_same_search(found, expected)


# ---------------------------------------------------------------- what users see


class Warns(RegressorMixin, BaseEstimator):
    def __init__(self, a=1):
        self.a = a

    def fit(self, X, y):
        warnings.warn("not there yet", ConvergenceWarning, stacklevel=1)
        self.mean_ = y.mean() * self.a
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_a_warning_of_many_fits_is_told_once(client, rows):
    X, y, _ = rows
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        GridSearchCV(Warns(), {"a": [1, 2, 3, 4]}, client=client).fit(X, y)
    assert [str(w.message) for w in heard] == ["not there yet"]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("ignore")
        GridSearchCV(Warns(), {"a": [1, 2]}, client=client).fit(X, y)
    assert heard == []


class Raises(Warns):
    def fit(self, X, y):
        if self.a == 2:
            raise ValueError("a is 2")
        self.mean_ = 0.0
        return self


def test_a_fit_that_raises_gets_error_score(client, rows):
    X, y, _ = rows
    with pytest.warns(FitFailedWarning, match="a is 2"):
        search = GridSearchCV(Raises(), {"a": [1, 2]}, client=client, error_score=-7.0).fit(X, y)
    assert search.cv_results_["mean_test_score"][1] == -7.0
    strict = GridSearchCV(Raises(), {"a": [1, 2]}, client=client, error_score="raise")
    with pytest.raises(ValueError, match="a is 2"):
        strict.fit(X, y)
    assert not hasattr(strict, "cv_results_")
    assert strict._session is None


class OwnError(Exception):
    """An exception that does not take what it is made of, so that nobody can send it."""

    def __init__(self, one, other):
        super().__init__(f"{one} of {other}")


class RaisesTogether(Ridge):
    def multifit(self, folds, candidates, advance=None):
        if any(each.get("alpha", self.alpha) == 7 for each in candidates):
            raise self.error()
        return super().multifit(folds, candidates, advance)

    def error(self):
        return OwnError(1, 2)


class RaisesAsAClusterDoes(RaisesTogether):
    """What a lost connection, a closed client or a program's own mistake raises too."""

    def __init__(self, alpha=1.0, *, kind=RuntimeError, fit_intercept=True):
        super().__init__(alpha, fit_intercept=fit_intercept)
        self.kind = kind

    def error(self):
        return self.kind("1 of 2")


@pytest.mark.some
@pytest.mark.parametrize("plan", ["whole", "rows"])
@pytest.mark.parametrize(
    ("estimator", "grid", "words"),
    [
        (RaisesTogether(), {"alpha": [1.0, 7]}, "1 of 2"),
        *(
            (RaisesAsAClusterDoes(kind=kind), {"alpha": [1.0, 7]}, "1 of 2")
            for kind in (RuntimeError, OSError, AttributeError, TimeoutError)
        ),
        (Ridge(), {"alpha": [1.0, 10**400]}, "OverflowError: int too large"),
        (
            make_pipeline(SplineTransformer(degree=2), Ridge()),
            {"ridge__alpha": [1.0, 10**400]},
            "int",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Rows are divided, but all of them:UserWarning")
def test_any_error_becomes_the_error_score(client, rows, plan, estimator, grid, words):
    X, y, _ = rows
    with dask.config.set({"gpuml.plan": plan, "gpuml.piece-bytes": "4 kB"}):
        search = GridSearchCV(estimator, grid, cv=3, client=client, error_score=-7.0)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Fitting all candidates together", RuntimeWarning)
            with pytest.warns(FitFailedWarning, match=f"3 fits failed out of a total of 6|{words}"):
                search.fit(X, y)
        strict = GridSearchCV(estimator, grid, cv=3, client=client, error_score="raise")
        with pytest.raises(Exception, match=words.removeprefix("OverflowError: ")) as raised:
            strict.fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] > 0.5
    assert scores[1] == -7.0
    kind = getattr(estimator, "kind", OwnError).__name__
    assert type(raised.value).__name__ in (kind, "OverflowError")


@pytest.mark.some
@pytest.mark.parametrize("plan", ["whole", "rows"])
@pytest.mark.parametrize(
    ("estimator", "grid", "target"),
    [
        (Ridge(), {"alpha": ALPHAS}, regression),
        (LogisticRegression(class_weight="balanced"), {"C": ALPHAS}, classification),
    ],
)
def test_a_split_that_cannot_be_fitted_fails_by_itself(client, rows, plan, estimator, grid, target):
    """The worker, or who has the sums, finds it; no other number changes."""
    X, y = target(*rows)
    weight = np.where(np.arange(N_ROWS) < 200, 1.0 + np.arange(N_ROWS) % 3, 0.0)
    cv = list(KFold(4).split(X[:200]))
    unfit = [*cv[:2], (np.arange(200, N_ROWS), cv[2][1]), cv[3]]
    given = {"client": client, "error_score": -7.0, "return_train_score": True}
    with dask.config.set({"gpuml.plan": plan, "gpuml.piece-bytes": "4 kB"}):
        good = GridSearchCV(estimator, grid, cv=cv, **given).fit(X, y, sample_weight=weight)
        search = GridSearchCV(estimator, grid, cv=unfit, **given)
        with pytest.warns(FitFailedWarning, match="3 fits failed out of a total of 12"):
            search.fit(X, y, sample_weight=weight)
        strict = GridSearchCV(estimator, grid, cv=unfit, client=client, error_score="raise")
        with pytest.raises(ValueError, match="at least one non-zero number"):
            strict.fit(X, y, sample_weight=weight)
    assert ("not fitted" if plan == "rows" else "one by one") + ", on split 2" in str(search.plan_)
    assert ("rows divided" in str(search.plan_)) == (plan == "rows")
    for split in range(4):
        for part in ("test", "train"):
            name = f"split{split}_{part}_score"
            found = search.cv_results_[name]
            if split == 2:
                assert (found == -7.0).all()
            else:
                np.testing.assert_array_equal(found, good.cv_results_[name])


def test_settings_reach_the_workers(client, rows):
    class Asks(Warns):
        def fit(self, X, y):
            self.mean_ = float(gpuml.get_config()["block_bytes"])
            return self

    X, y, _ = rows
    with gpuml.config_context(block_bytes=12345):
        search = GridSearchCV(Asks(), {"a": [1]}, client=client).fit(X, y)
    assert search.best_estimator_.mean_ == 12345


def test_verbose_prints_fits_and_plan(client, rows, capsys):
    X, y, _ = rows
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client, verbose=2).fit(X, y)
    printed = capsys.readouterr().out
    assert "Fitting 5 folds for each of 3 candidates, totalling 15 fits" in printed
    assert "of rows, all of them on each worker that works (rows of less than 64 MiB)" in printed
    assert printed.count("[CV] END") == 15
    assert printed.endswith(f"{search.plan_}\n")
    assert "15 fits in 1 pass on 1 worker (numpy:cpu)" in printed


def test_the_plan_of_fits_one_by_one(client, rows):
    X, _, labels = rows
    tree = DecisionTreeClassifier(random_state=0)
    search = GridSearchCV(tree, {"min_samples_leaf": [1, 2, 3]}, client=client)
    plan = search.fit(X, labels).plan_
    assert (plan.n_fits, plan.n_passes) == (15, 15)
    assert "worker" in plan.place
    assert "one by one" in str(plan)


def test_one_query_of_neighbours_answers_candidates_of_a_fold(client, rows):
    X, _, labels = rows
    grid = {"n_neighbors": [1, 2, 3], "weights": ["uniform", "distance"]}
    plan = GridSearchCV(KNeighborsClassifier(), grid, client=client).fit(X, labels).plan_
    assert (plan.n_fits, plan.n_passes) == (30, 5)
    assert "one neighbour search per fold" in str(plan)


def test_the_plan_says_which_candidates_were_fitted_together_on_a_fold(client, rows):
    X, y, _ = rows
    pipeline = make_pipeline(SplineTransformer(), Ridge())
    grid = [{"ridge__alpha": ALPHAS}, {"ridge__alpha": ALPHAS, "ridge__solver": ["sag"]}]
    plan = GridSearchCV(pipeline, grid, client=client).fit(X, y).plan_
    alone, together = sorted(plan.steps, key=lambda step: -step.n_passes)
    assert (together.n_fits, together.n_passes) == (15, 5)
    assert (alone.n_fits, alone.n_passes) == (15, 15)
    for step, way in ((alone, "one by one"), (together, "candidates together on each fold")):
        assert step.why.startswith(f"{way}, folds gathered by each unit, shared steps")
        assert "worker" in step.place


REASONS = [
    (Ridge(), {"alpha": ALPHAS, "solver": ["auto", "sag"]}, "leave solver at the default"),
    (
        KNeighborsClassifier(),
        {"n_neighbors": [1, 2]},
        "searches for neighbours in each training set",
    ),
    (
        make_pipeline(SplineTransformer(), Ridge()),
        {"ridge__alpha": ALPHAS},
        "SplineTransformer() is not one of gpuml's linear steps",
    ),
    (Ridge(), {"alpha": ALPHAS}, None),
]


@pytest.mark.some
@pytest.mark.parametrize(("estimator", "grid", "words"), REASONS)
@pytest.mark.parametrize("plan", ["whole", "rows"])
@pytest.mark.filterwarnings("ignore:Rows are divided, but all of them:UserWarning")
def test_why_candidates_are_not_fitted_at_once_is_told(client, rows, plan, estimator, grid, words):
    """As on one device, before and after, by the function that decides there."""
    X, y, labels = rows
    target = labels if isinstance(estimator, KNeighborsClassifier) else y
    search = GridSearchCV(estimator, grid, cv=3, client=client)
    with dask.config.set({"gpuml.plan": plan, "gpuml.piece-bytes": "4 kB"}):
        foretold = search.explain(X, target)
        assert not hasattr(search, "plan_")
        found = search.fit(X, target).plan_
    for said in (foretold, found):
        assert (str(said).count("atched") > 0) == (words is not None)
        assert words is None or words in str(said)
    assert foretold.n_fits == found.n_fits
    divided = plan == "rows" and isinstance(estimator, Ridge)
    assert ("rows divided" in str(foretold)) == ("rows divided" in str(found)) == divided
    assert "worker" in str(foretold)


class ReadsRows(Ridge):
    multifit_divided = False


@pytest.mark.parametrize(
    ("estimator", "scoring", "words"),
    [
        (KNeighborsClassifier(), None, "candidates are fitted one by one"),
        (ReadsRows(), None, "ReadsRows does not set multifit_divided"),
        (Ridge(), lambda estimator, X, y: 1.0, "needs all predictions in one place"),
        (
            make_pipeline(SimpleImputer(), MinMaxScaler(), Ridge()),
            None,
            "MinMaxScaler is fitted to rows in memory; use StandardScaler",
        ),
    ],
)
def test_why_rows_are_not_divided_is_told(client, rows, capsys, estimator, scoring, words):
    X, y, labels = rows
    neighbours = isinstance(estimator, KNeighborsClassifier)
    grid = {"n_neighbors": [1]} if neighbours else {"alpha": [1.0]}
    grid = {"ridge__alpha": [1.0]} if hasattr(estimator, "steps") else grid
    search = GridSearchCV(estimator, grid, cv=2, client=client, scoring=scoring, verbose=2)
    with dask.config.set({"gpuml.plan": "rows"}):
        search.fit(X, labels if neighbours else y)
    assert words in capsys.readouterr().out
    assert "rows divided" not in str(search.plan_)


def test_dask_collections_are_explained_where_they_are(client, rows):
    X, y, _ = rows
    lazy = da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client)
    assert search.explain(*lazy).n_fits == search.explain(X, y).n_fits == 5 * len(ALPHAS)
    assert search.explain(*lazy).steps[0].reasons == ()
    limited = clone(search).set_params(fit_timeout=5)
    assert "all candidates together, 5 s for each fit at most" in str(limited.explain(X, y))
    with dask.config.set({"gpuml.plan": "rows"}):
        assert "rows divided, with no limit of time" in str(limited.explain(X, y))


def test_an_error_of_several_that_none_of_them_repeats_is_told(client, rows):
    class FailsTogether(Ridge):
        def multifit(self, folds, candidates, advance=None):
            if len(candidates) > 1:
                raise ValueError("not together")
            return super().multifit(folds, candidates, advance)

    X, y, _ = rows
    search = GridSearchCV(FailsTogether(), {"alpha": ALPHAS}, client=client)
    with pytest.warns(RuntimeWarning, match="ValueError: not together. None of them raises it"):
        search.fit(X, y)
    assert "Not batched: ValueError: not together; " in str(search.plan_)


def test_iid_has_a_message(client, rows):
    with pytest.warns(FutureWarning, match="iid= has no effect"):
        GridSearchCV(Ridge(), {"alpha": ALPHAS}, iid=True, client=client).fit(*rows[:2])


def test_a_search_with_a_client_can_be_cloned_and_pickled(client, rows):
    X, y, _ = rows
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client)
    assert clone(search).client is client
    search.fit(X, y)
    loaded = pickle.loads(pickle.dumps(search))
    assert loaded.client == client.scheduler.address
    assert np.array_equal(loaded.predict(X), search.predict(X))


def drawn_as_text(monkeypatch, graphviz):
    """Let graphviz write what it would draw; formats that were asked for."""
    formats = []

    def pipe(drawing, format=None, **options):
        formats.append(format)
        return drawing.source.encode()

    monkeypatch.setattr(graphviz.Digraph, "pipe", pipe)
    return formats


def test_the_drawing_names_what_was_done(client, rows, monkeypatch, tmp_path):
    formats = drawn_as_text(monkeypatch, pytest.importorskip("graphviz"))
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client).fit(*rows[:2])
    search.visualize(str(tmp_path / "drawing"))
    search.visualize(str(tmp_path / "drawing"), format="dot", rankdir="LR")
    assert formats == ["png", "dot"]
    for suffix in formats:
        drawing = (tmp_path / f"drawing.{suffix}").read_text()
        labels = set(re.findall(r'\[label="?([^"=]*?)"? shape=circle', drawing))
        assert labels == {*search.dask_graph_}


def test_without_a_file_the_drawing_is_shown_where_it_can_be(client, rows, monkeypatch):
    formats = drawn_as_text(monkeypatch, pytest.importorskip("graphviz"))
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client).fit(*rows[:2])
    assert search.visualize(filename=None, format="dot") is None  # nobody shows these
    assert formats == ["dot"]
    image = pytest.importorskip("IPython.display").Image
    assert isinstance(search.visualize(filename=None, format="png"), image)


def test_a_drawing_without_the_program_says_what_to_install(client, rows, monkeypatch):
    graphviz = pytest.importorskip("graphviz")
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client).fit(*rows[:2])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ImportError, match="your system's graphviz") as raised:
        search.visualize(filename=None)
    assert isinstance(raised.value.__cause__, graphviz.ExecutableNotFound)


def test_a_drawing_without_graphviz_says_what_to_install(client, rows, monkeypatch):
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client).fit(*rows[:2])
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match="pip install graphviz"):
        search.visualize(filename=None)


def test_what_was_done_is_a_graph(client, rows):
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client).fit(*rows[:2])
    assert any(name.startswith("fit ridge x3") for name in search.dask_graph_)


def test_small_searches_have_little_overhead(client, rows):
    X, y, _ = rows

    def seconds(search):
        started = time.perf_counter()
        search.fit(X, y)
        return time.perf_counter() - started

    alone, spread = [], []
    # Other work on the machine comes and goes: the two take turns, and the best of each counts.
    for turn in range(50):
        alone.append(seconds(OneDevice(Ridge(), {"alpha": ALPHAS})))
        spread.append(seconds(GridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client)))
        if turn >= 4 and min(spread) < min(alone) + 0.15:
            break
    assert min(spread) < min(alone) + 0.15


@pytest.mark.usefixtures("copies_stay")
def test_rows_come_to_each_worker_once(client):
    X = np.random.default_rng(0).normal(size=(100_000, 10))
    y = (X[:, 0] > 0).astype(int)

    def bytes_received(dask_worker):
        return sum(log["total"] for log in dask_worker.transfer_incoming_log)

    before = client.run(bytes_received)
    tree = DecisionTreeClassifier(max_depth=1)
    grid = {"max_features": [1, 2, 3, 4, 5, 6]}
    search = GridSearchCV(tree, grid, cv=4, client=client).fit(X, y)
    after = client.run(bytes_received)
    assert len({w for words in search.cv_results_["worker"] for w in words.split(", ")}) > 1
    for worker, received in after.items():
        assert received - before[worker] < 1.1 * (X.nbytes + y.nbytes)


def test_threads_of_a_worker_share_its_rows(rows):
    X, _, labels = rows
    tree = DecisionTreeClassifier(random_state=0)
    grid = {"max_depth": [1, 2, 3, 4]}
    expected = OneDevice(tree, grid).fit(X, labels)
    logistic = OneDevice(LogisticRegression(), {"C": ALPHAS, "tol": [1e-4, 1e-5]}).fit(X, labels)
    with Client(processes=False, n_workers=1, threads_per_worker=4, dashboard_address=":0") as own:
        assert_same_search(GridSearchCV(tree, grid, client=own).fit(X, labels), expected)
        found = GridSearchCV(LogisticRegression(), {"C": ALPHAS, "tol": [1e-4, 1e-5]}, client=own)
        assert_same_search(found.fit(X, labels), logistic)


# ---------------------------------------------------------------- units of work


@pytest.mark.parametrize("n_threads", [1, 3, 40])
@pytest.mark.parametrize("sharing", [True, False])
def test_units_hold_every_candidate_once(n_threads, sharing):
    params = [{"min_samples_leaf": leaf} for leaf in range(1, 12)]
    units = cut_families(families(DecisionTreeRegressor(), params), 5, n_threads, sharing=sharing)
    sizes = [sum(map(len, unit)) for unit in units]
    assert sorted(i for unit in units for family in unit for i in family) == list(range(11))
    assert len(units) == (min(11, -(-2 * n_threads // 5)) if sharing else 11)
    assert max(sizes) - min(sizes) <= 1


def test_candidates_fitted_together_on_a_fold_are_not_parted():
    pipeline = make_pipeline(SplineTransformer(), StandardScaler(), LogisticRegression())
    params = [
        {"splinetransformer__degree": d, "logisticregression__C": c} for c in ALPHAS for d in (1, 2)
    ]
    assert sorted(map(sorted, families(pipeline, params))) == [[0, 2, 4], [1, 3, 5]]
    trees = [{"n_estimators": n, "min_samples_leaf": leaf} for n in (5, 9) for leaf in (1, 2)]
    forest = RandomForestClassifier(random_state=0)
    assert sorted(map(sorted, families(forest, trees))) == [[0, 2], [1, 3]]


# ---------------------------------------------------------------- checkpoints


class Counts(Warns):
    """Notes every fit in a file."""

    def __init__(self, a=1, log=None):
        self.a, self.log = a, log

    def fit(self, X, y):
        with open(self.log, "a") as file:
            file.write(f"{self.a} ")
        self.mean_ = y.mean() * self.a
        return self


class Interrupt(Exception):
    pass


@pytest.mark.parametrize("kind", ["one by one", "at once"])
def test_a_search_that_was_cut_off_does_only_the_rest(client, rows, tmp_path, monkeypatch, kind):
    X, y, _ = rows
    log = tmp_path / "fits"
    estimator, grid = {
        "one by one": (Counts(log=str(log)), {"a": [1, 2, 3, 4]}),
        "at once": (Ridge(), {"alpha": ALPHAS, "solver": ["cholesky", "svd"]}),
    }[kind]
    expected = OneDevice(estimator, grid, cv=3, refit=kind == "at once").fit(X, y)
    log.write_text("")
    options = {"cv": 3, "refit": kind == "at once", "client": client}
    search = GridSearchCV(estimator, grid, checkpoint=str(tmp_path / "kept"), **options)
    put, n_put = Checkpoint.put, 0

    def put_twice(self, *args):
        nonlocal n_put
        n_put += 1
        if n_put > (2 if kind == "one by one" else 1):
            raise Interrupt
        put(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "put", put_twice)
        with pytest.raises(Interrupt):
            search.fit(X, y)
    wait_until_idle(client)  # fits that had begun go on to their end
    log.write_text("")
    resumed = clone(search).fit(X, y)
    assert_same_search(resumed, expected)
    n_known = 2 if kind == "one by one" else 3 * len(ALPHAS)
    assert f"{n_known} fits in 0 passes" in str(resumed.plan_)
    if kind == "one by one":
        assert len(log.read_text().split()) == 12 - n_known
    again = clone(search).fit(X, y)
    assert_same_search(again, expected)
    assert again.plan_.n_passes == 0
    with pytest.raises(ValueError, match="another data set"):
        clone(search).fit(X + 1, y)
    with pytest.raises(ValueError, match="other candidates"):
        clone(search).set_params(param_grid={"alpha" if kind == "at once" else "a": [7]}).fit(X, y)


@pytest.mark.parametrize("first", ["cluster", "machine"])
def test_what_a_cluster_began_one_machine_resumes_and_back(client, rows, tmp_path, first):
    X, y, _ = rows
    grid = {"alpha": ALPHAS, "solver": ["cholesky", "svd"]}
    search = GridSearchCV(Ridge(), grid, cv=3, refit=False, checkpoint=tmp_path)
    places = {"cluster": {"client": client}, "machine": {"scheduler": "threads"}}
    begun = clone(search).set_params(**places.pop(first)).fit(X, y)
    for unit in list((tmp_path / "round-1").glob("*.unit.json"))[:1]:
        unit.unlink()  # the other half is missing
    ((_, other),) = places.items()
    resumed = clone(search).set_params(**other).fit(X, y)
    assert f"{3 * len(ALPHAS)} fits in 0 passes" in str(resumed.plan_)
    assert_same_search(resumed, begun)


class Timed(RegressorMixin, BaseEstimator):
    """Takes some time, and notes in a file when it began with which rows."""

    def __init__(self, seconds=0.0, path=None):
        self.seconds, self.path = seconds, path

    def fit(self, X, y):
        with open(self.path, "a") as file:
            file.write(f"{X[:, 0].min():.0f} {X[:, 0].max():.0f} {self.seconds}\n")
        time.sleep(self.seconds)
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.exhaustive
def test_the_longest_of_the_last_fits_begin_first(client, tmp_path):
    X = np.arange(40.0)[:, None]
    seconds = [0.01, 0.15, 0.02, 0.05, 0.1, 0.03, 0.2, 0.005, 0.08, 0.04, 0.12, 0.06]

    def mean_place(path):
        """Of the longer half of the fits, among those of the last split."""
        grid = {"seconds": seconds, "path": [str(path)]}
        # So many splits that all candidates have been timed when the last one is begun.
        GridSearchCV(Timed(), grid, cv=KFold(8), refit=False, client=client).fit(X, X[:, 0])
        begun = [line.split() for line in path.read_text().splitlines()]
        assert len(begun) == 8 * len(seconds)
        # The last split trains on all but the last rows.
        last = [float(s) for first, end, s in begun if (first, end) == ("0", "34")]
        assert sorted(last) == sorted(seconds)
        return np.mean([last.index(s) for s in sorted(seconds)[6:]])

    # Workers have queues of their own, so that the order is not exact, least of all on a busy
    # machine: 2.5 if it were, 6.7 for that of the grid.
    assert any(mean_place(tmp_path / f"order {attempt}") < 4.5 for attempt in range(3))


def test_predictions_are_kept_without_a_cluster_only(client):
    X, y = load_diabetes(return_X_y=True)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, return_predictions=True)
    with pytest.raises(ValueError, match="return_predictions is for a search without a cluster"):
        search.set_params(client=client).fit(X, y)
    found = search.set_params(client=None, scheduler="sync").fit(X, y)
    assert found.cv_predictions_.shape == (2, 442)


@pytest.mark.parametrize("name", [n for n in model_selection.__all__ if n != "train_test_split"])
def test_parameters_are_those_of_one_device_and_of_a_cluster(name):
    ours, theirs = (
        inspect.signature(getattr(module, name)).parameters
        for module in (model_selection, gpuml.model_selection)
    )
    assert [(p, ours[p].default) for p in ours if p in theirs] == [
        (p, theirs[p].default) for p in theirs
    ]
    asked = ["workers", "priority", "resources", "fit_timeout"]
    assert list(ours)[-9:] == ["checkpoint", "client", *asked, "scheduler", "cache_cv", "iid"]
    for parameter in set(ours) & set(theirs):
        assert ours[parameter].kind == theirs[parameter].kind
