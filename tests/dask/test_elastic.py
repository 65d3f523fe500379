"""Workers that come and go while a search runs: they take their share, and change no bit."""

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.pipeline import make_pipeline

from gpuml.model_selection import GridSearchCV as OneDevice
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.one_by_one import Task
from gpuml.model_selection.resuming import Finished
from gpuml_dask.model_selection import GridSearchCV
from gpuml_dask.planning.worker_kinds import Kinds, Placer
from gpuml_dask.searching.rounds import QUEUED, UNITS, Round, cut_families
from gpuml_dask.searching.tasks import Done

N_SPLITS = 5


class Logged(RegressorMixin, BaseEstimator):
    """Sleeps, and says in a file which process it is."""

    def __init__(self, a=0, seconds=0.0, log=None):
        self.a, self.seconds, self.log = a, seconds, log

    def fit(self, X, y):
        time.sleep(self.seconds)
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{os.getpid()}\n")
        self.mean_ = y.mean() * self.a
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class Shift(TransformerMixin, BaseEstimator):
    def __init__(self, by=0):
        self.by = by

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X + self.by


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 10))  # too large to travel with tasks
    return X, X @ rng.normal(size=10)


# ---------------------------------------------------------------- units


def round_of(estimator, params):
    X = np.ones((20, 2))
    splits = [(np.arange(10), np.arange(10, 20))] * N_SPLITS
    task = Task({}, {}, None, "raise", False, 0)
    job = Job(estimator, X, X[:, 0], splits, task)
    return Round(job, params, 0, Finished(), Placer(job, Kinds({})))


@pytest.mark.parametrize("n_candidates", [1, 12, 1000])
@pytest.mark.parametrize("n_threads", [0, 1, 64])
def test_units_follow_from_candidates_and_folds_where_threads_are_few(n_candidates, n_threads):
    families = [[i] for i in range(n_candidates)]
    units = cut_families(families, N_SPLITS, n_threads)
    assert len(units) == min(n_candidates, -(-max(UNITS, 4 * n_threads) // N_SPLITS))


@pytest.mark.parametrize("threads", [(1, 1), (0, 3, 40), (8, 2)])
@pytest.mark.parametrize("kind", ["alone", "sharing"])
def test_what_is_held_back_comes_in_time_and_once(kind, threads):
    estimator = Logged() if kind == "alone" else make_pipeline(Shift(), Logged())
    name = "a" if kind == "alone" else "logged__a"
    round_ = round_of(estimator, [{name: a} for a in range(100)])
    waiting, done = round_.units([], threads[0]), []
    for turn in range(100_000):
        n_threads = threads[min(turn, len(threads) - 1)]
        waiting += round_.more(n_threads, len(waiting))
        if not waiting:
            break
        # Nobody idles before all has been given out.
        given = sum(len(unit.candidates) for unit in (*waiting, *done))
        assert len(waiting) > QUEUED * n_threads or given == 100 * N_SPLITS
        unit = waiting.pop(0)
        done.append(unit)
        results = [(c, unit.split, {"fit_time": c, "score_time": 0}) for c in unit.candidates]
        round_.take(unit, Done(results, [], "here", "cpu"))
    fits = [(c, unit.split) for unit in done for c in unit.candidates]
    assert sorted(fits) == [(c, split) for c in range(100) for split in range(N_SPLITS)]
    if kind == "alone":  # the longest first
        last = [c for unit in done if unit.split == N_SPLITS - 1 for c in unit.candidates]
        assert last[:10] != sorted(last[:10])


# ---------------------------------------------------------------- clusters


def searched(log, seconds):
    return GridSearchCV(
        Logged(seconds=seconds, log=str(log)), {"a": np.linspace(0, 2, 30)}, cv=N_SPLITS
    )


def searched_in_a_pipeline(log, seconds):
    pipeline = make_pipeline(Shift(), Logged(seconds=seconds, log=str(log)))
    return GridSearchCV(pipeline, {"logged__a": np.linspace(0, 2, 30)}, cv=N_SPLITS)


def begun(log, n_fits):
    """Wait until so many fits are done."""
    while not (log.exists() and len(log.read_text().splitlines()) >= n_fits):
        time.sleep(0.05)


def assert_same(found, rows):
    estimator = found.estimator
    quick = {name: 0.0 for name in estimator.get_params() if name.endswith("seconds")}
    logs = {name: None for name in estimator.get_params() if name.endswith("log")}
    alone = OneDevice(
        type(found.estimator)(**estimator.get_params(deep=False)).set_params(**quick, **logs),
        found.param_grid,
        cv=N_SPLITS,
    ).fit(*rows)
    for split in range(N_SPLITS):
        name = f"split{split}_test_score"
        assert np.array_equal(found.cv_results_[name], alone.cv_results_[name])
    assert np.array_equal(found.predict(rows[0]), alone.predict(rows[0]))


def shares_after(log: Path, n_workers):
    """Of what was done from the moment on that so many processes were there, each one's part."""
    lines = log.read_text().split()
    met: dict[str, int] = {}
    for i, line in enumerate(lines):
        met.setdefault(line, i)
    assert len(met) >= n_workers, met
    since = lines[sorted(met.values())[n_workers - 1] :]
    return {name: since.count(name) / len(since) for name in met}


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [searched, searched_in_a_pipeline])
def test_a_worker_that_joins_takes_its_share(tmp_path, rows, make):
    log = tmp_path / "log"
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        search = make(log, 0.1).set_params(client=client)

        def grow():
            begun(log, 2)
            cluster.scale(2)

        thread = threading.Thread(target=grow)
        thread.start()
        search.fit(*rows)
        thread.join()
    # Half, but for what the first had in its hands just then.
    assert min(shares_after(log, 2).values()) > 0.3
    assert_same(search, rows)


@pytest.mark.exhaustive
def test_a_cluster_that_adapts_grows_from_nothing_to_all_it_may(tmp_path, rows):
    log = tmp_path / "log"
    with LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0") as cluster:
        cluster.adapt(minimum=0, maximum=3, interval="200ms")
        with Client(cluster) as client:
            search = searched(log, 0.2).set_params(client=client).fit(*rows)
    assert min(shares_after(log, 3).values()) > 0.15
    assert_same(search, rows)


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [searched, searched_in_a_pipeline])
def test_workers_that_are_retired_hand_over_what_they_have(tmp_path, rows, make):
    log = tmp_path / "log"
    with (
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(4)
        search = make(log, 0.1).set_params(client=client)

        def shrink():
            begun(log, 8)
            cluster.scale(1)
            begun(log, 30)
            cluster.scale(2)

        thread = threading.Thread(target=shrink)
        thread.start()
        search.fit(*rows)
        thread.join()
    assert_same(search, rows)
