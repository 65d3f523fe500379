"""Random schedules of workers that join, leave, are stopped or die: the table is the same, bit for bit.

A seed is a schedule. To run one again: ``pytest tests/dask/test_schedules.py -k "[7]"``.
"""

import gc
import os
import random
import signal
import threading
import time
from contextlib import contextmanager, suppress

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone

from gpuml.compose import ColumnTransformer
from gpuml.impute import SimpleImputer
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV as OneDevice
from gpuml.model_selection import HyperbandSearchCV as OneDeviceHyperband
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import OneHotEncoder
from gpuml_dask import predict
from gpuml_dask.model_selection import GridSearchCV, HyperbandSearchCV
from gpuml_dask.searching import tasks
from tests.dask import test_adaptive, test_failures
from tests.dask.often import seeds
from tests.dask.test_failures import PIECES, THREADS, SlowPieces, SlowRidge

MIN_WORKERS, USUAL_WORKERS, MAX_WORKERS = 1, 3, 4
SECONDS = 60
# How long a search takes, about, while all goes well.
SEARCH_SECONDS = 1.2
# More of them may be held against a fit that stands beside them each time.
MOST_DEATHS = 3


class SlowLogistic(LogisticRegression):
    """LogisticRegression whose candidates are fitted at once, after a while."""

    def multifit(self, folds, candidates, advance=None):
        time.sleep(0.5)
        return super().multifit(folds, candidates, advance)


class SlowOfWords(Ridge):
    """Ridge that takes its time with every fit, and with every block that it predicts."""

    def fit(self, X, y, sample_weight=None):
        time.sleep(0.1)
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        time.sleep(0.02)
        return super().predict(X)


COLUMNS = ColumnTransformer(
    [
        ("words", OneHotEncoder(handle_unknown="ignore"), ["word", "colour"]),
        ("numbers", SimpleImputer(), ["x", "z"]),
    ]
)
SEARCHES = {
    "one by one": (test_failures.Slow(seconds=0.08), {"a": list(np.linspace(0, 2, 12))}),
    "at once": (SlowRidge(), {"alpha": [0.1, 1.0, 10.0], "solver": ["cholesky", "svd"]}),
    "logistic": (SlowLogistic(), {"C": [0.01, 1.0, 100.0], "fit_intercept": [True, False]}),
    "rows divided": (SlowPieces(), {"alpha": [0.1, 1.0, 10.0]}),
    "words": (make_pipeline(COLUMNS, SlowOfWords()), {"slowofwords__alpha": [0.1, 1.0, 10.0]}),
    "learning": (test_adaptive.Slow(seconds=0.03), {"quality": list(np.linspace(0, 1, 9))}),
}


def search_of(name, client=None):
    """A search on a cluster; without a client that on one device, which does not wait."""
    estimator, grid = SEARCHES[name]
    if client is None and "seconds" in estimator.get_params():
        estimator = clone(estimator).set_params(seconds=0)
    theirs = {} if client is None else {"client": client}
    if name == "learning":
        kind = OneDeviceHyperband if client is None else HyperbandSearchCV
        return kind(estimator, grid, max_iter=9, random_state=0, chunk_size=750, **theirs)
    return (OneDevice if client is None else GridSearchCV)(estimator, grid, cv=3, **theirs)


