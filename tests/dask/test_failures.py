"""Searches whose workers, client or scheduler go away in the middle."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pkgutil import resolve_name
from types import SimpleNamespace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, WorkerPlugin
from distributed.comm import CommClosedError
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import SGDRegressor

import gpuml_dask.clustering
import gpuml_dask.discriminant_analysis
import gpuml_dask.impute
import gpuml_dask.linear_model
import gpuml_dask.naive_bayes
from gpuml.compose import ColumnTransformer
from gpuml.exceptions import GatheredWarning
from gpuml.impute import SimpleImputer
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV as OneDevice
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import OneHotEncoder, StandardScaler
from gpuml_dask.errors import ClusterError
from gpuml_dask.model_selection import GridSearchCV, HyperbandSearchCV
from gpuml_dask.on_start import import_on_workers
from gpuml_dask.rows.placement import place
from gpuml_dask.rows.sending import Homes, send
from gpuml_dask.searching import running
from gpuml_dask.sums.divided import fetch
from gpuml_dask.waiting import answers, in_touch, workers_there
from tests.dask.often import seeds

N_WORKERS = 4
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    """A cluster whose workers are killed and come back."""
    cluster = LocalCluster(
        n_workers=N_WORKERS,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        local_directory=str(tmp_path_factory.mktemp("fragile")),
        env=THREADS,
    )
    # Distributed's cluster may hear of the end of a worker before it hears of its start, and says
    # so when it is closed.
    with suppress(KeyError), cluster:
        yield cluster


@pytest.fixture
def client(fragile):
    with Client(fragile) as client:
        client.wait_for_workers(N_WORKERS, timeout=60)
        yield client


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))  # too large to travel with the tasks
    return X, X @ rng.normal(size=8) + rng.normal(size=3000)


class Slow(RegressorMixin, BaseEstimator):
    """The mean of y times `a`, after a while; with `fatal` it ends its process."""

    def __init__(self, a=1.0, seconds=0.1, fatal=None):
        self.a, self.seconds, self.fatal = a, seconds, fatal

    def fit(self, X, y):
        if self.a == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        self.mean_ = self.a * y.mean() + X[0, 0]
        return self

    def predict(self, X):
        return self.mean_ + X[:, 0]


class SlowRidge(Ridge):
    """Ridge whose candidates are fitted at once, after a while."""

    def multifit(self, folds, candidates, advance=None):
        time.sleep(1.0)
        return super().multifit(folds, candidates, advance)


SEARCHES = {
    "one by one": (Slow(), {"a": list(np.linspace(0, 2, 12))}),
    "at once": (SlowRidge(), {"alpha": [0.1, 1.0, 10.0], "solver": ["cholesky", "svd"]}),
}


def kill(cluster, chosen):
    """SIGKILL to the processes of some workers, those that are there now, by address."""
    for nanny in list(cluster.workers.values()):
        if nanny.pid is not None and chosen(nanny.worker_address):
            with suppress(ProcessLookupError):  # the nanny does not know yet of the kill before
                os.kill(nanny.pid, signal.SIGKILL)


def kill_one(cluster, rng):
    address = rng.choice([nanny.worker_address or "" for nanny in cluster.workers.values()])
    kill(cluster, lambda other: other == address)


def fit_meanwhile(search, X, y, happens, times):
    """Fit a search while something happens at given times."""
    over = threading.Event()

    def wait_and_do():
        started = time.monotonic()
        for at in sorted(times):
            if over.wait(max(0.0, at - (time.monotonic() - started))):
                return
            happens()

    thread = threading.Thread(target=wait_and_do)
    thread.start()
    try:
        search.fit(X, y)
    finally:
        over.set()
        thread.join()


def test_a_death_next_to_others_is_not_held_against_a_unit_that_runs_alone(client, monkeypatch):
    unit = SimpleNamespace(candidates=[0], singles=list)
    runner = running.Runner(client, SimpleNamespace(revive=int, keep_on=len))
    runner._submitted["a key"] = unit
    runner._suspects.append(unit)
    monkeypatch.setattr(runner, "_add", lambda units: None)
    death = {"action": "remove-worker", "expected": False, "processing-tasks": {"a key": 1.0}}
    client.log_event("all", {**death, "stimulus_id": f"{id(unit)} before"})
    assert list(runner._next_suspect()) == []
    runner._look_at_workers()
    for number in range(running.MOST_DEATHS_ALONE):
        assert runner._deaths[id(unit)] <= running.MOST_DEATHS
        client.log_event("all", {**death, "stimulus_id": f"{id(unit)} alone {number}"})
        runner._workers = set()
        runner._look_at_workers()
    assert runner._deaths[id(unit)] > running.MOST_DEATHS


def check_kills(cluster, client, rows, name, n_kills, seed):
    estimator, grid = SEARCHES[name]
    expected = OneDevice(quick(estimator), grid, cv=3).fit(*rows)
    rng = np.random.default_rng(seed)
    search = GridSearchCV(estimator, grid, cv=3, client=client)
    times = rng.uniform(0, 1.5, n_kills)
    fit_meanwhile(search, *rows, lambda: kill_one(cluster, rng), times)
    for split in range(3):
        found = search.cv_results_[f"split{split}_test_score"]
        assert np.array_equal(found, expected.cv_results_[f"split{split}_test_score"])
    assert np.array_equal(search.predict(rows[0]), expected.predict(rows[0]))


def quick(estimator):
    """The same without waiting."""
    return Slow(seconds=0) if isinstance(estimator, Slow) else Ridge()


@pytest.mark.some
@pytest.mark.bits
@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("n_kills", [1, 3])
def test_killed_workers_change_no_score(fragile, client, rows, name, n_kills):
    check_kills(fragile, client, rows, name, n_kills, seed=n_kills)


@pytest.mark.exhaustive
@pytest.mark.parametrize("n_kills", [1, 3])
@pytest.mark.parametrize("seed", seeds(20))
def test_killed_workers_change_no_score_many_times(fragile, client, rows, n_kills, seed):
    name = list(SEARCHES)[seed % len(SEARCHES)]
    check_kills(fragile, client, rows, name, n_kills, seed=100 + seed)


def test_the_only_holders_of_the_rows_are_killed(fragile, client, rows):
    estimator, grid = SEARCHES["at once"]
    expected = OneDevice(estimator, {"alpha": grid["alpha"]}, cv=3).fit(*rows)
    search = GridSearchCV(estimator, {"alpha": grid["alpha"]}, cv=3, client=client)

    def kill_holders():
        held = client.has_what()
        kill(fragile, lambda address: held.get(address))

    fit_meanwhile(search, *rows, kill_holders, [0.5])
    name = "mean_test_score"
    assert np.array_equal(search.cv_results_[name], expected.cv_results_[name])


@pytest.fixture
def quick_blame(client, monkeypatch):
    """One death is enough for a suspicion: each takes a second or two."""

    def allow(n, dask_scheduler=None):
        before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, n
        return before

    monkeypatch.setattr(running, "MOST_DEATHS", 0)
    before = client.run_on_scheduler(allow, 0)
    yield
    client.run_on_scheduler(allow, before)


def test_a_fit_that_ends_its_process_gets_error_score(client, rows, quick_blame):
    grid = {"a": [0.0, 1.0, 2.0]}
    expected = OneDevice(Slow(seconds=0), grid, cv=2).fit(*rows)
    search = GridSearchCV(Slow(seconds=0.05, fatal=1.0), grid, cv=2, client=client)
    with (
        pytest.warns(FitFailedWarning, match="'a': 1.0"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search.fit(*rows)
    found = search.cv_results_["mean_test_score"]
    assert np.isnan(found[1])
    assert np.array_equal(found[[0, 2]], expected.cv_results_["mean_test_score"][[0, 2]])


def test_a_fit_that_ends_its_process_is_an_error_if_asked_for(client, rows, quick_blame):
    search = GridSearchCV(Slow(fatal=1.0), {"a": [1.0]}, cv=2, client=client, error_score="raise")
    with pytest.raises(ClusterError, match="'a': 1.0"):
        search.fit(*rows)


def test_restarted_workers(client, rows):
    estimator, grid = SEARCHES["one by one"]
    expected = OneDevice(quick(estimator), grid, cv=3).fit(*rows)
    search = GridSearchCV(estimator, grid, cv=3, client=client)

    def restart():
        with Client(client.scheduler.address, set_as_default=False) as own:
            own.restart(wait_for_workers=False)

    fit_meanwhile(search, *rows, restart, [0.5])
    name = "mean_test_score"
    assert np.array_equal(search.cv_results_[name], expected.cv_results_[name])


def test_a_closed_client_is_an_error(fragile, rows):
    client = Client(fragile, set_as_default=False)
    client.close()
    with pytest.raises(ClusterError, match="closed"):
        GridSearchCV(Slow(), {"a": [1.0]}, client=client).fit(*rows)


def test_a_client_that_is_closed_meanwhile_is_an_error(fragile, rows):
    client = Client(fragile, set_as_default=False)
    search = GridSearchCV(Slow(seconds=0.5), {"a": [1.0, 2.0]}, client=client)
    closer = threading.Timer(0.5, client.close)
    closer.start()
    with pytest.raises(ClusterError, match="Open another"):
        search.fit(*rows)
    closer.join()
    assert not hasattr(search, "cv_results_")


@pytest.mark.parametrize(
    "step",
    [
        "gpuml_dask.searching.session.Session.take",
        "gpuml_dask.searching.evaluator.workers_there",
        "gpuml_dask.searching.inputs.Sent._sent",
        "gpuml_dask.searching.inputs.SearchInputs.keep_on",
        "gpuml_dask.searching.running.Runner.add",
        "gpuml_dask.searching.running.Runner._gathered",
    ],
)
def test_a_client_that_is_closed_before_any_step_is_an_error(fragile, rows, monkeypatch, step):
    client = Client(fragile, set_as_default=False)
    client.wait_for_workers(2, timeout=60)
    function = resolve_name(step)

    def close_first(*args, **kwargs):
        client.close()
        return function(*args, **kwargs)

    monkeypatch.setattr(step, close_first)
    with pytest.raises(ClusterError, match="Open another"):
        GridSearchCV(Slow(seconds=0), {"a": [1.0, 2.0]}, client=client).fit(*rows)


def test_a_cluster_without_workers_is_an_error(rows):
    with (
        dask.config.set({"gpuml.patience": "1s"}),
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(ClusterError, match="worker"),
    ):
        GridSearchCV(Slow(), {"a": [1.0]}, client=client).fit(*rows)


@pytest.mark.exhaustive
def test_a_scheduler_that_goes_away_is_an_error(rows):
    with dask.config.set({"gpuml.patience": "2s", "distributed.comm.timeouts.connect": "2s"}):
        cluster = LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", env=THREADS
        )
        client = Client(cluster, set_as_default=False, timeout="2s")
        closer = threading.Timer(1.0, cluster.close)
        closer.start()
        search = GridSearchCV(Slow(seconds=0.5), {"a": list(range(10))}, client=client)
        with pytest.raises(ClusterError):
            search.fit(*rows)
        closer.join()
        client.close()


def _stop_after_some_fits(search, over):
    """Press Ctrl-C as soon as three fits are finished."""
    while not over.wait(0.02):
        session = vars(search).get("_session")
        with suppress(RuntimeError):  # the results grow meanwhile
            if session is not None and sum(len(e.finished) for e in session.evaluators) >= 3:
                os.kill(os.getpid(), signal.SIGINT)
                return


def test_an_interrupted_search_leaves_scores_and_nothing_on_workers(interruptible, client, rows):
    search = GridSearchCV(Slow(seconds=0.2), {"a": list(range(20))}, client=client)
    whole = GridSearchCV(Slow(seconds=0.0), {"a": list(range(20))}, client=client).fit(*rows)
    over = threading.Event()
    interrupt = threading.Thread(target=_stop_after_some_fits, args=(search, over))
    interrupt.start()
    try:
        with (
            pytest.warns(RuntimeWarning, match="of 100 fits") as told,
            pytest.raises(KeyboardInterrupt),
        ):
            search.fit(*rows)
        assert {each.filename for each in told if "of 100 fits" in str(each.message)} == {__file__}
    finally:  # a signal that comes later would end the whole run
        over.set()
        interrupt.join()
    deadline = time.monotonic() + 10
    while any(client.has_what().values()) or any(client.processing().values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    kept = [whole.cv_results_["params"].index(each) for each in search.cv_results_["params"]]
    found, expected = (
        np.array([each.cv_results_[f"split{s}_test_score"] for s in range(5)])
        for each in (search, whole)
    )
    known = np.isfinite(found)
    assert known.any()
    assert not known.all()
    np.testing.assert_array_equal(found[known], expected[:, kept][known])


# ---------------------------------------------------------------- rows divided over workers


class SlowPieces(Ridge):
    """Ridge that takes its time with every piece of the rows.

    With `fatal`, the id of the client's process, it ends any other one that it works in.
    """

    def __init__(self, alpha=1.0, *, seconds=0.05, fatal=None, fit_intercept=True):
        super().__init__(alpha, fit_intercept=fit_intercept)
        self.seconds, self.fatal = seconds, fatal

    def multifit_piece(self, X, y, weight):
        self._end_process()
        time.sleep(self.seconds)
        return super().multifit_piece(X, y, weight)

    def multifit(self, folds, candidates, advance=None):
        self._end_process()
        return super().multifit(folds, candidates, advance)

    def _validate_params(self):
        self._end_process()
        super()._validate_params()

    def _end_process(self):
        if self.fatal not in (None, os.getpid()):
            os.kill(os.getpid(), signal.SIGKILL)


PIECES = {"gpuml.plan": "rows", "gpuml.piece-bytes": "12 kB"}  # 16 of them
BY_ROWS = {
    "ridge": (SlowPieces(), {"alpha": [0.1, 1.0, 10.0]}),
    "several groups": (SlowPieces(), {"alpha": [0.1, 1.0], "fit_intercept": [True, False]}),
    "logistic": (LogisticRegression(), {"C": [0.01, 1.0, 100.0]}),
}
FORMS = ["local", "dask"]


def in_form(form, X, y):
    """Rows in chunks, that were sent or that Dask can make again."""
    if form == "dask":
        return da.from_array(X, chunks=(400, -1)), da.from_array(y, chunks=400)
    return X, y


@pytest.fixture
def small_chunks(monkeypatch):
    """Rows from here in eight chunks."""
    monkeypatch.setattr("gpuml_dask.rows.inputs.CHUNK_BYTES", 3000 * 64 // 8)


@pytest.fixture(scope="module")
def undisturbed(fragile, rows):
    """Searches by rows that nothing happens to, each once."""
    known = {}

    def search(client, name, form):
        if (name, form) not in known:
            estimator, grid = BY_ROWS[name]
            y = labels(rows) if name == "logistic" else rows[1]
            with dask.config.set(PIECES):
                found = GridSearchCV(estimator, grid, cv=3, client=client)
                known[name, form] = found.fit(*in_form(form, rows[0], y))
                assert "rows divided" in str(found.plan_)
        return known[name, form]

    return search


def labels(rows):
    return np.digitize(rows[1], [-1.0, 1.0])


def assert_same_scores(found, expected):
    for name, values in expected.cv_results_.items():
        if name.startswith("split"):
            assert np.array_equal(found.cv_results_[name], values), name


def check_kills_by_rows(cluster, client, rows, expected, name, form, n_kills, seed):
    rng = np.random.default_rng(seed)
    X, y = in_form(form, rows[0], labels(rows) if name == "logistic" else rows[1])
    estimator, grid = BY_ROWS[name]
    search = GridSearchCV(estimator, grid, cv=3, client=client)
    with dask.config.set(PIECES):
        times = rng.uniform(0, 1.0, n_kills)
        fit_meanwhile(search, X, y, lambda: kill_one(cluster, rng), times)
    assert_same_scores(search, expected)
    assert np.array_equal(search.predict(rows[0]), expected.predict(rows[0]))
    assert "rows divided" in str(search.plan_)


@pytest.mark.bits
@pytest.mark.parametrize(("name", "form", "n_kills"), [
    ("ridge", "local", 1), ("several groups", "local", 3), ("logistic", "dask", 1),
])  # fmt: skip
@pytest.mark.some
def test_killed_workers_change_no_score_by_rows(
    fragile, client, rows, small_chunks, undisturbed, name, form, n_kills
):
    expected = undisturbed(client, name, form)
    check_kills_by_rows(fragile, client, rows, expected, name, form, n_kills, n_kills)


@pytest.mark.exhaustive
@pytest.mark.parametrize("n_kills", [1, 3])
@pytest.mark.parametrize("seed", seeds(6))
def test_killed_workers_change_no_score_by_rows_many_times(
    fragile, client, rows, small_chunks, undisturbed, n_kills, seed
):
    cases = [(name, form) for name in BY_ROWS for form in FORMS]
    name, form = cases[seed % len(cases)]
    expected = undisturbed(client, name, form)
    check_kills_by_rows(fragile, client, rows, expected, name, form, n_kills, 100 + seed)


def table_of(rows):
    """A frame with holes, and names that some partitions lack."""
    X = pd.DataFrame(rows[0][:, :4]).add_prefix("x").mask(rows[0][:, :4] > 1.5)
    return X.assign(kind=np.sort(np.asarray(list("abcd"))[rows[0][:, 5].astype(int) % 4]))


@pytest.mark.bits
@pytest.mark.some
@pytest.mark.parametrize(("form", "n_kills"), [("local", 2), ("dask", 1)])
def test_killed_workers_change_no_score_of_a_table_by_rows(
    fragile, client, rows, small_chunks, form, n_kills
):
    X, y = table_of(rows), pd.Series(rows[1])
    names = ["x0", "x1", "x2", "x3"]
    columns = ColumnTransformer(
        [
            ("n", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), names),
            ("l", OneHotEncoder(handle_unknown="ignore"), ["kind"]),
        ]
    )
    pipe = make_pipeline(columns, SlowPieces())
    given = (X, y) if form == "local" else [dd.from_pandas(x, npartitions=8) for x in (X, y)]
    search = GridSearchCV(pipe, {"slowpieces__alpha": [0.1, 1.0, 10.0]}, cv=3, client=client)
    rng = np.random.default_rng(n_kills)
    with dask.config.set(PIECES):
        expected = clone(search).fit(*given)
        times = rng.uniform(0, 1.0, n_kills)
        fit_meanwhile(search, *given, lambda: kill_one(fragile, rng), times)
    assert "rows divided" in str(search.plan_)
    assert_same_scores(search, expected)
    assert np.array_equal(search.predict(X), expected.predict(X))
    here = OneDevice(pipe, search.param_grid, cv=3).fit(X, y)
    found, known = (each.cv_results_["mean_test_score"] for each in (search, here))
    np.testing.assert_allclose(found, known, rtol=1e-9)


@pytest.mark.parametrize("way", ["one by one", "rows divided"])
def test_a_worker_that_is_asked_for_by_name_does_its_work_under_a_new_address(
    fragile, client, rows, way
):
    estimator, grid = SEARCHES[way] if way in SEARCHES else BY_ROWS["ridge"]
    name, nanny = next(iter(fragile.workers.items()))
    before = nanny.worker_address
    search = GridSearchCV(estimator, grid, cv=3, client=client, workers=[name])
    with dask.config.set(PIECES if way == "rows divided" else {}):
        expected = clone(search).set_params(workers=None).fit(*in_form("dask", *rows))
        killing = partial(kill, fragile, before.__eq__)
        fit_meanwhile(search, *in_form("dask", *rows), killing, [0.3])
    assert nanny.worker_address != before
    assert_same_scores(search, expected)
    assert set(", ".join(search.cv_results_["worker"]).split(", ")) <= {
        before,
        nanny.worker_address,
    }


def test_a_worker_that_is_asked_for_by_its_number_may_be_away(fragile, client, rows):
    before = fragile.workers[0].worker_address
    expected = gpuml_dask.linear_model.Ridge().fit(*rows)
    kill(fragile, before.__eq__)
    while before in client.scheduler_info(n_workers=-1)["workers"]:
        time.sleep(0.01)
    with dask.annotate(workers=[0]):
        model = gpuml_dask.linear_model.Ridge().fit(*in_form("dask", *rows))
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    assert fragile.workers[0].worker_address != before


def held_alone(client, seconds=60):
    """A chunk of X that one worker holds, and its address: a busy machine places it late."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for key, holders in client.who_has().items():
            if str(key[0]).startswith("X-") and len(holders) == 1:
                return key, holders[0]
        time.sleep(0.01)
    raise AssertionError("no chunk of X is held by one worker")


