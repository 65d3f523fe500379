"""Ridge grid search: gpuml and its rivals on the same data in the same run.

    python benchmarks/ridge_search.py --scenario flights --json flights.json

10 alphas x 5 folds, r2, refit on the best. README.md beside this file says how it is measured.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _harness as harness
import numpy as np
import sklearn
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV

import gpuml
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.testing import count_transfers

GRID = {"alpha": np.logspace(-3, 3, 10)}
N_SPLITS = 5
WARM_UP_ROWS = 2_000
SEED = 0


# ---------------------------------------------------------------- data


def diabetes(args):
    return load_diabetes(return_X_y=True)


def flights(args):
    from gpuml.datasets import load_flights

    X, y = load_flights(return_X_y=True)
    return X[: args.rows], y[: args.rows]


def on_device(args):
    """Rows made on the GPU: y = Xw + noise in float32, with r2 about 0.5 and features of mean 5."""
    cupy = needed_cupy()
    rows, features = args.rows or 7_000_000, args.features
    random = cupy.random.RandomState(SEED)
    X = random.standard_normal((rows, features), dtype=np.float32)
    X += 5
    w = random.standard_normal(features, dtype=np.float32)
    y = X @ w
    y += features**0.5 * random.standard_normal(rows, dtype=np.float32)
    return X, y


def on_host(args):
    """The same rows in ordinary (pageable) host memory."""
    return tuple(to_host(x) for x in on_device(args))


def needed_cupy():
    if not harness.has_gpu():
        raise RuntimeError("needs CuPy and a GPU")
    import cupy

    return cupy


def to_host(x):
    return x if isinstance(x, np.ndarray) else x.get()


def to_gpu(x):
    return needed_cupy().asarray(x)


# ---------------------------------------------------------------- contenders


def ours(**options):
    return GridSearchCV(Ridge(), GRID, cv=N_SPLITS, scoring="r2", **options)


def theirs(ridge, n_jobs=None):
    # A rival that cannot do it should say why, not return a table of NaN.
    return SklearnGridSearchCV(
        ridge, GRID, cv=N_SPLITS, scoring="r2", n_jobs=n_jobs, error_score="raise"
    )


def sklearn_all_cores():
    return theirs(SklearnRidge(solver="cholesky"), n_jobs=-1)


def sklearn_one_process():
    """Also all cores, but inside BLAS."""
    return theirs(SklearnRidge(solver="cholesky"))


def sklearn_over_cuml():
    import cuml.linear_model

    return theirs(cuml.linear_model.Ridge())


def sklearn_array_api():
    """The only solver that scikit-learn runs off NumPy."""
    needed_cupy()
    return theirs(SklearnRidge(solver="svd"))


@dataclass(frozen=True)
class Rival:
    """How to make a rival's search, and where it takes its data from."""

    search: Callable[[], Any]
    place: Callable[[Any], Any] = to_host
    config: dict = field(default_factory=dict)


RIVALS = {
    "sklearn": Rival(sklearn_all_cores),
    "sklearn-one-process": Rival(sklearn_one_process),
    "cuml": Rival(sklearn_over_cuml),
    "sklearn-array-api": Rival(sklearn_array_api, to_gpu, {"array_api_dispatch": True}),
}


@dataclass(frozen=True)
class Scenario:
    """Data, gpuml's device setting, and who is measured how often and on how many rows."""

    load: Callable[[argparse.Namespace], tuple]
    device: str
    rivals: tuple[str, ...]
    repeats: int = 5
    rival_repeats: int = 1
    rival_rows: dict[str, int] = field(default_factory=dict)


# scikit-learn's array-API search fails on all 7,000,000 rows, and its CPU search takes minutes.
SLOW = {"sklearn": 1_000_000, "sklearn-array-api": 1_000_000}
SCENARIOS = {
    "diabetes": Scenario(diabetes, "auto", ("sklearn", "sklearn-one-process"), 25, 15),
    "flights": Scenario(flights, "cpu", ("sklearn", "sklearn-one-process")),
    "device": Scenario(
        on_device, "auto", ("sklearn", "cuml", "sklearn-array-api"), 10, rival_rows=SLOW
    ),
    "host": Scenario(on_host, "cuda", ("sklearn", "cuml"), rival_rows=SLOW),
}


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
        return {
            "scenario": name,
            "problem": describe(X),
            "contenders": measure_all(scenario, X, y, repeats, args),
            "breakdown_seconds": breakdown(X, y, repeats),
        }


def describe(X):
    facts = {"rows": len(X), "features": X.shape[1], "dtype": str(X.dtype), "bytes": X.nbytes}
    facts |= {"library": type(X).__module__.partition(".")[0], "alphas": GRID["alpha"].tolist()}
    return facts | {"splits": N_SPLITS, "scoring": "r2", "refit": True}


def measure_all(scenario, X, y, repeats, args):
    """Records of gpuml and of each rival; a rival on fewer rows is compared with gpuml on those."""
    own = {len(X): measure_ours(X, y, repeats)}
    rivals = []
    for name in scenario.rivals if args.rivals is None else args.rivals:
        rows = min(args.rival_rows or scenario.rival_rows.get(name, len(X)), len(X))
        part = X[:rows], y[:rows]
        if rows not in own:
            own[rows] = measure_ours(*part, repeats)
        rivals.append(measure_rival(name, *part, *own[rows], scenario.rival_repeats))
    return [record for record, _search in own.values()] + rivals


