"""Search over an estimator that is fitted one by one: what the search adds to the bare fits.

    python benchmarks/generic_search.py --scenario cpu --json out/generic_search.json
    python benchmarks/generic_search.py --scenario device host --json out/gpu.json

12 random forests x 5 stratified folds, scored by accuracy, without a refit. The bare fits are a
loop over folds that were gathered before the clock started: each model is made, fitted and scored,
and nothing else. README.md beside this file says how it is measured.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import _harness as harness
import numpy as np
from _harness import needed_cupy, scaled
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.model_selection import ParameterGrid, StratifiedKFold

import gpuml
from gpuml.metrics import get_scorer
from gpuml.model_selection import GridSearchCV
from gpuml.testing import count_transfers

GRID = {"n_estimators": [5, 10, 20], "max_depth": [4, 6, 8, 10]}
N_SPLITS = 5
WARM_UP_ROWS = 5_000
SEED = 0


# ---------------------------------------------------------------- data and estimators


def on_host(rows, features):
    """Two classes, shuffled: the sign of a sum of products of features, with a tenth flipped."""
    random = np.random.default_rng(SEED)
    X = random.standard_normal((rows, features), dtype=np.float32)
    score = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4]
    y = (score > 0) ^ (random.random(rows) < 0.1)
    return X, y.astype(np.int32)


def on_device(rows, features):
    """The same rows on the GPU."""
    cupy = needed_cupy()
    return tuple(cupy.asarray(x) for x in on_host(rows, features))


def on_host_of_gpu(rows, features):
    """The same rows in ordinary (pageable) memory of a machine with a GPU."""
    needed_cupy()
    return on_host(rows, features)


def sklearn_forest():
    return RandomForestClassifier(random_state=SEED)


def cuml_forest():
    # The import makes RMM the allocator of all CuPy arrays; here they keep CuPy's own pool.
    with harness.own_allocator():
        from cuml.ensemble import RandomForestClassifier as Forest
    return Forest()  # with a seed it would warn that several streams are not deterministic


class Nothing(ClassifierMixin, BaseEstimator):
    """Fits nothing where the rows are: what is left is the search."""

    def __init__(self, n_estimators=1, max_depth=1):
        self.n_estimators = n_estimators
        self.max_depth = max_depth

    def fit(self, X, y):
        return self

    def score(self, X, y):
        return 0.0


@dataclass(frozen=True)
class Scenario:
    """Data, estimator, gpuml's device setting, and sizes."""

    load: Callable[[int, int], tuple]
    forest: Callable[[], Any]
    device: str
    rows: int
    features: int = 50
    rival: bool = True
    rival_candidates: int | None = None
    repeats: int = 3


SCENARIOS = {
    "cpu": Scenario(on_host, sklearn_forest, "cpu", 20_000, 20),
    # scikit-learn's search can't index CuPy arrays: its figures are those of `host`.
    "device": Scenario(on_device, cuml_forest, "auto", 1_000_000, rival=False),
    "host": Scenario(on_host_of_gpu, cuml_forest, "cuda", 1_000_000, rival_candidates=4),
}


# ---------------------------------------------------------------- contenders


def ours(forest, grid=GRID):
    return GridSearchCV(forest, grid, **options())


def search_of_nothing():
    return ours(Nothing()).set_params(scoring=None)


def theirs(forest, grid):
    # A rival that cannot do it should say why, not return a table of NaN.
    return SklearnGridSearchCV(forest, grid, error_score="raise", **options())


def options():
    return {"cv": StratifiedKFold(N_SPLITS), "scoring": get_scorer("accuracy"), "refit": False}


def first_candidates(n):
    """The first candidates as a grid, each with one value per parameter."""
    candidates = list(ParameterGrid(GRID))[:n]
    return [{name: [value] for name, value in one.items()} for one in candidates]


def bare_folds(X, y, device):
    """Training and held-out rows of every split, gathered where they are worked on."""
    if device == "cuda":
        X, y = needed_cupy().asarray(X), needed_cupy().asarray(y)
    labels = y if isinstance(y, np.ndarray) else y.get()
    splits = StratifiedKFold(N_SPLITS).split(np.zeros(len(labels)), labels)
    return [tuple(a[rows] for rows in split for a in (X, y)) for split in splits]


def bare_fits(forest, folds):
    """Seconds that fits and scores take by themselves, and the scores."""
    scorer, seconds, scores = get_scorer("accuracy"), 0.0, []

    def fit_and_score(model, X_train, y_train, X_test, y_test):
        scores.append(scorer(model.fit(X_train, y_train), X_test, y_test))

    for params in ParameterGrid(GRID):
        for fold in folds:
            model = clone(forest).set_params(**params)
            seconds += harness.seconds_of(lambda m=model, f=fold: fit_and_score(m, *f))
    return seconds, scores


# ---------------------------------------------------------------- measuring


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    rows, features = scaled(scenario.rows, args), args.features or scenario.features
    try:
        X, y = scenario.load(rows, features)
        forest = scenario.forest()
    except (ImportError, RuntimeError) as error:
        return {"scenario": name, "skipped": str(error)}
    with gpuml.config_context(device=scenario.device):
        repeats = args.repeats or scenario.repeats
        result = {
            "scenario": name,
            "problem": describe(X, forest),
            "against_bare_fits": against_bare_fits(scenario, forest, X, y, repeats),
            "moved": what_moves(forest, X, y),
            "search_of_nothing_seconds": harness.timing(
                lambda: search_of_nothing().fit(X, y), repeats
            ),
        }
        if scenario.rival and not args.no_rival:
            n = args.rival_candidates or scenario.rival_candidates
            result["rival"] = against_sklearn(forest, X, y, first_candidates(n))
    return result