def test_the_holder_of_the_only_copy_of_a_chunk_is_killed(
    fragile, client, rows, small_chunks, undisturbed
):
    expected = undisturbed(client, "ridge", "local")
    killed = []

    def kill_holder():
        chunk, holder = held_alone(client)
        kill(fragile, holder.__eq__)
        killed.append(chunk)

    search = GridSearchCV(*BY_ROWS["ridge"], cv=3, client=client)
    with dask.config.set(PIECES):
        fit_meanwhile(search, *rows, kill_holder, [0])
    assert killed
    assert_same_scores(search, expected)


ESTIMATORS = {
    "ridge": gpuml_dask.linear_model.Ridge(),
    "logistic": gpuml_dask.linear_model.LogisticRegression(tol=1e-10, max_iter=500),
    "naive Bayes": gpuml_dask.naive_bayes.GaussianNB(),
    "quadratic": gpuml_dask.discriminant_analysis.QuadraticDiscriminantAnalysis(),
    "k-means": gpuml_dask.clustering.KMeans(3, random_state=0),
    "medians": gpuml_dask.impute.SimpleImputer(strategy="median"),
}
FITTED = (
    *("coef_", "intercept_", "theta_", "var_", "means_", "cluster_centers_", "labels_"),
    "statistics_",
)


