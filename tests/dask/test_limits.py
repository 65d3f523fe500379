"""Fits that take longer than fit_timeout: they are given up, and all others keep their results."""

import time
import warnings
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from scipy.stats import uniform
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import SGDRegressor
from sklearn.pipeline import Pipeline

from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV as OneDevice
from gpuml.model_selection import HalvingGridSearchCV as OneDeviceHalving
from gpuml_dask.errors import ClusterError, FitTimeoutError
from gpuml_dask.model_selection import GridSearchCV, HalvingGridSearchCV, HyperbandSearchCV
from gpuml_dask.searching import limits, rounds, running
from gpuml_dask.searching.running import Runner
from tests.dask.test_failures import THREADS
from tests.dask.test_mixed import start_cluster
from tests.dask.test_schedules import assert_nothing_is_left

FOR_EVER = 600
LIMIT = 2.0
N_WORKERS = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(
        n_workers=N_WORKERS,
        threads_per_worker=1,
        dashboard_address=":0",
        local_directory=str(tmp_path_factory.mktemp("limits")),
        env=THREADS,
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        client.wait_for_workers(N_WORKERS, timeout=60)
        yield client
        assert_nothing_is_left(client)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))  # too large to travel with the tasks
    return X, X @ rng.normal(size=8) + rng.normal(size=3000)


class Hanging(RegressorMixin, BaseEstimator):
    """The mean of y times `a`; one value of `a` takes for ever, and all of them some seconds."""

    def __init__(self, a=1.0, hanging=None, seconds=0.0):
        self.a, self.hanging, self.seconds = a, hanging, seconds

    def fit(self, X, y):
        time.sleep(FOR_EVER if self.a == self.hanging else self.seconds)
        self.mean_ = self.a * y.mean() + X[0, 0]
        return self

    def predict(self, X):
        return self.mean_ + X[:, 0]


class HangingTogether(Ridge):
    """Ridge that takes for ever where several candidates are fitted at once."""

    def multifit(self, folds, candidates, advance=None):
        time.sleep(FOR_EVER if len(candidates) > 1 else 0)
        return super().multifit(folds, candidates, advance)


GRID = {"a": [0.0, 1.0, 2.0, 3.0]}
HANGING = Hanging(hanging=2.0)


def scores_of(search):
    """Scores of each split, of each candidate."""
    names = [name for name in search.cv_results_ if name.startswith("split")]
    assert len(names) > 1
    return np.array([search.cv_results_[name] for name in names])


