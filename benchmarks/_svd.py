"""Matrices and contenders of svd.py; each is measured in a process of its own."""

import gc
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import _harness as harness
import numpy as np
from threadpoolctl import threadpool_limits

import gpuml
from gpuml.encodings import Packed, pack

N_COMPONENTS = 10
N_POWER_ITER = 2
N_OVERSAMPLES = 10
# One more than power iterations: the last is the projection too.
N_VISITS = N_POWER_ITER + 1
SEED = 0
WARM_UP_ROWS = 20_000


@dataclass(frozen=True)
class Task:
    """A matrix: what it is made of, how large it is, and where.

    Attributes
    ----------
    kind : {"packed", "uint8", "float32"}
    device : {"cpu", "cuda"}
        Where it is, or, if `on_host`, where it is worked on.
    missing : float
        Share of genotypes that are missing.
    on_host : {"", "memory", "file"}
        Not on the device.
    folder : str
        For a file.
    """

    kind: str
    rows: int
    columns: int
    device: str
    missing: float = 0.0
    on_host: str = ""
    folder: str = ""

    @property
    def n_bytes(self):
        width = {"packed": -(-self.columns // 4), "uint8": self.columns}
        return self.rows * width.get(self.kind, 4 * self.columns)

    def packed(self, data):
        """Bytes as codes."""
        return Packed(data, self.columns, missing=bool(self.missing))

    @property
    def xp(self):
        if self.device == "cpu":
            return np
        if not harness.has_gpu():
            raise RuntimeError("needs CuPy and a GPU")
        import cupy

        return cupy


# ---------------------------------------------------------------- matrices

# More than components: none of those that are compared is noise.
N_POPULATIONS = 14
# Values made at once.
MAKE_VALUES = {"cpu": 2**24, "cuda": 2**28}


def made(task):
    """The matrix, always the same on the same device."""
    if task.on_host == "file":
        path = Path(task.folder) / f"{task.rows}.npy"
        np.save(path, made(replace(task, on_host="memory")).data)
        return task.packed(np.load(path, mmap_mode="r"))
    xp = task.xp
    width = -(-task.columns // 4) if task.kind == "packed" else task.columns
    # What streams is made on the GPU too: a CPU would take an hour for 200 GB.
    there = np if task.on_host else xp
    dtype = np.float32 if task.kind == "float32" else np.uint8
    data = there.empty((task.rows, width), dtype=dtype)
    step = max(1, MAKE_VALUES[task.device] // task.columns)
    for number, first in enumerate(range(0, task.rows, step)):
        rows = slice(first, min(first + step, task.rows))
        block = block_of(task, number, first, rows.stop - first)
        block = pack(block).data if task.kind == "packed" else block
        data[rows] = block.get() if task.on_host else block
    return task.packed(data) if task.kind == "packed" else data


def block_of(task, number, first, n_rows):
    """Some rows: genotypes of populations in turn, or a few directions and noise."""
    xp = task.xp
    random = xp.random.default_rng(SEED + 1000 * number)
    if task.kind == "float32":
        return _directions(xp, random, n_rows, task.columns)
    least = [xp.asarray(bounds) for bounds in _bounds(task.columns)]
    member = (xp.arange(n_rows) + first) % N_POPULATIONS
    drawn = _seven_bits(xp, random, n_rows, task.columns)
    counts = sum((drawn < bounds[member]).astype(xp.int8) for bounds in least)
    if task.missing:
        counts[_seven_bits(xp, random, n_rows, task.columns) < 128 * task.missing] = -1
        return counts
    return counts.view(xp.uint8)


def _bounds(n_columns):
    """Of a number below 128: one allele if it is below the first, two if below the second."""
    random = np.random.default_rng(SEED)
    drift = np.geomspace(0.4, 0.25, N_POPULATIONS)[:, None]
    shares = random.uniform(0.1, 0.9, n_columns)
    shares = shares + drift * random.standard_normal((N_POPULATIONS, n_columns))
    shares = np.clip(shares, 0.02, 0.98)
    return [np.round(128 * x).astype(np.uint8) for x in (1 - (1 - shares) ** 2, shares**2)]


def _seven_bits(xp, random, n_rows, n_columns):
    size = n_rows * n_columns
    words = random.integers(0, 2**31 - 1, size=-(-size // 4), dtype=xp.uint32)
    return (words.view(xp.uint8) & 127)[:size].reshape(n_rows, n_columns)


def _directions(xp, random, n_rows, n_columns):
    directions = np.linalg.qr(np.random.default_rng(SEED).normal(size=(n_columns, 20)))[0].T
    scaled = (np.geomspace(20, 2, 20)[:, None] * directions).astype(np.float32)
    rows = random.standard_normal((n_rows, n_columns), dtype=xp.float32)
    rows += 1
    rows += random.standard_normal((n_rows, 20), dtype=xp.float32) @ xp.asarray(scaled)
    return rows


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


def measured(name, task, repeats):
    """Record of a contender in a new process, or of why it failed."""
    # A new one each: what one allocates, or the pool of a library keeps, is not there for the next.
    with tempfile.TemporaryDirectory() as folder:
        return _in_new_process(_measured, name, replace(task, folder=folder), repeats)


def _in_new_process(function, *args):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        return processes.submit(function, *args).result()


def _measured(name, task, repeats):
    contender = CONTENDERS[name]
    record = {"name": name, "kind": task.kind, "rows": task.rows, "missing": task.missing}
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
    X = made(task)
    gc.collect()
    prepared = contender.prepare(X)
    values = []
    with harness.host_peak() as host, harness.pool_peak() as pool:
        begin = time.process_time()
        first = harness.seconds_of(lambda: values.append(contender.run(prepared)))
        of_all_threads = time.process_time() - begin
    seconds = harness.timing(lambda: contender.run(prepared), repeats)
    extra = pool["bytes"] if task.device == "cuda" else host["bytes"]
    return {
        "first_seconds": first,
        "first_cpu_seconds": of_all_threads,
        "seconds": seconds,
        "data_bytes": task.n_bytes,
        "extra_bytes": extra,
        "total_bytes": None if extra is None else extra + task.n_bytes,
        "extra_host_method": host["method"],
        "singular_values": _numbers(values[0]),
    }


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