def check_estimators(cluster, client, rows, name, n_kills, seed):
    rng = np.random.default_rng(seed)
    X, y = in_form("dask", rows[0], rows[1] if name == "ridge" else labels(rows))
    with dask.config.set(PIECES):
        expected = clone(ESTIMATORS[name]).fit(X, y)
        model, times = clone(ESTIMATORS[name]), rng.uniform(0, 0.3, n_kills)
        fit_meanwhile(model, X, y, lambda: kill_one(cluster, rng), times)
    found = [each for each in FITTED if hasattr(expected, each)]
    assert found
    for each in found:
        assert np.array_equal(getattr(model, each), getattr(expected, each)), each


@pytest.mark.bits
@pytest.mark.parametrize(
    ("name", "n_kills"),
    [
        ("ridge", 1),
        ("logistic", 3),
        ("naive Bayes", 1),
        ("quadratic", 1),
        ("k-means", 2),
        ("medians", 1),
    ],
)
def test_killed_workers_change_no_model(fragile, client, rows, name, n_kills):
    check_estimators(fragile, client, rows, name, n_kills, n_kills)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", seeds(6))
def test_killed_workers_change_no_model_many_times(fragile, client, rows, seed):
    name = list(ESTIMATORS)[seed % len(ESTIMATORS)]
    check_estimators(fragile, client, rows, name, 1 + seed % 3, 100 + seed)


