"""Searches that resume from a checkpoint: they do only the missing work, and find the same."""

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpuml
from gpuml._persistence.checkpoint import Checkpoint
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    HyperbandSearchCV,
    RandomizedSearchCV,
)

ALPHAS = [0.1, 1.0, 10.0]


class Noted(RegressorMixin, BaseEstimator):
    """The mean of y times `a`; notes every fit in a file."""

    def __init__(self, a=1.0, log=None):
        self.a, self.log = a, log

    def fit(self, X, y):
        with open(self.log, "a") as file:
            file.write(f"{self.a}\n")
        self.mean_ = self.a * y.mean()
        return self

    def predict(self, X):
        return self.mean_ + X[:, 0]


class Cut(Exception):
    pass


@pytest.fixture
def data():
    return load_diabetes(return_X_y=True)


def searches(log):
    """A search of each kind, and how many pieces of work it has."""
    draws = {"alpha": loguniform(1e-3, 1e3), "solver": ["cholesky", "svd"]}
    pipeline = make_pipeline(StandardScaler(), Ridge())
    grid = {"ridge__alpha": ALPHAS, "standardscaler__with_mean": [True, False]}
    nested = GridSearchCV(Ridge(), {"alpha": ALPHAS}, cv=2)
    boosters = {"learning_rate": [0.1, 0.2, 0.3], "max_depth": [1, 2]}
    return {
        "groups": GridSearchCV(Ridge(), {"alpha": ALPHAS, "solver": ["cholesky", "svd"]}, cv=3),
        "one by one": GridSearchCV(Noted(log=log), {"a": [0.5, 1.0, 1.5]}, cv=3),
        "threads": GridSearchCV(Noted(log=log), {"a": [0.5, 1.0, 1.5]}, cv=3, n_jobs=2),
        "steps": GridSearchCV(pipeline, grid, cv=3),
        "draws": RandomizedSearchCV(Ridge(), draws, n_iter=6, cv=3, random_state=0),
        "nested": GridSearchCV(nested, {"cv": [2, 3], "estimator__tol": [1e-4]}, cv=3),
        "halving": HalvingGridSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 9)}, random_state=0),
        "halving draws": HalvingRandomSearchCV(
            Ridge(), draws, n_candidates=9, min_resources="exhaust", random_state=0
        ),
        "boosters": HalvingGridSearchCV(
            GradientBoostingRegressor(random_state=0),
            boosters,
            resource="n_estimators",
            max_resources=9,
            cv=2,
        ),
        "hyperband": HyperbandSearchCV(Ridge(), draws, max_iter=9, random_state=0),
    }


def scores_of(search):
    return {n: v for n, v in search.cv_results_.items() if "score" in n and "time" not in n}


def assert_same(found, expected):
    assert found.best_params_ == expected.best_params_
    for name, values in scores_of(expected).items():
        assert np.array_equal(scores_of(found)[name], values), name


@pytest.mark.parametrize("kind", searches("x"))
def test_a_search_that_was_cut_off_does_only_the_rest(kind, data, tmp_path, monkeypatch):
    log = tmp_path / "log"
    search = searches(str(log))[kind]
    with parallel_config("threading"):
        expected = clone(search).fit(*data)
    search.set_params(checkpoint=tmp_path / "kept")
    put, n_put = Checkpoint.put, 0

    def put_some(self, *args):
        nonlocal n_put
        n_put += 1
        if n_put > 1:
            raise Cut
        put(self, *args)

    with monkeypatch.context() as patch, parallel_config("threading"):
        patch.setattr(Checkpoint, "put", put_some)
        with pytest.raises(Cut):
            clone(search).fit(*data)
    log.write_text("")
    with parallel_config("threading"):
        resumed = clone(search).fit(*data)
    assert_same(resumed, expected)
    assert "finished before" in str(resumed.plan_)
    if kind == "one by one":  # of 9 fits one is stored; and a refit
        assert len(log.read_text().split()) == 9 - 1 + 1
    again = clone(search).fit(*data)
    assert_same(again, expected)
    assert np.array_equal(again.predict(data[0]), expected.predict(data[0]))


def test_a_finished_search_reads_no_rows_but_to_refit(data, tmp_path):
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, cv=3, refit=False, checkpoint=tmp_path)
    assert clone(search).fit(*data).plan_.n_passes == 1
    assert (
        str(clone(search).fit(*data).plan_) == f"9 fits in 0 passes on {tmp_path} (finished before)"
    )


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_failed_fits_are_stored_too(data, tmp_path):
    X, y = data
    grid = {"alpha": [1.0, -1.0]}
    search = GridSearchCV(Ridge(), grid, cv=3, checkpoint=tmp_path)
    for _ in range(2):
        with pytest.warns(FitFailedWarning, match="3 fits failed"):
            found = clone(search).fit(X, y)
        assert np.isnan(found.cv_results_["mean_test_score"]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"param_grid": {"alpha": [7.0]}}, "other candidates"),
        ({"estimator": LogisticRegression(), "param_grid": {"C": [1.0]}}, "another estimator"),
        ({"cv": 4}, "other splits"),
        ({"scoring": "neg_mean_squared_error"}, "another scoring"),
    ],
)
def test_a_folder_belongs_to_one_search(data, tmp_path, changes, words):
    X, y = data
    y = (y > 100).astype(int)
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, cv=3, checkpoint=tmp_path).fit(X, y)
    with pytest.raises(ValueError, match=words):
        clone(search).set_params(**changes).fit(X, y)
    with pytest.raises(ValueError, match="another data set"):
        clone(search).fit(X + 1, y)


def test_what_is_not_stored_is_refused(data, tmp_path):
    X, y = data
    search = GridSearchCV(Ridge(), {"alpha": ALPHAS}, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="return_predictions= cannot be used with checkpoint="):
        clone(search).set_params(return_predictions=True).fit(X, y)
    with pytest.raises(ValueError, match="these are read from files"):
        search.fit(gpuml.read_array(X), y)
    draws = {"alpha": loguniform(1e-3, 1e3)}
    band = HyperbandSearchCV(SGDRegressor(), draws, max_iter=3, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="states of models are not stored"):
        band.fit(X, y)
    with pytest.raises(ValueError, match="is not a folder"):
        clone(search).set_params(checkpoint="").fit(X, y)
    assert not list(tmp_path.iterdir())
