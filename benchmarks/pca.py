"""Principal components: gpuml and its rivals on the same rows in the same run.

    python benchmarks/pca.py --scenario device --json pca.json

One fit of a few components. README.md beside this file says how it is measured.
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
from sklearn.decomposition import PCA as SklearnPCA

import gpuml
from gpuml.decomposition import PCA

N_COMPONENTS = 10
# So many directions stand out of the noise, in falling order.
N_DIRECTIONS = 20
WARM_UP_ROWS = 20_000
SEED = 0


# ---------------------------------------------------------------- data


def on_host(args):
    """Rows of NumPy: a few directions, noise of variance 1, and features of mean 5."""
    return _rows(np, np.random.default_rng(SEED), args.rows or 100_000, args.features or 100)


def on_device(args):
    """The same on the GPU."""
    cupy = needed_cupy()
    return _rows(cupy, cupy.random.default_rng(SEED), args.rows or 1_000_000, args.features or 500)


def _rows(xp, random, n, p):
    directions = np.linalg.qr(np.random.default_rng(SEED).normal(size=(p, N_DIRECTIONS)))[0].T
    scaled = np.geomspace(20, 2, N_DIRECTIONS)[:, None] * directions
    X = random.standard_normal((n, p), dtype=np.float32)
    X += 5
    X += random.standard_normal((n, N_DIRECTIONS), dtype=np.float32) @ xp.asarray(
        scaled, dtype=np.float32
    )
    return X


def needed_cupy():
    if not harness.has_gpu():
        raise RuntimeError("needs CuPy and a GPU")
    import cupy

    return cupy


def to_host(x):
    return x if isinstance(x, np.ndarray) else x.get()


# ---------------------------------------------------------------- contenders


def sklearn_covariance():
    return SklearnPCA(N_COMPONENTS, svd_solver="covariance_eigh")


def sklearn_auto():
    return SklearnPCA(N_COMPONENTS, random_state=SEED)


def sklearn_randomized():
    return SklearnPCA(N_COMPONENTS, svd_solver="randomized", random_state=SEED)


def cuml_pca():
    from cuml.decomposition import PCA as CumlPCA

    return CumlPCA(n_components=N_COMPONENTS, output_type="cupy")


@dataclass(frozen=True)
class Rival:
    """How to make a rival's estimator, and scikit-learn's configuration for it."""

    estimator: Callable[[], Any]
    config: dict = field(default_factory=dict)


RIVALS = {
    "sklearn-covariance": Rival(sklearn_covariance),
    "sklearn-auto": Rival(sklearn_auto),
    "sklearn-randomized": Rival(sklearn_randomized),
    "sklearn-array-api": Rival(sklearn_covariance, {"array_api_dispatch": True}),
    "cuml": Rival(cuml_pca),
}


@dataclass(frozen=True)
class Scenario:
    """Data, and who is measured on it how often."""

    load: Callable[[argparse.Namespace], Any]
    rivals: tuple[str, ...]
    repeats: int


SCENARIOS = {
    "cpu": Scenario(on_host, ("sklearn-covariance", "sklearn-auto", "sklearn-randomized"), 7),
    # cuML last: its import changes CuPy's allocator, which the harness puts back.
    "device": Scenario(on_device, ("sklearn-array-api", "cuml"), 10),
}


# ---------------------------------------------------------------- measuring


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    try:
        X = scenario.load(args)
    except (ImportError, RuntimeError) as error:
        return {"scenario": name, "skipped": str(error)}
    repeats = args.repeats or scenario.repeats
    with gpuml.config_context(device="cpu" if name == "cpu" else "auto"):
        own, model = measure_ours(X, repeats)
        rivals = [
            measure_rival(rival, X, own, model, repeats)
            for rival in (scenario.rivals if args.rivals is None else args.rivals)
        ]
        return {
            "scenario": name,
            "problem": describe(X),
            "contenders": [own, *rivals],
            "breakdown_seconds": breakdown(X, repeats),
        }


def describe(X):
    facts = {"rows": len(X), "features": X.shape[1], "dtype": str(X.dtype), "bytes": X.nbytes}
    facts["library"] = type(X).__module__.partition(".")[0]
    return facts | {"n_components": N_COMPONENTS}


def measure_ours(X, repeats):
    """Record and fitted model: the first run with its memory, and the clock."""
    model = PCA(N_COMPONENTS)
    model.fit(X[:WARM_UP_ROWS])
    with harness.host_peak() as host, harness.pool_peak() as pool:
        first = harness.seconds_of(lambda: model.fit(X))
    record = {"name": "gpuml", "first_seconds": first}
    record["seconds"] = harness.timing(lambda: model.fit(X), repeats)
    record |= {
        "solver": model._fit_svd_solver,
        "extra_host_bytes": host["bytes"],
        "extra_pool_bytes": pool["bytes"],
        "explained_variance": to_host(model.explained_variance_).tolist(),
    }
    return record, model


def measure_rival(name, X, own, model, repeats):
    """Record of one rival on the same rows, or of why it failed."""
    rival, record = RIVALS[name], {"name": name}
    try:
        with sklearn.config_context(**rival.config), harness.own_allocator():
            other = rival.estimator()
            other.fit(X[:WARM_UP_ROWS])
            seconds = harness.timing(lambda: other.fit(X), repeats)
            record |= {"seconds": seconds, **disagreement(model, other)}
    # Whatever a rival raises is a result, not the end of the benchmark.
    except Exception as error:
        reason = (str(error).strip() or "no message").splitlines()[0]
        return record | {"failed": f"failed: {type(error).__name__}: {reason}"}
    record["ratio"] = seconds["median"] / own["seconds"]["median"]
    return record


def disagreement(model, other):
    """Largest relative difference of explained variances, and sine of the angle of subspaces."""
    one, two = (to_host(m.explained_variance_).astype(float) for m in (model, other))
    V, W = (to_host(m.components_).astype(float) for m in (model, other))
    # Orthonormal to float32 only, which would pass for an angle.
    V, W = (np.linalg.qr(rows.T)[0] for rows in (V, W))
    sine = np.linalg.norm(W - V @ (V.T @ W), ord=2)
    return {
        "largest_variance_difference": float(np.max(np.abs(one - two) / one)),
        "sine_of_subspaces": float(sine),
    }


def breakdown(X, repeats):
    """Medians of parts of the job, and of what no fit can do without."""
    model = PCA(N_COMPONENTS).fit(X)
    parts = {
        "transform": lambda: model.transform(X),
        "fit of all components": lambda: PCA().fit(X),
        "fit, svd_solver='full'": lambda: PCA(N_COMPONENTS, svd_solver="full").fit(X),
        f"one product X'X in {X.dtype}": lambda: X.T @ X,
    }
    return {name: harness.timing(part, repeats)["median"] for name, part in parts.items()}


# ---------------------------------------------------------------- telling about it


def show(result):
    """Print a scenario as tables."""
    if "skipped" in result:
        print(f"{result['scenario']}: skipped: {result['skipped']}")
        return
    problem = result["problem"]
    title = (
        f"{result['scenario']}: {problem['rows']:,} x {problem['features']} {problem['dtype']} "
        f"({problem['library']}), {N_COMPONENTS} components"
    )
    harness.print_table(title, [as_row(contender) for contender in result["contenders"]])
    own = result["contenders"][0]
    facts = {
        "solver": own["solver"],
        "first run at this size": f"{own['first_seconds']:.4f} s",
        "extra host memory": harness.megabytes(own["extra_host_bytes"]),
        "growth of the GPU pool": harness.megabytes(own["extra_pool_bytes"]),
        **{name: f"{value:.4f} s" for name, value in result["breakdown_seconds"].items()},
    }
    rows = [{"gpuml": name, "": value} for name, value in facts.items() if value is not None]
    harness.print_table("", rows)


def as_row(contender):
    row = {"contender": contender["name"]}
    if "failed" in contender:
        seconds = {"median s": contender["failed"][:70], "min": None, "max": None}
    else:
        clock = contender["seconds"]
        seconds = {end: f"{clock[end]:.4f}" for end in ("median", "min", "max")}
        seconds = {"median s": seconds.pop("median"), **seconds}
    ratio = contender.get("ratio")
    variance, sine = (
        contender.get(name) for name in ("largest_variance_difference", "sine_of_subspaces")
    )
    return {
        **row,
        **seconds,
        "x gpuml": None if ratio is None else f"{ratio:.1f}",
        "variance difference": None if variance is None else f"{variance:.1e}",
        "sine of subspaces": None if sine is None else f"{sine:.1e}",
    }


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--scenario", nargs="+", choices=[*SCENARIOS, "all"], default=["cpu"])
    add("--rivals", nargs="*", choices=list(RIVALS), help="default: those that suit the scenario")
    add("--rows", type=int, help="default: 100,000 for cpu, 1,000,000 for device")
    add("--features", type=int, help="default: 100 for cpu, 500 for device")
    add("--repeats", type=int, help="timed runs of each contender")
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
        "benchmark": "pca",
        "command": without_paths(sys.argv[1:]),
        "gpuml": gpuml.__version__,
        "SCIPY_ARRAY_API": os.environ.get("SCIPY_ARRAY_API"),
        "scenarios": [run_scenario(name, args) for name in names],
    }
    # Last, when every library that matters is loaded and shows its thread pool.
    report["machine"] = harness.machine()
    harness.write_json(report, args.json)
    for result in report["scenarios"]:
        show(result)


if __name__ == "__main__":
    main()