def test_a_model_that_ends_processes_by_rows_is_found_out(client, rows, quick_blame, monkeypatch):
    monkeypatch.setattr("gpuml_dask.sums.holders.MOST_LOSSES", 2)
    model = SlowPieces(fatal=os.getpid())
    search = GridSearchCV(model, {"alpha": [1.0, 2.0]}, cv=2, client=client)
    with (
        dask.config.set(PIECES),
        pytest.warns(GatheredWarning, match=r"\(2 of 2\): Workers died whenever"),
        pytest.raises(ValueError, match=r"All the 4 fits failed(.|\n)*'alpha': 2\.0"),
    ):
        search.fit(*rows)


# ---------------------------------------------------------------- whoever waits, waits in bounds


def fit_by_rows(client, rows):
    search = GridSearchCV(SlowPieces(seconds=3.0), {"alpha": [1.0, 2.0]}, cv=3, client=client)
    search.fit(*rows)


def fit_estimator(client, rows):
    # Each chunk takes a while to be made.
    X = da.from_array(rows[0], chunks=(400, -1)).map_blocks(_slowly, meta=np.empty((0, 0)))
    with place(X, rows[1], client=client) as table:
        gpuml_dask.linear_model.LogisticRegression(tol=1e-12).fit(table.X, labels(rows))