def check_given_up(search, rows, late=(2,)):
    """Fit; late candidates get error_score, all others the scores of one device, bit for bit."""
    expected = scores_of(OneDevice(Hanging(), GRID, cv=2).fit(*rows)).copy()
    expected[:, list(late)] = np.nan
    with (
        pytest.warns(FitFailedWarning, match=r"longer than fit_timeout=2 s(.|\n)*'a': 2.0"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search.fit(*rows)
    np.testing.assert_array_equal(scores_of(search), expected)


def test_a_fit_that_takes_too_long_gets_error_score(client, rows, monkeypatch):
    blamed = []
    monkeypatch.setattr(Runner, "_blame", lambda self, unit: blamed.append(unit) or iter(()))
    monkeypatch.setattr(running, "MOST_DEATHS", 0)
    search = GridSearchCV(HANGING, GRID, cv=2, client=client, fit_timeout=LIMIT)
    check_given_up(search, rows)
    assert search.cv_results_["mean_fit_time"][2] > LIMIT
    assert blamed == []


def test_a_fit_that_takes_too_long_is_an_error_if_asked_for(client, rows):
    search = GridSearchCV(
        HANGING, GRID, cv=2, client=client, fit_timeout=LIMIT, error_score="raise"
    )
    with pytest.raises(FitTimeoutError, match=r"fit_timeout=2 s(.|\n)*'a': 2.0"):
        search.fit(*rows)
    assert not hasattr(search, "cv_results_")
    # The other fold of the candidate hangs too: the client's fixture waits until it is gone.


@pytest.mark.exhaustive
def test_fits_of_one_task_run_again_one_by_one(client, rows, monkeypatch):
    monkeypatch.setattr(rounds, "UNITS", 1)
    monkeypatch.setattr(rounds, "PER_THREAD", 1)
    search = GridSearchCV(HANGING, GRID, cv=2, client=client, fit_timeout=LIMIT)
    check_given_up(search, rows)
    assert "in one task they took longer than fit_timeout=2 s each" in str(search.plan_)


@pytest.mark.exhaustive
def test_a_group_runs_again_one_by_one(client, rows):
    grid = {"alpha": [0.1, 1.0]}
    expected = OneDevice(Ridge(), grid, cv=2).fit(*rows)
    search = GridSearchCV(HangingTogether(), grid, cv=2, client=client, fit_timeout=LIMIT)
    search.fit(*rows)
    np.testing.assert_allclose(scores_of(search), scores_of(expected), rtol=1e-12)
    assert "in one task they took longer than fit_timeout=2 s each" in str(search.plan_)
    np.testing.assert_allclose(search.predict(rows[0]), expected.predict(rows[0]))


@pytest.mark.exhaustive
def test_rounds_of_halving_go_on_without_what_takes_too_long(client, rows):
    settings = {"cv": 2, "factor": 2, "random_state": 0}
    expected = OneDeviceHalving(Hanging(), GRID, **settings).fit(*rows)
    search = HalvingGridSearchCV(HANGING, GRID, client=client, fit_timeout=LIMIT, **settings)
    with (
        pytest.warns(FitFailedWarning, match="fit_timeout"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search.fit(*rows)
    first = search.cv_results_["iter"] == 0
    late = [params["a"] == 2.0 for params in search.cv_results_["params"]]
    assert np.isnan(search.cv_results_["mean_test_score"][late]).all()
    assert sum(late) == 1
    known = first & ~np.array(late)
    name = "mean_test_score"
    assert np.array_equal(search.cv_results_[name][known], expected.cv_results_[name][known])


@pytest.mark.exhaustive
def test_work_beside_a_fit_that_hangs_is_done_again_and_not_blamed(rows, monkeypatch):
    monkeypatch.setattr(running, "MOST_DEATHS", 0)
    monkeypatch.setattr(Runner, "_blame", lambda self, unit: pytest.fail(f"blamed: {unit}"))
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address=":0", env=THREADS
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        # The other thread is in the middle of a fit when the worker restarts.
        model = Hanging(hanging=2.0, seconds=LIMIT * 0.75)
        check_given_up(GridSearchCV(model, GRID, cv=2, client=client, fit_timeout=LIMIT), rows)
        assert_nothing_is_left(client)


@pytest.mark.exhaustive
def test_first_steps_that_hang_on_a_worker_of_their_own(tmp_path, rows):
    with (
        start_cluster({"gpu-0": {"GPU": 1}, "cpu-0": {"CPU": 1}}, str(tmp_path)) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        pipe = Pipeline([("first", HangingSteps()), ("model", Ridge())])
        grid = {"first__a": [1.0, 2.0], "model__alpha": [0.1, 10.0]}
        expected = OneDevice(pipe, grid, cv=2).fit(*rows)
        pipe.set_params(first__hanging=2.0)
        search = GridSearchCV(pipe, grid, cv=2, client=client, fit_timeout=LIMIT)
        with (
            pytest.warns(FitFailedWarning, match="fit_timeout"),
            pytest.warns(UserWarning, match="non-finite"),
        ):
            search.fit(*rows)
        found, expected = scores_of(search), scores_of(expected)
        late = np.array([params["first__a"] == 2.0 for params in search.cv_results_["params"]])
        assert np.isnan(found[:, late]).all()
        np.testing.assert_array_equal(found[:, ~late], expected[:, ~late])


class HangingSteps(TransformerMixin, BaseEstimator):
    """A user's transformer, for one value of `a` for ever."""

    def __init__(self, a=1.0, hanging=None):
        self.a, self.hanging = a, hanging

    def fit(self, X, y=None):
        time.sleep(FOR_EVER if self.a == self.hanging else 0)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X * self.a


# ---------------------------------------------------------------- what is kept


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["one by one", "group"])
def test_what_was_given_up_is_finished_for_the_same_limit_alone(client, rows, tmp_path, name):
    model, grid = (HANGING, GRID) if name == "one by one" else (HangingTogether(), ALPHAS)

    def search(fit_timeout):
        return GridSearchCV(
            *(model, grid), cv=2, client=client, fit_timeout=fit_timeout, checkpoint=str(tmp_path)
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = search(LIMIT).fit(*rows)
        again = search(LIMIT).fit(*rows)
        assert again.plan_.n_passes == 0
        np.testing.assert_array_equal(scores_of(again), scores_of(first))
        longer = search(1.5 * LIMIT).fit(*rows)
    np.testing.assert_array_equal(scores_of(longer), scores_of(first))
    # What was given up took its time once more.
    assert (longer.cv_results_["mean_fit_time"] > LIMIT).sum() == (name == "one by one")
    assert max(longer.cv_results_["mean_fit_time"]) > 1.5 * LIMIT or name == "group"
    assert longer.plan_.n_passes == (0 if name == "one by one" else 4)


ALPHAS = {"alpha": [0.1, 1.0]}


# ---------------------------------------------------------------- what cannot be had


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), True, "2 minutes"])
def test_a_limit_is_a_positive_number(rows, seconds):
    search = GridSearchCV(Hanging(), GRID, cv=2, fit_timeout=seconds, scheduler="sync")
    with pytest.raises(ValueError, match="positive number of seconds"):
        search.fit(*rows)


def test_a_limit_needs_a_cluster(rows):
    search = GridSearchCV(Hanging(), GRID, cv=2, fit_timeout=LIMIT, scheduler="sync")
    with pytest.raises(ValueError, match="fit_timeout= need a cluster"):
        search.fit(*rows)


def test_a_limit_needs_workers_that_can_be_restarted(rows):
    with Client(processes=False, dashboard_address=":0") as client:
        search = GridSearchCV(Hanging(), GRID, cv=2, fit_timeout=LIMIT, client=client)
        with pytest.raises(ClusterError, match="no nanny"):
            search.fit(*rows)


def test_a_worker_without_a_nanny_that_joined_late_is_an_error():
    late = [
        limits.Overrun("key", 3.0, "tcp://a", True),
        limits.Overrun("key", 3.0, "tcp://b", False),
    ]
    limits.check_restarts(late[:1])
    with pytest.raises(ClusterError, match=r"\['tcp://b'\] have no nanny"):
        limits.check_restarts(late)


def test_a_search_does_not_restart_its_own_process(client, rows):
    def search(X, y):
        return GridSearchCV(Hanging(), GRID, cv=2, fit_timeout=LIMIT).fit(X, y)

    future = client.submit(search, *rows)
    with pytest.raises(ClusterError, match="in a task of a worker"):
        future.result()
    future.release()


def test_training_call_by_call_has_no_limit(client, rows):
    search = HyperbandSearchCV(
        SGDRegressor(), {"alpha": uniform()}, max_iter=3, client=client, fit_timeout=LIMIT
    )
    with pytest.raises(ValueError, match="fit_timeout= cannot be used with resource='partial_fit'"):
        search.fit(*rows)


def test_divided_rows_have_no_limit(client, rows):
    search = GridSearchCV(Ridge(), ALPHAS, cv=2, client=client, fit_timeout=FOR_EVER)
    settings = {"gpuml.plan": "rows", "gpuml.piece-bytes": "50 kB"}
    with dask.config.set(settings), pytest.warns(UserWarning, match="does not limit fits whose"):
        search.fit(*rows)
    assert "rows divided" in str(search.plan_)


# ---------------------------------------------------------------- the clock


@pytest.mark.parametrize(
    ("steps", "n_told"),
    [
        ([1.0] * 10, 0),  # just as long as it may
        ([1.0] * 11, 1),
        ([1.0] * 7 + [100.0], 0),  # stood still for most of it
        ([1.0] * 7 + [100.0] * 2, 1),
        ([1.0] * 20, 1),
        ([1.0] * 22, 2),  # a message may be lost
    ],
)
def test_a_process_that_stands_still_uses_up_no_time(monkeypatch, steps, n_told):
    told = []
    worker = SimpleNamespace(
        address="tcp://a",
        nanny="tcp://b",
        state=SimpleNamespace(tasks={"key": SimpleNamespace(state="executing")}),
        log_event=lambda topic, event: told.append(event),
    )
    now = iter(np.cumsum([0.0, *steps]))
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: next(now)))
    left = iter([*[False] * len(steps), True])
    limits._watch(worker, "key", 10.0, SimpleNamespace(wait=lambda seconds: next(left)))
    assert len(told) == n_told


@pytest.mark.parametrize("state", [None, "cancelled"])
def test_a_worker_restarts_when_nobody_waits_for_what_takes_too_long(monkeypatch, state):
    tasks = {} if state is None else {"key": SimpleNamespace(state=state)}
    called = []
    worker = SimpleNamespace(
        state=SimpleNamespace(tasks=tasks),
        loop=SimpleNamespace(add_callback=lambda *what: called.append(what)),
    )
    over = SimpleNamespace(wait=lambda seconds: time.sleep(0.01))
    limits._watch(worker, "key", 0.02, over)
    assert [what[0] for what in called] == [limits._restart]