def rows_of(name, lazy=False):
    """Rows here, or in chunks that Dask can make again."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))  # too large to travel with the tasks
    y = X @ rng.normal(size=8) + rng.normal(size=3000)
    y = np.digitize(y, [-1.0, 1.0]) if name == "logistic" else y
    if name == "words":
        X = pd.DataFrame({"x": X[:, 0], "word": np.where(X[:, 1] > 0, "up", "down"), "z": X[:, 2]})
        X["colour"] = rng.choice(["red", "green", "blue", None], size=3000)
        X.loc[::7, "z"] = np.nan
        return (
            (dd.from_pandas(X, npartitions=8), dd.from_pandas(pd.Series(y), 8)) if lazy else (X, y)
        )
    return (da.from_array(X, chunks=(400, -1)), da.from_array(y, chunks=400)) if lazy else (X, y)


def scored_rows_of(name):
    """Rows in chunks. Those of DataFrames have no sizes that Dask knows, and their y is here."""
    X, y = rows_of(name, lazy=True)
    return (X, rows_of(name)[1]) if name == "words" else (X, y)


def settings_of(name):
    return dask.config.set(PIECES if name == "rows divided" else {})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(
        n_workers=USUAL_WORKERS,
        threads_per_worker=1,
        dashboard_address=":0",
        local_directory=str(tmp_path_factory.mktemp("schedules")),
        env=THREADS,
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def expected(cluster):
    """Tables, and scores of rows in chunks, that nothing happens to.

    They are of one device, and where rows are divided of the cluster.
    """
    known = {}

    def found(name, lazy):
        if (name, lazy) not in known and name == "rows divided":
            with Client(cluster, set_as_default=False) as client, settings_of(name):
                known[name, lazy] = search_of(name, client).fit(*rows_of(name, lazy))
        elif (name, lazy) not in known:
            known[name, lazy] = search_of(name).fit(*rows_of(name))
        search = known[name, lazy]
        if name == "learning":  # its score is a method of the user's, which needs the rows
            return search.cv_results_, search.score(*rows_of(name))
        with dask.config.set(scheduler="synchronous"):
            return search.cv_results_, predict.score(search, *rows_of(name, lazy=True))

    return found


# ---------------------------------------------------------------- what happens


def schedule_of(rng):
    """Moments, and what happens then."""
    happenings = [rng.choice(list(HAPPENINGS)) for _ in range(rng.randint(2, 6))]
    while sum(each in FATAL for each in happenings) > MOST_DEATHS:
        happenings.remove(next(each for each in happenings if each in FATAL))
    return sorted((rng.uniform(0, SEARCH_SECONDS), each) for each in happenings)


def running(cluster):
    """Workers that a nanny has started, by name."""
    return {name: nanny for name, nanny in cluster.workers.items() if nanny.pid is not None}


def join(cluster, rng):
    if len(cluster.worker_spec) < MAX_WORKERS:
        cluster.scale(len(cluster.worker_spec) + 1)


def leave(cluster, rng):
    """As of clusters that adapt: the worker is retired, then closed."""
    if len(cluster.worker_spec) > MIN_WORKERS:
        cluster.sync(cluster.scale_down, [rng.choice(sorted(cluster.worker_spec))])


def stop(cluster, rng):
    """Stand still for a moment, as a machine whose memory is being swapped."""
    signals = [signal.SIGSTOP, signal.SIGCONT]
    for number, nanny in zip(signals, [chosen(cluster, rng)] * 2, strict=True):
        send_signal(nanny, number)
        time.sleep(rng.uniform(0.1, 0.5))


def die(cluster, rng):
    send_signal(chosen(cluster, rng), signal.SIGKILL)


def restart(cluster, rng):
    with Client(cluster, set_as_default=False) as own, suppress(ValueError, TimeoutError):
        addresses = sorted(own.nthreads())
        if addresses:
            own.restart_workers([rng.choice(addresses)], timeout=SECONDS)


HAPPENINGS = {each.__name__: each for each in (join, leave, stop, die, restart)}
FATAL = ("die", "restart")


def chosen(cluster, rng):
    there = running(cluster)
    return there[rng.choice(sorted(there))] if there else None


def send_signal(nanny, number):
    if nanny is not None and nanny.pid is not None:
        with suppress(ProcessLookupError):  # the nanny does not know yet of a death
            os.kill(nanny.pid, number)


@contextmanager
def happening(cluster, rng):
    """Let a schedule happen meanwhile; whatever is left of it afterwards does not.

    The value tells whether it is over.
    """
    over, errors = threading.Event(), []

    def go_on():
        began = time.monotonic()
        try:
            for at, name in schedule_of(rng):
                if over.wait(max(0.0, at - (time.monotonic() - began))):
                    return
                print(f"{name} after {time.monotonic() - began:.2f} s")
                HAPPENINGS[name](cluster, rng)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield lambda: not thread.is_alive()
    finally:
        over.set()
        thread.join()
    assert errors == []


# ---------------------------------------------------------------- what is to hold


def left_on_scheduler(dask_scheduler):
    runs = dask_scheduler.extensions.get("gpuml runs", {})
    leases = getattr(dask_scheduler.extensions.get("semaphores"), "leases", {})
    return [str(key) for some in (dask_scheduler.tasks, runs, leases) for key in some]


def left_on_worker(dask_worker):
    gc.collect()
    kept = (tasks._made, tasks._of_search, tasks._keepers)
    keys = (*dask_worker.data, *dask_worker.state.tasks)
    return sorted({str(key) for some in (keys, *kept) for key in some})


def assert_nothing_is_left(client):
    deadline = time.monotonic() + SECONDS
    while True:
        gc.collect()  # futures in cycles
        found = {"scheduler": client.run_on_scheduler(left_on_scheduler)}
        found |= client.run(left_on_worker, on_error="ignore")
        found = {place: keys for place, keys in found.items() if keys}
        if not found:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def assert_same_table(found, expected):
    compared = [name for name in expected if name.endswith("_score") or name == "partial_fit_calls"]
    assert any(name.startswith(("split", "test")) for name in compared)
    for name in compared:
        np.testing.assert_array_equal(found[name], expected[name], name)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:Slow.score needs the rows")
@pytest.mark.parametrize("seed", seeds(50))
def test_whoever_comes_and_goes_the_table_is_the_same(cluster, expected, seed):
    rng = random.Random(seed)
    name = list(SEARCHES)[seed % len(SEARCHES)]
    lazy = name != "learning" and rng.random() < 0.5
    table, score = expected(name, lazy)
    cluster.scale(USUAL_WORKERS)
    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(USUAL_WORKERS, timeout=SECONDS)
        search = search_of(name, client)
        scores, rows = [], scored_rows_of(name)
        with settings_of(name), happening(cluster, rng) as is_over:
            search.fit(*rows_of(name, lazy))
            while not (scores and is_over()):
                scores.append(search.score(*rows))
        assert_same_table(search.cv_results_, table)
        assert set(scores) == {score}
        if name == "rows divided":
            assert "rows divided" in str(search.plan_)
        assert_nothing_is_left(client)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:Slow.score needs the rows")
@pytest.mark.parametrize("name", ["words", "learning"])
@pytest.mark.parametrize("seed", seeds(6))
def test_scores_are_the_same_whoever_dies_meanwhile(cluster, expected, name, seed):
    """Of targets here, which are sent to workers, by sums over blocks and of all rows at once."""
    rng, (X, y) = random.Random(seed), rows_of(name, lazy=True)[:1] + rows_of(name)[1:]
    here, score = search_of(name).fit(*rows_of(name)), expected(name, False)[1]
    cluster.scale(USUAL_WORKERS)
    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(USUAL_WORKERS, timeout=SECONDS)
        search = search_of(name, client)
        vars(search).update((key, x) for key, x in vars(here).items() if key.endswith("_"))
        scores = []
        with happening(cluster, rng) as is_over:
            while not (scores and is_over()):
                scores.append(search.score(X, y))
        assert set(scores) == {score}
        assert_nothing_is_left(client)