def measure_ours(X, y, repeats):
    """Record and fitted search: the first run with its memory, what moved, and the clock."""
    search = ours()
    search.fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
    with harness.host_peak() as host, harness.pool_peak() as pool:
        first = harness.seconds_of(lambda: search.fit(X, y))
    with count_transfers() as moved:
        search.fit(X, y)
    record = {"name": "gpuml", "rows": len(X), "first_seconds": first}
    record["seconds"] = harness.timing(lambda: search.fit(X, y), repeats)
    record |= found(search)
    record |= {"plan": str(search.plan_), "place": search.plan_.place}
    record |= {
        "extra_host_bytes": host["bytes"],
        "extra_host_method": host["method"],
        "extra_host_share_of_X": None if host["bytes"] is None else host["bytes"] / X.nbytes,
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
    record |= {"seconds": seconds, **found(search)}
    record["ratio"] = seconds["median"] / own["seconds"]["median"]
    record["largest_score_difference"] = score_difference(search, own_search)
    return record


def time_rival(rival, X, y, repeats):
    with sklearn.config_context(**rival.config), harness.own_allocator():
        search = rival.search()
        search.fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
        return search, harness.timing(lambda: search.fit(X, y), repeats)


def found(search):
    return {"best_params": search.best_params_, "best_score": float(search.best_score_)}


def score_difference(one, other):
    """Largest difference of any score of any candidate on any fold."""
    folds = [f"split{i}_test_score" for i in range(N_SPLITS)]
    return max(
        float(np.abs(one.cv_results_[fold] - other.cv_results_[fold]).max()) for fold in folds
    )


def breakdown(X, y, repeats):
    """Medians of parts of the job, and of what no search can do without."""
    one_alpha = GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=N_SPLITS, scoring="r2")
    parts = {
        "search without refit": lambda: ours(refit=False).fit(X, y),
        "search of one alpha": lambda: one_alpha.fit(X, y),
        "one Ridge fit": lambda: Ridge().fit(X, y),
        f"one product X'X in {X.dtype}": lambda: X.T @ X,
    }
    if harness.has_gpu() and isinstance(X, np.ndarray):
        parts["one plain copy of X to the GPU"] = lambda: to_gpu(X)
    return {name: harness.timing(part, repeats)["median"] for name, part in parts.items()}


# ---------------------------------------------------------------- telling about it


def show(result):
    """Print a scenario as one or two tables."""
    if "skipped" in result:
        print(f"{result['scenario']}: skipped: {result['skipped']}")
        return
    problem = result["problem"]
    title = (
        f"{result['scenario']}: {problem['rows']:,} x {problem['features']} {problem['dtype']} "
        f"({problem['library']}), 10 alphas x 5 folds"
    )
    harness.print_table(title, [as_row(contender) for contender in result["contenders"]])
    own = result["contenders"][0]
    share = own["extra_host_share_of_X"]
    facts = {
        "plan": own["plan"],
        "place": own["place"],
        "first run at this size": f"{own['first_seconds']:.4f} s",
        "extra host memory": harness.megabytes(own["extra_host_bytes"]),
        "... as a share of X": None if share is None else f"{share:.3f}",
        "growth of the GPU pool": harness.megabytes(own["extra_pool_bytes"]),
        "moved host to device": f"{own['bytes_to_device']:,} bytes",
        "moved device to host": f"{own['bytes_to_host']:,} bytes",
        **{name: f"{value:.4f} s" for name, value in result["breakdown_seconds"].items()},
    }
    rows = [{"gpuml": name, "": value} for name, value in facts.items() if value is not None]
    harness.print_table("", rows)


def as_row(contender):
    row = {"contender": contender["name"], "rows": f"{contender['rows']:,}"}
    if "failed" in contender:
        seconds = {"median s": contender["failed"][:70], "min": None, "max": None}
    else:
        clock = contender["seconds"]
        seconds = {"median s": f"{clock['median']:.4f}"}
        seconds |= {end: f"{clock[end]:.4f}" for end in ("min", "max")}
    ratio, difference = contender.get("ratio"), contender.get("largest_score_difference")
    return {
        **row,
        **seconds,
        "x gpuml": None if ratio is None else f"{ratio:.1f}",
        "best": ", ".join(f"{k}={v:g}" for k, v in contender.get("best_params", {}).items()),
        "score difference": None if difference is None else f"{difference:.1e}",
    }


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--scenario", nargs="+", choices=[*SCENARIOS, "all"], default=["diabetes", "flights"])
    add("--rivals", nargs="*", choices=list(RIVALS), help="default: those that suit the scenario")
    add("--rows", type=int, help="default: all of the flights; 7,000,000 for device and host")
    add("--features", type=int, default=100, help="of device and host")
    add("--rival-rows", type=int, help="rows for every rival; gpuml runs on as many beside it")
    add("--repeats", type=int, help="timed runs of gpuml")
    add("--device", choices=["auto", "cpu", "cuda"], help="gpuml's setting for host data")
    add("--json", type=Path, help="file for the report (default: standard output)")
    return parser.parse_args()


def without_paths(arguments):
    """The command line less the name of the report, which says nothing about the run."""
    skip = arguments.index("--json") if "--json" in arguments else len(arguments)
    return arguments[:skip] + arguments[skip + 2 :]


def main():
    args = parse_arguments()
    names = list(SCENARIOS) if "all" in args.scenario else args.scenario
    report = {
        "benchmark": "ridge_search",
        "command": without_paths(sys.argv[1:]),
        "gpuml": gpuml.__version__,
        "SCIPY_ARRAY_API": os.environ.get("SCIPY_ARRAY_API"),
        "scenarios": [],
    }
    for name in names:
        report["scenarios"].append(run_scenario(name, args))
    # Last, when every library that matters is loaded and shows its thread pool.
    report["machine"] = harness.machine()
    harness.write_json(report, args.json)
    for result in report["scenarios"]:
        show(result)


if __name__ == "__main__":
    main()
