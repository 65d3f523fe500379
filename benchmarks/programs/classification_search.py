"""Which flights will be late? Choose the penalty of a logistic regression, with several scores.

    python benchmarks/programs/classification_search.py [--rows N] \\
        [--data flights|breast_cancer|both]

Two data sets: the flights out of New York in 2013 (is one more than 15 minutes late on arrival,
from what is known before it leaves?) and scikit-learn's breast cancer. On each, one search fits 10
values of C on five folds and scores every model by ROC AUC, accuracy, F1 and average precision. A
fifth of the rows is kept out of the search; scikit-learn's own displays show the best model on it.

scikit-learn's search runs beside, on the same rows. It would take minutes on all flights: it gets
the first `--rival-rows` of them, and gpuml searches those too, so that times and scores that are
compared are of the same rows. The script fails if the two do not agree on them.

How the clock is read: both libraries have done a whole search on a thousand rows before it starts,
so that neither pays for imports or worker processes. Each search is then timed once.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay, RocCurveDisplay
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.model_selection import train_test_split

import gpuml
from gpuml.datasets import load_flights
from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV

SCORING = ["roc_auc", "accuracy", "f1", "average_precision"]
LABELS = {"roc_auc": "ROC AUC", "f1": "F1", "accuracy": "accuracy"}
LATE_MINUTES = 15
WARM_UP_ROWS = 1_000
# Enough for scikit-learn to reach its tolerance, so that what is compared are two minima.
MAX_ITER = 1_000
TOL = 1e-5
# By how much the mean of a score over folds may differ where both libraries reach that tolerance,
# and how many rows of all may besides be judged differently, which matters if rows are few.
AGREEMENT = 2e-3
ROWS_APART = 2


def main():
    args = parse_arguments()
    gpuml.set_config(device=args.device, progress=True)
    grid = {"C": np.logspace(-4, 4, args.n_C)}
    names = list(DATA) if args.data == "both" else [args.data]
    results = []
    for name in names:
        data = DATA[name](args)
        if not results:
            warm_up(grid, data, args)
        results.append(compare(grid, data, args))

    console = Console()
    for result in results:
        console.print(score_table(result))
    console.print(time_table(results))
    for result in results:
        console.print(f"Plan for {result.data.name}: {result.search.plan_}", soft_wrap=True)
        for path in draw(result, args.output):
            console.print(f"Picture: {path}", soft_wrap=True)
    complain_if_different(results)


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class Data:
    """Rows to search on, rows kept out, and names of the two classes."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_kept: np.ndarray
    y_kept: np.ndarray
    classes: tuple[str, str]


def flights(args):
    """Late or on time, from timetable, weather and plane; the features are in one scale."""
    X, delay = load_flights(return_X_y=True)
    X, delay = X[: args.rows], delay[: args.rows]
    y = (delay > LATE_MINUTES).astype(np.int64)
    return kept_out("flights", X, y, ("on time", f"> {LATE_MINUTES} min late"))


def breast_cancer(args):
    """Malignant or benign, each feature divided by its spread."""
    X, y = load_breast_cancer(return_X_y=True)
    return kept_out("breast_cancer", (X - X.mean(axis=0)) / X.std(axis=0), y, CANCERS)


CANCERS = ("malignant", "benign")
DATA = {"flights": flights, "breast_cancer": breast_cancer}


def kept_out(name, X, y, classes):
    X, X_kept, y, y_kept = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    return Data(name, X, y, X_kept, y_kept, classes)


# ---------------------------------------------------------------- the two searches


def our_search(grid):
    """The search this example is about; only the imports differ from scikit-learn's."""
    model = LogisticRegression(max_iter=MAX_ITER, tol=TOL)
    return GridSearchCV(model, grid, cv=5, scoring=SCORING, refit="roc_auc")


def their_search(grid):
    model = SklearnLogisticRegression(max_iter=MAX_ITER, tol=TOL)
    return SklearnGridSearchCV(model, grid, cv=5, scoring=SCORING, refit="roc_auc", n_jobs=-1)