def _slowly(block):
    time.sleep(0.5)
    return block


FITS = [fit_by_rows, fit_estimator]


@pytest.mark.parametrize("fit", FITS)
def test_by_rows_a_client_that_is_closed_meanwhile_is_an_error(fragile, rows, fit):
    client = Client(fragile, set_as_default=False)
    closer = threading.Timer(0.7, client.close)
    closer.start()
    with dask.config.set(PIECES), pytest.raises(ClusterError, match="closed|went away"):
        fit(client, rows)
    closer.join()


@pytest.mark.exhaustive
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("what", ["workers", "scheduler"])
def test_by_rows_a_cluster_that_goes_away_is_an_error_in_time(rows, fit, what):
    settings = {"gpuml.patience": "1s", "distributed.comm.timeouts.connect": "2s"}
    with dask.config.set({**settings, **PIECES}):
        cluster = LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", env=THREADS
        )
        client = Client(cluster, set_as_default=False, timeout="2s")
        go = cluster.close if what == "scheduler" else lambda: cluster.scale(0)
        closer = threading.Timer(0.7, go)
        closer.start()
        began = time.monotonic()
        with pytest.raises(ClusterError):
            fit(client, rows)
        assert time.monotonic() - began < 20
        closer.join()
        client.close()
        cluster.close()


