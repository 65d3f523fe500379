"""Whatever waits for a cluster: in its tasks, without workers, for workers that do not work."""

import ast
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, Event, LocalCluster, get_client
from distributed.core import Status
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import SGDRegressor

import gpuml_dask.linear_model
from gpuml.linear_model import Ridge
from gpuml_dask import place, waiting
from gpuml_dask.client import thread_lent
from gpuml_dask.errors import ClusterError
from gpuml_dask.linalg import svd_compressed
from gpuml_dask.model_selection import GridSearchCV, HyperbandSearchCV
from gpuml_dask.sums.collective import Collective
from gpuml_dask.waiting import answers, wait_until_done

ROOT = Path(__file__).parents[2]
SECONDS = 60
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
GRID = {"alpha": [0.1, 1.0, 10.0]}
N_WORKERS = 2


@contextmanager
def started(n_workers=N_WORKERS, **kwargs):
    """A cluster with one thread in each worker."""
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "env": THREADS, **kwargs}
    with LocalCluster(n_workers=n_workers, **options) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def two(quick_workers):
    """Two workers that stay paused when they are."""
    with started(memory_limit=0) as cluster:
        yield cluster


@pytest.fixture
def client(two):
    with Client(two) as client:
        client.wait_for_workers(N_WORKERS, timeout=SECONDS)
        yield client


@pytest.fixture(scope="module")
def rows():
    return made_rows()


def made_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))  # too large to travel with the tasks
    return X, X @ rng.normal(size=8) + rng.normal(size=3000)


@pytest.fixture
def said(monkeypatch, caplog):
    """What is said, after a second already."""
    monkeypatch.setattr(waiting, "SAY_SECONDS", 1.0)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.3)
    caplog.set_level(logging.WARNING, "gpuml_dask")
    return lambda: " ".join(record.getMessage() for record in caplog.records)


def wait_until(happens):
    deadline = time.monotonic() + SECONDS
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def meanwhile(function, *args):
    """Call a function in a thread; yields an object that has its result, or its error, later."""
    came = SimpleNamespace(result=None, error=None)

    def call():
        try:
            came.result = function(*args)
        except Exception as error:
            came.error = error

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield came
    finally:
        thread.join(SECONDS)
    assert not thread.is_alive()


class Slow(RegressorMixin, BaseEstimator):
    """The mean of y times `a`, after a while."""

    def __init__(self, a=1.0, seconds=0.2):
        self.a, self.seconds = a, seconds

    def fit(self, X, y):
        time.sleep(self.seconds)
        self.mean_ = self.a * y.mean()
        return self

    def predict(self, X):
        return self.mean_ + X[:, 0]


# ---------------------------------------------------------------- in a task


def search(client, X, y):
    found = GridSearchCV(Ridge(), GRID, client=client).fit(X, y)
    return [found.best_score_], str(found.plan_)


def adaptive_search(client, X, y):
    draws = {"alpha": loguniform(1e-6, 1e-2)}
    found = HyperbandSearchCV(SGDRegressor(), draws, max_iter=3, random_state=0, client=client)
    return [found.fit(X, y).best_score_], str(found.plan_)


def in_chunks(X, y):
    return da.from_array(X, chunks=(600, -1)), da.from_array(y, chunks=600)


def search_by_rows(client, X, y):
    with dask.config.set({"gpuml.plan": "rows", "gpuml.piece-bytes": "24 kB"}):
        return search(client, *in_chunks(X, y))


def estimator(client, X, y):
    return gpuml_dask.linear_model.Ridge().fit(*in_chunks(X, y)).coef_.tolist(), ""


def placed(client, X, y):
    X, _ = in_chunks(X, y)
    with place(X[X[:, 0] > 0], client=client if isinstance(client, Client) else None) as table:
        return [table.n_rows], ""  # which only the workers can tell


def decomposition(client, X, y):
    X, _ = in_chunks(X, y)
    return svd_compressed(X, 2, seed=0, compute=True)[1].compute().tolist(), ""


WORK = [search, adaptive_search, estimator, placed, decomposition]


def work_in_a_task(work, which, address, X, y):
    client = {"current": None, "own": get_client(), "address": address}[which]
    return work(client, X, y)


