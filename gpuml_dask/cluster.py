"""Clusters on this machine."""

import atexit
import importlib.util
import multiprocessing
import os
import sys
import warnings
import weakref
from contextlib import contextmanager
from functools import cache
from numbers import Integral
from typing import Any

import dask
from dask.system import cpu_count
from distributed import Client, LocalCluster
from distributed.deploy.local import nprocesses_nthreads
from distributed.diagnostics import nvml

DEVICES = ("auto", "cpu", "cuda")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SECONDS_TO_CLOSE = 20
# Until Dask looks whether a worker that died has come back; then it brings it back no more.
LOST_WORKER = "60s"
RMM_POOL = 0.5  # of the GPU memory that is free when the cluster starts
# A thread of UCX moves messages, and tells event loops of those that have come.
UCX_WITHOUT_SPINNING = {"UCXPY_PROGRESS_MODE": "thread", "UCXPY_ENABLE_PYTHON_FUTURE": "1"}
# NCCL, cuBLAS and UCX allocate outside the pool.
RMM_LARGEST_POOL = 0.9
HOW_TO_GUARD = (
    "In a script, everything that is to run once belongs below \"if __name__ == '__main__':\", "
    "because every worker process imports the script when it starts:\n\n"
    "    from gpuml_dask import local_client\n\n"
    "    def main():\n        with local_client() as client:\n            ...\n\n"
    "    if __name__ == '__main__':\n        main()\n"
)