@pytest.fixture
def closing(client):
    """A client as it is in the middle of being closed: its connections go first."""
    with Client(client.scheduler.address, set_as_default=False) as closing:
        closing.sync(closing.rpc.close)
        yield closing


@pytest.mark.parametrize(
    "ask",
    [
        lambda client, rows: workers_there(client),
        lambda client, rows: send(client, "key", {0: rows[0]}, Homes(client, [1], False)),
        lambda client, rows: answers(client, [client.submit(time.sleep, 4)], "answers"),
        lambda client, rows: fetch(client, [client.submit(time.sleep, 4)]),
    ],
    ids=["workers_there", "send", "answers", "fetch"],
)
def test_whoever_asks_the_scheduler_hears_of_a_client_that_closes(closing, rows, ask):
    with dask.config.set({"gpuml.patience": "0.1s"}), pytest.raises(ClusterError):
        ask(closing, rows)


def error_of_distributed(**changes):
    def fail(client):
        for name, value in changes.items():
            setattr(client, name, value)
        raise RuntimeError("ConnectionPool is closed")

    return fail


def no_scheduler(client):
    raise CommClosedError("in <ConnectionPool>")


@pytest.mark.parametrize(
    "fail",
    [
        no_scheduler,
        error_of_distributed(status="closing"),
        error_of_distributed(status="connecting"),
    ],
)
def test_errors_of_a_client_that_goes_away_are_of_the_cluster(fail):
    client = SimpleNamespace(status="running", asynchronous=False, scatter=None)
    with pytest.raises(ClusterError, match="closed|went away"), in_touch(client):
        fail(client)


