"""Put your own step into a search: a stencil in numba.cuda, before PCA.

    python benchmarks/programs/own_stencil.py [--images N] [--output DIR] [--device ...]
    python benchmarks/programs/own_stencil.py --images 160000 --rival-images 1000  # on a GPU

Handwritten digits, enlarged, moved about and buried in noise. `Smooth` is a class of this script:
it replaces each pixel by the mean of the nine around it, as often as its parameter `rounds` says.
It is a step of the pipeline like any other, and the search chooses `rounds` with the rest. gpuml
asks nothing of it but `fit` and `transform`, and hands it rows where they are: on a GPU, CuPy
arrays.
There a kernel of `numba.cuda` does the work, and no image comes back to the host. In CPU memory
it is a loop compiled by `numba.njit`; without numba, sums of shifted arrays do, on either. numba
is not needed for gpuml: `pip install numba` (`numba-cuda` for a GPU).

Smoothing by a stencil of nine is the example of "Composing Dask Array with Numba Stencils"
(M. Rocklin, 9 April 2019, https://blog.dask.org/2019/04/09/numba-stencil), which reports a kernel
of numba.cuda to be 200 times as fast as compiled code on a CPU, on one image of 10,000 x 10,000.

The script fails if the stencil is not `scipy.ndimage.uniform_filter`, if scikit-learn's search
finds other accuracies, or if images on a GPU were moved to the host.
"""

import argparse
import importlib.util
import statistics
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import sklearn.decomposition
import sklearn.linear_model
from rich.console import Console
from rich.table import Table
from scipy.ndimage import uniform_filter
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.pipeline import make_pipeline

import gpuml
from gpuml.decomposition import PCA
from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV
from gpuml.testing import count_transfers

# Digits of 8 x 8, each pixel three times in both directions, and room to move.
ENLARGED, ROOM = 3, 1
SIDE = 8 * ENLARGED + ROOM
# Pixels of a digit are from 0 to 1.
NOISE = 1.2
SEED = 0
WARM_UP_IMAGES = 100
THREADS = 256
# Tight enough for two minima to be compared.
MODEL = {"max_iter": 2_000, "tol": 1e-4}
# By how much the mean accuracy over folds may differ, and how many images of all besides.
AGREEMENT, IMAGES_APART = 2e-3, 2
STENCIL_TOLERANCE = 1e-4
PUBLISHED = "published: 200 x from a CPU to a GPU (blog.dask.org, 9 April 2019)"


def main():
    args = parse_arguments()
    gpuml.set_config(device=args.device)
    console = Console()
    images, digits = make_images(args.images)
    on_gpu = args.device != "cpu" and has_gpu()
    if args.device == "cuda" and not on_gpu:
        sys.exit("No GPU that CuPy can use was found. Leave out --device cuda.")
    console.print(f"The stencil is done by {way_of(on_gpu)}.", soft_wrap=True)
    check_stencil(images[:100], on_gpu)

    X, y = (to_gpu(images), to_gpu(digits)) if on_gpu else (images, digits)
    result = compare(args, X, y, images, digits)
    console.print(score_table(result.search))
    console.print(cost_table(result, stencil_seconds(images, on_gpu)))
    console.print(f"Plan: {result.search.plan_}", soft_wrap=True)
    console.print(f"Picture: {draw(result.search, images, args.output)}", soft_wrap=True)
    complain_if_wrong(result)


# ---------------------------------------------------------------- the step


class Smooth(TransformerMixin, BaseEstimator):
    """Images of `side` x `side` pixels, one a row, smoothed by a stencil of 3 x 3.

    Parameters
    ----------
    rounds : int, default=1
        How often the stencil is applied; 0 leaves the images as they are.
    side : int
        Height and width of an image.
    """

    def __init__(self, rounds=1, side=SIDE):
        self.rounds = rounds
        self.side = side

    def fit(self, X, y=None):
        if X.shape[1] != self.side**2:
            raise ValueError(f"Images of {self.side} x {self.side} expected, got {X.shape[1]}.")
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        for _ in range(self.rounds):
            X = smoothed(X, self.side)
        return X


