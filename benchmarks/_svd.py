"""Contenders of svd.py; each is measured in a process of its own."""

import gc
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import _harness as harness
import numpy as np
from _svd_data import MAKE_VALUES, SEED, Task, block_of, made
from threadpoolctl import threadpool_limits

import gpuml

__all__ = [
    "CONTENDERS",
    "MAKE_VALUES",
    "Task",
    "bandwidths",
    "block_of",
    "dasks",
    "made",
    "measured",
]

N_COMPONENTS = 10
N_POWER_ITER = 2
N_OVERSAMPLES = 10
# One more than power iterations: the last is the projection too.
N_VISITS = N_POWER_ITER + 1
WARM_UP_ROWS = 20_000
# Whoever takes longer than that is timed once more, and no more.
LONG_SECONDS = 10
OUT_OF_TIME = "skipped: out of time"


# ---------------------------------------------------------------- contenders


@dataclass(frozen=True)
class Contender:
    """Somebody who finds the triplets.

    Attributes
    ----------
    prepare : callable
        Of a matrix, what `run` is called with; it costs nothing, and is not timed.
    run : callable
        Finds u, s and v, all computed; returns s.
    like : str
        Whose singular values are to be the same.
    blas_threads : int or None
        None leaves them as they are.
    """

    prepare: Callable[[Any], Any]
    run: Callable[[Any], Any]
    like: str = "gpuml"
    blas_threads: int | None = None


def _itself(X):
    return X


def _ours(**settings):
    def run(X):
        from gpuml.linalg import svd_compressed

        return svd_compressed(
            X, N_COMPONENTS, N_POWER_ITER, N_OVERSAMPLES, random_state=SEED, **settings
        ).s

    return run


def _as_dask(chunk_bytes):
    def prepare(X):
        import dask.array as da

        rows = max(1, chunk_bytes // (X.shape[1] * X.dtype.itemsize))
        return da.from_array(X, chunks=(rows, -1), asarray=False, name=False)

    return prepare


def dasks(a, **settings):
    """Dask's own function, with random numbers of the library of the chunks."""
    import dask.array as da

    seed = SEED
    if type(a._meta).__module__.startswith("cupy"):
        import cupy

        seed = da.random.RandomState(SEED, RandomState=cupy.random.RandomState)
    return da.linalg.svd_compressed(
        a,
        N_COMPONENTS,
        n_power_iter=N_POWER_ITER,
        n_oversamples=N_OVERSAMPLES,
        seed=seed,
        **settings,
    )


def _run_dask(a):
    import dask

    # Tasks of one GPU are queued one after the other in any case.
    on_gpu = type(a._meta).__module__.startswith("cupy")
    _, s, _ = dask.compute(*dasks(a), scheduler="synchronous" if on_gpu else "threads")
    return s


def _run_sklearn(X):
    from sklearn.decomposition import PCA

    pca = PCA(
        N_COMPONENTS,
        svd_solver="randomized",
        iterated_power=N_POWER_ITER,
        n_oversamples=N_OVERSAMPLES,
        random_state=SEED,
    )
    pca.fit_transform(X)
    return pca.singular_values_


def _run_cuml(X):
    from cuml.decomposition import TruncatedSVD

    svd = TruncatedSVD(n_components=N_COMPONENTS, output_type="cupy")
    svd.fit_transform(X)
    return svd.singular_values_


MIB = 2**20
CONTENDERS = {
    "gpuml": Contender(_itself, _ours()),
    "gpuml, centred": Contender(_itself, _ours(center=True)),
    "gpuml, standardised": Contender(_itself, _ours(center=True, scale="patterson")),
    # BLAS has one thread under Dask's threads, as Dask's documentation asks for.
    "dask": Contender(_as_dask(128 * MIB), _run_dask, blas_threads=1),
    "dask, small chunks": Contender(_as_dask(16 * MIB), _run_dask, blas_threads=1),
    "dask, cupy": Contender(_as_dask(512 * MIB), _run_dask),
    "sklearn": Contender(_itself, _run_sklearn, like="gpuml, centred"),
    "cuml": Contender(_itself, _run_cuml),
}


# ---------------------------------------------------------------- measuring


def measured(name, task, repeats, seconds=None):
    """Record of a contender in a new process, or of why there is none: after so many seconds."""
    record = _of(name, task)
    if seconds == 0:
        return record | {"failed": OUT_OF_TIME}
    # A new one each: what one allocates, or the pool of a library keeps, is not there for the next.
    with tempfile.TemporaryDirectory() as folder:
        arguments = name, replace(task, folder=folder), repeats
        try:
            return _in_new_process(_measured, *arguments, seconds=seconds)
        except TimeoutError:
            return record | {"failed": OUT_OF_TIME}
        except EOFError:
            return record | {"failed": "failed: its process was killed"}


def _of(name, task):
    return {"name": name, "kind": task.kind, "rows": task.rows, "missing": task.missing}


def _in_new_process(function, *args, seconds=None):
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, function, args))
    process.start()
    theirs.close()  # so that the end of the process is the end of the pipe
    try:
        if not ours.poll(seconds):
            raise TimeoutError
        found = ours.recv()
        process.join(30)
        return found
    finally:
        process.kill()
        process.join()