@pytest.mark.some
@pytest.mark.parametrize(
    ("work", "which"),
    [*((work, "current") for work in WORK), (search, "own"), (search, "address"), (placed, "own")],
)
def test_as_many_tasks_as_threads_use_the_cluster(client, rows, work, which):
    expected = work(client, *rows)
    address = client.scheduler.address
    tasks = [
        client.submit(work_in_a_task, work, which, address, *rows, pure=False)
        for _ in range(2 * N_WORKERS)
    ]
    wait_until(lambda: all(task.done() for task in tasks))
    for numbers, plan in client.gather(tasks):
        assert numbers == pytest.approx(expected[0], rel=1e-10)
        assert plan == expected[1]  # on workers, and not in the task alone


def test_a_search_in_a_task_stays_there_if_it_is_told_to(client, rows):
    def alone(X, y):
        return str(GridSearchCV(Ridge(), GRID, scheduler="sync").fit(X, y).plan_)

    assert "worker" not in client.submit(alone, *rows).result(timeout=SECONDS)


# ---------------------------------------------------------------- without workers


@pytest.mark.exhaustive
def test_a_cluster_that_adapts_needs_no_worker_at_first(rows):
    with started(0) as cluster:
        cluster.adapt(minimum=0, maximum=2, interval="200ms")
        with Client(cluster) as client:
            assert client.nthreads() == {}
            found = GridSearchCV(Ridge(), GRID, client=client).fit(*rows)
            assert (
                found.best_params_
                == GridSearchCV(Ridge(), GRID, scheduler="sync").fit(*rows).best_params_
            )
            wait_until(lambda: not client.nthreads())  # it holds none back


def test_it_is_said_that_there_is_no_worker(rows, said):
    with (
        dask.config.set({"gpuml.patience": "2s"}),
        started(0) as cluster,
        Client(cluster) as client,
        pytest.raises(ClusterError, match=r"no running worker for 2 seconds.*gpuml\.patience"),
    ):
        GridSearchCV(Ridge(), GRID, client=client).fit(*rows)
    assert "waiting for a worker" in said()


# ---------------------------------------------------------------- workers that do not work


@contextmanager
def standing_still(client, name):
    """A worker of some name that is stopped; yields its address."""
    (address,) = [a for a, w in client.scheduler_info()["workers"].items() if w["name"] == name]
    (pid,) = client.run(os.getpid, workers=[address]).values()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield address
    finally:
        with suppress(ProcessLookupError):  # Dask has ended it
            os.kill(pid, signal.SIGCONT)


@pytest.mark.exhaustive
def test_a_worker_that_is_stopped_is_named(client, rows, said):
    grid = {"a": list(np.linspace(0, 2, 8))}
    expected = GridSearchCV(Slow(seconds=0), grid, cv=2, scheduler="sync").fit(*rows)
    search = GridSearchCV(Slow(), grid, cv=2, client=client)
    with meanwhile(search.fit, *rows) as fit:
        wait_until(lambda: any(client.processing().values()))
        with standing_still(client, 1) as address:
            wait_until(lambda: f"{address}, which runs tasks that gpuml needs, is silent" in said())
    assert fit.error is None
    assert "worker-ttl" in said()
    name = "mean_test_score"
    assert np.array_equal(search.cv_results_[name], expected.cv_results_[name])


