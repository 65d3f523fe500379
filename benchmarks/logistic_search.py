"""Search over logistic regressions: gpuml and its rivals on the same data in the same run.

    python benchmarks/logistic_search.py --scenario cpu real --json logistic.json

10 values of C x 5 stratified folds, accuracy, refit on the best. README.md beside this file says
how it is measured.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import _harness as harness
import numpy as np
import sklearn
from ridge_search import Rival, found, needed_cupy, score_difference, to_gpu, to_host, without_paths
from scipy.special import expit, logsumexp, softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.model_selection import StratifiedKFold

import gpuml
from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV
from gpuml.testing import count_transfers

GRID = {"C": np.logspace(-4, 4, 10)}
N_SPLITS = 5
TOL = 1e-4  # the default of every contender
WARM_UP_ROWS = 2_000
SEED = 0

# Of the made data: centres of the classes in some features, others that are mixtures of those.
INFORMATIVE = 10
REDUNDANT = 10
SEPARATION = 0.5
FLIPPED = 0.05
MAKE_ROWS = 1_000_000
CHECK_BYTES = 2**27
# Objectives as different as this, relative to their size, count as equal: `tol` leaves that open.
EQUAL_OBJECTIVES = 1e-5


# ---------------------------------------------------------------- data


def real(load):
    """A data set as scikit-learn ships it, features in their own units."""
    return lambda args: load(return_X_y=True)


def on_host(args):
    return make_classes(np, args.rows or 100_000, args.features, 2, np.float64)


def on_device(args):
    return make_classes(needed_cupy(), args.rows or 1_000_000, args.features, 2, np.float32)


def ten_classes_on_device(args):
    return make_classes(needed_cupy(), args.rows or 1_000_000, args.features, 10, np.float32)


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


def sklearn_all_cores():
    return theirs(SklearnLogisticRegression(), n_jobs=-1)


def sklearn_one_process():
    """Also all cores, but inside BLAS."""
    return theirs(SklearnLogisticRegression())


def sklearn_over_cuml():
    import cuml.linear_model

    return theirs(cuml.linear_model.LogisticRegression())


def sklearn_array_api():
    """Losses and gradients on the GPU; L-BFGS is SciPy's, on the host."""
    needed_cupy()
    return theirs(SklearnLogisticRegression())


RIVALS = {
    "sklearn": Rival(sklearn_all_cores),
    "sklearn-one-process": Rival(sklearn_one_process),
    "cuml": Rival(sklearn_over_cuml),
    "sklearn-array-api": Rival(sklearn_array_api, to_gpu, {"array_api_dispatch": True}),
}


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
GPU_RIVALS = ("sklearn", "cuml", "sklearn-array-api")
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
    facts = {"rows": len(X), "features": X.shape[1], "classes": len(np.unique(to_host(y)))}
    facts |= {"dtype": str(X.dtype), "bytes": X.nbytes}
    facts |= {"library": type(X).__module__.partition(".")[0], "C": GRID["C"].tolist()}
    return facts | {"splits": N_SPLITS, "scoring": "accuracy", "refit": True, "tol": TOL}


def measure_all(scenario, X, y, repeats, args):
    """Records of gpuml and of each rival; a rival on fewer rows is compared with gpuml on those."""
    own = {len(X): measure_ours(X, y, repeats)}
    rivals = []
    for name in scenario.rivals if args.rivals is None else args.rivals:
        rows = min(args.rival_rows or MOST_ROWS.get(name, len(X)), len(X))
        part = X[:rows], y[:rows]
        if rows not in own:
            own[rows] = measure_ours(*part, repeats)
        rivals.append(measure_rival(name, *part, *own[rows], scenario.rival_repeats))
    return [record for record, _search in own.values()] + rivals


def measure_ours(X, y, repeats):
    """Record and fitted search: the first run with its memory, what moved, and the clock."""
    search = ours()
    search.fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
    with warnings.catch_warnings(record=True) as caught, harness.pool_peak() as pool:
        warnings.simplefilter("always", ConvergenceWarning)
        with harness.host_peak() as host:
            first = harness.seconds_of(lambda: search.fit(X, y))
    with count_transfers() as moved, not_complaining():
        search.fit(X, y)
    record = {"name": "gpuml", "rows": len(X), "first_seconds": first}
    record["convergence_warnings"] = len(caught)
    with not_complaining():
        record["seconds"] = harness.timing(lambda: search.fit(X, y), repeats)
    record |= found(search) | solution(search.best_estimator_, X, y)
    record |= {"largest_gradient_of_fifty_models": largest_gradient(X, y)}
    record |= {"plan": str(search.plan_), "place": search.plan_.place}
    record |= {
        "extra_host_bytes": host["bytes"],
        "extra_host_method": host["method"],
        "extra_pool_bytes": pool["bytes"],
        "bytes_to_device": moved.to_device,
        "bytes_to_host": moved.to_host,
        "every_copy_counted": moved.counts_everyone,
    }
    return record, search