def _answer(pipe, function, args):
    pipe.send(function(*args))


def _measured(name, task, repeats):
    contender = CONTENDERS[name]
    record = _of(name, task)
    limits = threadpool_limits(contender.blas_threads) if contender.blas_threads else nullcontext()
    try:
        with limits, gpuml.config_context(device=task.device):
            return record | _times(contender, task, repeats)
    # Whatever a rival raises is a result, not the end of the benchmark.
    except Exception as error:
        reason = (str(error).strip() or "no message").splitlines()[0]
        return record | {"failed": f"failed: {type(error).__name__}: {reason}"}


def _times(contender, task, repeats):
    few = made(replace(task, rows=min(WARM_UP_ROWS, task.rows)))
    contender.run(contender.prepare(few))  # imports, compiled kernels
    del few
    made_seconds, X = _timed(lambda: made(task))
    gc.collect()
    prepared = contender.prepare(X)
    values = []
    with harness.host_peak() as host, harness.pool_peak() as pool:
        begin = time.process_time()
        first = harness.seconds_of(lambda: values.append(contender.run(prepared)))
        of_all_threads = time.process_time() - begin
    repeats = repeats if first < LONG_SECONDS else 1
    seconds = harness.timing(lambda: contender.run(prepared), repeats)
    extra = pool["bytes"] if task.device == "cuda" else host["bytes"]
    return {
        "made_seconds": made_seconds,
        "first_seconds": first,
        "first_cpu_seconds": of_all_threads,
        "seconds": seconds,
        "data_bytes": task.n_bytes,
        "extra_bytes": extra,
        "total_bytes": None if extra is None else extra + task.n_bytes,
        "extra_host_method": host["method"],
        "singular_values": _numbers(values[0]),
    }


def _timed(call):
    found = []
    return harness.seconds_of(lambda: found.append(call())), found.pop()


def _numbers(s):
    return np.asarray(s.get() if hasattr(s, "get") else s, dtype=float).tolist()


def bandwidths():
    """Bytes a second of copies on the GPU, and from pinned memory to it; in a new process."""
    return _in_new_process(_bandwidths)


def _bandwidths(n_bytes=2**32, repeats=10):
    import cupy

    device, other = (cupy.ones(n_bytes, dtype=cupy.uint8) for _ in range(2))
    host = cupy.cuda.alloc_pinned_memory(n_bytes // 4)
    part = np.frombuffer(host, dtype=np.uint8, count=n_bytes // 4)
    part[:] = 1
    copy = harness.timing(lambda: cupy.copyto(other, device), repeats)["median"]
    link = harness.timing(lambda: device[: len(part)].set(part), repeats)["median"]
    # A copy on the device reads and writes.
    return {"copy": 2 * n_bytes / copy, "link": len(part) / link}