@pytest.mark.exhaustive
def test_the_work_of_a_worker_that_is_stopped_is_done_by_others(rows):
    grid = {"a": list(np.linspace(0, 2, 8))}
    with (
        dask.config.set({"distributed.scheduler.worker-ttl": "10s"}),
        started() as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(N_WORKERS, timeout=SECONDS)
        search = GridSearchCV(Slow(), grid, cv=2, client=client)
        with meanwhile(search.fit, *rows) as fit:
            wait_until(lambda: any(client.processing().values()))
            with standing_still(client, 1):
                wait_until(lambda: hasattr(search, "cv_results_"))
        assert fit.error is None


@pytest.fixture
def paused(client):
    """A client whose workers are paused."""

    def pause(status, dask_worker=None):
        dask_worker.status = Status[status]

    def states():
        return {w["status"] for w in client.scheduler_info(n_workers=-1)["workers"].values()}

    client.run(pause, "paused")
    wait_until(lambda: states() == {"paused"})
    yield client
    client.run(pause, "running")
    wait_until(lambda: states() == {"running"})


def sleep_well(seconds, *args):
    time.sleep(seconds)
    return seconds


def _waits(event, *args):
    return event.wait(SECONDS)


@pytest.mark.exhaustive
def test_paused_workers_are_not_waited_for_without_end(paused, rows, said):
    with dask.config.set({"gpuml.patience": "1.5s"}):
        with pytest.raises(ClusterError, match="all 2 are paused"):
            GridSearchCV(Ridge(), GRID, client=paused).fit(*rows)
        with pytest.raises(ClusterError, match="No worker may take tasks"):
            answers(paused, [paused.submit(sleep_well, 0, pure=False)], "answers")
    assert "No worker may take tasks" in said()


@pytest.mark.exhaustive
def test_a_worker_that_pauses_with_tasks_is_not_waited_for_without_end(client, said):
    """A paused worker begins nothing; what it works on, it ends."""
    address = sorted(client.nthreads())[0]

    def pause(status, dask_worker=None):
        dask_worker.status = Status[status]

    options = {"workers": [address], "pure": False}
    first, second = (client.submit(sleep_well, 2, i, **options) for i in range(2))
    wait_until(lambda: len(client.processing()[address]) == 2)
    client.run(pause, "paused", workers=[address])
    try:
        with dask.config.set({"gpuml.patience": "1.5s"}):
            assert answers(client, [first], "the first") == [2]
            with pytest.raises(ClusterError, match=f"{address} is paused"):
                answers(client, [second], "the second")
    finally:
        client.run(pause, "running", workers=[address])
    assert "is paused" in said()


def test_resources_that_nobody_has_are_named(client, said):
    with dask.config.set({"gpuml.patience": "1.5s"}):
        task = client.submit(sleep_well, 0, resources={"UNOBTAINABLE": 1})
        rest = client.submit(sleep_well, 0, task)
        with pytest.raises(ClusterError, match=r"(?s)Nothing was computed.*UNOBTAINABLE"):
            answers(client, [rest], "answers")
    assert "UNOBTAINABLE" in said()


@pytest.mark.exhaustive
def test_resources_that_tasks_which_wait_have_are_named(said):
    def outer():
        client = get_client()
        with dask.config.set({"gpuml.patience": "2s"}), thread_lent():
            return answers(client, [client.submit(sleep_well, 0, resources={"GPU": 1})], "answers")

    with started(1, resources={"GPU": 1}) as cluster, Client(cluster) as client:
        task = client.submit(outer, resources={"GPU": 1})
        with pytest.raises(ClusterError, match=r"\['GPU'\] are held by tasks that are waiting"):
            task.result(timeout=SECONDS)


@pytest.mark.exhaustive
def test_work_behind_other_work_is_waited_for(client, said):
    with dask.config.set({"gpuml.patience": "1s"}):
        go = Event(client=client)
        blocking = [
            client.submit(_waits, go, address, workers=[address], pure=False)
            for address in client.nthreads()
        ]
        wait_until(lambda: sum(map(len, client.processing().values())) == N_WORKERS)
        behind = [client.submit(sleep_well, 0, pure=False)]
        with meanwhile(answers, client, behind, "answers") as answered:
            wait_until(lambda: "is busy with other tasks" in said())
            go.set()
    assert answered.result == [0]
    del blocking


@pytest.mark.exhaustive
def test_a_long_fit_is_waited_for_and_nothing_is_said(client, said, monkeypatch):
    monkeypatch.setattr(waiting, "SAY_SECONDS", 2.0)  # of silence, on a machine that is busy
    with dask.config.set({"gpuml.patience": "1s"}):
        assert answers(client, [client.submit(sleep_well, 2.5, pure=False)], "answers") == [2.5]
    assert said() == ""


@pytest.mark.exhaustive
def test_a_second_fit_over_the_gpus_says_what_it_waits_for(client, said, caplog):
    with Client(client.scheduler.address, set_as_default=False) as other:
        mine, theirs = Collective(client), Collective(other)
        for first, second in ((mine, theirs), (mine, mine)):
            with ExitStack() as stack:
                stack.enter_context(first._turn(["a", "b"]))
                with meanwhile(_enter, second) as entered:
                    wait_until(lambda: "Another fit works with the rows divided" in said())
                    assert entered.result is None
                    stack.close()
            assert entered.result
            caplog.clear()


def _enter(one):
    with one._turn(["b", "c"]):
        return True


# ---------------------------------------------------------------- a client that sees the scheduler


@pytest.fixture
def behind_a_gateway(client, monkeypatch):
    """A client that has no connection to any worker."""
    connect = client.rpc.connect

    async def through_the_gateway(address, *args, **kwargs):
        if address in workers:
            raise OSError(f"Timed out trying to connect to {address}")
        return await connect(address, *args, **kwargs)

    workers = set(client.nthreads())
    monkeypatch.setattr(client.rpc, "connect", through_the_gateway)
    return client


@pytest.mark.exhaustive
@pytest.mark.parametrize("work", [search, adaptive_search, search_by_rows])
def test_a_client_that_reaches_the_scheduler_alone(behind_a_gateway, rows, work, said):
    client = behind_a_gateway
    found = work(client, *rows)
    with place(*rows, client=client, chunks=500) as table:
        assert np.array_equal(table.whole("X").result(timeout=SECONDS), rows[0])
    assert said().count("cannot reach worker") == 1
    with Client(client.scheduler.address, set_as_default=False) as straight:
        numbers, plan = work(straight, *rows)
    assert numbers == pytest.approx(found[0], rel=1e-10)
    assert plan == found[1]


def test_a_client_that_is_not_to_go_straight_does_not(client, rows, said, monkeypatch):
    with Client(
        client.scheduler.address, set_as_default=False, direct_to_workers=False
    ) as indirect:

        async def scatter(*args, direct, **kwargs):
            assert not direct
            return await Client.scatter(indirect, *args, direct=direct, **kwargs)

        monkeypatch.setattr(indirect, "scatter", scatter)
        search(indirect, *rows)
    assert said() == ""


# ---------------------------------------------------------------- what is left


THREADS_LEFT = """
import threading, time
from distributed import Client, LocalCluster
from gpuml_dask.sums.collective import Collective
from tests.dask.test_waiting import adaptive_search, made_rows, search, search_by_rows

if __name__ == "__main__":
    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            client.submit(abs, 1).result()
        before = set(threading.enumerate())
        with Client(cluster) as client:
            for work in (search, adaptive_search, search_by_rows):
                work(client, *made_rows())
            with Collective(client)._turn(["a"]):
                pass
        deadline = time.monotonic() + 10
        while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
            time.sleep(0.05)
        print(sorted(thread.name for thread in left))
"""


@pytest.mark.exhaustive
def test_no_thread_outlives_the_client():
    """In a process of its own: threads that others have started would serve here too."""
    script = subprocess.run(
        [sys.executable, "-c", THREADS_LEFT], capture_output=True, text=True, check=True, cwd=ROOT
    )
    (left,) = script.stdout.split("\n")[-2:-1]
    # The worker, which is in the process, has threads of its own.
    assert [name for name in ast.literal_eval(left) if "Dask-Default" not in name] == []


def test_a_wait_with_a_limit_returns(client):
    go = Event(client=client)
    task = client.submit(_waits, go, pure=False)
    began = time.monotonic()
    wait_until_done(client, [task], "a task", limit=0.5)
    assert time.monotonic() - began < SECONDS / 2
    go.set()
    assert task.result(timeout=SECONDS)


# ---------------------------------------------------------------- Ctrl-C


class Interrupted:
    """Ctrl-C comes while it is deleted."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_is_raised_again_where_python_drops_it(interruptible):
    before = sys.unraisablehook

    def work():
        with waiting.interruptible():
            Interrupted()
            time.sleep(SECONDS)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - began < SECONDS / 2
    assert sys.unraisablehook is before


def test_other_errors_that_python_drops_are_reported_as_before(monkeypatch):
    class Fails:
        def __del__(self):
            raise ValueError

    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: seen.append(dropped.exc_type))
    with waiting.interruptible():
        Fails()
    assert seen == [ValueError]
