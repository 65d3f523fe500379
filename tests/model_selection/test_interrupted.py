"""Ctrl-C in the middle of a search: what is finished is kept, and a warning says what is missing."""

import threading
import time
import warnings
from typing import ClassVar

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV, HalvingGridSearchCV
from gpuml.model_selection.evaluate import Evaluator

FACTORS = [0.5, 1.0, 1.5, 2.0]
N_SPLITS = 3
# Fits of two threads have numbers of their own.
COUNTING = threading.Lock()


class Stopped(RegressorMixin, BaseEstimator):
    """The mean of y times a factor; the fit of a number stops the program."""

    fits: ClassVar[dict] = {}

    def __init__(self, factor=1.0, stop=None):
        self.factor, self.stop = factor, stop

    def fit(self, X, y):
        with COUNTING:
            number = self.fits["n"] = self.fits.get("n", 0) + 1
        if self.stop is not None and number == self.stop + 1:
            raise KeyboardInterrupt
        self.mean_ = self.factor * y.mean()
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.fixture(autouse=True)
def counted():
    """Fits have numbers of this test: threads that a search left behind have ended before."""
    before = threading.active_count()
    Stopped.fits.clear()
    yield
    ends = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < ends:
        time.sleep(0.01)


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(60, 3))
    return X, X @ rng.normal(size=3) + 1 + rng.normal(size=60)


def search_of(stop, **settings):
    Stopped.fits.clear()
    return GridSearchCV(Stopped(stop=stop), {"factor": FACTORS}, cv=N_SPLITS, **settings)


def scores_of(search, metric="score"):
    results = search.cv_results_
    return np.array([results[f"split{s}_test_{metric}"] for s in range(N_SPLITS)])


def stopped(search, rows, message="interrupted"):
    with pytest.warns(RuntimeWarning, match=message), pytest.raises(KeyboardInterrupt):
        search.fit(*rows)
    return search


@pytest.mark.parametrize("backend", [None, "threading"])
@pytest.mark.parametrize("stop", [1, 3, 4, 9, 11])
def test_finished_fits_are_kept(rows, stop, backend):
    """Those of a split come first: the scores are those of the whole search, or nan."""
    whole = search_of(None).fit(*rows)
    with parallel_config(backend or "loky", n_jobs=1 if backend is None else 2):
        search = stopped(search_of(stop), rows, rf"after \d+ of {len(FACTORS) * N_SPLITS} fits")
    found = scores_of(search)
    known = np.isfinite(found)
    factors = [each["factor"] for each in search.cv_results_["params"]]
    expected = scores_of(whole)[:, [FACTORS.index(factor) for factor in factors]]
    np.testing.assert_array_equal(found[known], expected[known])
    assert known.any(axis=0).all()
    # A thread may end a fit while another stops the program.
    assert known.sum() == stop or (backend and known.sum() >= 1)
    complete = known.all(axis=0)
    np.testing.assert_array_equal(np.isfinite(search.cv_results_["mean_test_score"]), complete)
    np.testing.assert_array_equal(np.isfinite(search.cv_results_["mean_fit_time"]), complete)
    assert search.n_splits_ == len(search.split_sizes_) == N_SPLITS
    assert len(search.results_) == len(factors)
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(NotFittedError):
        search.predict(rows[0])


def test_candidates_without_a_fit_are_named(rows):
    text = r"after 1 of 12 fits.*the 1 candidates.*1 of them lack.*'factor': 1.0}, .* no best_est"
    search = stopped(search_of(1), rows, text)
    assert search.cv_results_["params"] == [{"factor": 0.5}]
    Stopped.fits.clear()
    grid = {"factor": np.linspace(1, 2, 9).tolist()}
    search = GridSearchCV(Stopped(stop=1), grid, cv=N_SPLITS)
    stopped(search, rows, "and 5 more")