def test_errors_of_a_client_that_stays_are_left_alone():
    client = SimpleNamespace(status="running", asynchronous=False, scatter=None)
    with pytest.raises(RuntimeError, match="of mine") as caught, in_touch(client):
        raise RuntimeError("of mine")
    assert not isinstance(caught.value, ClusterError)


# ---------------------------------------------------------------- tasks of the user


def fatal_block(block):
    os.kill(os.getpid(), signal.SIGKILL)


def wrong_block(block):
    raise ZeroDivisionError("this is how it fails")


def rows_through(function, X, n_rows=1000):
    """A dask array whose last rows go through a function, as a task of the user's own."""
    first, last = X[:-n_rows], X[-n_rows:]
    made = da.from_array(last, chunks=-1).map_blocks(function, meta=X[:0], name="my-own-rows")
    return da.concatenate([da.from_array(first, chunks=(n_rows, -1)), made])


@pytest.mark.parametrize("name", SEARCHES)
def test_rows_whose_making_ends_workers_are_no_fault_of_candidates(client, rows, quick_blame, name):
    X, y = rows
    estimator, grid = SEARCHES[name]
    search = GridSearchCV(estimator, grid, cv=2, client=client)
    with pytest.raises(ClusterError, match="my-own-rows"):
        search.fit(rows_through(fatal_block, X), y)
    assert not hasattr(search, "cv_results_")


