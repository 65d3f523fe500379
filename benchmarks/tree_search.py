"""Searches over forests and boosters: scikit-learn's, and the best loop written by hand.

    python benchmarks/tree_search.py --json tree_search.json

5 folds. The loop fits the largest number of trees once, from one matrix of bins per fold where the
library has one, and scores each number of trees from that. README.md beside this file says how it
is measured.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import _harness as harness
import numpy as np
from _beside import contenders
from _harness import scaled
from sklearn import ensemble
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.model_selection import ParameterGrid, StratifiedKFold

import gpuml
from gpuml.ensemble import RandomForestClassifier
from gpuml.model_selection import GridSearchCV

SEED, FOLDS = 0, 5
DEPTHS = {"n_estimators": [10, 20, 30, 40], "max_depth": [4, 8, 12, None]}
SIZES = [25, 50, 100, 200]
RATES = [0.03, 0.1, 0.3]


def of(module, name, **params):
    """A model of a library that may not be installed."""

    def make(**more):
        return getattr(import_module(module), name)(**params, **more)

    return make


def staged(model, size, sizes, folds):
    """Scores of each number of trees, from `staged_predict`."""
    found = []
    for X, y, X_test, y_test in folds:
        fitted = clone(model).set_params(**{size: max(sizes)}).fit(X, y)
        rounds = enumerate(fitted.staged_predict(X_test), start=1)
        found.append([accuracy_score(y_test, said) for n, said in rounds if n in sizes])
    return np.transpose(found)


def loop_of_histograms(model, grid, folds):
    return staged(model, "max_iter", grid["max_iter"], folds)


def loop_of_xgboost(model, grid, folds):
    import xgboost

    given = model.get_params()
    params = {
        "objective": "binary:logistic",
        **{name: given[name] for name in ("max_depth", "max_bin", "n_jobs") if given[name]},
    }
    sizes, rates = grid["n_estimators"], grid.get("learning_rate", [0.1])
    found = []
    for X, y, X_test, y_test in folds:
        rows = xgboost.QuantileDMatrix(X, y, max_bin=given["max_bin"], nthread=given["n_jobs"])
        scores = []
        for rate in rates:
            booster = xgboost.train({**params, "learning_rate": rate}, rows, max(sizes))
            for n in sizes:
                said = booster.inplace_predict(X_test, iteration_range=(0, n)) > 0.5
                scores.append(accuracy_score(y_test, said))
        found.append(scores)
    return np.transpose(found)


def loop_of_lightgbm(model, grid, folds):
    import lightgbm

    given = {"objective": "binary", "verbose": -1, "num_threads": model.n_jobs}
    sizes, rates = grid["n_estimators"], grid.get("learning_rate", [0.1])
    found = []
    for X, y, X_test, y_test in folds:
        rows = lightgbm.Dataset(X, y, params=given, free_raw_data=False).construct()
        scores = []
        for rate in rates:
            booster = lightgbm.train({**given, "learning_rate": rate}, rows, max(sizes))
            for n in sizes:
                said = booster.predict(X_test, num_iteration=n) > 0.5
                scores.append(accuracy_score(y_test, said))
        found.append(scores)
    return np.transpose(found)


def loop_of_catboost(model, grid, folds):
    sizes, found = grid["n_estimators"], []
    for X, y, X_test, y_test in folds:
        fitted = model.copy().set_params(n_estimators=max(sizes)).fit(X, y)
        said = [fitted.predict(X_test, ntree_end=n) for n in sizes]
        found.append([accuracy_score(y_test, each) for each in said])
    return np.transpose(found)


@dataclass(frozen=True)
class Scenario:
    """A model, its grid, what splits the rows, and the loop that does the same by hand."""

    make: Callable[..., Any]
    grid: Mapping[str, Any]
    loop: Callable[..., Any] | None = None
    theirs: Callable[..., Any] | None = None
    n: int = 4_000
    p: int = 20
    options: Mapping[str, Any] = field(default_factory=dict)


FOREST = of("sklearn.ensemble", "RandomForestClassifier", random_state=SEED)
XGBOOST = of("xgboost", "XGBClassifier", max_bin=256, learning_rate=0.1)
LIGHTGBM = of("lightgbm", "LGBMClassifier", verbose=-1)
CATBOOST = of(
    *("catboost", "CatBoostClassifier"),
    verbose=0,
    allow_writing_files=False,
    learning_rate=0.1,
)
PRUNED = {"n_estimators": [10, 20], "ccp_alpha": [0.0, 0.0005, 0.001, 0.002, 0.005]}
SCENARIOS = {
    "forest": Scenario(FOREST, DEPTHS),
    "our_forest": Scenario(lambda: RandomForestClassifier(random_state=SEED), DEPTHS, None, FOREST),
    "forest_exact": Scenario(FOREST, {"n_estimators": DEPTHS["n_estimators"]}),
    "forest_pruned": Scenario(FOREST, PRUNED),
    "forest_out_of_bag": Scenario(FOREST, DEPTHS, options={"cv": "oob"}),
    "histograms": Scenario(
        lambda: ensemble.HistGradientBoostingClassifier(random_state=SEED, early_stopping=False),
        {"max_iter": SIZES},
        loop_of_histograms,
    ),
    "xgboost_sizes": Scenario(XGBOOST, {"n_estimators": SIZES}, loop_of_xgboost),
    "xgboost_rates": Scenario(
        XGBOOST, {"n_estimators": [100], "learning_rate": RATES}, loop_of_xgboost
    ),
    "lightgbm_sizes": Scenario(LIGHTGBM, {"n_estimators": SIZES}, loop_of_lightgbm),
    "lightgbm_rates": Scenario(
        LIGHTGBM, {"n_estimators": [100], "learning_rate": RATES}, loop_of_lightgbm
    ),
    "catboost_sizes": Scenario(CATBOOST, {"n_estimators": SIZES}, loop_of_catboost),
}
GROUPS = {"cpu": list(SCENARIOS)}


def rows(args, scenario):
    """Two classes, told apart by products of features, with a tenth of the labels flipped."""
    random = np.random.default_rng(SEED)
    n, p = scaled(scenario.n, args), args.features or scenario.p
    X = random.standard_normal((n, p), dtype=np.float32)
    score = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4]
    return X, ((score > 0) ^ (random.random(n) < 0.1)).astype(int)


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    X, y = rows(args, scenario)
    try:
        model = scenario.make()
    except ImportError as error:
        return {"scenario": name, "skipped": str(error)}
    folds = list(StratifiedKFold(FOLDS).split(X, y))
    theirs = model if scenario.theirs is None else scenario.theirs()
    # Boosters have threads of their own.
    n_jobs = -1 if scenario.loop is None else None
    options = {"cv": folds, "refit": False, "n_jobs": n_jobs, **scenario.options}
    plans = []

    def ours():
        search = GridSearchCV(model, scenario.grid, **options).fit(X, y)
        plans.append(str(search.plan_))
        return search.cv_results_["mean_test_score"]

    with gpuml.config_context(device="cpu"):
        their_search = partial(searched, theirs, scenario.grid, folds, X, y)
        found = contenders(ours, their_search, args.repeats or 3, compared)
        if scenario.loop is not None:
            cut = [(X[a], y[a], X[b], y[b]) for a, b in folds]
            loop = partial(scenario.loop, model, scenario.grid, cut)
            found.append(harness.attempt({"name": "loop"}, partial(beside, ours, loop, args)))
    problem = harness.facts_of(X) | {
        "folds": FOLDS,
        "candidates": len(ParameterGrid(scenario.grid)),
        "plan": plans[-1],
    }
    return {"scenario": name, "problem": problem, "contenders": found}


def searched(model, grid, folds, X, y, n_jobs=None):
    """Mean scores of scikit-learn's search on folds."""
    search = TheirSearch(model, grid, cv=folds, refit=False, n_jobs=n_jobs)
    return search.fit(X, y).cv_results_["mean_test_score"]


