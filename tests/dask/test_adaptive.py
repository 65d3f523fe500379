"""Adaptive searches on a cluster: tables of one device, whatever dies; rows that stay on workers."""

import os
import pickle
import signal
import threading
import time
from contextlib import suppress

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import sklearn.experimental.enable_halving_search_cv  # noqa: F401
from distributed import Client, LocalCluster
from scipy import sparse
from scipy.stats import loguniform, uniform
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import Ridge as TheirRidge
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.model_selection import HalvingGridSearchCV as Theirs
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeClassifier

from gpuml import model_selection as one_device
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml_dask.errors import ClusterError
from gpuml_dask.searching import evaluator
from gpuml_dask.searching.adaptive import (
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    HyperbandSearchCV,
)
from tests.dask.often import seeds

ALPHAS = np.logspace(-3, 3, 9)
DRAWS = {"alpha": loguniform(1e-6, 1e1), "average": [True, False]}
CHUNK = 100


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = X @ rng.normal(size=6) + rng.normal(size=400)
    return X, y, (y > 0).astype(np.int64)


def assert_same_table(found, expected, rtol=0.0):
    for name, column in expected.cv_results_.items():
        if "time" in name:
            continue
        if name == "params" or not name.endswith("score"):
            assert list(found.cv_results_[name]) == list(column), name
        else:
            np.testing.assert_allclose(found.cv_results_[name], column, rtol=rtol, err_msg=name)
    assert found.best_index_ == expected.best_index_
    assert found.best_params_ == expected.best_params_


# ---------------------------------------------------------------- successive halving

HALVINGS = {
    "at once": (Ridge(), {"alpha": ALPHAS}, {}),
    "classes": (LogisticRegression(), {"C": ALPHAS[:6]}, {"cv": 3}),
    "one by one": (DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3, 4]}, {"factor": 2}),
    "a parameter": (
        LogisticRegression(tol=1e-9),
        {"C": ALPHAS[:4]},
        {"resource": "max_iter", "max_resources": 90, "min_resources": 30},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HALVINGS)
def test_halving_gives_the_table_of_one_device(client, rows, name):
    estimator, grid, settings = HALVINGS[name]
    X, y = rows[0], rows[1] if name == "at once" else rows[2]
    settings = {"random_state": 0, **settings}
    expected = one_device.HalvingGridSearchCV(estimator, grid, **settings).fit(X, y)
    found = HalvingGridSearchCV(estimator, grid, client=client, **settings).fit(X, y)
    assert_same_table(found, expected, rtol=1e-10)
    assert found.n_resources_ == expected.n_resources_
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-10)
    assert all(found.cv_results_["worker"])


def test_boosters_say_why_rounds_are_fitted_anew(client, rows):
    X, y, _ = rows
    settings = {"resource": "max_iter", "max_resources": 4, "min_resources": 2, "factor": 2}
    search = HalvingGridSearchCV(
        HistGradientBoostingRegressor(random_state=0),
        {"learning_rate": [0.1, 0.3]},
        cv=2,
        client=client,
        **settings,
    ).fit(X, y)
    assert search.n_resources_ == [2, 4]
    assert any("workers keep no ensembles between rounds" in told for told in search.plan_.reasons)


def test_random_candidates_of_halving_are_those_of_one_device(client, rows):
    X, y, _ = rows
    settings = {"n_candidates": 9, "min_resources": "exhaust", "random_state": 3}
    draws = {"alpha": loguniform(1e-3, 1e3)}
    expected = one_device.HalvingRandomSearchCV(Ridge(), draws, **settings).fit(X, y)
    found = HalvingRandomSearchCV(Ridge(), draws, client=client, **settings).fit(X, y)
    assert_same_table(found, expected, rtol=1e-10)


@pytest.mark.parametrize("cv", [4, KFold(4)])
def test_halving_takes_rows_of_dask(client, rows, cv):
    X, _y, labels = rows
    there = da.from_array(X, chunks=(CHUNK, -1)), da.from_array(labels, chunks=CHUNK)
    search = HalvingGridSearchCV(
        LogisticRegression(), {"C": ALPHAS[:6]}, cv=cv, random_state=0, client=client
    )
    expected = one_device.HalvingGridSearchCV(
        LogisticRegression(), {"C": ALPHAS[:6]}, cv=cv, random_state=0
    ).fit(X, labels)
    assert_same_table(search.fit(*there), expected, rtol=1e-10)