# ---------------------------------------------------------------- comparing them


@dataclass(frozen=True)
class Comparison:
    """gpuml's search on all rows, and both searches on as many as scikit-learn was given.

    `rival` is None where it was left out.
    """

    data: Data
    search: GridSearchCV
    seconds: float
    rival_rows: int
    ours: GridSearchCV
    our_seconds: float
    rival: SklearnGridSearchCV | None
    their_seconds: float | None

    def difference(self, score):
        """Largest difference of the means of a score over folds, of all candidates."""
        means = [search.cv_results_[f"mean_test_{score}"] for search in (self.ours, self.rival)]
        return float(np.abs(np.subtract(*means)).max())

    @property
    def allowed(self):
        return AGREEMENT + ROWS_APART / self.rival_rows

    @property
    def apart(self):
        """Scores that differ by more than is allowed; NaN counts as such."""
        if self.rival is None:
            return []
        return [score for score in SCORING if not self.difference(score) <= self.allowed]


def warm_up(grid, data, args):
    """Pay for imports, worker processes and, where a GPU may be used, its libraries."""
    X, y = data.X[:WARM_UP_ROWS], data.y[:WARM_UP_ROWS]
    our_search(grid).fit(X, y)
    if not args.skip_rival:
        their_search({"C": grid["C"][:2]}).fit(X, y)
    if gpuml.get_config()["device"] == "auto":
        try:
            with gpuml.config_context(device="cuda"):
                our_search(grid).fit(X, y)
        except RuntimeError:
            pass  # no GPU: "auto" will not look for one either


def compare(grid, data, args):
    """Search all rows with gpuml, and those that scikit-learn gets with both."""
    search, seconds = timed(our_search(grid), data.X, data.y)
    rows = min(args.rival_rows, len(data.X))
    ours, our_seconds = search, seconds
    if rows < len(data.X) and not args.skip_rival:
        ours, our_seconds = timed(our_search(grid), data.X[:rows], data.y[:rows])
    rival = their_seconds = None
    if not args.skip_rival:
        print(f"scikit-learn searches {rows:,} rows of {data.name} ...", file=sys.stderr)
        rival, their_seconds = timed(their_search(grid), data.X[:rows], data.y[:rows])
    return Comparison(data, search, seconds, rows, ours, our_seconds, rival, their_seconds)


def timed(search, X, y):
    start = time.perf_counter()
    search.fit(X, y)
    return search, time.perf_counter() - start


# ---------------------------------------------------------------- telling about it


def score_table(result):
    """One row for each score: the best C by it, its mean over folds, and the rows kept out."""
    table = Table(title=f"{result.data.name}: {len(result.data.X):,} rows, best C by each score")
    table.add_column("score")
    headings = ("best C", "mean of five folds", "on rows kept out", "differs from scikit-learn's")
    for heading in headings:
        table.add_column(heading, justify="right")
    for score in SCORING:
        means = result.search.cv_results_[f"mean_test_{score}"]
        spread = result.search.cv_results_[f"std_test_{score}"]
        best = int(np.argmax(means))
        chosen = result.search.cv_results_["param_C"][best]
        model = LogisticRegression(C=chosen, max_iter=MAX_ITER, tol=TOL)
        model.fit(result.data.X, result.data.y)
        scorer = gpuml.metrics.get_scorer(score)
        table.add_row(
            LABELS.get(score, score.replace("_", " ")),
            f"{chosen:.3g}",
            f"{means[best]:.4f} ± {spread[best]:.4f}",
            f"{scorer(model, result.data.X_kept, result.data.y_kept):.4f}",
            "not run" if result.rival is None else f"{result.difference(score):.1e}",
        )
    return table


