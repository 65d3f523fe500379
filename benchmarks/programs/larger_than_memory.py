"""Decompose a matrix that is larger than memory.

    python benchmarks/programs/larger_than_memory.py [--rows N] [--output DIR] [--device ...]
    python benchmarks/programs/larger_than_memory.py --rows 1000000 --columns 20000 --dtype uint8 \\
        --memory 4GB --threads 8 --contenders svd             # 20 GB on a laptop, or on a GPU

A matrix is written to Zarr, chunk by chunk, and decomposed in processes of their own. On a CPU each
process first limits its memory (`resource.setrlimit`) to less than the matrix takes; reading it as
a whole fails, which is shown, and these do not:

- `gpuml.linalg.svd_compressed` reads blocks of chunks from Zarr, once for each power step,
- `gpuml.decomposition.PCA(svd_solver="compressed")` is the same as an estimator, which also knows
  means and explained variances, for one reading more; its products of float32 are float64,
- `gpuml.decomposition.IncrementalPCA` takes the chunks one by one, and so does scikit-learn's: they
  read once, and are less accurate.

"Large SVDs" (M. Rocklin, B. Zaitlen, A. Miles, 13 May 2020,
https://blog.dask.org/2020/05/13/large-svds) decomposes random numbers by Dask's `svd_compressed`
with k = 10: 20 GB on a laptop in 2 min 30 s (its code, 1,000,000 x 20,000 of `da.random.random`,
would be 160 GB; uint8, as it uses later, are 20 GB), 200 GB of uint8 on 16 GPUs in 10 to 15 s, and
25 GB from Zarr in a cloud, 14.3 s to load and 18.7 s from preprocessing to SVD. Nothing is drawn at
random here but at the beginning: the numbers are read from the disk, as often as they are needed.

Singular values are compared with those of all second moments, found in another pass, or beyond
2,000 columns with those that the matrix was made to have, which are rougher. The script fails if
they are off, or if the two IncrementalPCA differ.
"""

import argparse
import importlib.util
import multiprocessing
import os
import resource
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import gpuml

N_COMPONENTS = 10
N_POWER_ITER = 2
# Directions that stand out, and how far: the last has so much of the first.
N_DIRECTIONS, LEAST = 12, 0.15
NOISE = 0.5
# Of integers, to a unit: nearly all of them are between 0 and 255.
STEPS = 15
CHUNK_BYTES = 2**23
BLOCK_BYTES = 2**24
# Stack of a thread; the usual 8 MB of each would fill the limit.
THREAD_BYTES = 2**20
SEED = 0
MOST_COLUMNS_CHECKED = 2_000
TOLERANCE, ROUGH_TOLERANCE, SAME = 1e-3, 5e-2, 1e-4
NAMES = {
    "all": "NumPy, all in memory",
    "svd": "gpuml svd_compressed",
    "pca": "gpuml PCA",
    "incremental": "gpuml IncrementalPCA",
    "sklearn": "scikit-learn IncrementalPCA",
}
PUBLISHED = (
    "Published (blog.dask.org, 13 May 2020), random numbers, k = 10: 20 GB on a laptop 2 min 30 s; "
    "200 GB of uint8 on 16 GPUs 10 to 15 s; 25 GB from Zarr in a cloud, loading 14.3 s, "
    "preprocessing and SVD 18.7 s."
)


def main():
    args = parse_arguments()
    console = Console()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = str(Path(folder) / "matrix.zarr")
        seconds = write(path, args)
        size = args.rows * args.columns * np.dtype(args.dtype).itemsize
        limit = None if uses_gpu(args.device) else args.memory or size // 2
        console.print(
            f"{args.rows:,} x {args.columns:,} {args.dtype}, {size / 1e9:.2f} GB, written to Zarr "
            f"in {seconds:.1f} s. {limit_words(limit)}",
            soft_wrap=True,
        )
        is_exact = args.columns <= MOST_COLUMNS_CHECKED
        truth = exact_values(path) if is_exact else expected_values(args)
        # Without a limit there is nothing to show by reading all of it.
        set_threads(args.threads)
        contenders = [name for name in args.contenders if limit is not None or name != "all"]
        runs = [run_apart(name, path, args.device, limit) for name in contenders]
    console.print(as_table(runs, truth, size))
    console.print(PUBLISHED, soft_wrap=True)
    if any(run.values is not None for run in runs):
        path = draw(runs, truth, size, limit, args.output)
        console.print(f"Picture: {path}", soft_wrap=True)
    complain_if_wrong(runs, truth, size, limit, is_exact)


