"""How far off may a prediction be? Intervals from the residuals of cross-validation.

    python benchmarks/programs/prediction_intervals.py [--rows N] [--coverage 0.9]

A target with noise (Friedman's function: products, a square and lines of ten features), and a
ridge regression of products of features. `ConformalRegressor` puts intervals around its
predictions of new rows in four ways: CV+, jackknife+ (R. F. Barber et al., Annals of Statistics
2021), from one training part, and from the smallest and largest prediction of all models. All
models are fitted together; jackknife+ has one for each row. What share of new targets the
intervals hold is what was asked for.

The script fails if CV+ is not what its definition gives over scikit-learn's models, fitted one by
one, or if intervals of new rows hold far fewer of the targets than was asked for.
"""

import argparse
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.preprocessing import PolynomialFeatures as SklearnProducts

from gpuml.linear_model import Ridge
from gpuml.model_selection import ConformalRegressor, KFold, LeaveOneOut
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import PolynomialFeatures

NEW_ROWS = 2000
FOLDS = KFold(10)
# Of bounds, between models that are fitted together and one by one.
AGREEMENT = 1e-8
# Standard errors that a share may be off by: of the residuals of a fit, and of the new rows.
SLACK = 4.0


def main():
    args = parse_arguments()
    X, y = make_friedman1(args.rows + NEW_ROWS, noise=1.0, random_state=0)
    new = slice(args.rows, None)
    X_new, y_new, X, y = X[new], y[new], X[: args.rows], y[: args.rows]
    model = make_pipeline(PolynomialFeatures(2, include_bias=False), Ridge(1.0))
    ways = {
        "CV+, 10 folds": ConformalRegressor(model, method="plus", cv=FOLDS),
        "jackknife+": ConformalRegressor(model, method="plus", cv=LeaveOneOut()),
        "one training part": ConformalRegressor(model, method="split"),
        "smallest to largest": ConformalRegressor(model, method="minmax", cv=FOLDS),
    }
    table = Table(title=f"Intervals of {args.coverage:.0%}, {args.rows:,} rows")
    for heading in ("way", "models", "covered", "mean width", "seconds"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for name, way in ways.items():
        start = time.perf_counter()
        way.fit(X, y)
        lower, upper = way.predict_interval(X_new, coverage=args.coverage)
        seconds = time.perf_counter() - start
        covered = np.mean((lower <= y_new) & (y_new <= upper))
        cells = len(way.estimators_), f"{covered:.1%}", f"{np.mean(upper - lower):.2f}"
        table.add_row(name, *map(str, cells), f"{seconds:.3f}")
        spread = np.sqrt(args.coverage * (1 - args.coverage))
        error = spread * (len(way.residuals_) ** -0.5 + NEW_ROWS**-0.5)
        if covered < args.coverage - SLACK * error:
            sys.exit(f"{name} covers {covered:.1%} of new rows, {args.coverage:.0%} are asked for.")
    Console().print(table)
    bounds = ways["CV+, 10 folds"].predict_interval(X_new, coverage=args.coverage)
    complain(bounds, by_definition(X, y, X_new, args.coverage))


def by_definition(X, y, X_new, coverage):
    """CV+ of scikit-learn's models, one after the other."""
    model = sklearn_pipeline(SklearnProducts(2, include_bias=False), SklearnRidge(1.0))
    lower, upper = [], []
    for train, test in FOLDS.split(X):
        fitted = clone(model).fit(X[train], y[train])
        residuals = np.abs(y[test] - fitted.predict(X[test]))
        lower.append(fitted.predict(X_new) - residuals[:, None])
        upper.append(fitted.predict(X_new) + residuals[:, None])
    # The k-th smallest of n bounds, counted from outside.
    k = int(np.ceil(coverage * (len(y) + 1)))
    lower, upper = (np.sort(np.concatenate(each), axis=0) for each in (lower, upper))
    return lower[len(y) - k], upper[k - 1]


def complain(bounds, expected):
    """Leave with an error that says what is not right."""
    for name, own, their in zip(("lower", "upper"), bounds, expected, strict=True):
        apart = np.abs(own - their).max()
        if not apart <= AGREEMENT * np.abs(their).max():
            sys.exit(f"The {name} bounds are up to {apart} from those of scikit-learn's models.")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=500, help="rows to fit")
    parser.add_argument("--coverage", type=float, default=0.9, help="share of targets to cover")
    return parser.parse_args()


if __name__ == "__main__":
    main()