def test_rows_are_sent_and_read_once_for_all_rounds(client, rows, monkeypatch):
    X, y, _ = rows
    sent = []
    theirs = evaluator.send_rows
    monkeypatch.setattr(evaluator, "send_rows", lambda *a: sent.append(a) or theirs(*a))
    search = HalvingGridSearchCV(CountsLooks(), {"alpha": ALPHAS}, random_state=0, client=client)
    search.fit(X, y)
    assert search.n_iterations_ == 3
    assert len(sent) == 1
    looks = client.run(lambda: vars(os).pop("looks_of_a_test", 0))
    assert sum(looks.values()) <= len(set(search.cv_results_["worker"]))


class CountsLooks(Ridge):
    """Ridge that counts, in its process, how often rows are checked and brought to a device."""

    def multifit_batch(self, X, y, sample_weight=None):
        os.looks_of_a_test = getattr(os, "looks_of_a_test", 0) + 1
        return super().multifit_batch(X, y, sample_weight)


def test_halving_refuses_what_scikit_learn_refuses(client, rows):
    X, y, _ = rows
    settings = {"cv": KFold(3, shuffle=True)}
    with pytest.raises(ValueError, match="consistent folds") as theirs:
        Theirs(TheirRidge(), {"alpha": ALPHAS}, **settings).fit(X, y)
    with pytest.raises(ValueError, match="consistent folds") as ours:
        HalvingGridSearchCV(Ridge(), {"alpha": ALPHAS}, client=client, **settings).fit(X, y)
    assert str(ours.value) == str(theirs.value)


def test_a_search_that_was_cut_off_goes_on(client, rows, tmp_path):
    X, y, _ = rows
    settings = {"random_state": 0, "client": client, "checkpoint": str(tmp_path)}
    first = HalvingGridSearchCV(Ridge(), {"alpha": ALPHAS}, **settings).fit(X, y)
    assert first.plan_.n_fits == 5 * (9 + 3 + 1)
    again = HalvingGridSearchCV(Ridge(), {"alpha": ALPHAS}, **settings).fit(X, y)
    assert again.plan_.n_passes == 0
    assert_same_table(again, first)
    band = HyperbandSearchCV(SGDRegressor(), DRAWS, **settings)
    with pytest.raises(ValueError, match="states of models are not stored"):
        band.fit(X, y)


# ---------------------------------------------------------------- Hyperband