def uses_gpu(device):
    """Whether processes will have a GPU's driver in them."""
    if device == "cpu" or importlib.util.find_spec("cupy") is None:
        return False
    import cupy

    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:  # CuPy, and no GPU
        return False


def limit_words(limit):
    if limit is None:
        return "On a GPU CPU memory is measured, not limited: its driver maps more than it uses."
    if not sys.platform.startswith("linux"):
        return "Memory is not limited on this system: only Linux counts what it is asked for."
    return f"Each process may take {limit / 1e6:,.0f} MB."


# ---------------------------------------------------------------- the matrix


def write(path, args):
    """Rows along a few directions, and noise, a chunk at a time; the seconds that it took."""
    import zarr

    start = time.perf_counter()
    width = args.columns * np.dtype(args.dtype).itemsize
    n_rows = max(1, CHUNK_BYTES // width)
    stored = zarr.create_array(
        path,
        shape=(args.rows, args.columns),
        chunks=(n_rows, args.columns),
        dtype=args.dtype,
        compressors=None,
    )
    directions = weights()[:, None] * cosines(args.columns)
    for number, first in enumerate(range(0, args.rows, n_rows)):
        random = np.random.default_rng([SEED, number])
        n = min(n_rows, args.rows - first)
        block = random.standard_normal((n, N_DIRECTIONS), dtype=np.float32) @ directions
        block += NOISE * random.standard_normal(block.shape, dtype=np.float32)
        if args.dtype == "uint8":
            block = np.clip(np.rint(128 + STEPS * block), 0, 255)
        stored[first : first + n] = block.astype(args.dtype)
    return time.perf_counter() - start


def weights():
    return np.geomspace(1.0, LEAST, N_DIRECTIONS, dtype=np.float32)


def expected_values(args):
    """Singular values that the matrix is expected to have, were its directions orthogonal."""
    scale = STEPS if args.dtype == "uint8" else 1
    variances = args.columns * weights()[:N_COMPONENTS].astype(float) ** 2 + NOISE**2
    return scale * np.sqrt(args.rows * variances)


def cosines(n_columns):
    """Waves over the columns: as good as orthogonal, and of length sqrt(n_columns)."""
    positions = (np.arange(n_columns) + 0.5) / n_columns
    waves = np.cos(np.pi * np.arange(1, N_DIRECTIONS + 1)[:, None] * positions)
    return (np.sqrt(2.0) * waves).astype(np.float32)


def exact_values(path):
    """Singular values of the centred matrix from all second moments, summed in float64."""
    n, p = opened(path).shape
    moments, total = np.zeros((p, p)), np.zeros(p)
    for block in chunks_of(path):
        block = block.astype(np.float64)
        moments += block.T @ block
        total += block.sum(axis=0)
    moments -= np.outer(total, total / n)
    return np.sqrt(np.linalg.eigvalsh(moments)[::-1][:N_COMPONENTS])


def opened(path):
    import zarr

    return zarr.open_array(path, mode="r")


def chunks_of(path):
    stored = opened(path)
    step = stored.chunks[0]
    return (stored[first : first + step] for first in range(0, stored.shape[0], step))


# ---------------------------------------------------------------- contenders


def everything(path):
    """What a matrix larger than memory does not allow."""
    a = opened(path)[:]
    return np.linalg.svd(a - a.mean(axis=0), compute_uv=False)[:N_COMPONENTS]


def by_svd(path):
    from gpuml.linalg import svd_compressed

    return svd_compressed(
        opened(path), N_COMPONENTS, N_POWER_ITER, center=True, random_state=SEED
    ).s


def by_pca(path):
    from gpuml.decomposition import PCA

    pca = PCA(N_COMPONENTS, svd_solver="compressed", iterated_power=N_POWER_ITER, random_state=SEED)
    return pca.fit(opened(path)).singular_values_


def by_batches(path, library):
    """The way of scikit-learn: every chunk is a batch."""
    if library == "gpuml":
        from gpuml.decomposition import IncrementalPCA
    else:
        from sklearn.decomposition import IncrementalPCA

    model = IncrementalPCA(N_COMPONENTS)
    for chunk in chunks_of(path):
        if len(chunk) >= N_COMPONENTS:
            model.partial_fit(chunk.astype(np.float32, copy=False))
    return model.singular_values_


# With how often each reads the matrix: means, one for each power step, one to project.
CONTENDERS = {
    "all": (everything, 1),
    "svd": (by_svd, N_POWER_ITER + 2),
    "pca": (by_pca, N_POWER_ITER + 2),
    "incremental": (partial(by_batches, library="gpuml"), 1),
    "sklearn": (partial(by_batches, library="sklearn"), 1),
}


@dataclass(frozen=True)
class Run:
    """What a contender found, or why not, and what it took.

    `peak` is memory in bytes beyond what it had after its imports; None where that is not known.
    """

    name: str
    values: np.ndarray | None
    seconds: float
    peak: int | None
    failed: str = ""

    @property
    def passes(self):
        return CONTENDERS[self.name][1]


def set_threads(n_threads):
    """Threads of BLAS, and with them gpuml's own, in processes that are started later."""
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = str(n_threads)


def run_apart(name, path, device, limit):
    """A contender in a process of its own, whose memory is limited and measured."""
    print(f"{NAMES[name]} ...", file=sys.stderr)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(run_here, name, path, device, limit).result()
        except BrokenProcessPool:  # a library that ends its process when memory is refused
            return Run(name, None, 0.0, None, "ended by its process")


def run_here(name, path, device, limit):
    if limit is not None:
        threading.stack_size(THREAD_BYTES)
    gpuml.set_config(device=device, block_bytes=BLOCK_BYTES)
    work, _ = CONTENDERS[name]
    warm_up(work)
    if limit is not None and sys.platform.startswith("linux"):
        # What the process has already (libraries, stacks of threads) comes on top.
        resource.setrlimit(resource.RLIMIT_DATA, (status_bytes("VmData") + limit,) * 2)
    with Peak() as peak:
        start = time.perf_counter()
        try:
            values = work(path)
        except MemoryError:
            return Run(name, None, time.perf_counter() - start, None, "MemoryError")
        seconds = time.perf_counter() - start
    return Run(name, np.asarray(values, dtype=np.float64), seconds, peak.bytes)


class Peak:
    """The most memory that this process took meanwhile, beyond what it had; None if not known.

    Sampled, and of what the process allocates: pages of files, which the system takes back when it
    needs them, do not count.
    """

    def __enter__(self):
        self._before, self._most = status_bytes("RssAnon"), 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        if self._before is not None:
            self._thread.start()
        return self

    def _sample(self):
        while not self._done.wait(0.002):
            self._most = max(self._most, status_bytes("RssAnon"))

    def __exit__(self, *error):
        self._done.set()
        if self._before is not None:
            self._thread.join()

    @property
    def bytes(self):
        return None if self._before is None else max(0, self._most - self._before)


def warm_up(work):
    """The same on a small matrix: imports, threads, and what BLAS and a GPU's libraries need."""
    import zarr

    for dtype in (np.float32, np.float64):
        square = np.ones((1024, 1024), dtype)
        np.matmul(square, square)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "small.zarr")
        small = zarr.create_array(path, shape=(400, 60), chunks=(100, 60), dtype="float32")
        small[:] = np.random.default_rng(SEED).standard_normal((400, 60))
        work(path)