def measure_rival(name, X, y, own, own_search, repeats):
    """Record of one rival on the same rows, or of why it failed."""
    rival = RIVALS[name]
    record = {"name": name, "rows": len(X)}
    try:
        search, seconds = time_rival(rival, rival.place(X), rival.place(y), repeats)
    # Whatever a rival raises is a result, not the end of the benchmark.
    except Exception as error:
        reason = (str(error).strip() or "no message").splitlines()[0]
        return record | {"failed": f"failed: {type(error).__name__}: {reason}"}
    record |= {"seconds": seconds, **found(search), **solution(search.best_estimator_, X, y)}
    record["ratio"] = seconds["median"] / own["seconds"]["median"]
    record["largest_score_difference"] = score_difference(search, own_search)
    record["largest_mean_score_difference"] = mean_score_difference(search, own_search)
    # Objectives can be compared for the same C only, and folds may have chosen another.
    with not_complaining():
        ours_there = LogisticRegression(**search.best_params_).fit(X, y)
    objective = solution(ours_there, X, y)["objective"]
    record["gpuml_objective_at_this_C"] = objective
    record["objective_above_gpuml"] = (record["objective"] - objective) / abs(objective)
    return record


def time_rival(rival, X, y, repeats):
    with sklearn.config_context(**rival.config), not_complaining(), harness.own_allocator():
        search = rival.search()
        search.fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
        return search, harness.timing(lambda: search.fit(X, y), repeats)


def not_complaining():
    """Who has converged is measured; warnings of it would slow the clock down."""
    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)


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


# ---------------------------------------------------------------- how good solutions are


def solution(model, X, y):
    """Objective of a fitted model on its rows, and the largest component of its gradient."""
    value, gradient = objective(*arrays_of(model, X), *on_rows(X, y), model.C)
    n_iter = getattr(model, "n_iter_", None)  # not every library tells
    n_iter = n_iter.get() if hasattr(n_iter, "get") else n_iter
    facts = {"objective": value, "gradient": gradient, "reached_tol": gradient <= TOL}
    return facts | {"n_iter": None if n_iter is None else int(np.max(n_iter))}


def largest_gradient(X, y):
    """The same component, the largest of all models of a search of ours on their training rows.

    A scorer of one's own is shown one model after the other, the folds of a candidate in order.
    """
    seen = []

    def collect(model, X_test, y_test):
        seen.append((model.C, *arrays_of(model, X)))
        return 0.0

    with not_complaining():
        ours(scoring=collect, refit=False).fit(X, y)
    codes = to_host(y)
    tests = [test for _, test in StratifiedKFold(N_SPLITS).split(np.zeros(len(codes)), codes)]
    worst = 0.0
    for i, (C, coef, intercept) in enumerate(seen):
        weights = np.ones(len(codes), dtype=bool)
        weights[tests[i % N_SPLITS]] = False
        _, gradient = objective(coef, intercept, *on_rows(X, y, weights), C)
        worst = max(worst, gradient)
    return worst


def arrays_of(model, X):
    """Coefficients and intercepts beside X, in float64."""
    xp = needed_cupy() if type(X).__module__.startswith("cupy") else np
    return tuple(xp.asarray(to_host(a), dtype=np.float64) for a in (model.coef_, model.intercept_))


def on_rows(X, y, weights=None):
    """X, codes of the classes and weights beside it."""
    xp = needed_cupy() if type(X).__module__.startswith("cupy") else np
    codes = xp.asarray(np.unique(to_host(y), return_inverse=True)[1])
    weights = xp.ones(len(X)) if weights is None else xp.asarray(weights, dtype=np.float64)
    return X, codes, weights, xp