def beside(ours, loop, args):
    """The loop and the search in turn: the ratio says how much longer the loop takes."""
    own, theirs, scores = [], [], ()
    for _ in range(args.repeats or 3):
        own.append(harness.seconds_of(lambda: ours()))
        theirs.append(harness.seconds_of(lambda: loop()))
    scores = ours(), loop().mean(axis=1)
    ratios = [b / a for a, b in zip(own, theirs, strict=True)]
    return {
        "seconds": harness.spread(theirs),
        "ratio": float(np.median(ratios)),
        **compared(*(np.sort(each) for each in scores)),
    }


def compared(own, other):
    return {"largest_score_difference": float(np.max(np.abs(own - other)))}


def show(result):
    """Print a scenario as a table."""
    problem = result["problem"]
    size = f"{problem['rows']:,} x {problem['features']}, {problem['candidates']} x {FOLDS} folds"
    harness.print_table(f"{result['scenario']}: {size}", list(map(as_row, result["contenders"])))
    print(problem["plan"])


def as_row(contender):
    return {
        "contender": contender["name"],
        **harness.clock_cells(contender),
        "x gpuml": harness.cell(contender.get("ratio"), ".2f"),
        "score difference": harness.cell(contender.get("largest_score_difference"), ".1e"),
    }


def main():
    args = harness.arguments(__doc__, [*SCENARIOS, *GROUPS], ["cpu"]).parse_args()
    names = harness.names_of(args.scenario, GROUPS)
    harness.report_on("tree_search", names, run_scenario, show, args)


if __name__ == "__main__":
    main()
