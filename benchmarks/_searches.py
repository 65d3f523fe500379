"""What benchmarks of searches have in common: rivals, what a search found, and records of ours."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import _harness as harness
import numpy as np
import sklearn
from _harness import to_gpu, to_host
from sklearn.exceptions import ConvergenceWarning

N_SPLITS = 5
WARM_UP_ROWS = 2_000
ARRAY_API = {"array_api_dispatch": True}


@dataclass(frozen=True)
class Rival:
    """How to make a rival's search, and where it takes its data from."""

    search: Callable[[], Any]
    place: Callable[[Any], Any] = to_host
    config: dict = field(default_factory=dict)


def rivals_over(theirs, processors, on_gpu, in_cuml):
    """scikit-learn's search over estimators of a processor and of cuML, and under the array API.

    Each argument after the first makes an estimator; `theirs` makes a search over it.
    """

    def needing_gpu():
        harness.needed_cupy()
        return theirs(on_gpu())

    return {
        "sklearn": Rival(lambda: theirs(processors(), n_jobs=-1)),
        # Also all cores, but inside BLAS.
        "sklearn-one-process": Rival(lambda: theirs(processors())),
        "cuml": Rival(lambda: theirs(in_cuml())),
        "cuml-array-api": Rival(lambda: theirs(in_cuml()), to_gpu, ARRAY_API),
        "sklearn-array-api": Rival(needing_gpu, to_gpu, ARRAY_API),
    }


def not_complaining():
    """Ignore warnings about convergence, which is measured: they would take time themselves."""
    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)


def time_rival(rival, X, y, repeats):
    """A rival's search and its times, with its configuration."""
    with sklearn.config_context(**rival.config), harness.own_allocator():
        search = rival.search()
        search.fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
        return search, harness.timing(lambda: search.fit(X, y), repeats)


def time_ours(search, X, y, repeats):
    """Record of a search: the first run with its memory, what moved, the clock, the result."""
    search.fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
    record = harness.first_run(lambda: search.fit(X, y))
    record |= harness.moved_by(lambda: search.fit(X, y))
    record["seconds"] = harness.timing(lambda: search.fit(X, y), repeats)
    plan = search.plan_
    return record | found(search) | {"plan": str(plan), "place": plan.place}


def found(search):
    """What a search found."""
    return {"best_params": search.best_params_, "best_score": float(search.best_score_)}


def score_difference(one, other):
    """Largest difference of any score of any candidate on any fold."""
    folds = [f"split{i}_test_score" for i in range(N_SPLITS)]
    return max(
        float(np.abs(one.cv_results_[fold] - other.cv_results_[fold]).max()) for fold in folds
    )


def all_contenders(X, y, args, rivals, most_rows, measure_ours, measure_rival):
    """Records of gpuml and of each rival; a rival on fewer rows is compared with gpuml on those."""
    own = {len(X): measure_ours(X, y)}
    records = []
    for name in rivals if args.rivals is None else args.rivals:
        rows = min(args.rival_rows or most_rows.get(name, len(X)), len(X))
        part = X[:rows], y[:rows]
        if rows not in own:
            own[rows] = measure_ours(*part)
        records.append(measure_rival(name, *part, *own[rows]))
    return [record for record, _search in own.values()] + records
