"""How late will a flight be? Choose components of a PCA and the penalty of a ridge regression.

    python benchmarks/programs/pipeline_search.py [--rows N] [--output DIR] [--device ...]

The flights out of New York in 2013 (some 327,000 x 150; predict the delay on arrival) go through
StandardScaler, PCA and Ridge. One search over a scikit-learn Pipeline of gpuml's steps tries every
number of components with every penalty on five folds. The rows are read once for all of them: what
each step is fitted to, on each fold, follows from their second moments. A fifth of the flights is
kept out of the search, and the best pipeline is scored on it.

scikit-learn's search runs beside, over a pipeline of its own steps. It would take minutes on all
flights: it gets the first `--rival-rows` of them, and gpuml searches those too, so that times and
scores that are compared are of the same rows. The script fails if the two do not agree on them.

How the clock is read: both libraries have searched a thousand rows before it starts, so that
neither pays for imports or worker processes. Each search is then timed once.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sklearn.decomposition
import sklearn.linear_model
import sklearn.preprocessing
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import gpuml
from gpuml.datasets import load_flights
from gpuml.decomposition import PCA
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.preprocessing import StandardScaler

WARM_UP_ROWS = 1_000
# Largest difference of a score of any candidate on any fold.
TOLERANCE = 1e-8


def main():
    args = parse_arguments()
    gpuml.set_config(device=args.device, progress=True)
    X, delay = (part[: args.rows] for part in load_flights(return_X_y=True))
    X, X_kept, y, y_kept = train_test_split(X, delay, test_size=0.2, random_state=0)
    grid = {
        "pca__n_components": spaced(X.shape[1], args.n_components),
        "ridge__alpha": np.logspace(0, 6, args.n_alphas),
    }
    warm_up(grid, X, y)
    result = compare(grid, X, y, args.rival_rows)

    kept = variance_kept(X)
    console = Console()
    console.print(score_table(result.search, kept, X_kept, y_kept))
    console.print(time_table(result))
    console.print(f"Plan: {result.search.plan_}", soft_wrap=True)
    for path in draw(result.search, kept, args.output):
        console.print(f"Picture: {path}", soft_wrap=True)
    complain_if_different(result)


def spaced(n_features, n_values):
    """Numbers of components up to all of them, each a multiple of the one before."""
    return sorted(set(np.geomspace(2, n_features, n_values).round().astype(int).tolist()))


# ---------------------------------------------------------------- the two searches


def our_search(grid):
    """The search this example is about; only the imports differ from scikit-learn's."""
    pipeline = make_pipeline(StandardScaler(), PCA(), Ridge())
    return GridSearchCV(pipeline, grid, cv=5, scoring="r2")


def their_search(grid):
    """The same with scikit-learn, told to use the fastest solvers that it has for tall data."""
    pipeline = make_pipeline(
        sklearn.preprocessing.StandardScaler(),
        sklearn.decomposition.PCA(svd_solver="covariance_eigh"),
        sklearn.linear_model.Ridge(solver="cholesky"),
    )
    return SklearnGridSearchCV(pipeline, grid, cv=5, scoring="r2", n_jobs=-1)


# ---------------------------------------------------------------- comparing them


@dataclass(frozen=True)
class Comparison:
    """gpuml's search on all rows, and both searches on as many as scikit-learn was given."""

    shape: tuple[int, int]
    search: GridSearchCV
    seconds: float
    rival_rows: int
    ours: GridSearchCV
    our_seconds: float
    theirs: SklearnGridSearchCV
    their_seconds: float

    @property
    def difference(self):
        """Largest difference of any score of any candidate on any fold."""
        folds = [f"split{i}_test_score" for i in range(self.ours.n_splits_)]
        ours, theirs = self.ours.cv_results_, self.theirs.cv_results_
        return max(float(np.abs(ours[fold] - theirs[fold]).max()) for fold in folds)

    @property
    def agrees(self):
        # Written so that a NaN score counts as disagreement.
        return self.difference <= TOLERANCE


def warm_up(grid, X, y):
    """Pay for imports, worker processes and, where a GPU may be used, its libraries."""
    X, y = X[:WARM_UP_ROWS], y[:WARM_UP_ROWS]
    small = {name: values[:2] for name, values in grid.items()}
    our_search(small).fit(X, y)
    their_search(small).fit(X, y)
    if gpuml.get_config()["device"] == "auto":
        try:
            with gpuml.config_context(device="cuda"):
                our_search(small).fit(X, y)
        except RuntimeError:
            pass  # no GPU: "auto" will not look for one either


def compare(grid, X, y, rival_rows):
    """Search all rows with gpuml, and those that scikit-learn gets with both."""
    search, seconds = timed(our_search(grid), X, y)
    ours, our_seconds = search, seconds
    rows = min(rival_rows, len(X))
    if rows < len(X):
        ours, our_seconds = timed(our_search(grid), X[:rows], y[:rows])
    print(f"scikit-learn searches {rows:,} rows ...", file=sys.stderr)
    theirs, their_seconds = timed(their_search(grid), X[:rows], y[:rows])
    return Comparison(X.shape, search, seconds, rows, ours, our_seconds, theirs, their_seconds)


def timed(search, X, y):
    start = time.perf_counter()
    search.fit(X, y)
    return search, time.perf_counter() - start


# ---------------------------------------------------------------- telling about it