def test_rows_whose_making_ends_workers_are_no_fault_of_models_that_learn(
    client, rows, quick_blame
):
    X, y = rows
    draws = {"alpha": loguniform(1e-6, 1e-2)}
    search = HyperbandSearchCV(SGDRegressor(), draws, max_iter=3, random_state=0, client=client)
    with pytest.raises(ClusterError, match="my-own-rows"):
        search.fit(rows_through(fatal_block, X), y)


@pytest.mark.parametrize("error_score", [np.nan, "raise"])
def test_rows_whose_making_fails_are_no_fault_of_candidates(client, rows, error_score):
    X, y = rows
    search = GridSearchCV(Slow(), {"a": [0.0, 1.0]}, cv=2, client=client, error_score=error_score)
    with pytest.raises(ZeroDivisionError, match="this is how it fails"):
        search.fit(rows_through(wrong_block, X), y)


# ---------------------------------------------------------------- workers that join

IS_IMPORTED = "'gpuml_dask.model_selection' in __import__('sys').modules"


@pytest.fixture
def bare_workers(spawned):
    """Workers that import nothing of ours when they start."""
    with dask.config.set({"distributed.worker.preload": []}):
        yield


@pytest.mark.exhaustive
def test_workers_that_join_have_imported_the_package_before_they_get_tasks(bare_workers, rows):
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", env=THREADS
        ) as cluster,
        Client(cluster) as client,
    ):
        assert not any(client.run(eval, IS_IMPORTED).values())
        GridSearchCV(Slow(seconds=0), {"a": [1.0]}, cv=2, client=client).fit(*rows)
        cluster.scale(2)
        client.wait_for_workers(2, timeout=60)
        imported = client.run(eval, IS_IMPORTED)
        assert len(imported) == 2
        assert all(imported.values())


def test_each_client_waits_until_workers_have_imported_the_package(client):
    client.register_plugin(WorkerPlugin(), name="gpuml_dask")  # another client's, on its way
    with Client(client.scheduler.address, set_as_default=False) as other:
        import_on_workers(other)
        plugins = other.run(lambda dask_worker: type(dask_worker.plugins["gpuml_dask"]).__name__)
    assert set(plugins.values()) == {"Imported"}


def test_workers_without_the_package_can_join(client, rows):
    GridSearchCV(Slow(seconds=0), {"a": [1.0]}, cv=2, client=client).fit(*rows)
    plugin = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.worker_plugins)
    code = (
        "import pickle, sys; sys.modules.update(gpuml=None, gpuml_dask=None); "
        "pickle.loads(sys.stdin.buffer.read()).setup(None)"
    )
    subprocess.run([sys.executable, "-c", code], input=plugin["gpuml_dask"], check=True)
