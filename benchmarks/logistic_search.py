"""Search over logistic regressions: gpuml and its rivals on the same data in the same run.

    python benchmarks/logistic_search.py --scenario cpu real --json logistic.json

10 values of C x 5 stratified folds, accuracy, refit on the best. README.md beside this file says
how it is measured.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import _harness as harness
import numpy as np
from _harness import needed_cupy, scaled, to_host
from _logistic_optimum import TOL, largest_gradient, solution
from _searches import (
    N_SPLITS,
    all_contenders,
    found,
    not_complaining,
    rivals_over,
    score_difference,
    time_ours,
    time_rival,
)
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV

import gpuml
from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV

GRID = {"C": np.logspace(-4, 4, 10)}
SEED = 0

# Of the made data: centres of the classes in some features, others that are mixtures of those.
INFORMATIVE = 10
REDUNDANT = 10
SEPARATION = 0.5
FLIPPED = 0.05
MAKE_ROWS = 1_000_000
# Objectives as different as this, relative to their size, count as equal: `tol` leaves that open.
EQUAL_OBJECTIVES = 1e-5


# ---------------------------------------------------------------- data


def real(load):
    """A data set as scikit-learn ships it, features in their own units."""
    return lambda args: load(return_X_y=True)


def on_host(args):
    return _made(np, 100_000, 2, np.float64, args)


def on_device(args):
    return _made(needed_cupy(), 1_000_000, 2, np.float32, args)


def ten_classes_on_device(args):
    return _made(needed_cupy(), 1_000_000, 10, np.float32, args)


def _made(xp, n_rows, n_classes, dtype, args):
    return make_classes(xp, scaled(n_rows, args), args.features or 100, n_classes, dtype)


def make_classes(xp, n_rows, n_features, n_classes, dtype):
    """Rows like those of scikit-learn's `make_classification`, made where `xp` keeps its arrays.

    Normal features; the first have a mean that depends on the class, the next are mixtures of the
    first, the rest are noise. Some labels are wrong, so that no plane separates the classes.
    """
    random, host_random = xp.random.default_rng(SEED), np.random.default_rng(SEED)
    informative = min(INFORMATIVE, n_features)
    redundant = min(REDUNDANT, n_features - informative)
    centres = SEPARATION * host_random.choice([-1.0, 1.0], size=(n_classes, informative))
    mixture = host_random.standard_normal((informative, redundant)) / informative**0.5
    centres, mixture = (xp.asarray(a, dtype=dtype) for a in (centres, mixture))
    X = xp.empty((n_rows, n_features), dtype=dtype)
    y = xp.empty(n_rows, dtype=np.int32)
    for start in range(0, n_rows, MAKE_ROWS):
        size = min(MAKE_ROWS, n_rows - start)
        rows = slice(start, start + size)
        truth = random.integers(0, n_classes, size)
        flip = random.random(size) < FLIPPED
        y[rows] = xp.where(flip, random.integers(0, n_classes, size), truth)
        X[rows] = random.standard_normal((size, n_features), dtype=dtype)
        X[rows, :informative] += centres[truth]
        X[rows, informative : informative + redundant] = X[rows, :informative] @ mixture
    return X, y


# ---------------------------------------------------------------- contenders


def ours(**options):
    return GridSearchCV(LogisticRegression(), GRID, **{"scoring": "accuracy", **options})


def theirs(estimator, n_jobs=None):
    # A rival that cannot do it should say why, not return a table of NaN.
    return SklearnGridSearchCV(
        estimator, GRID, scoring="accuracy", n_jobs=n_jobs, error_score="raise"
    )


def cuml_regression():
    import cuml.linear_model

    return cuml.linear_model.LogisticRegression()


RIVALS = rivals_over(
    theirs,
    processors=SklearnLogisticRegression,
    # Losses and gradients on the GPU; L-BFGS is SciPy's, on the host.
    on_gpu=SklearnLogisticRegression,
    in_cuml=cuml_regression,
)


@dataclass(frozen=True)
class Scenario:
    """Data, gpuml's device setting, who is measured how often, and what gpuml should reach.

    `target_ratio` is how many times as long the fastest rival should take; `target_seconds` are by
    number of rows.
    """

    load: Callable[[argparse.Namespace], tuple]
    device: str
    rivals: tuple[str, ...]
    repeats: int = 5
    rival_repeats: int = 1
    target_ratio: float | None = None
    target_seconds: dict[int, float] = field(default_factory=dict)


CPU_RIVALS = ("sklearn", "sklearn-one-process")
GPU_RIVALS = ("sklearn", "cuml-array-api", "sklearn-array-api")
# scikit-learn's processor searches would take a quarter of an hour on more.
MOST_ROWS = {"sklearn": 1_000_000, "sklearn-one-process": 1_000_000}
SCENARIOS = {
    "cpu": Scenario(on_host, "cpu", CPU_RIVALS, 5, 3, target_ratio=5),
    "digits": Scenario(real(load_digits), "auto", CPU_RIVALS, 7, 5, target_ratio=1),
    "breast_cancer": Scenario(real(load_breast_cancer), "auto", CPU_RIVALS, 15, 5, target_ratio=1),
    "wine": Scenario(real(load_wine), "auto", CPU_RIVALS, 15, 5, target_ratio=1),
    "device": Scenario(
        on_device, "auto", GPU_RIVALS, 10, target_seconds={1_000_000: 0.060, 7_000_000: 0.350}
    ),
    "multinomial": Scenario(ten_classes_on_device, "auto", GPU_RIVALS, 5, target_ratio=20),
}
GROUPS = {"real": ("digits", "breast_cancer", "wine"), "all": tuple(SCENARIOS)}


# ---------------------------------------------------------------- measuring


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    try:
        X, y = scenario.load(args)
    except (ImportError, RuntimeError) as error:
        return {"scenario": name, "skipped": str(error)}
    repeats = args.repeats or scenario.repeats
    with gpuml.config_context(device=args.device or scenario.device):
        contenders = measure_all(scenario, X, y, repeats, args)
        result = {"scenario": name, "problem": describe(X, y), "contenders": contenders}
        result["checks"] = checks(scenario, contenders)
        result["breakdown_seconds"] = breakdown(X, y, contenders[0]["best_params"], repeats)
    return result


def describe(X, y):
    facts = harness.facts_of(X) | {"classes": len(np.unique(to_host(y)))}
    facts |= {"C": GRID["C"].tolist(), "splits": N_SPLITS}
    return facts | {"scoring": "accuracy", "refit": True, "tol": TOL}


def measure_all(scenario, X, y, repeats, args):
    """Records of gpuml and of each rival."""

    def measure_rival(name, X, y, own, own_search):
        place = RIVALS[name].place

        def measure():
            with not_complaining():
                search, seconds = time_rival(
                    RIVALS[name], place(X), place(y), scenario.rival_repeats
                )
            ratio = seconds["median"] / own["seconds"]["median"]
            return {"seconds": seconds, "ratio": ratio, **compared(search, own_search, X, y)}

        return harness.attempt({"name": name, "rows": len(X)}, measure)

    def measure_ours_on(X, y):
        return measure_ours(X, y, repeats)

    return all_contenders(X, y, args, scenario.rivals, MOST_ROWS, measure_ours_on, measure_rival)


def measure_ours(X, y, repeats):
    """Record and fitted search, with what its solutions are worth."""
    search, record = ours(), {"name": "gpuml", "rows": len(X)}
    with not_complaining():
        record |= time_ours(search, X, y, repeats)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        search.fit(X, y)
    record["convergence_warnings"] = len(caught)
    record |= solution(search.best_estimator_, X, y)
    return record | {"largest_gradient_of_fifty_models": largest_gradient(ours, X, y)}, search


def compared(search, own_search, X, y):
    """What a rival found, beside what gpuml found."""
    record = found(search) | solution(search.best_estimator_, X, y)
    record["largest_score_difference"] = score_difference(search, own_search)
    record["largest_mean_score_difference"] = mean_score_difference(search, own_search)
    # Objectives can be compared for the same C only, and folds may have chosen another.
    with not_complaining():
        ours_there = LogisticRegression(**search.best_params_).fit(X, y)
    objective = solution(ours_there, X, y)["objective"]
    record["gpuml_objective_at_this_C"] = objective
    record["objective_above_gpuml"] = (record["objective"] - objective) / abs(objective)
    return record


def mean_score_difference(one, other):
    means = (to_host(search.cv_results_["mean_test_score"]) for search in (one, other))
    return float(np.abs(np.subtract(*means)).max())


def breakdown(X, y, best_params, repeats):
    """Medians of parts of the job, and of what each pass over the rows cannot do without."""
    one_C = GridSearchCV(LogisticRegression(), {"C": [1.0]}, scoring="accuracy")
    n_classes = len(np.unique(to_host(y)))
    W = X[: N_SPLITS * len(GRID["C"]) * (1 if n_classes == 2 else n_classes)].T.copy()
    parts = {
        "search without refit": lambda: ours(refit=False).fit(X, y),
        "search of one C": lambda: one_C.fit(X, y),
        "one fit of the best C": lambda: LogisticRegression(**best_params).fit(X, y),
        f"products of X with {W.shape[1]} vectors and back, in {X.dtype}": lambda: X.T @ (X @ W),
    }
    with not_complaining():
        return {name: harness.timing(part, repeats)["median"] for name, part in parts.items()}


def checks(scenario, contenders):
    """What gpuml should reach, and whether it did, in this run."""
    own = [record for record in contenders if record["name"] == "gpuml"]
    rivals = [record for record in contenders if "ratio" in record]
    out = {
        "every model of gpuml reached tol": all(
            record["largest_gradient_of_fifty_models"] <= TOL for record in own
        ),
    }
    if rivals:
        out["no rival has a better objective"] = all(
            record["objective_above_gpuml"] >= -EQUAL_OBJECTIVES for record in rivals
        )
    if rivals and scenario.target_ratio is not None:
        label = f"the fastest rival takes {scenario.target_ratio:g} times as long, or longer"
        out[label] = min(record["ratio"] for record in rivals) >= scenario.target_ratio
    for record in own:
        target = scenario.target_seconds.get(record["rows"])
        if target is not None:
            label = f"{record['rows']:,} rows in {1000 * target:g} ms"
            out[label] = record["seconds"]["median"] <= target
    return out


# ---------------------------------------------------------------- telling about it


def show(result):
    """Print a scenario as two tables."""
    problem = result["problem"]
    title = (
        f"{result['scenario']}: {problem['rows']:,} x {problem['features']} {problem['dtype']} "
        f"({problem['library']}), {problem['classes']} classes, 10 C x 5 folds"
    )
    harness.print_table(title, [as_row(contender) for contender in result["contenders"]])
    for contender in result["contenders"]:
        if "failed" in contender:
            print(f"{contender['name']} {contender['failed']}")
    own = result["contenders"][0]
    harness.print_facts(
        {
            "plan": own["plan"],
            "place": own["place"],
            "largest gradient of the 50 models": f"{own['largest_gradient_of_fifty_models']:.1e}",
            **harness.memory_facts(own),
            **harness.parts_of(result["breakdown_seconds"]),
            **{name: "yes" if so else "NO" for name, so in result["checks"].items()},
        }
    )


def as_row(contender):
    row = {"contender": contender["name"], "rows": f"{contender['rows']:,}"}
    if "failed" in contender:
        return row | {"median s": "failed"} | dict.fromkeys(HEADINGS)
    clock = contender["seconds"]
    reached = "" if contender["reached_tol"] else " > tol"
    runs = len(clock["runs"])
    cells = (
        f"{clock['min']:.3f} - {clock['max']:.3f}" if runs > 1 else None,
        runs,
        harness.cell(contender.get("ratio"), ".1f"),
        f"{contender['best_params']['C']:.3g}",
        harness.cell(contender.get("largest_mean_score_difference"), ".1e"),
        f"{contender['gradient']:.0e}{reached}",
        harness.cell(contender.get("objective_above_gpuml"), "+.0e"),
    )
    return row | {"median s": f"{clock['median']:.4f}"} | dict(zip(HEADINGS, cells, strict=True))


# Beside the name, the number of rows and the median: the spread, and what was found.
HEADINGS = (
    *("min - max", "runs", "x gpuml", "best C", "scores differ"),
    *("gradient of refit", "objective above ours"),
)


def main():
    choices = [*SCENARIOS, *GROUPS]
    parser = harness.arguments(__doc__, choices, ["cpu", "real"], RIVALS)
    add = parser.add_argument
    add("--rival-rows", type=int, help="rows for every rival; gpuml runs on as many beside it")
    add("--device", choices=["auto", "cpu", "cuda"], help="gpuml's setting for host data")
    args = parser.parse_args()
    names = harness.names_of(args.scenario, GROUPS)
    harness.report_on("logistic_search", names, run_scenario, show, args)


if __name__ == "__main__":
    main()