def time_table(results):
    """One column for each data set, one row for each thing worth knowing."""
    table = Table(title="Time of the searches: 4 scores, refit included")
    table.add_column("")
    for result in results:
        table.add_column(result.data.name, justify="right")
    for label, show in {
        "rows x features": lambda r: f"{r.data.X.shape[0]:,} x {r.data.X.shape[1]}",
        "fits": lambda r: f"{len(r.search.cv_results_['params']) * r.search.n_splits_}",
        "device used": lambda r: r.search.plan_.place,
        "seconds, gpuml": lambda r: f"{r.seconds:.3f}",
        "rows that scikit-learn got": lambda r: "none" if r.rival is None else f"{r.rival_rows:,}",
        "seconds on those, gpuml": lambda r: "" if r.rival is None else f"{r.our_seconds:.3f}",
        "seconds on those, scikit-learn": lambda r: optional(r.their_seconds, "{:.3f}"),
        "ratio": lambda r: optional(r.their_seconds, "{:.1f} x", r.our_seconds),
    }.items():
        table.add_row(label, *map(show, results))
    return table


def optional(seconds, form, unit=1.0):
    return "" if seconds is None else form.format(seconds / unit)


def draw(result, folder):
    """Write a picture of the search, and one of the best model on the rows kept out."""
    import matplotlib

    matplotlib.use("Agg")  # files, on machines without a screen too
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, picture in {"scores": draw_scores, "best_model": draw_best_model}.items():
        figure = picture(pyplot, result)
        figure.tight_layout()
        paths.append(folder / f"classification_{result.data.name}_{kind}.png")
        figure.savefig(paths[-1], dpi=150)
        pyplot.close(figure)
    return paths


def draw_scores(pyplot, result):
    """Each score against C, with its spread over folds."""
    figure, panels = pyplot.subplots(1, len(SCORING), figsize=(3.6 * len(SCORING), 3.6))
    table = result.search.cv_results_
    C = np.asarray(table["param_C"], dtype=float)
    for panel, score in zip(panels, SCORING, strict=True):
        mean, spread = table[f"mean_test_{score}"], table[f"std_test_{score}"]
        panel.fill_between(C, mean - spread, mean + spread, color="tab:blue", alpha=0.15, lw=0)
        panel.plot(C, mean, "o-", color="tab:blue", ms=3.5)
        panel.axvline(C[np.argmax(mean)], color="0.4", ls=":")
        panel.set(xscale="log", xlabel="C", title=LABELS.get(score, score.replace("_", " ")))
    panels[0].set_ylabel("score of the held-out fold")
    figure.suptitle(f"{result.data.name}: mean over five folds ± 1 std; dotted: best C")
    return figure


def draw_best_model(pyplot, result):
    """scikit-learn's displays of the best model; they take our estimator as one of theirs."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.5, 4.2))
    model, data = result.search.best_estimator_, result.data
    ConfusionMatrixDisplay.from_estimator(
        model, data.X_kept, data.y_kept, display_labels=data.classes, cmap="Blues", ax=left
    )
    RocCurveDisplay.from_estimator(
        model, data.X_kept, data.y_kept, plot_chance_level=True, name="gpuml", ax=right
    )
    figure.suptitle(f"{data.name}: C={model.C:.3g} on {len(data.y_kept):,} rows kept out")
    return figure


def complain_if_different(results):
    """Leave with an error that says what differs."""
    complaints = [
        f"{result.data.name}: mean {score} differs by {result.difference(score):.1e} from "
        f"scikit-learn's, where {result.allowed:.1e} is allowed."
        for result in results
        for score in result.apart
    ]
    if complaints:
        sys.exit("\n".join(complaints))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--data", choices=[*DATA, "both"], default="both")
    add("--rows", type=int, help="flights to use (default: all of them)")
    add("--rival-rows", type=int, default=20_000, help="rows that scikit-learn gets")
    add("--skip-rival", action="store_true", help="leave scikit-learn's search out")
    add("--output", type=Path, default=Path(), help="folder of the pictures")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--n-C", type=int, default=10, help="values of C in the grid")
    return parser.parse_args()


if __name__ == "__main__":
    main()