def smoothed(X, side):
    """Means over the nine pixels around each; beyond the edge the last pixel counts once more.

    In the library and on the device of X.
    """
    if type(X).__module__.startswith("cupy"):
        return smoothed_by_cuda(X, side) if has_numba_cuda() else smoothed_by_shifts(X, side)
    X = np.ascontiguousarray(X)
    if not has_numba():
        return smoothed_by_shifts(X, side)
    out = np.empty_like(X)
    compiled_loop()(X.reshape(-1, side, side), out.reshape(-1, side, side))
    return out


@cache
def compiled_loop():
    """The stencil as a loop over the pixels, for CPU memory."""
    import numba

    @numba.njit(nogil=True)
    def loop(images, out):
        n, height, width = images.shape
        for k in range(n):
            for i in range(height):
                for j in range(width):
                    total = 0.0
                    for a in range(i - 1, i + 2):
                        for b in range(j - 1, j + 2):
                            row = min(max(a, 0), height - 1)
                            column = min(max(b, 0), width - 1)
                            total += images[k, row, column]
                    out[k, i, j] = total / 9.0

    return loop


@cache
def compiled_kernel():
    """The stencil as a kernel, one thread for each pixel of all images."""
    from numba import cuda, float32

    @cuda.jit
    def kernel(images, out):
        n, height, width = images.shape
        number = cuda.grid(1)
        if number < n * height * width:
            k, within = number // (height * width), number % (height * width)
            i, j = within // width, within % width
            total = float32(0)
            for a in range(i - 1, i + 2):
                for b in range(j - 1, j + 2):
                    row = min(max(a, 0), height - 1)
                    column = min(max(b, 0), width - 1)
                    total += images[k, row, column]
            out[k, i, j] = total / float32(9)

    return kernel


def smoothed_by_cuda(X, side):
    """The kernel on CuPy's memory and in CuPy's stream: nothing is copied, nobody waits."""
    import cupy
    from numba import cuda

    X = cupy.ascontiguousarray(X)
    out = cupy.empty_like(X)
    current = cupy.cuda.get_current_stream().ptr
    stream = cuda.external_stream(current) if current else 0
    blocks = -(-X.size // THREADS)
    shape = (-1, side, side)
    compiled_kernel()[blocks, THREADS, stream](X.reshape(shape), out.reshape(shape))
    return out


def smoothed_by_shifts(X, side):
    """The twin without numba: sums of shifted arrays, NumPy's or CuPy's."""
    if type(X).__module__.startswith("cupy"):
        import cupy as xp
    else:
        xp = np
    padded = xp.pad(X.reshape(-1, side, side), ((0, 0), (1, 1), (1, 1)), mode="edge")
    rows = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    total = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]
    return (total / 9).reshape(X.shape)


def has_numba():
    return importlib.util.find_spec("numba") is not None


@cache
def has_numba_cuda():
    if not has_numba():
        return False
    from numba import cuda

    return cuda.is_available()


@cache
def has_gpu():
    """Whether CuPy is here and finds a GPU."""
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:  # CuPy without a driver raises errors of its own
        return False


def to_gpu(array):
    import cupy

    return cupy.asarray(array)


def way_of(on_gpu):
    """What will compute the stencil, in words."""
    if on_gpu and has_numba_cuda():
        return "a kernel of numba.cuda on the GPU"
    library = "CuPy" if on_gpu else "NumPy"
    if on_gpu or not has_numba():
        package = "numba-cuda" if on_gpu else "numba"
        return f"sums of shifted {library} arrays, without numba ('pip install {package}')"
    return "a loop that numba compiled, on the CPU"


# ---------------------------------------------------------------- images


def make_images(n):
    """Images (n, SIDE * SIDE) of float32 and their digits: enlarged, moved, with noise."""
    random = np.random.default_rng(SEED)
    small, digits = load_digits(return_X_y=True)
    chosen = random.permutation(n) % len(small)
    large = np.kron(small.reshape(-1, 8, 8), np.ones((ENLARGED, ENLARGED), np.float32) / 16)
    images = random.normal(0, NOISE, size=(n, SIDE, SIDE)).astype(np.float32)
    size = 8 * ENLARGED
    moves = random.integers(0, ROOM + 1, size=(n, 2))
    for image, number, (down, right) in zip(images, chosen, moves, strict=True):
        image[down : down + size, right : right + size] += large[number]
    return images.reshape(n, -1), digits[chosen]


