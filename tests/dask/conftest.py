"""One cluster of worker processes for all tests of gpuml_dask, and a client that checks for litter."""

import gc
import signal
import sys
import time
from multiprocessing import forkserver
from pathlib import Path

import dask
import pytest
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

ROOT = Path(__file__).parents[2]
N_WORKERS = 4
SECONDS_TO_TIDY = 10
# The rest are what the test modules import, which workers import to read what tests send them.
IMPORTED_BY_WORKERS = [
    *("dask.array", "dask.dataframe", "distributed", "gpuml_dask.model_selection"),
    *("gpuml_dask.clustering", "gpuml_dask.decomposition", "gpuml_dask.linear_model"),
    "gpuml_dask.mixture",
    *("gpuml_dask.discriminant_analysis", "gpuml_dask.naive_bayes", "gpuml_dask.preprocessing"),
    "gpuml_dask.impute",
    *("gpuml.feature_extraction.text", "gpuml.naive_bayes", "gpuml.pipeline", "gpuml.testing"),
    *("pytest", "scipy.stats", "sklearn.ensemble", "sklearn.neighbors", "sklearn.pipeline"),
    *("sklearn.feature_extraction.text", "sklearn.svm", "sklearn.tree"),
]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@pytest.fixture(scope="session", autouse=True)
def importable():
    """Let workers import the test modules: a spawned process gets the path of its parent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(ROOT)])
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_workers(importable):
    """Let workers start and end in a moment, as tests start hundreds.

    They are forked from a process that has imported what they need, as in Dask's own tests, where
    users' workers take seconds to import it; and they end as those of `make_cluster` do.
    """
    settings = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.worker.preload": ["gpuml_dask.on_start"],
        # Or Dask closes those for good that it does not find some time after a death, because they
        # have just died again, as they do in tests; `make_cluster` lets it look later.
        "distributed.deploy.lost-worker-timeout": "1 hour",
    }
    with dask.config.set(settings):
        get_mp_context().set_forkserver_preload(IMPORTED_BY_WORKERS)
        forkserver.ensure_running()  # now: tests compare the processes before and after
        yield


@pytest.fixture
def spawned():
    """Let workers start as users' do."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "spawn"}):
        yield


@pytest.fixture(autouse=True)
def gpu_workers_are_spawned(request):
    """CUDA's environment variables have to be there when a process starts."""
    if request.node.get_closest_marker("gpu"):
        request.getfixturevalue("spawned")


@pytest.fixture(scope="session")
def cluster4(quick_workers, tmp_path_factory):
    """Four worker processes with one thread each. Tests that kill workers make a cluster of theirs."""
    with LocalCluster(
        n_workers=N_WORKERS,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        local_directory=str(tmp_path_factory.mktemp("dask")),
        env=dict.fromkeys(THREADS, "1"),
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster4):
    """A client of `cluster4`; after the test no task and no data of it may be left anywhere."""
    with Client(cluster4) as client:
        client.wait_for_workers(N_WORKERS, timeout=60)
        yield client
        left = _left_behind(client)
        assert left == {}, f"Still there {SECONDS_TO_TIDY} s after the test: {left}"


@pytest.fixture
def copies_stay(client):
    """For tests that count what workers fetch from each other, or look where results are.

    Every two seconds Dask takes copies of results off workers that have no task for them just then,
    and a worker that gets such a task later fetches them again.
    """
    client.amm.stop()
    yield
    client.amm.start()


def _left_behind(client):
    """Tasks known to the scheduler and data on workers, by address; waits for what is in flight."""
    deadline = time.monotonic() + SECONDS_TO_TIDY
    while True:
        found = {"scheduler": client.run_on_scheduler(_tasks_of_scheduler)}
        found.update(client.run(_keys_of_worker))
        found = {place: keys for place, keys in found.items() if keys}
        if not found or time.monotonic() > deadline:
            return found
        gc.collect()  # futures in cycles
        time.sleep(0.02)


def _tasks_of_scheduler(dask_scheduler):
    return [str(key) for key in dask_scheduler.tasks]


def _keys_of_worker(dask_worker):
    return sorted({str(key) for key in (*dask_worker.data, *dask_worker.state.tasks)})


@pytest.fixture
def interruptible():
    """Let Ctrl-C raise KeyboardInterrupt, also where whoever started the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