def objective(coef, intercept, X, codes, weights, xp, C):
    """scikit-learn's objective in float64, and the largest component of its gradient.

    sum of w_i loss_i over sum of w_i, plus |coef|^2 / (2 C sum of w_i).
    """
    total = float(weights.sum())
    value, slope_coef, slope_intercept = 0.0, xp.zeros_like(coef), xp.zeros_like(intercept)
    step = max(1, CHECK_BYTES // (8 * X.shape[1]))
    losses = binary_losses if len(coef) == 1 else class_losses
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        block = X[rows].astype(np.float64, copy=False)
        loss, slope = losses(block @ coef.T + intercept, codes[rows], special(xp))
        slope *= weights[rows, None]
        value += float((weights[rows] * loss).sum())
        slope_coef += slope.T @ block
        slope_intercept += slope.sum(axis=0)
    value = value / total + float((coef**2).sum()) / (2 * C * total)
    slope_coef = (slope_coef + coef / C) / total
    largest = max(float(abs(slope_coef).max()), float(abs(slope_intercept).max()) / total)
    return value, largest


@dataclass(frozen=True)
class Special:
    """A library of arrays, with the functions that it keeps elsewhere."""

    xp: object
    expit: Callable
    logsumexp: Callable
    softmax: Callable


def special(xp):
    if xp is np:
        return Special(xp, expit, logsumexp, softmax)
    from cupyx.scipy import special as on_gpu

    return Special(xp, on_gpu.expit, on_gpu.logsumexp, on_gpu.softmax)


def binary_losses(z, codes, library):
    z = z[:, 0]
    loss = library.xp.logaddexp(0, z) - codes * z
    return loss, (library.expit(z) - codes)[:, None]


def class_losses(z, codes, library):
    own = library.xp.arange(z.shape[1])[None, :] == codes[:, None]
    loss = library.logsumexp(z, axis=1) - (z * own).sum(axis=1)
    return loss, library.softmax(z, axis=1) - own


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
    if "skipped" in result:
        print(f"{result['scenario']}: skipped: {result['skipped']}")
        return
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
    facts = {
        "plan": own["plan"],
        "place": own["place"],
        "largest gradient of the 50 models": f"{own['largest_gradient_of_fifty_models']:.1e}",
        "first run at this size": f"{own['first_seconds']:.4f} s",
        "extra host memory": harness.megabytes(own["extra_host_bytes"]),
        "growth of the GPU pool": harness.megabytes(own["extra_pool_bytes"]),
        "moved host to device": f"{own['bytes_to_device']:,} bytes",
        "moved device to host": f"{own['bytes_to_host']:,} bytes",
        **{name: f"{value:.4f} s" for name, value in result["breakdown_seconds"].items()},
        **{name: "yes" if so else "NO" for name, so in result["checks"].items()},
    }
    rows = [{"gpuml": name, "": value} for name, value in facts.items() if value is not None]
    harness.print_table("", rows)


def as_row(contender):
    row = {"contender": contender["name"], "rows": f"{contender['rows']:,}"}
    if "failed" in contender:
        return row | {"median s": "failed"} | dict.fromkeys(HEADINGS)
    clock = contender["seconds"]
    difference = contender.get("largest_mean_score_difference")
    above, ratio = contender.get("objective_above_gpuml"), contender.get("ratio")
    reached = "" if contender["reached_tol"] else " > tol"
    runs = len(clock["runs"])
    cells = (
        f"{clock['min']:.3f} - {clock['max']:.3f}" if runs > 1 else None,
        runs,
        None if ratio is None else f"{ratio:.1f}",
        f"{contender['best_params']['C']:.3g}",
        None if difference is None else f"{difference:.1e}",
        f"{contender['gradient']:.0e}{reached}",
        None if above is None else f"{above:+.0e}",
    )
    return row | {"median s": f"{clock['median']:.4f}"} | dict(zip(HEADINGS, cells, strict=True))


# Beside the name, the number of rows and the median: the spread, and what was found.
HEADINGS = (
    *("min - max", "runs", "x gpuml", "best C", "scores differ"),
    *("gradient of refit", "objective above ours"),
)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--scenario", nargs="+", choices=[*SCENARIOS, *GROUPS], default=["cpu", "real"])
    add("--rivals", nargs="*", choices=list(RIVALS), help="default: those that suit the scenario")
    add("--rows", type=int, help="default: 100,000 for cpu; 1,000,000 on a GPU")
    add("--features", type=int, default=100, help="of cpu, device and multinomial")
    add("--rival-rows", type=int, help="rows for every rival; gpuml runs on as many beside it")
    add("--repeats", type=int, help="timed runs of gpuml")
    add("--device", choices=["auto", "cpu", "cuda"], help="gpuml's setting for host data")
    add("--json", type=Path, help="file for the report (default: standard output)")
    return parser.parse_args()


def scenario_names(chosen):
    names = [name for choice in chosen for name in GROUPS.get(choice, (choice,))]
    return list(dict.fromkeys(names))


def main():
    args = parse_arguments()
    report = {
        "benchmark": "logistic_search",
        "command": without_paths(sys.argv[1:]),
        "gpuml": gpuml.__version__,
        "SCIPY_ARRAY_API": os.environ.get("SCIPY_ARRAY_API"),
        "scenarios": [run_scenario(name, args) for name in scenario_names(args.scenario)],
    }
    # Last, when every library that matters is loaded and shows its thread pool.
    report["machine"] = harness.machine()
    harness.write_json(report, args.json)
    for result in report["scenarios"]:
        show(result)


if __name__ == "__main__":
    main()