# ---------------------------------------------------------------- the two searches


def our_search(args):
    """A class of one's own stands beside those of gpuml."""
    pipeline = make_pipeline(Smooth(), PCA(), LogisticRegression(**MODEL))
    return GridSearchCV(pipeline, grid(args), cv=5, scoring="accuracy")


def their_search(args):
    pipeline = make_pipeline(
        Smooth(),
        sklearn.decomposition.PCA(svd_solver="covariance_eigh"),
        sklearn.linear_model.LogisticRegression(**MODEL),
    )
    return SklearnGridSearchCV(pipeline, grid(args), cv=5, scoring="accuracy")


def grid(args):
    return {
        "smooth__rounds": list(range(args.most_rounds + 1)),
        "pca__n_components": args.components,
        "logisticregression__C": args.C,
    }


@dataclass(frozen=True)
class Comparison:
    """gpuml's search on all images, and both searches on as many as scikit-learn was given."""

    search: GridSearchCV
    seconds: float
    n_images: int
    to_device: int
    to_host: int
    image_bytes: int
    rival_images: int
    our_seconds: float
    their_seconds: float
    difference: float

    @property
    def allowed(self):
        return AGREEMENT + IMAGES_APART / self.rival_images


def compare(args, X, y, images, digits):
    """Search all images where they are, and the first of them with scikit-learn on the host."""
    n = min(args.rival_images, len(images))
    few = min(n, WARM_UP_IMAGES)
    our_search(args).fit(X[:few], y[:few])  # imports, and compilers
    with count_transfers() as moved:
        search, seconds = timed(our_search(args), X, y)
    ours, our_seconds = search, seconds
    if n < len(images):
        ours, our_seconds = timed(our_search(args), X[:n], y[:n])
    print(f"scikit-learn searches {n:,} images ...", file=sys.stderr)
    rival, their_seconds = timed(their_search(args), images[:n], digits[:n])
    means = [s.cv_results_["mean_test_score"] for s in (ours, rival)]
    difference = float(np.abs(np.subtract(*means)).max())
    sizes = len(images), moved.to_device, moved.to_host, images.nbytes, n
    return Comparison(search, seconds, *sizes, our_seconds, their_seconds, difference)


def timed(search, X, y):
    start = time.perf_counter()
    search.fit(X, y)
    return search, time.perf_counter() - start


def check_stencil(images, on_gpu):
    """Leave with an error if the stencil, by any way that there is, is not SciPy's filter."""
    cubes = images.reshape(-1, SIDE, SIDE)
    right = uniform_filter(cubes, size=(0, 3, 3), mode="nearest").reshape(images.shape)
    found = {"smoothed": smoothed(images, SIDE), "shifts": smoothed_by_shifts(images, SIDE)}
    if on_gpu:
        found["on the GPU"] = smoothed(to_gpu(images), SIDE).get()
    for name, values in found.items():
        gap = np.abs(values - right).max()
        if not gap <= STENCIL_TOLERANCE * NOISE:
            sys.exit(f"The stencil ({name}) is not scipy.ndimage.uniform_filter: {gap:.1e} apart.")


def stencil_seconds(images, on_gpu):
    """Median seconds of one round over all images: on the host, and on the GPU or None."""
    on_host = median_seconds(lambda: smoothed(images, SIDE))
    if not on_gpu:
        return on_host, None
    import cupy

    X = to_gpu(images)

    def once():
        smoothed(X, SIDE)
        cupy.cuda.get_current_stream().synchronize()

    return on_host, median_seconds(once)


def median_seconds(work):
    work()
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


# ---------------------------------------------------------------- telling about it


def score_table(search):
    """One row for each number of rounds: its best candidate."""
    table = Table(title=f"Digits in noise: accuracy on {search.n_splits_} folds")
    for heading in ("rounds of the stencil", "best components", "best C", "accuracy"):
        table.add_column(heading, justify="right")
    for rounds, best, mean, spread in best_of_rounds(search):
        components, C = best["pca__n_components"], best["logisticregression__C"]
        table.add_row(str(rounds), str(components), f"{C:g}", f"{mean:.4f} ± {spread:.4f}")
    return table