def score_table(search, kept, X_kept, y_kept):
    """One row for each number of components: its best penalty, and what that reaches."""
    table = Table(title=f"Delay on arrival: r² and best alpha, {search.n_splits_} folds")
    for heading in ("components", "variance kept", "best alpha", "r², mean of folds"):
        table.add_column(heading, justify="right")
    components, alphas, mean, spread = scores(search)
    for k, means, stds in zip(components, mean, spread, strict=True):
        best = int(np.argmax(means))
        score = f"{means[best]:.4f} ± {stds[best]:.4f}"
        table.add_row(str(k), f"{kept[k - 1]:.0%}", f"{alphas[best]:.3g}", score)
    r2 = search.score(X_kept, y_kept)
    table.caption = f"Best pipeline on {len(y_kept):,} flights kept out: {r2:.4f}"
    return table


def time_table(result):
    """One row for each thing worth knowing."""
    table = Table(title="Time of the searches, refit included")
    table.add_column("")
    table.add_column("flights 2013", justify="right")
    search = result.search
    for label, value in {
        "rows x features": f"{result.shape[0]:,} x {result.shape[1]}",
        "fits": f"{search.plan_.n_fits}",
        "passes over the rows": f"{search.plan_.n_passes}",
        "device used": search.plan_.place,
        "seconds, gpuml": f"{result.seconds:.3f}",
        "rows that scikit-learn got": f"{result.rival_rows:,}",
        "seconds on those, gpuml": f"{result.our_seconds:.3f}",
        "seconds on those, scikit-learn": f"{result.their_seconds:.3f}",
        "ratio": f"{result.their_seconds / result.our_seconds:.1f} x",
        "largest score difference": f"{result.difference:.1e}",
    }.items():
        table.add_row(label, value)
    return table


def scores(search):
    """Numbers of components, penalties, and mean and spread of the scores as (k, alpha) tables."""
    table = search.cv_results_
    components = search.param_grid["pca__n_components"]
    alphas = search.param_grid["ridge__alpha"]
    # Candidates run through the penalties of one number of components before the next.
    shape = len(components), len(alphas)
    mean, spread = (np.reshape(table[f"{what}_test_score"], shape) for what in ("mean", "std"))
    return components, alphas, mean, spread


def variance_kept(X):
    """Share of the variance in the first component, the first two, and so on."""
    pca = make_pipeline(StandardScaler(), PCA()).fit(X)[-1]
    return np.cumsum(pca.explained_variance_ratio_)


def draw(search, kept, folder):
    """Write a heat map of the scores, and a scree plot beside what components are worth."""
    import matplotlib

    matplotlib.use("Agg")  # files, on machines without a screen too
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    figures = {"scores": draw_scores(pyplot, search), "scree": draw_scree(pyplot, search, kept)}
    for kind, figure in figures.items():
        figure.tight_layout()
        paths.append(folder / f"pipeline_search_{kind}.png")
        figure.savefig(paths[-1], dpi=150)
        pyplot.close(figure)
    return paths


def draw_scores(pyplot, search):
    """Mean score of every number of components with every penalty; the best is framed."""
    components, alphas, mean, _ = scores(search)
    figure, panel = pyplot.subplots(
        figsize=(1.6 + 0.75 * len(alphas), 1.6 + 0.45 * len(components))
    )
    image = panel.imshow(mean, cmap="viridis", aspect="auto", origin="lower")
    panel.set_xticks(range(len(alphas)), [f"{alpha:.2g}" for alpha in alphas])
    panel.set_yticks(range(len(components)), components)
    middle = (mean.min() + mean.max()) / 2
    for (row, column), value in np.ndenumerate(mean):
        color = "white" if value < middle else "black"
        panel.text(column, row, f"{value:.3f}", ha="center", va="center", color=color, fontsize=8)
    row, column = np.unravel_index(np.argmax(mean), mean.shape)
    frame = pyplot.Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, ec="tab:red", lw=2.5)
    panel.add_patch(frame)
    panel.set(
        xlabel="alpha of Ridge", ylabel="components of PCA", title="Mean r² on held-out folds"
    )
    figure.colorbar(image, ax=panel)
    return figure


def draw_scree(pyplot, search, kept):
    """Variance that each component explains, all up to it together, and what they are worth."""
    components, _, mean, _ = scores(search)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    counts = np.arange(1, len(kept) + 1)
    left.bar(counts, np.diff(kept, prepend=0), width=1.0, color="tab:blue")
    left.set(xlabel="component", ylabel="share of the variance", title="Scree plot")
    right.plot(counts, kept, color="tab:blue", label="variance kept")
    best = mean.max(axis=1)
    right.plot(
        components, best / best.max(), "o-", color="tab:orange", label="r², as a share of the best"
    )
    right.set(xlabel="components kept", ylabel="share", ylim=(0, 1.05), title="What they are worth")
    right.legend(frameon=False, loc="lower right")
    return figure


def complain_if_different(result):
    """Leave with an error that says what differs."""
    if not result.agrees:
        sys.exit(
            f"Scores of gpuml and scikit-learn differ by up to {result.difference:.1e}, where "
            f"{TOLERANCE:.0e} is allowed."
        )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--rows", type=int, help="flights to use (default: all of them)")
    add("--rival-rows", type=int, default=20_000, help="rows that scikit-learn gets")
    add("--output", type=Path, default=Path(), help="folder of the pictures")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--n-components", type=int, default=8, help="numbers of components in the grid")
    add("--n-alphas", type=int, default=7, help="penalties in the grid")
    return parser.parse_args()


if __name__ == "__main__":
    main()
