"""Ridge searches of the GPU and Dask literature: 28 KB, 2.8, 28 and 2,800 MB.

    python benchmarks/programs/diabetes_sizes.py [--output DIR] [--device ...]
    python benchmarks/programs/diabetes_sizes.py --largest  # 2.8 GB too; the default on a GPU

In March 2019 "cuML and Dask hyperparameter optimization" (B. Zaitlen,
https://blog.dask.org/2019/03/27/dask-cuml) searched ten penalties of a ridge regression on five
folds with cuML's Ridge, under scikit-learn's GridSearchCV and under Dask-ML's, on a machine with
eight V100. It found the search on GPUs to be slower than on the CPU, and slower still as the data
grew: training rows went to a GPU 50 times, held-out rows came back 50 times. Its figures are shown
beside those of this machine, which is another one, of another year.

Here the same search is done by gpuml, which moves the rows once at most and reads them once. X is
353 x 10 float64 (28 KB), repeated 100, 1,000 and 100,000 times; the post repeats rows as they are,
this script adds a little noise so that no two rows are the same. The post has no search at 2.8 GB,
only single fits, which are listed.

scikit-learn's own search runs beside on up to `--rival-rows` rows. The script fails if any score of
any candidate on any fold differs by more than 1e-8.
"""

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.model_selection import train_test_split

import gpuml
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV

GRID = {"alpha": np.logspace(-3, -1, 10)}
TIMES = (1, 100, 1_000, 100_000)
# Standard deviation of the noise, as a share of each column's.
NOISE = 0.01
SEED = 0
TOLERANCE = 1e-8
MAKE_ROWS = 2**20

PUBLISHED_AT = "blog.dask.org, 27 March 2019; 8 x V100"
# Seconds of searches that the post reports, by how often the data is repeated.
PUBLISHED = {
    "cuML + scikit-learn": {1: 6.51},
    "cuML + Dask-ML": {1: 0.740, 100: 13.8, 1_000: 77.0},
    "scikit-learn": {1: 0.0884},
    "scikit-learn + Dask-ML": {1: 0.873, 1_000: 4.87},
}
PUBLISHED_FITS = (
    "Published at 2.8 GB, one fit and no search: scikit-learn 4.82 s, cuML 0.45 s after 19.7 s to "
    "move the rows to the GPU."
)


def main():
    args = parse_arguments()
    gpuml.set_config(device=args.device)
    X, y = base_rows()
    warm_up(X, y)
    sizes = [times for times in args.times if times < TIMES[-1] or args.largest or uses_gpu()]
    results = [measured(times, args, X, y) for times in sizes]

    console = Console()
    console.print(as_table(results))
    console.print(PUBLISHED_FITS, soft_wrap=True)
    if len(sizes) < len(args.times):
        console.print("2.8 GB were left out, because there is no GPU: --largest searches them.")
    console.print(f"Picture: {draw(results, args.output)}", soft_wrap=True)
    complain_if_different(results)


# ---------------------------------------------------------------- rows


def base_rows():
    """Four fifths of the diabetes data, as in the post: 353 x 10 float64, 28 KB."""
    X, y = load_diabetes(return_X_y=True)
    X, _, y, _ = train_test_split(X, y, test_size=0.2, random_state=SEED)
    return X, y


def repeated(X, y, times):
    """The rows so many times, one copy after the other, with noise; the first time without."""
    if times == 1:
        return X, y
    n = len(X) * times
    many, targets = np.empty((n, X.shape[1])), np.empty(n)
    random = np.random.default_rng(SEED)
    spread = NOISE * X.std(axis=0)
    step = len(X) * max(1, MAKE_ROWS // len(X))
    for first in range(0, n, step):
        part = slice(first, min(first + step, n))
        copies = (part.stop - part.start) // len(X)
        noise = random.standard_normal((copies * len(X), X.shape[1]))
        many[part] = np.tile(X, (copies, 1)) + spread * noise
        targets[part] = np.tile(y, copies)
    return many, targets


def uses_gpu():
    """Whether large data would be worked on by a GPU, by gpuml's settings."""
    if gpuml.get_config()["device"] == "cpu":
        return False
    try:
        with gpuml.config_context(device="cuda"):
            our_search().fit(*base_rows())
    except RuntimeError:
        return False
    return True


# ---------------------------------------------------------------- the two searches


def our_search():
    """The search this example is about; only the imports differ from scikit-learn's."""
    return GridSearchCV(Ridge(), GRID, cv=5, scoring="r2")


def their_search():
    """The same with scikit-learn, with the solver of the post."""
    return SklearnGridSearchCV(SklearnRidge(solver="cholesky"), GRID, cv=5, scoring="r2")


@dataclass(frozen=True)
class Result:
    """Both searches at one size; scikit-learn's is None where it was left out."""

    times: int
    n_rows: int
    n_bytes: int
    plan: str
    our_seconds: float
    their_seconds: float | None
    difference: float | None

    @property
    def agrees(self):
        # Written so that a NaN score counts as disagreement.
        return self.difference is None or self.difference <= TOLERANCE


def warm_up(X, y):
    """Pay for imports, and where a GPU may be used, for its libraries."""
    our_search().fit(X, y)
    their_search().fit(X, y)
    uses_gpu()


def measured(times, args, X, y):
    X, y = repeated(X, y, times)
    print(f"Searching {len(X):,} rows ...", file=sys.stderr)
    ours, our_seconds = median_run(our_search(), X, y, args.repeats)
    their_seconds = difference = None
    if len(X) <= args.rival_rows:
        theirs, their_seconds = median_run(their_search(), X, y, args.repeats)
        difference = largest_difference(ours, theirs)
    plan = ours.plan_.place
    return Result(times, len(X), X.nbytes, plan, our_seconds, their_seconds, difference)


def median_run(search, X, y, repeats):
    """Median of many runs, of a few where one takes long."""
    seconds = []
    while len(seconds) < repeats and sum(seconds) < 1.0:
        start = time.perf_counter()
        search.fit(X, y)
        seconds.append(time.perf_counter() - start)
    return search, statistics.median(seconds)


def largest_difference(ours, theirs):
    """Of any score of any candidate on any fold."""
    folds = [f"split{i}_test_score" for i in range(ours.n_splits_)]
    gaps = (np.abs(ours.cv_results_[fold] - theirs.cv_results_[fold]).max() for fold in folds)
    return max(float(gap) for gap in gaps)


# ---------------------------------------------------------------- telling about it


def as_table(results):
    """One column for each size: this machine's seconds, then published ones."""
    table = Table(title="Ridge: 10 penalties x 5 folds, refit included")
    table.add_column("")
    for result in results:
        table.add_column(size_words(result.n_bytes), justify="right")
    rows = {
        "rows": [f"{r.n_rows:,}" for r in results],
        "device used": [r.plan for r in results],
        "seconds, gpuml": [seconds_words(r.our_seconds) for r in results],
        "seconds, scikit-learn": [seconds_words(r.their_seconds) for r in results],
        "ratio": [ratio_words(r) for r in results],
        "largest score difference": [
            "not run" if r.difference is None else f"{r.difference:.1e}" for r in results
        ],
    }
    for label, values in rows.items():
        table.add_row(label, *values)
    table.add_section()
    for name, seconds in PUBLISHED.items():
        shown = [seconds_words(seconds.get(r.times), "-") for r in results]
        table.add_row(f"published, {name}", *shown)
    table.caption = f"Published: {PUBLISHED_AT}"
    return table


def size_words(n_bytes):
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.2g} {unit}"
    return f"{n_bytes / 1e3:.0f} KB"


def seconds_words(seconds, missing="not run"):
    if seconds is None:
        return missing
    return f"{seconds:.3g}" if seconds >= 0.1 else f"{seconds:.4f}"


def ratio_words(result):
    if result.their_seconds is None:
        return "not run"
    return f"{result.their_seconds / result.our_seconds:.1f} x"


def draw(results, folder):
    """Write seconds against size as a PNG: this machine's as lines, published ones as crosses."""
    import matplotlib

    matplotlib.use("Agg")  # a file, on machines without a screen too
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(7.2, 4.6), layout="constrained")
    sizes = [r.n_bytes for r in results]
    panel.plot(sizes, [r.our_seconds for r in results], "o-", color="tab:blue", label="gpuml")
    rival = [(r.n_bytes, r.their_seconds) for r in results if r.their_seconds is not None]
    if rival:
        panel.plot(*zip(*rival, strict=True), "o-", color="tab:orange", label="scikit-learn")
    one = results[0].n_bytes / results[0].times
    colors = ("tab:red", "tab:purple", "0.6", "tab:brown")
    for (name, seconds), color in zip(PUBLISHED.items(), colors, strict=True):
        x = [one * times for times in seconds]
        panel.plot(x, list(seconds.values()), "x:", color=color, label=f"2019: {name}", ms=8, mew=2)
    panel.set(xscale="log", yscale="log", xlabel="bytes of X", ylabel="seconds of the search")
    panel.set_title("Ridge, 10 penalties x 5 folds: diabetes data, repeated")
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    panel.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    panel.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "diabetes_sizes.png"
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def complain_if_different(results):
    """Leave with an error that says what differs."""
    complaints = [
        f"{size_words(r.n_bytes)}: scores of gpuml and scikit-learn differ by up to "
        f"{r.difference:.1e}, where {TOLERANCE:.0e} is allowed."
        for r in results
        if not r.agrees
    ]
    if complaints:
        sys.exit("\n".join(complaints))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--times", type=int, nargs="+", default=list(TIMES), help="how often the data is repeated")
    add("--largest", action="store_true", help="2.8 GB on a CPU too")
    add("--rival-rows", type=int, default=400_000, help="most rows that scikit-learn searches")
    add("--repeats", type=int, default=15, help="most runs of a search, whose median is taken")
    add("--output", type=Path, default=Path(), help="folder of the picture")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    main()
