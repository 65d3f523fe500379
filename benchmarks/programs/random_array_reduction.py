"""Reduce a random array of 2 TB on GPUs, or of 1 GB on a laptop.

    python benchmarks/programs/random_array_reduction.py [--size BYTES] [--output DIR]
    python benchmarks/programs/random_array_reduction.py --size 2TB --chunk 10000  # on GPUs

"GPU Dask Arrays, first steps" (M. Rocklin, 3 January 2019,
https://blog.dask.org/2019/01/03/dask-array-gpus-first-steps) makes a square array of normal random
numbers with Dask, adds one, takes every second row and column and sums: 2 TB that are never in
memory, in 2 h 39 min on one CPU core and in 19 s on eight GPUs. All of it is `dask.array`; what
comes from gpuml is the cluster: `local_client` starts a worker for each GPU, or some for the cores,
and the same two lines make CuPy or NumPy chunks. Then the same kind of array goes where a sum does
not lead: `gpuml_dask.decomposition.PCA` finds the direction that was hidden in a tall one.

The script fails if the sum is not where it must be, or the direction is not found. The sum of m
numbers of mean 11 and variance 1 is 11 m, within six times the root of m but once in 500 million
runs.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import gpuml
from gpuml_dask import local_client
from gpuml_dask.decomposition import PCA

MEAN, SIGMA = 10, 1
MOST_SIGMAS = 6
SEED = 0
N_FEATURES = 50
# Standard deviation along the hidden direction, where all others have 1, and cosine to be reached.
HIDDEN, COSINE = 2.0, 0.99
# Side of a chunk if it is not given: 32 MB, because workers of a CPU have several at once, or the
# 800 MB of the post.
CHUNK = {"cpu": 2_000, "cuda": 10_000}

PUBLISHED_AT = "blog.dask.org, 3 January 2019: 2 TB"
PUBLISHED_BYTES = 2e12
PUBLISHED = {
    "one CPU core": 2 * 3600 + 39 * 60,
    "forty CPU cores": 11 * 60 + 30,
    "one GPU": 60 + 37,
    "eight GPUs": 19,
}


def main():
    args = parse_arguments()
    gpuml.set_config(device=args.device)
    console = Console()
    with local_client(args.workers, device=args.device, silence_logs="CRITICAL") as client:
        on_gpu = workers_have_gpus(client)
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        result = reduced(client, args, on_gpu, workers)
        components = None if args.skip_model else hidden_direction(result.n_bytes, on_gpu)
    console.print(as_table(result, components))
    console.print(f"Picture: {draw(result, args.output)}", soft_wrap=True)
    complain_if_wrong(result, components)


# ---------------------------------------------------------------- the reduction


@dataclass(frozen=True)
class Result:
    """What was summed, by whom, and in which time."""

    side: int
    chunk: int
    workers: str
    total: float
    n_summed: int
    seconds: float

    @property
    def n_bytes(self):
        return 8 * self.side**2

    @property
    def sigmas(self):
        """By how many standard deviations the sum is off."""
        return abs(self.total - (MEAN + 1) * self.n_summed) / (SIGMA * np.sqrt(self.n_summed))


def reduced(client, args, on_gpu, workers):
    """The computation of the post, to the letter."""
    chunk = args.chunk or usual_chunk(on_gpu)
    side = side_of(args.size, chunk)
    sum_of(random_state(on_gpu, SEED + 1), 2 * workers * 10, 10).compute()  # imports
    y = sum_of(random_state(on_gpu, SEED), side, chunk)
    print(f"Summing {bytes_words(8 * side**2)} ...", file=sys.stderr)
    start = time.perf_counter()
    total = float(y.compute())
    seconds = time.perf_counter() - start
    kind = "GPU" if on_gpu else "CPU"
    words = f"{workers} x {kind}" if on_gpu else f"{workers} x {kind}, {threads(client)} threads"
    return Result(side, min(chunk, side), words, total, (-(-side // 2)) ** 2, seconds)


def sum_of(random, side, chunk):
    x = random.normal(MEAN, SIGMA, size=(side, side), chunks=(chunk, chunk))
    return (x + 1)[::2, ::2].sum()


def random_state(on_gpu, seed):
    """Random numbers as CuPy or NumPy chunks, made on the workers."""
    import dask.array as da

    if not on_gpu:
        return da.random.RandomState(seed)
    import cupy

    return da.random.RandomState(seed, RandomState=cupy.random.RandomState)


def side_of(size, chunk):
    """Side of a square array of so many bytes; a whole number of chunks, if there are several."""
    side = int(np.sqrt(size / 8))
    return side if side < chunk else round(side / chunk) * chunk


def usual_chunk(on_gpu):
    return CHUNK["cuda" if on_gpu else "cpu"]


def workers_have_gpus(client):
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return all("GPU" in worker.get("resources", {}) for worker in workers)


def threads(client):
    return sum(w["nthreads"] for w in client.scheduler_info(n_workers=-1)["workers"].values())


# ---------------------------------------------------------------- and a model


@dataclass(frozen=True)
class Direction:
    """A direction that was hidden in random rows, as found."""

    shape: tuple[int, int]
    cosine: float
    seconds: float


def hidden_direction(n_bytes, on_gpu):
    """PCA of a tall random array, of a tenth of the bytes, that varies more along one direction."""
    n_rows = max(10_000, int(n_bytes / 10 / 8 / N_FEATURES))
    per_chunk = usual_chunk(on_gpu) ** 2 // N_FEATURES
    random = random_state(on_gpu, SEED + 2)
    direction = np.full(N_FEATURES, N_FEATURES**-0.5)
    x = random.normal(0, SIGMA, size=(n_rows, N_FEATURES), chunks=(per_chunk, N_FEATURES))
    x = x.map_blocks(stretched, direction, dtype=x.dtype)
    start = time.perf_counter()
    pca = PCA(1).fit(x)
    seconds = time.perf_counter() - start
    return Direction(x.shape, float(abs(pca.components_[0] @ direction)), seconds)


def stretched(block, direction):
    """Rows with HIDDEN times their part along a direction; in NumPy or CuPy."""
    if type(block).__module__.startswith("cupy"):
        import cupy

        direction = cupy.asarray(direction)
    return block + (HIDDEN - 1) * (block @ direction)[:, None] * direction


# ---------------------------------------------------------------- telling about it


def as_table(result, components):
    table = Table(title="(x + 1)[::2, ::2].sum() of a random array")
    table.add_column("")
    table.add_column("this machine", justify="right")
    rate = result.n_bytes / result.seconds
    facts = {
        "workers": result.workers,
        "array": f"{result.side:,} x {result.side:,} float64",
        "bytes": bytes_words(result.n_bytes),
        "chunks": f"{result.chunk:,} x {result.chunk:,}",
        "seconds": f"{result.seconds:.2f}",
        "GB a second": f"{rate / 1e9:.2f}",
        "the sum": f"{result.total:,.1f}",
        "off by, standard deviations": f"{result.sigmas:.2f}",
    }
    if components is not None:
        rows, columns = components.shape
        facts["PCA of a tall one"] = f"{rows:,} x {columns}"
        facts["PCA, seconds"] = f"{components.seconds:.2f}"
        facts["PCA, cosine to what was hidden"] = f"{components.cosine:.4f}"
    for label, value in facts.items():
        table.add_row(label, value)
    table.add_section()
    for name, seconds in PUBLISHED.items():
        published = f"{seconds:,} s: {PUBLISHED_BYTES / seconds / 1e9:.2f} GB a second"
        table.add_row(f"published, {name}", published)
    table.caption = f"Published: {PUBLISHED_AT}"
    return table


def bytes_words(n_bytes):
    unit, size = ("TB", 1e12) if n_bytes >= 1e12 else ("GB", 1e9)
    return f"{n_bytes / size:.3g} {unit}"


def draw(result, folder):
    """Write bytes a second, published and here, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")  # a file, on machines without a screen too
    from matplotlib import pyplot

    rates = {f"2019: {name}": PUBLISHED_BYTES / s / 1e9 for name, s in PUBLISHED.items()}
    rates[f"here: {result.workers}"] = result.n_bytes / result.seconds / 1e9
    figure, panel = pyplot.subplots(figsize=(7.5, 2.9), layout="constrained")
    colors = ["0.7"] * len(PUBLISHED) + ["tab:blue"]
    bars = panel.barh(list(rates), list(rates.values()), color=colors)
    panel.bar_label(bars, fmt="%.2f", padding=3)
    panel.invert_yaxis()
    panel.set(xscale="log", xlabel="GB of random numbers made and summed in a second")
    panel.set_xlim(right=3 * max(rates.values()))
    panel.set_title(f"(x + 1)[::2, ::2].sum(): 2 TB in 2019, {bytes_words(result.n_bytes)} here")
    panel.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "random_array_reduction.png"
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def complain_if_wrong(result, components):
    """Leave with an error that says what is not as it must be."""
    # Written so that NaN counts as wrong.
    if not result.sigmas <= MOST_SIGMAS:
        sys.exit(f"The sum is {result.sigmas:.1f} standard deviations from 11 times its numbers.")
    if components is not None and not components.cosine >= COSINE:
        sys.exit(f"PCA missed the hidden direction: the cosine is {components.cosine:.3f}.")


def parse_arguments():
    from dask.utils import parse_bytes

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--size", type=parse_bytes, default="1GB", help="bytes of the array, such as 2TB")
    add("--chunk", type=int, help="side of a chunk (the post has 10000)")
    add("--workers", type=int, help="worker processes (default: by GPUs, or by cores)")
    add("--skip-model", action="store_true", help="the sum only, as in the post")
    add("--output", type=Path, default=Path(), help="folder of the picture")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    main()