KINDS = {
    "array": lambda X, y: (X, y),
    "dask array": lambda X, y: (da.from_array(X, chunks=(CHUNK, -1)), da.from_array(y, chunks=CHUNK)),
    "labels here": lambda X, y: (da.from_array(X, chunks=(CHUNK, -1)), y),
    "frame": lambda X, y: (
        dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")), npartitions=4, sort=False),
        dd.from_pandas(pd.Series(y), npartitions=4, sort=False),
    ),
    "sparse": lambda X, y: (da.from_array(X, chunks=(CHUNK, -1)).map_blocks(sparse.csr_array), y),
    "sparse here": lambda X, y: (sparse.csr_array(X), y),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_models_learn_as_on_one_device(client, rows, kind):
    X, _, labels = rows
    settings = {"max_iter": 9, "random_state": 0}
    expected = one_device.HyperbandSearchCV(SGDClassifier(), DRAWS, chunk_size=CHUNK, **settings)
    expected.fit(sparse.csr_array(X) if "sparse" in kind else X, labels)
    chunk_size = CHUNK if kind in ("array", "sparse here") else None
    search = HyperbandSearchCV(
        SGDClassifier(), DRAWS, chunk_size=chunk_size, client=client, **settings
    ).fit(*KINDS[kind](X, labels))
    assert_same_table(search, expected)
    np.testing.assert_array_equal(search.best_estimator_.coef_, expected.best_estimator_.coef_)
    assert search.metadata_ == search.metadata == expected.metadata
    assert set(search.model_history_) == set(expected.model_history_)
    if kind == "frame":
        assert list(search.feature_names_in_) == list("abcdef")
        X = pd.DataFrame(X, columns=list("abcdef"))
    np.testing.assert_array_equal(search.predict(X), expected.predict(rows[0]))


def test_a_task_for_each_call_gives_the_same(client, rows, monkeypatch):
    X, y, _ = rows
    monkeypatch.setattr("gpuml_dask.searching.chains.TOGETHER_BYTES", 0)
    settings = {"max_iter": 9, "random_state": 0, "chunk_size": CHUNK, "patience": True}
    expected = one_device.HyperbandSearchCV(SGDRegressor(), DRAWS, **settings).fit(X, y)
    found = HyperbandSearchCV(SGDRegressor(), DRAWS, client=client, **settings).fit(X, y)
    assert_same_table(found, expected)
    assert found.metadata_ == expected.metadata_
    assert found.plan_.n_passes == found.metadata_["partial_fit_calls"]


def test_weights_and_scores_go_with_their_rows(client, rows):
    X, y, _ = rows
    weight = np.random.default_rng(1).uniform(0.1, 2, len(y))
    settings = {"max_iter": 3, "random_state": 0, "chunk_size": CHUNK}
    expected = one_device.HyperbandSearchCV(SGDRegressor(), DRAWS, **settings)
    expected.fit(X, y, sample_weight=weight)
    found = HyperbandSearchCV(SGDRegressor(), DRAWS, client=client, **settings)
    assert_same_table(found.fit(X, y, sample_weight=weight), expected)
    there = {"sample_weight": da.from_array(weight, chunks=CHUNK)}
    assert_same_table(clone(found).fit(da.from_array(X, chunks=(CHUNK, -1)), y, **there), expected)


@pytest.mark.parametrize("resource", ["n_samples", "max_iter"])
def test_other_resources_give_the_table_of_one_device(client, rows, resource):
    X, _, labels = rows
    settings = {"max_iter": 9, "random_state": 0, "resource": resource}
    draws = {"C": loguniform(1e-3, 1e3)}
    estimator = LogisticRegression(tol=10.0)  # few iterations converge
    expected = one_device.HyperbandSearchCV(estimator, draws, **settings).fit(X, labels)
    found = HyperbandSearchCV(estimator, draws, client=client, **settings).fit(X, labels)
    assert_same_table(found, expected, rtol=1e-10)
    coef = expected.best_estimator_.coef_
    np.testing.assert_allclose(found.best_estimator_.coef_, coef, rtol=1e-9)


def test_rows_of_dask_are_a_resource(client, rows):
    X, y, _ = rows
    search = HyperbandSearchCV(
        Ridge(), {"alpha": loguniform(1e-3, 1e3)}, max_iter=9, random_state=0, client=client
    )
    expected = one_device.HyperbandSearchCV(
        Ridge(), {"alpha": loguniform(1e-3, 1e3)}, max_iter=9, random_state=0, chunk_size=CHUNK
    ).fit(X, y)
    search.fit(da.from_array(X, chunks=(CHUNK, -1)), da.from_array(y, chunks=CHUNK))
    assert_same_table(search, expected, rtol=1e-10)


def test_without_a_cluster_the_search_is_local(rows):
    X, y, _ = rows
    settings = {"max_iter": 3, "random_state": 0}
    search = HyperbandSearchCV(SGDRegressor(), DRAWS, scheduler="sync", **settings).fit(X, y)
    assert_same_table(
        search, one_device.HyperbandSearchCV(SGDRegressor(), DRAWS, **settings).fit(X, y)
    )


def test_a_search_is_cloned_and_pickled(client, rows):
    X, _, labels = rows
    search = HyperbandSearchCV(SGDClassifier(), DRAWS, max_iter=3, random_state=0, client=client)
    search = clone(search).fit(X, labels)
    back = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(back.predict(X), search.predict(X))


# ---------------------------------------------------------------- failure


class Slow(RegressorMixin, BaseEstimator):
    """Adds up what it sees, slowly; above some qualities it raises, or its second call is fatal."""

    def __init__(self, quality=0.0, seconds=0.02, raises=2.0, fatal=2.0):
        self.quality = quality
        self.seconds = seconds
        self.raises = raises
        self.fatal = fatal

    def partial_fit(self, X, y):
        time.sleep(self.seconds)
        self.n_calls_ = getattr(self, "n_calls_", 0) + 1
        if self.quality > self.fatal and self.n_calls_ == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.quality > self.raises:
            raise ValueError("too good to be true")
        self.sum_ = 0.9 * getattr(self, "sum_", 0.0) + y.sum()
        return self

    fit = partial_fit

    def score(self, X, y):
        return self.quality + 1e-3 * np.sin(self.sum_)


def test_a_model_that_raises_gets_the_error_score(client, rows):
    X, y, _ = rows
    settings = {"max_iter": 3, "random_state": 0, "chunk_size": CHUNK}
    estimator, draws = Slow(seconds=0.0, raises=0.9), {"quality": [0.1, 0.95, 0.99, 0.2, 0.3]}
    search = HyperbandSearchCV(estimator, draws, client=client, **settings)
    with pytest.warns(FitFailedWarning, match="too good to be true"):
        search.fit(X, y)
    failed = np.isnan(search.cv_results_["test_score"])
    assert list(failed) == list(search.cv_results_["param_quality"] > 0.9)
    with pytest.raises(ValueError, match="too good to be true"):
        search.set_params(error_score="raise").fit(X, y)


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    """A cluster whose workers are killed and come back."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with LocalCluster(
        n_workers=3,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        local_directory=str(tmp_path_factory.mktemp("fragile")),
        env=threads,
    ) as cluster:
        yield cluster


def kill_workers(address, times, seed, over):
    """SIGKILL to a random worker at each time."""
    rng, started = np.random.default_rng(seed), time.monotonic()
    with Client(address, set_as_default=False) as own:
        for at in times:
            if over.wait(max(0.0, at - (time.monotonic() - started))):
                return
            pids = list(own.run(os.getpid, on_error="ignore").values())
            if pids:
                with suppress(ProcessLookupError):  # it died of the kill before
                    os.kill(int(rng.choice(pids)), signal.SIGKILL)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", seeds(4))
def test_killed_workers_change_no_score(fragile, rows, seed):
    X, y, _ = rows
    settings = {"max_iter": 9, "random_state": 0, "chunk_size": CHUNK}
    draws = {"quality": uniform(0, 1)}
    expected = one_device.HyperbandSearchCV(Slow(seconds=0), draws, **settings).fit(X, y)
    over = threading.Event()
    with Client(fragile) as client:
        client.wait_for_workers(3, timeout=60)
        times = np.sort(np.random.default_rng(seed).uniform(0, 1.0, 3))
        args = client.scheduler.address, times, seed, over
        killer = threading.Thread(target=kill_workers, args=args)
        killer.start()
        try:
            search = HyperbandSearchCV(Slow(seconds=0.05), draws, client=client, **settings)
            assert_same_table(search.fit(X, y), expected)
            assert search.best_estimator_.sum_ == expected.best_estimator_.sum_
        finally:
            over.set()
            killer.join()


def lose_patience(dask_scheduler):
    """Give a task up sooner; each time takes the start of a worker."""
    dask_scheduler.allowed_failures = 1


def test_a_model_that_ends_its_workers_is_given_up(fragile, rows):
    X, y, _ = rows
    # With this seed one bracket gets the fatal one.
    draws = {"quality": [0.1, 0.2, 0.3, 0.4, 0.95]}
    settings = {"max_iter": 3, "random_state": 11, "chunk_size": CHUNK}
    with Client(fragile) as client:
        client.wait_for_workers(3, timeout=60)
        client.run_on_scheduler(lose_patience)
        search = HyperbandSearchCV(Slow(seconds=0, fatal=0.9), draws, client=client, **settings)
        with pytest.warns(FitFailedWarning) as warned:
            search.fit(X, y)
    (message,) = [str(w.message) for w in warned if w.category is FitFailedWarning]
    assert "0.95" in message
    assert "ends the process" in message
    assert list(np.isnan(search.cv_results_["test_score"])) == list(
        search.cv_results_["param_quality"] == 0.95
    )


def test_a_client_that_closes_is_an_error(rows):
    X, y, _ = rows
    with (
        LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        search = HyperbandSearchCV(
            Slow(seconds=0.1), {"quality": uniform(0, 1)}, max_iter=27, client=client
        )
        threading.Timer(1.0, client.close).start()
        with pytest.raises(ClusterError):
            search.fit(X, y)
