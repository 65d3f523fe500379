"""Searches over gpuml's faces of cuML's models, beside the fits and predictions they are of."""

import statistics
import warnings
from dataclasses import dataclass, field
from typing import Any

import _harness as harness
import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.model_selection import ParameterGrid, check_cv

from gpuml import cluster, ensemble, kernel_ridge, neighbors, svm
from gpuml.model_selection import GridSearchCV

FOLDS = 5
# Of the time of bare fits and predictions, and of that what is allowed.
MOST = 1.05


@dataclass(frozen=True)
class Case:
    """A class of gpuml, and what is searched over.

    Attributes
    ----------
    ours : type
    rows : int
        So many that fit and predictions take a tenth of a second or more, where memory allows it:
        what a search adds to each, some milliseconds of Python, depends little on the rows.
    grid : mapping
        Two values of a parameter whose name and meaning are the same for all.
    params : mapping
    bare_only : mapping
        Parameters of cuML's class that make its model the same.
    target : str
        "classes", "two" of them, "numbers" or "none".
    n_centres : int
        Of clusters: so many rows are where all begin, and nothing stops before the last iteration.
    """

    ours: type
    rows: int
    grid: dict
    params: dict = field(default_factory=dict)
    bare_only: dict = field(default_factory=dict)
    target: str = "classes"
    n_centres: int = 0

    def params_of(self, X) -> dict:
        """Parameters, with rows of X where centres are asked for."""
        if not self.n_centres:
            return self.params
        start = {"init": X[: self.n_centres], "n_clusters": self.n_centres, "n_init": 1}
        return self.params | start

    @property
    def name(self) -> str:
        return self.ours.__name__


FOREST: dict[str, Any] = {"n_estimators": 20}
DEPTHS: dict[str, list] = {"max_depth": [6, 10]}
NEIGHBOURS: dict[str, list] = {"n_neighbors": [5, 15]}
PENALTIES: dict[str, list] = {"C": [0.1, 1.0]}
CASES = (
    Case(neighbors.KNeighborsClassifier, 300_000, NEIGHBOURS, {"algorithm": "brute"}),
    Case(
        neighbors.KNeighborsRegressor,
        300_000,
        NEIGHBOURS,
        {"algorithm": "brute"},
        target="numbers",
    ),
    Case(neighbors.KernelDensity, 200_000, {"bandwidth": [1.0, 2.0]}, target="none"),
    Case(
        cluster.KMeans,
        1_000_000,
        {"max_iter": [10, 20]},
        {"tol": 1e-30},
        target="none",
        n_centres=8,
    ),
    Case(ensemble.RandomForestClassifier, 100_000, DEPTHS, FOREST),
    Case(
        ensemble.RandomForestRegressor,
        100_000,
        DEPTHS,
        FOREST | {"max_features": 1.0},
        target="numbers",
    ),
    Case(
        kernel_ridge.KernelRidge,
        30_000,
        {"alpha": [1.0, 10.0]},
        {"kernel": "rbf", "gamma": 0.01},
        target="numbers",
    ),
    Case(svm.SVC, 40_000, PENALTIES, target="two"),
    Case(svm.SVR, 20_000, PENALTIES, target="numbers"),
)


def target_of(case, X, centre):
    """What a model is to find of rows and of the centres that they are around."""
    if case.target == "none":
        return None
    if case.target == "numbers":
        return X[:, :5].sum(axis=1)
    return centre % 2 if case.target == "two" else centre


def folds_of(case, X, y, host_y):
    """Training and held-out rows of every split, gathered where they are."""
    cv = check_cv(FOLDS, host_y, classifier=is_classifier(case.ours()))
    for split in cv.split(np.zeros(len(X)), host_y):
        yield tuple(None if a is None else a[rows] for rows in split for a in (X, y))


def bare_fits(case, kind, folds, fixed):
    """Every candidate is fitted and asked on every fold, and nothing else."""
    for params in ParameterGrid(case.grid):
        for X_train, y_train, X_test, _ in folds:
            model = kind(**fixed, **params)
            if y_train is None:
                model.fit(X_train)
            else:
                model.fit(X_train, y_train)
            if case.target == "none":
                model.score(X_test)
            else:
                model.predict(X_test)


def against_bare(case, data, kind, bare_only, pooled, repeats, rival):
    """One case: our search, the bare fits, and scikit-learn's search over the bare class.

    Parameters
    ----------
    case : Case
    data : (X, y, X, y)
        Where the work is done, and in host memory.
    kind : type
        The class that does the work.
    bare_only : mapping
        Parameters that only this class has.
    pooled : callable or None
        Gives a call the pool for cuML's memory that our classes have.
    repeats : int
    rival : bool
        Whether scikit-learn's search runs, too.
    """
    X, y, host_X, host_y = data
    folds = list(folds_of(case, X, y, host_y))
    fixed = case.params_of(X)
    options = {"cv": FOLDS, "refit": False, "error_score": "raise"}
    search = GridSearchCV(case.ours(**fixed), case.grid, **options)

    def made(**params):
        return kind(**bare_only, **params)

    calls = {"ours": lambda: search.fit(X, y), "bare": lambda: bare_fits(case, made, folds, fixed)}
    if pooled is not None:
        calls["bare, pooled"] = pooled(calls["bare"])
    for call in calls.values():
        call()  # imports, compiled kernels
    runs = [[harness.seconds_of(call) for call in calls.values()] for _ in range(repeats)]
    medians = [statistics.median(times) for times in zip(*runs, strict=True)]
    row = {"model": case.name, "rows": len(X), "candidates": 2, "folds": FOLDS}
    row |= dict(zip(calls, medians, strict=True))
    ratio = statistics.median(times[0] / times[1] for times in runs)
    row |= {"ratio": ratio, "ms per fit more": 1e3 * (row["ours"] - row["bare"]) / (2 * FOLDS)}
    row |= {"as asked": ratio <= MOST, "plan": str(search.plan_)}
    if rival:
        row |= against_sklearn(case, made, search, host_X, host_y)
    return {**row, "runs": runs}


def against_sklearn(case, made, search, X, y):
    """scikit-learn's search over the bare class, from host memory; its first run is not timed."""
    theirs = SklearnGridSearchCV(
        made(**case.params_of(X)), case.grid, cv=FOLDS, refit=False, error_score="raise"
    )

    def measure():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs.fit(X, y)
            seconds = harness.seconds_of(lambda: theirs.fit(X, y))
        scores = (s.cv_results_["mean_test_score"] for s in (theirs, search))
        difference = float(np.abs(np.subtract(*scores)).max())
        return {"sklearn's search": seconds, "largest difference of mean scores": difference}

    return harness.attempt({}, measure)
