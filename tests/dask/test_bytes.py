"""Where bytes go in searches and fits, and what is left on workers and here when they are over."""

import asyncio
import gc
import os
import signal
import threading
import time
from pathlib import Path

import dask
import dask.array as da
import distributed.client
import distributed.comm.tcp
import numpy as np
import pytest
from distributed import wait

import gpuml_dask.decomposition
import gpuml_dask.linear_model
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml_dask.cluster import make_cluster
from gpuml_dask.model_selection import GridSearchCV
from gpuml_dask.rows.placement import place
from gpuml_dask.rows.sending import Homes, send

N, P = 200_000, 10
X_BYTES = N * P * 8  # 16 MB
ROWS = {"gpuml.plan": "rows", "gpuml.piece-bytes": "1 MB"}
WHOLE = {"gpuml.plan": "whole"}


@pytest.fixture
def traffic(monkeypatch):
    """Bytes that pass this process, which is the client and the scheduler."""
    seen = {"read": 0, "written": 0}
    read, add_header = distributed.comm.tcp.read_bytes_rw, distributed.comm.tcp._add_frames_header

    async def counted_read(stream, n):
        seen["read"] += n
        return await read(stream, n)

    def counted_write(frames):
        made = add_header(frames)
        seen["written"] += made[2]
        return made

    monkeypatch.setattr(distributed.comm.tcp, "read_bytes_rw", counted_read)
    monkeypatch.setattr(distributed.comm.tcp, "_add_frames_header", counted_write)
    return seen


@pytest.fixture(scope="module")
def local():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    return X, (X[:, 0] + rng.normal(size=N) > 0).astype(float)


def there():
    """The same kind of rows, made by the workers."""
    X = da.random.default_rng(0).normal(size=(N, P), chunks=(N // 8, P))
    return X, (X[:, 0] > 0).astype(int)


# ---------------------------------------------------------------- bytes


@pytest.mark.each
@pytest.mark.parametrize("plan", [WHOLE, ROWS], ids=["whole", "rows"])
@pytest.mark.parametrize("estimator", [Ridge(), LogisticRegression()], ids=["ridge", "logistic"])
@pytest.mark.parametrize("persisted", [True, False], ids=["persisted", "lazy"])
def test_rows_on_workers_pass_neither_client_nor_scheduler(
    client, traffic, plan, estimator, persisted
):
    X, y = there()
    if persisted:
        X, y = dask.persist(X, y)
        wait([X, y], timeout=60)
    name = "C" if hasattr(estimator, "C") else "alpha"
    with dask.config.set(plan):
        GridSearchCV(estimator, {name: [0.1, 1.0]}, cv=3, client=client).fit(X, y)
    n_read, n_written = traffic["read"], traffic["written"]
    del X, y
    assert n_read < X_BYTES / 5
    assert n_written < X_BYTES / 5


@pytest.mark.parametrize(
    "model",
    [
        gpuml_dask.linear_model.Ridge(),
        gpuml_dask.linear_model.LogisticRegression(),
        gpuml_dask.decomposition.PCA(2),
    ],
    ids=str,
)
def test_fits_and_predictions_of_rows_on_workers_stay_there(client, traffic, model):
    X, y = dask.persist(*there())
    wait([X, y], timeout=60)
    with dask.config.set(ROWS):
        model.fit(X, y)
    method = model.transform if hasattr(model, "transform") else model.predict
    wait(method(X).persist(), timeout=60)
    if hasattr(model, "predict"):
        model.score(X, y)
    assert traffic["read"] < X_BYTES / 10
    assert traffic["written"] < X_BYTES / 10


def test_rows_from_here_are_sent_once_where_they_are_divided(client, traffic, local, monkeypatch):
    monkeypatch.setattr("gpuml_dask.rows.inputs.CHUNK_BYTES", X_BYTES // 8)
    with dask.config.set(ROWS):
        GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3, client=client).fit(*local)
    assert X_BYTES <= traffic["written"] < 1.1 * (X_BYTES + N * 8)


@pytest.mark.usefixtures("copies_stay")
def test_each_worker_gets_rows_from_here_once(client, traffic, local):
    def received(dask_worker):
        return sum(log["total"] for log in dask_worker.transfer_incoming_log)

    before = client.run(received)
    grid = {"alpha": [0.1, 1.0], "fit_intercept": [True, False], "solver": ["cholesky", "svd"]}
    with dask.config.set(WHOLE):
        search = GridSearchCV(Ridge(), grid, cv=3, client=client).fit(*local)
    after = client.run(received)
    sent = X_BYTES + N * 8
    assert len(set(search.cv_results_["worker"])) > 1
    assert all(after[worker] - before[worker] < 1.1 * sent for worker in after)
    assert traffic["written"] < 1.1 * sent


def test_rows_that_are_placed_are_sent_to_no_second_search(client, traffic, local):
    X, y = local
    with place(X, y, client=client) as table:
        wait(table.futures("X"), timeout=60)
        before = traffic["written"]
        for plan in (ROWS, WHOLE):
            with dask.config.set(plan):
                search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3, client=client)
                search.fit(table.X, table.y)
        assert traffic["written"] - before < X_BYTES / 10


# ---------------------------------------------------------------- what is left


class Raises(Ridge):
    """Ridge with an error, or a Ctrl-C meanwhile, in the middle of its work on pieces."""

    def __init__(self, alpha=1.0, *, how="error"):
        super().__init__(alpha)
        self.how = how

    def multifit_piece(self, X, y, weight):
        if self.how == "error":
            raise OSError("no more pieces")
        time.sleep(2.0)
        return super().multifit_piece(X, y, weight)


class RaisesWhole(Raises):
    """The same in one place."""

    def multifit(self, folds, candidates, advance=None):
        if self.how == "error":
            raise OSError("no more pieces")
        time.sleep(2.0)
        return super().multifit(folds, candidates, advance)


def fit_search(client, model, X, y):
    GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=3, client=client, error_score="raise").fit(X, y)