def describe(X, forest):
    facts = harness.facts_of(X) | {"grid": GRID, "splits": N_SPLITS}
    return facts | {"estimator": f"{type(forest).__module__}.{type(forest).__name__}"}


def against_bare_fits(scenario, forest, X, y, repeats):
    """The search and the bare fits in turn, and the ratio of their times."""
    search = ours(forest).fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
    folds = bare_folds(X, y, scenario.device)
    bare_fits(forest, [tuple(x[:WARM_UP_ROWS] for x in fold) for fold in folds])
    searches, bare = [], []
    for _ in range(repeats):
        searches.append(harness.seconds_of(lambda: search.fit(X, y)))
        seconds, scores = bare_fits(forest, folds)
        bare.append(seconds)
    ratios = [a / b for a, b in zip(searches, bare, strict=True)]
    table = np.asarray(scores).reshape(-1, N_SPLITS)
    return {
        "search_seconds": searches,
        "bare_seconds": bare,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "plan": str(search.plan_),
        "best_params": search.best_params_,
        "best_score": float(search.best_score_),
        # Forests draw rows at random: in another order, other rows.
        "largest_difference_of_mean_scores": float(
            np.abs(table.mean(axis=1) - search.cv_results_["mean_test_score"]).max()
        ),
    }


def what_moves(forest, X, y):
    """Bytes that cross between host and device in one search, and in one over nothing."""
    out = {"X_bytes": X.nbytes, "y_bytes": y.nbytes}
    for name, search in (("search", ours(forest)), ("search_of_nothing", search_of_nothing())):
        with count_transfers() as moved:
            search.fit(X, y)
        out[name] = {
            "to_device_bytes": moved.to_device,
            "to_host_bytes": moved.to_host,
            "to_device_share_of_X": moved.to_device / X.nbytes,
            "every_copy_counted": moved.counts_everyone,
        }
    return out


def against_sklearn(forest, X, y, grid):
    """scikit-learn's search over the same estimator and candidates, and ours, once each."""

    def measure():
        rival = theirs(forest, grid).fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
        seconds = harness.seconds_of(lambda: rival.fit(X, y))
        with count_transfers() as moved:
            rival.fit(X, y)
        search = ours(forest, grid)
        own_seconds = harness.seconds_of(lambda: search.fit(X, y))
        scores = (s.cv_results_["mean_test_score"] for s in (rival, search))
        return {
            "seconds": seconds,
            "gpuml_seconds": own_seconds,
            "ratio": seconds / own_seconds,
            "to_device_bytes": moved.to_device,
            "to_device_share_of_X": moved.to_device / X.nbytes,
            "largest_difference_of_mean_scores": float(np.abs(np.subtract(*scores)).max()),
        }

    name = "sklearn.model_selection.GridSearchCV"
    return harness.attempt({"name": name, "candidates": len(grid)}, measure)


# ---------------------------------------------------------------- telling about it


def show(result):
    """Print a scenario as a table."""
    problem, bare = result["problem"], result["against_bare_fits"]
    title = (
        f"{result['scenario']}: {problem['rows']:,} x {problem['features']} {problem['dtype']} "
        f"({problem['library']}), {problem['estimator']}, 12 candidates x 5 folds"
    )
    facts = {
        "plan": bare["plan"],
        "search": f"{statistics.median(bare['search_seconds']):.3f} s",
        "bare fits and scores": f"{statistics.median(bare['bare_seconds']):.3f} s",
        "search / bare": f"{bare['ratio']:.3f}",
        "search over nothing": f"{result['search_of_nothing_seconds']['median']:.4f} s",
        "moved up, share of X": f"{result['moved']['search']['to_device_share_of_X']:.4f}",
        "... for nothing": f"{result['moved']['search_of_nothing']['to_device_share_of_X']:.4f}",
    }
    if "rival" in result:
        facts |= rival_facts(result["rival"])
    harness.print_table(title, [{"gpuml": name, "": value} for name, value in facts.items()])


def rival_facts(rival):
    name = f"scikit-learn's search, {rival['candidates']} candidates"
    if "failed" in rival:
        return {name: rival["failed"][:90]}
    return {
        name: f"{rival['seconds']:.3f} s",
        "gpuml's on those": f"{rival['gpuml_seconds']:.3f} s",
        "scikit-learn / gpuml": f"{rival['ratio']:.2f}",
        "scikit-learn moved up, share of X": f"{rival['to_device_share_of_X']:.2f}",
    }


def main():
    parser = harness.arguments(__doc__, [*SCENARIOS, "all"], ["cpu"])
    add = parser.add_argument
    add("--no-rival", action="store_true", help="leave scikit-learn's search out")
    add("--rival-candidates", type=int, help="default: 4 for host, else all 12")
    args = parser.parse_args()
    names = harness.names_of(args.scenario, {"all": tuple(SCENARIOS)})
    harness.report_on("generic_search", names, run_scenario, show, args)


if __name__ == "__main__":
    main()