def test_groups_that_were_fitted_at_once_are_kept(rows, monkeypatch):
    grid = {"alpha": [0.1, 1.0], "solver": ["cholesky", "svd"]}
    whole = GridSearchCV(Ridge(), grid, cv=N_SPLITS).fit(*rows)
    fit_group, calls = Evaluator.fit_group, []

    def second_stops(self, *args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return fit_group(self, *args)

    monkeypatch.setattr(Evaluator, "fit_group", second_stops)
    search = stopped(GridSearchCV(Ridge(), grid, cv=N_SPLITS), rows, "after 6 of 12 fits")
    kept = [whole.cv_results_["params"].index(each) for each in search.cv_results_["params"]]
    assert len(kept) == 2
    np.testing.assert_array_equal(scores_of(search), scores_of(whole)[:, kept])


def test_a_stop_before_the_last_model_keeps_all_scores(rows):
    whole = search_of(None).fit(*rows)
    Stopped.fits.clear()
    search = stopped(search_of(len(FACTORS) * N_SPLITS), rows, "after 12 of 12 fits")
    np.testing.assert_array_equal(scores_of(search), scores_of(whole))
    np.testing.assert_array_equal(
        search.cv_results_["rank_test_score"], whole.cv_results_["rank_test_score"]
    )


@pytest.mark.parametrize(
    "scoring",
    [
        {"r2": "r2", "error": "neg_mean_squared_error"},
        lambda model, X, y: {
            "r2": model.score(X, y),
            "error": -np.mean((model.predict(X) - y) ** 2),
        },
    ],
    ids=["names", "callable"],
)
def test_several_metrics(rows, scoring):
    settings = {"scoring": scoring, "refit": "r2", "return_train_score": True}
    whole = search_of(None, **settings).fit(*rows)
    Stopped.fits.clear()
    search = stopped(search_of(10, **settings), rows)
    assert search.multimetric_
    for metric in ("r2", "error"):
        found = scores_of(search, metric)
        known = np.isfinite(found)
        assert known.sum() == 10
        np.testing.assert_array_equal(found[known], scores_of(whole, metric)[known])
    assert np.isfinite(search.cv_results_["split0_train_error"]).all()


def test_rounds_before_are_kept(rows):
    def halving(stop):
        return HalvingGridSearchCV(
            Stopped(stop=stop), {"factor": FACTORS}, cv=KFold(N_SPLITS), factor=2, random_state=0
        )

    whole = halving(None).fit(*rows)
    n_first = whole.n_candidates_[0]
    Stopped.fits.clear()
    search = stopped(halving(n_first * N_SPLITS + 1), rows)
    assert search.cv_results_["iter"].tolist() == [0] * n_first + [1]
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"][:n_first],
        whole.cv_results_["mean_test_score"][:n_first],
    )


def test_a_fit_of_before_is_not_mixed_with_what_is_left(rows):
    search = search_of(None).fit(*rows)
    Stopped.fits.clear()
    stopped(search.set_params(estimator__stop=5), rows)
    for name in ("best_estimator_", "best_index_", "best_params_", "best_score_", "plan_"):
        assert not hasattr(search, name)
    Stopped.fits.clear()
    search.set_params(estimator__stop=None).fit(*rows)
    assert search.best_params_["factor"] in FACTORS


def test_a_stop_before_the_first_result_changes_nothing(rows):
    search = search_of(None).fit(*rows)
    before = dict(vars(search))
    Stopped.fits.clear()
    warnings.simplefilter("error")
    with pytest.raises(KeyboardInterrupt):
        search.set_params(estimator__stop=0).fit(*rows)
    assert vars(search) == before


def test_the_stop_gets_through_where_warnings_are_errors(rows):
    search = search_of(5)
    warnings.simplefilter("error")
    with pytest.raises(KeyboardInterrupt):
        search.fit(*rows)
    assert len(search.cv_results_["params"]) == len(FACTORS)