def keys_on(client):
    return {str(key) for keys in client.has_what().values() for key in keys} | {
        str(key) for keys in client.processing().values() for key in keys
    }


def assert_nothing_is_left(client):
    """No key on any worker, without any help of the garbage collector."""
    deadline = time.monotonic() + 60  # tasks that run when they are cancelled run to their end
    while left := keys_on(client):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.parametrize("plan", [WHOLE, ROWS], ids=["whole", "rows"])
def test_an_error_leaves_nothing_on_workers_while_it_is_looked_at(client, local, plan):
    kind = RaisesWhole if plan is WHOLE else Raises
    X, y = local
    with dask.config.set(plan), pytest.raises(OSError, match="no more pieces") as error:
        fit_search(client, kind(), X[:20_000], y[:20_000])
    assert_nothing_is_left(client)
    del error


@pytest.mark.parametrize("plan", [WHOLE, ROWS], ids=["whole", "rows"])
def test_an_interrupt_leaves_nothing_on_workers(interruptible, client, local, plan):
    kind = RaisesWhole if plan is WHOLE else Raises
    X, y = local
    interrupt = threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGINT))
    with dask.config.set({**plan, "gpuml.piece-bytes": "100 kB"}):
        interrupt.start()
        try:
            with pytest.raises(KeyboardInterrupt) as error:
                fit_search(client, kind(how="wait"), X, y)
        finally:  # a signal that comes later would end the whole run
            interrupt.cancel()
            interrupt.join()
    assert_nothing_is_left(client)
    del error


# Where it hits Dask between making a coroutine and running it.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*coroutine object:pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_of_sending_leaves_nothing_on_workers(interruptible, client):
    """Not even of a delivery that began, or came, when nobody waited for it."""
    chunks = {i: np.ones(1000) for i in range(120)}
    homes = Homes(client, [8000] * len(chunks), on_gpu=False)
    errors = []  # are kept, as debuggers and notebooks keep them
    for seconds in [0.0, *np.linspace(0.004, 0.03, 24)]:
        interrupt = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt) as error:
            _sends_until(interrupt, client, f"at-{seconds}", chunks, homes)
        errors.append(error)
        assert_nothing_is_left(client)
    del errors, error


def _sends_until(interrupt, *args):
    try:
        interrupt.start()
        send(*args)
        time.sleep(5)
    finally:  # a signal that comes later would end the whole run
        interrupt.join()


@pytest.mark.parametrize("at", [1, 2])
def test_an_interrupt_while_rows_are_sent_leaves_nothing_on_workers(
    interruptible, client, monkeypatch, at
):
    """Not even on a worker that has rows of which the scheduler has not heard."""
    calls = []
    theirs = distributed.client.scatter_to_workers

    async def scatter_to_workers(*args, **kwargs):
        found = await theirs(*args, **kwargs)
        calls.append(args)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.5)
        return found

    monkeypatch.setattr(distributed.client, "scatter_to_workers", scatter_to_workers)
    chunks = {i: np.ones(10) for i in range(2)}
    with pytest.raises(KeyboardInterrupt) as error:
        send(client, f"chunk-{at}", chunks, Homes(client, [80, 80], on_gpu=False))
    assert len(calls) == at
    assert_nothing_is_left(client)
    del error


def test_an_interrupted_fit_leaves_nothing_on_workers(interruptible, client):
    X, y = there()
    X = X.map_blocks(_slowly, meta=np.empty((0, 0)))
    interrupt = threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    try:
        with dask.config.set(ROWS), pytest.raises(KeyboardInterrupt) as error:
            gpuml_dask.linear_model.Ridge().fit(X, y)
    finally:
        interrupt.cancel()
        interrupt.join()
    assert_nothing_is_left(client)
    del error


def _slowly(block):
    time.sleep(0.5)
    return block


def children():
    """Processes below this one, but for those that multiprocessing keeps for itself."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            command = (path.parent / "cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and "resource_tracker" not in command:
            found.add(int(path.parent.name))
    return found


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts processes by /proc")
def test_closed_clusters_leave_no_process_thread_or_file(tmp_path, local):
    def work():
        with (
            make_cluster(
                n_workers=2,
                threads_per_worker=1,
                device="cpu",
                dashboard_address=":0",
                local_directory=str(tmp_path),
            ) as cluster,
            cluster.get_client() as client,
        ):
            X, y = (a[:20_000] for a in local)
            for plan in (WHOLE, ROWS):
                with dask.config.set({**plan, "gpuml.piece-bytes": "400 kB"}):
                    fit_search(client, Ridge(), X, y)
            gpuml_dask.linear_model.Ridge().fit(da.from_array(X, chunks=(5000, -1)), y)
            before = client.run(threading.active_count)
            fit_search(client, Ridge(), X, y)
            assert client.run(threading.active_count) == before

    work()  # pools of threads that Dask keeps for the life of a process
    gc.collect()
    processes, threads = children(), set(threading.enumerate())
    work()
    gc.collect()
    deadline = time.monotonic() + 10
    while (more := set(threading.enumerate()) - threads) or children() - processes:
        assert time.monotonic() < deadline, (more, children() - processes)
        time.sleep(0.05)
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []
