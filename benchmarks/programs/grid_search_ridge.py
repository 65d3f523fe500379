"""Choose the penalty of a ridge regression, with gpuml and with scikit-learn.

    python benchmarks/programs/grid_search_ridge.py [--rows N] [--output DIR] [--device ...]

Two data sets: scikit-learn's diabetes as it is (442 x 10), and the flights out of New York in 2013
(about 327,000 x 150; predict the delay on arrival). On each, both libraries search the same grid of
penalties with the same five folds. The script prints what they found and how long they took, and
draws the validation curves. It fails if they do not agree.

How the clock is read: both libraries have done a whole search on the diabetes data before it
starts, so that neither pays for imports, and scikit-learn's worker processes are up. On the
flights each search is then timed once; on the diabetes data the median of many is taken, and of
scikit-learn's two ways (``n_jobs=-1`` and one process) the faster is the rival.
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

import gpuml
from gpuml.datasets import load_flights
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.testing import count_transfers

TOLERANCE = 1e-8
SMALL_REPEATS = 15


def main():
    args = parse_arguments()
    gpuml.set_config(device=args.device, progress=True)
    grid = {"alpha": np.logspace(-3, 3, args.n_alphas)}

    diabetes = load_diabetes(return_X_y=True)
    flights = [part[: args.rows] for part in load_flights(return_X_y=True)]
    warm_up(grid, *diabetes)
    results = [
        compare_often("diabetes", grid, *diabetes),
        compare_once("flights 2013", grid, *flights),
    ]

    console = Console()
    console.print(as_table(results))
    for result in results:
        console.print(f"Plan for {result.name}: {result.ours.plan_}", soft_wrap=True)
    path = draw(results, args.output)
    console.print(f"Validation curves: {path}", soft_wrap=True)
    complain_if_different(results)


# ---------------------------------------------------------------- the two searches


def our_search(grid):
    """The search this example is about; only the imports differ from scikit-learn's."""
    return GridSearchCV(Ridge(), grid, cv=5, scoring="r2")


def their_search(grid, n_jobs=-1):
    """The same with scikit-learn, told to use the fastest of its solvers for tall data."""
    ridge = SklearnRidge(solver="cholesky")
    return SklearnGridSearchCV(ridge, grid, cv=5, scoring="r2", n_jobs=n_jobs)


# ---------------------------------------------------------------- comparing them


@dataclass(frozen=True)
class Comparison:
    """Both searches on one data set, fitted, with what they took."""

    name: str
    shape: tuple[int, int]
    ours: GridSearchCV
    theirs: SklearnGridSearchCV
    our_seconds: float
    their_seconds: float
    to_device: int
    to_host: int

    @property
    def ratio(self):
        return self.their_seconds / self.our_seconds

    @property
    def difference(self):
        """Largest difference of any score of any candidate on any fold."""
        folds = [f"split{i}_test_score" for i in range(self.ours.n_splits_)]
        ours, theirs = self.ours.cv_results_, self.theirs.cv_results_
        return max(np.abs(ours[fold] - theirs[fold]).max() for fold in folds)

    @property
    def agrees(self):
        # Written so that a NaN score counts as disagreement.
        return self.ours.best_params_ == self.theirs.best_params_ and self.difference <= TOLERANCE


def warm_up(grid, X, y):
    """Pay for imports, worker processes and, where a GPU may be used, its libraries."""
    our_search(grid).fit(X, y)
    their_search(grid).fit(X, y)
    if gpuml.get_config()["device"] == "auto":
        try:
            with gpuml.config_context(device="cuda"):
                our_search(grid).fit(X, y)
        except RuntimeError:
            pass  # no GPU: "auto" will not look for one either


def compare_once(name, grid, X, y):
    """Each search once: for data large enough that one run is a measurement."""
    ours, our_seconds = timed(our_search(grid), X, y)
    theirs, their_seconds = timed(their_search(grid), X, y)
    return comparison(name, X, y, (ours, our_seconds), (theirs, their_seconds))


def compare_often(name, grid, X, y):
    """Each search many times: for data so small that single runs scatter."""
    with gpuml.config_context(progress=False):  # drawing takes longer than the search
        ours = median_run(our_search(grid), X, y)
    rivals = [median_run(their_search(grid, n_jobs), X, y) for n_jobs in (-1, None)]
    return comparison(name, X, y, ours, min(rivals, key=lambda run: run[1]))


def comparison(name, X, y, ours, theirs):
    """The record of two timed runs; one more, untimed, counts what moved to a GPU and back."""
    with gpuml.config_context(progress=False), count_transfers() as moved:
        our_search(ours[0].param_grid).fit(X, y)
    return Comparison(
        name, X.shape, ours[0], theirs[0], ours[1], theirs[1], moved.to_device, moved.to_host
    )


def timed(search, X, y):
    start = time.perf_counter()
    search.fit(X, y)
    return search, time.perf_counter() - start


def median_run(search, X, y):
    seconds = [timed(search, X, y)[1] for _ in range(SMALL_REPEATS)]
    return search, statistics.median(seconds)


# ---------------------------------------------------------------- telling about it


def as_table(results):
    """One column for each data set, one row for each thing worth knowing."""
    table = Table(title="Grid search over Ridge: gpuml and scikit-learn")
    table.add_column("")
    for result in results:
        table.add_column(result.name, justify="right")
    for label, show in {
        "rows x features": lambda r: f"{r.shape[0]:,} x {r.shape[1]}",
        "device used": lambda r: r.ours.plan_.place,
        "best, gpuml": lambda r: best(r.ours),
        "best, scikit-learn": lambda r: best(r.theirs),
        "seconds, gpuml": lambda r: f"{r.our_seconds:.4f}",
        "seconds, scikit-learn": lambda r: f"{r.their_seconds:.4f} (n_jobs={r.theirs.n_jobs})",
        "ratio": lambda r: f"{r.ratio:.1f} x",
        "largest score difference": lambda r: f"{r.difference:.1e}",
        "bytes, host to device": lambda r: f"{r.to_device:,}",
        "bytes, device to host": lambda r: f"{r.to_host:,}",
    }.items():
        table.add_row(label, *map(show, results))
    return table


def best(search):
    return ", ".join(f"{name}={value:g}" for name, value in search.best_params_.items())


def draw(results, folder):
    """Write the validation curves as a PNG, one panel for each data set; returns its path."""
    import matplotlib

    matplotlib.use("Agg")  # a file, on machines without a screen too
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(results), figsize=(5.5 * len(results), 4.2))
    for panel, result in zip(panels, results, strict=True):
        draw_panel(panel, result)
    panels[0].set_ylabel("R² on the held-out fold")
    panels[0].legend(frameon=False)
    figure.suptitle("Validation curves: mean over five folds, and their spread (± 1 std)")
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "grid_search_ridge.png"
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def draw_panel(panel, result):
    alphas, mean, spread = curve(result.ours)
    panel.fill_between(alphas, mean - spread, mean + spread, color="tab:blue", alpha=0.15, lw=0)
    panel.plot(alphas, mean, "-", color="tab:blue", label="gpuml")
    alphas, mean, _ = curve(result.theirs)
    # Open circles: the line stays visible where both agree, which is everywhere.
    panel.plot(alphas, mean, "o", color="tab:orange", mfc="none", label="scikit-learn")
    chosen = result.ours.best_params_["alpha"]
    panel.axvline(chosen, color="0.4", ls=":", label="best alpha")
    panel.set(xscale="log", xlabel="alpha", title=f"{result.name}: best alpha {chosen:g}")


def curve(search):
    table = search.cv_results_
    alphas = np.asarray(table["param_alpha"], dtype=float)
    return alphas, table["mean_test_score"], table["std_test_score"]


def complain_if_different(results):
    """Leave with an error that says what differs."""
    complaints = [complaint(result) for result in results if not result.agrees]
    if complaints:
        sys.exit("\n".join(complaints))


def complaint(result):
    return (
        f"{result.name}: gpuml chose {best(result.ours)} and scikit-learn {best(result.theirs)}; "
        f"scores differ by up to {result.difference:.1e}, where {TOLERANCE:.0e} is allowed."
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, help="flights to use (default: all of them)")
    parser.add_argument("--output", type=Path, default=Path(), help="folder of the plot")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--n-alphas", type=int, default=10, help="penalties in the grid")
    return parser.parse_args()


if __name__ == "__main__":
    main()