def best_of_rounds(search):
    """(rounds, parameters, mean, standard deviation) of the best candidate of each."""
    table = search.cv_results_
    for rounds in search.param_grid["smooth__rounds"]:
        members = [i for i, p in enumerate(table["params"]) if p["smooth__rounds"] == rounds]
        best = max(members, key=lambda i: table["mean_test_score"][i])
        scores = (table[f"{what}_test_score"][best] for what in ("mean", "std"))
        yield (rounds, table["params"][best], *scores)


def cost_table(result, stencil):
    """One row for each thing worth knowing."""
    on_host, on_gpu = stencil
    pixels = result.image_bytes / 4
    table = Table(title="Time of the searches, refit included")
    table.add_column("")
    table.add_column("", justify="right")
    facts = {
        "images": f"{result.n_images:,} of {SIDE} x {SIDE} pixels",
        "fits": f"{result.search.plan_.n_fits}",
        "seconds, gpuml": f"{result.seconds:.2f}",
        "bytes, host to device": f"{result.to_device:,}",
        "bytes, device to host": f"{result.to_host:,}",
        "images that scikit-learn got": f"{result.rival_images:,}",
        "seconds on those, gpuml": f"{result.our_seconds:.2f}",
        "seconds on those, scikit-learn": f"{result.their_seconds:.2f}",
        "ratio": f"{result.their_seconds / result.our_seconds:.1f} x",
        "largest difference of mean accuracy": f"{result.difference:.1e}",
        "stencil on the host, pixels a second": f"{pixels / on_host:.2e}",
    }
    if on_gpu is not None:
        facts["stencil on the GPU, pixels a second"] = f"{pixels / on_gpu:.2e}"
        facts["stencil, ratio of both"] = f"{on_host / on_gpu:.0f} x"
    for label, value in facts.items():
        table.add_row(label, value)
    table.caption = PUBLISHED
    return table


def draw(search, images, folder):
    """Write some images after each number of rounds, beside what the rounds are worth."""
    import matplotlib

    matplotlib.use("Agg")  # files, on machines without a screen too
    from matplotlib import pyplot

    found = list(best_of_rounds(search))
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(10.5, 4.2), width_ratios=[1.4, 1], layout="constrained"
    )
    few = images[:8]
    strips = [Smooth(rounds).transform(few).reshape(-1, SIDE, SIDE) for rounds, *_ in found]
    # Each strip in its own contrast: smoothing takes most of the range away with the noise.
    strips = [(s - s.min()) / (s.max() - s.min()) for s in strips]
    left.imshow(np.block([list(strip) for strip in strips]), cmap="gray_r")
    left.set_yticks([SIDE * (i + 0.5) for i in range(len(found))], [str(r) for r, *_ in found])
    left.set_xticks([])
    left.set(ylabel="rounds of the stencil", title="Images after the step of one's own")
    rounds, _, mean, spread = zip(*found, strict=True)
    right.errorbar(rounds, mean, spread, fmt="o-", color="tab:blue", capsize=3)
    right.set_xticks(rounds)
    right.set(xlabel="rounds of the stencil", ylabel="accuracy on held-out folds")
    right.set_title("What the rounds are worth")
    right.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "own_stencil.png"
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def complain_if_wrong(result):
    """Leave with an error that says what differs, or what was moved."""
    # Written so that a NaN score counts as disagreement.
    if not result.difference <= result.allowed:
        sys.exit(
            f"Mean accuracies of gpuml and scikit-learn differ by up to {result.difference:.1e}, "
            f"where {result.allowed:.1e} is allowed."
        )
    if result.to_host > result.image_bytes / 10:
        sys.exit(f"{result.to_host:,} bytes came back from the GPU: images were moved.")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--images", type=int, default=2_000)
    add("--rival-images", type=int, default=500, help="images that scikit-learn gets")
    add("--most-rounds", type=int, default=3, help="largest number of rounds in the grid")
    add("--components", type=int, nargs="+", default=[25, 50], help="numbers of components")
    add("--C", type=float, nargs="+", default=[0.01], help="inverse penalties")
    add("--output", type=Path, default=Path(), help="folder of the picture")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    main()