def make_cluster(
    n_workers: int | None = None,
    *,
    threads_per_worker: int | None = None,
    protocol: str | None = None,
    memory_limit: Any = "auto",
    rmm_pool_size: Any = "auto",
    spill: Any = True,
    device: str = "auto",
    dashboard_address: str | None = "127.0.0.1:0",
    **kwargs: Any,
) -> LocalCluster:
    """Start a Dask cluster on this machine: a worker for each GPU, or workers for its CPU cores.

    Parameters
    ----------
    n_workers : int, default=None
        Number of worker processes; 0 starts none, to scale the cluster later. None starts one per
        GPU in ``CUDA_VISIBLE_DEVICES``. On the CPU, None divides the cores that this process may
        use (affinity and cgroup limits count) into about as many processes as threads in each.
    threads_per_worker : int, default=None
        Number of tasks that a worker runs at the same time. None is 1 on a GPU, and the cores
        divided by the workers on the CPU. BLAS and OpenMP share the remaining threads, at least one
        per task, unless you set ``OMP_NUM_THREADS`` or a similar variable.
    protocol : str, default=None
        "tcp", "tls" or "ucx". None uses "ucx" (NVLink, InfiniBand) for GPU workers if the package
        ``distributed-ucxx`` is installed, and "tcp" otherwise.
    memory_limit : "auto", int, float, str or None, default="auto"
        CPU memory of a worker: bytes, a fraction of the machine's memory, or a string such as
        "8GB". Dask writes results to disk before a worker reaches it. "auto" divides the memory of
        the machine among the workers; None sets no limit.
    rmm_pool_size : "auto", int, float, str or None, default="auto"
        Initial size of the RMM pool of a GPU worker: bytes, a fraction of the GPU's memory, or a
        string such as "40GB". "auto" is half of what is free on the GPU that has least free, so
        that workers also start if other programs use the GPUs. The pool grows up to 90 % of the GPU
        (``rmm_maximum_pool_size`` sets another limit), and CuPy uses it too. None makes no pool.
        Ignored on the CPU.
    spill : bool, int, float or str, default=True
        When results of tasks fill this much GPU memory, Dask moves them to CPU memory, and from
        there to disk: bytes, a fraction of the GPU, or a string such as "60GB". True is 80 % of the
        GPU, and False keeps all results on the GPU. Ignored on the CPU, where Dask's configuration
        ``distributed.worker.memory`` sets when workers write to disk.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Kind of workers. "auto" uses the GPUs, if there are any and dask-cuda is installed.
    dashboard_address : str or None, default="127.0.0.1:0"
        Address of the dashboard. Port 0 is any free port; ``cluster.dashboard_link`` has the
        actual one. None starts no dashboard.
    **kwargs
        Passed to `distributed.LocalCluster` or `dask_cuda.LocalCUDACluster`, for example
        ``local_directory``, ``security``, ``asynchronous=True`` (then await the result) or
        ``enable_cudf_spill=True``.

    Returns
    -------
    cluster : distributed.LocalCluster or dask_cuda.LocalCUDACluster
        Workers declare the Dask resource ``GPU`` (1 each) or ``CPU`` (as many as threads). Close
        the cluster with ``cluster.close()``, or use it in a ``with`` statement; it also closes when
        the program ends. The scheduler and the workers listen on this machine only.

    Raises
    ------
    ValueError
        If `device` is not one of these values, or a number of workers or threads is too small.
    TypeError
        If a number of workers or threads is not an integer.
    RuntimeError
        If `device` is "cuda" and there are no GPUs, if `protocol` is "ucx" and its package is
        missing, or if workers cannot start, for example because your script lacks
        ``if __name__ == "__main__":``.

    Notes
    -----
    Dask restarts a worker that dies. If the worker is missing when Dask's setting
    ``distributed.deploy.lost-worker-timeout`` has passed, perhaps because it died again, Dask gives
    it up. This function raises the default of that setting from 15 s to 60 s in this process. After
    that time, ``cluster.scale(n)`` also replaces a worker that you retired
    (``client.retire_workers``).

    This process creates no CUDA context. Managed memory is not used, because migrating pages
    between CPU and GPU memory is slow.

    Examples
    --------
    >>> from gpuml_dask.cluster import make_cluster
    >>> with make_cluster(2, device="cpu") as cluster:  # doctest: +SKIP
    ...     print(cluster.scheduler_address)
    tcp://127.0.0.1:41765
    """
    _refuse_in_a_worker_that_starts()
    if device not in DEVICES:
        raise ValueError(f"device must be one of {DEVICES}, got {device!r}.")
    _check_count("n_workers", n_workers, 0)
    _check_count("threads_per_worker", threads_per_worker, 1)
    has_ucx = importlib.util.find_spec("distributed_ucxx") is not None
    if protocol is not None and protocol.startswith("ucx") and not has_ucx:
        raise RuntimeError(
            f"protocol={protocol!r} needs the package distributed-ucxx: install "
            "gpuml[dask-cu13] (or dask-cu12), or leave protocol= out."
        )
    _let_workers_come_back()
    options = {"protocol": protocol, "dashboard_address": dashboard_address, **kwargs}
    if dashboard_address is None:
        # Given None, Dask opens the port 8787 all the same, and warns if it is taken.
        options["dashboard_address"] = "127.0.0.1:0"
        options["scheduler_kwargs"] = {"dashboard": False, **kwargs.get("scheduler_kwargs", {})}
    options["preload"] = [*kwargs.get("preload", ()), "gpuml_dask.on_start"]
    if memory_limit != "auto":
        options["memory_limit"] = memory_limit
    if _wants_gpus(device):
        make, sizes = _gpu_cluster(n_workers, threads_per_worker, options, rmm_pool_size, spill)
    else:
        make, sizes = LocalCluster, _sizes_on_cpu(n_workers, threads_per_worker)
        options.setdefault("resources", {"CPU": sizes["threads_per_worker"]})
    blas_threads = max(1, cpu_count() // max(1, sizes["n_workers"] * sizes["threads_per_worker"]))
    with _environment_of_workers(blas_threads):
        try:
            return make(**sizes, **options)
        except RuntimeError as error:
            # Where the scheduler fails, Dask says why, and no worker was started.
            if not (_runs_a_script() and "Nanny failed" in str(error)):
                raise
            raise RuntimeError(f"The workers could not be started. {HOW_TO_GUARD}") from error


class LocalClient(Client):
    """A client that owns its cluster: closing the client closes both."""

    def __init__(self, cluster: LocalCluster):
        super().__init__(cluster)
        # Dask closes clusters first when a program ends, and tells of all that their workers had.
        atexit.register(_close, weakref.ref(self))

    def close(self, *args: Any, **kwargs: Any) -> Any:
        """Close the client, then its cluster; arguments are those of `distributed.Client.close`."""
        cluster = self.cluster
        try:
            return super().close(*args, **kwargs)
        finally:
            if cluster is not None:
                # A close that a second Ctrl-C has cut short would be waited for without end.
                try:
                    cluster.close(timeout=SECONDS_TO_CLOSE)
                except TimeoutError:
                    words = f"Workers did not stop in {SECONDS_TO_CLOSE} s; they end with Python."
                    warnings.warn(words, RuntimeWarning, stacklevel=2)


def _close(reference):
    if (client := reference()) is not None:
        client.close()


def local_client(n_workers: int | None = None, **kwargs: Any) -> LocalClient:
    """Start a cluster on this machine and connect to it; closing the client closes both.

    Parameters
    ----------
    n_workers : int, default=None
        Number of worker processes; see `make_cluster`.
    **kwargs
        Other arguments of `make_cluster`.

    Returns
    -------
    client : distributed.Client
        A new default client, which searches and estimators find by themselves. Close it with
        ``client.close()``, or use it in a ``with`` statement; it also closes when the program ends.

    Raises
    ------
    ValueError, RuntimeError
        As for `make_cluster`, and if you pass ``asynchronous=True``: await `make_cluster` then.

    Examples
    --------
    >>> from gpuml_dask.cluster import local_client
    >>> with local_client(2, device="cpu") as client:  # doctest: +SKIP
    ...     print(client.submit(sum, [1, 2]).result())
    3
    """
    if kwargs.get("asynchronous"):
        raise ValueError(
            "local_client has no asynchronous form. Use 'cluster = await make_cluster("
            "asynchronous=True)' and 'client = await Client(cluster, asynchronous=True)'."
        )
    cluster = make_cluster(n_workers, **kwargs)
    try:
        return LocalClient(cluster)
    except BaseException:
        cluster.close()
        raise


# ---------------------------------------------------------------- the parts of a cluster


def _check_count(name, count, least):
    if isinstance(count, bool) or not isinstance(count, Integral | None):
        raise TypeError(f"{name} must be an integer or None, got {count!r}.")
    if count is not None and count < least:
        raise ValueError(f"{name} must be at least {least}, got {count}.")


def _wants_gpus(device):
    if device == "cpu":
        return False
    has_package = importlib.util.find_spec("dask_cuda") is not None
    if device == "cuda" and not _n_gpus():
        raise RuntimeError("device='cuda' needs a GPU, but this process sees none.")
    if device == "cuda" and not has_package:
        raise RuntimeError(
            "device='cuda' needs the package dask-cuda: install gpuml[dask-cu13] (or dask-cu12)."
        )
    return bool(_n_gpus()) and has_package


def _n_gpus():
    return len(_gpus())


def _gpus():
    """Names of the GPUs that this process may see, as the driver tells: needs no CUDA context."""
    there, visible = nvml.device_get_count(), os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not there:
        return [str(index) for index in range(there)]
    listed = [name.strip() for name in visible.split(",")]
    # CUDA ignores what follows the first entry that it does not know; "-1" is the usual one.
    known = listed[: listed.index("-1")] if "-1" in listed else listed
    return [name for name in known if name]


def _free_memory(gpu):
    """Bytes that are free of a GPU, by its index or UUID."""
    driver = nvml.pynvml
    handle = (
        driver.nvmlDeviceGetHandleByIndex(int(gpu))
        if gpu.isdigit()
        else driver.nvmlDeviceGetHandleByUUID(gpu.encode())
    )
    return driver.nvmlDeviceGetMemoryInfo(handle).free


def _gpu_cluster(n_workers, threads_per_worker, options, rmm_pool_size, spill):
    """The class and the numbers for a cluster of GPUs; fills in `options`."""
    from dask_cuda import LocalCUDACluster

    if options["protocol"] is None and importlib.util.find_spec("distributed_ucxx"):
        options["protocol"] = "ucx"
    if options["protocol"] == "ucx":
        # Otherwise every process spins for messages in its event loop, beside the thread that works
        # for a GPU and wants the interpreter too. It is read when UCX starts, here and in workers.
        for name, value in UCX_WITHOUT_SPINNING.items():
            os.environ.setdefault(name, value)
    options.setdefault("resources", {"GPU": 1})
    options["device_memory_limit"] = "default" if spill is True else (spill or None)
    if rmm_pool_size == "auto":
        rmm_pool_size = int(RMM_POOL * min(_free_memory(gpu) for gpu in _gpus()))
    if rmm_pool_size is not None:
        options["rmm_pool_size"] = rmm_pool_size
        options.setdefault("rmm_maximum_pool_size", RMM_LARGEST_POOL)
        options.setdefault("rmm_allocator_external_lib_list", ["cupy"])
    sizes = {"n_workers": n_workers or _n_gpus(), "threads_per_worker": threads_per_worker or 1}
    return LocalCUDACluster, sizes


@cache  # each call leaves its defaults with Dask
def _let_workers_come_back():
    """Change Dask's default for when a worker is taken for lost; a user's setting stays."""
    dask.config.update_defaults({"distributed": {"deploy": {"lost-worker-timeout": LOST_WORKER}}})


def _sizes_on_cpu(n_workers, threads_per_worker):
    cores = cpu_count()
    if n_workers is None and threads_per_worker is None:
        n_workers, threads_per_worker = nprocesses_nthreads(cores)
    elif n_workers is None:
        n_workers = max(1, cores // threads_per_worker)
    elif threads_per_worker is None:
        threads_per_worker = max(1, cores // max(1, n_workers))
    return {"n_workers": n_workers, "threads_per_worker": threads_per_worker}


@contextmanager
def _environment_of_workers(blas_threads):
    """Set the threads of numerical libraries in new workers, where the user has not.

    Libraries read them when they are loaded, so they must be set before the process starts. Dask
    sets them in the environment of this process; they are removed from it afterwards.
    """
    new = [name for name in THREAD_VARIABLES if name not in os.environ]
    key = "distributed.nanny.pre-spawn-environ"
    theirs = {**dask.config.get(key), **dict.fromkeys(THREAD_VARIABLES, blas_threads)}
    try:
        with dask.config.set({key: theirs}):
            yield
    finally:
        for name in new:
            os.environ.pop(name, None)


def _refuse_in_a_worker_that_starts():
    # What multiprocessing itself asks before it refuses to start a process from such a process.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(f"A worker process was about to start a cluster. {HOW_TO_GUARD}")


def _runs_a_script():
    main = sys.modules.get("__main__")
    return getattr(main, "__file__", None) is not None and getattr(main, "__spec__", None) is None