def status_bytes(field):
    """A line of Linux's /proc/self/status in bytes; None elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    words = next(line for line in lines if line.startswith(f"{field}:")).split()
    return 1024 * int(words[1])


# ---------------------------------------------------------------- telling about it


def error_of(run, truth):
    """Largest relative error of a singular value."""
    return float(np.abs(run.values / truth - 1).max())


def as_table(runs, truth, size):
    table = Table(title=f"{N_COMPONENTS} components of {size / 1e9:.2f} GB in Zarr")
    for heading in ("", "seconds", "reads", "GB a second", "peak MB", "error"):
        table.add_column(heading, justify="right" if heading else "left")
    for run in runs:
        if run.values is None:
            table.add_row(NAMES[run.name], run.failed, "", "", "", "")
            continue
        peak = "" if run.peak is None else f"{run.peak / 1e6:,.0f}"
        error = f"{error_of(run, truth):.1e}"
        rate = f"{run.passes * size / run.seconds / 1e9:.2f}"
        table.add_row(NAMES[run.name], f"{run.seconds:.2f}", str(run.passes), rate, peak, error)
    table.caption = "Peak: memory beyond imports. Error: relative, of a singular value."
    return table


def draw(runs, truth, size, limit, folder):
    """Write memory beside the size of the matrix, seconds, and singular values, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")  # a file, on machines without a screen too
    from matplotlib import pyplot

    done = [run for run in runs if run.values is not None]
    names = [NAMES[run.name].replace(" ", "\n", 1) for run in done]
    colors = ["tab:orange" if run.name == "sklearn" else "tab:blue" for run in done]
    figure, panels = pyplot.subplots(1, 3, figsize=(13.5, 4), layout="constrained")
    panels[0].barh(names, [(run.peak or 0) / 1e6 for run in done], color=colors)
    panels[0].axvline(size / 1e6, color="0.3", ls=":", label="size of the matrix")
    if limit is not None:
        panels[0].axvline(limit / 1e6, color="tab:red", ls=":", label="limit of the process")
    panels[0].set(title="Peak memory", xlabel="MB beyond imports")
    bars = panels[1].barh(names, [run.seconds for run in done], color=colors)
    panels[1].bar_label(bars, [f" {r.seconds:.1f} s, {r.passes} x read" for r in done])
    panels[1].set(title="Time", xlabel="seconds", xlim=(0, 1.5 * max(r.seconds for r in done)))
    counts = np.arange(1, N_COMPONENTS + 1)
    panels[2].bar(counts, truth, color="0.85", label="as they must be")
    for run, marker in zip(done, "o+x^", strict=False):
        panels[2].plot(counts, run.values, marker, mfc="none", ms=8, label=NAMES[run.name])
    panels[2].set(title="Singular values", xlabel="component")
    panels[2].set_ylim(top=1.6 * max(run.values[0] for run in done))  # room for the legend
    panels[2].set_xticks(counts)
    for panel in (panels[0], panels[1]):
        panel.invert_yaxis()
    panels[1].set_yticks([])
    # Under the panel, so as to hide no bar.
    panels[0].legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    panels[2].legend(frameon=False)
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "larger_than_memory.png"
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def complain_if_wrong(runs, truth, size, limit, is_exact=True):
    """Leave with an error that says what is not as it must be."""
    complaints = []
    for run in runs:
        if run.name == "all":
            limited = limit is not None and limit < size and sys.platform.startswith("linux")
            if limited and run.values is not None:
                complaints.append("All of the matrix was read into less memory than it takes.")
            continue
        if run.values is None:
            complaints.append(f"{NAMES[run.name]}: {run.failed}.")
        else:
            precise = is_exact and run.name in ("svd", "pca")
            allowed = TOLERANCE if precise else ROUGH_TOLERANCE
            # Written so that NaN counts as wrong.
            if not error_of(run, truth) <= allowed:
                complaints.append(f"{NAMES[run.name]} is off by {error_of(run, truth):.1e}.")
    values = {run.name: run.values for run in runs if run.values is not None}
    if "incremental" in values and "sklearn" in values:
        gap = np.abs(values["incremental"] / values["sklearn"] - 1).max()
        if not gap <= SAME:
            complaints.append(f"gpuml's and scikit-learn's IncrementalPCA differ by {gap:.1e}.")
    if complaints:
        sys.exit("\n".join(complaints))


def bytes_of(words):
    """A number of bytes, such as 4GB or 200MB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if words.upper().endswith(unit):
            return int(float(words[: -len(unit)]) * size)
    return int(words)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--rows", type=int, default=300_000)
    add("--columns", type=int, default=400)
    add("--dtype", choices=["float32", "uint8"], default="float32")
    add("--memory", type=bytes_of, help="limit of a process (default: half of the matrix)")
    add("--threads", type=int, default=1, help="of each process; BLAS takes memory for each")
    add("--contenders", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    add("--folder", type=Path, help="where the matrix is written, and removed again")
    add("--output", type=Path, default=Path(), help="folder of the picture")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    args = parser.parse_args()
    if args.columns <= N_DIRECTIONS or args.rows <= args.columns:
        sys.exit(f"More than {N_DIRECTIONS} columns, and more rows than columns, please.")
    return args


if __name__ == "__main__":
    main()
