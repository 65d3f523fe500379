"""Principal components: gpuml and its rivals on the same rows in the same run.

    python benchmarks/pca.py --scenario device --json pca.json

One fit of a few components. README.md beside this file says how it is measured.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import _harness as harness
import numpy as np
import sklearn
from _harness import needed_cupy, scaled, to_host
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
    return _rows(np, np.random.default_rng(SEED), scaled(100_000, args), args.features or 100)


def on_device(args):
    """The same on the GPU."""
    cupy = needed_cupy()
    return _rows(cupy, cupy.random.default_rng(SEED), scaled(1_000_000, args), args.features or 500)


def _rows(xp, random, n, p):
    directions = np.linalg.qr(np.random.default_rng(SEED).normal(size=(p, N_DIRECTIONS)))[0].T
    scaled = np.geomspace(20, 2, N_DIRECTIONS)[:, None] * directions
    X = random.standard_normal((n, p), dtype=np.float32)
    X += 5
    X += random.standard_normal((n, N_DIRECTIONS), dtype=np.float32) @ xp.asarray(
        scaled, dtype=np.float32
    )
    return X


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
    return harness.facts_of(X) | {"n_components": N_COMPONENTS}


def measure_ours(X, repeats):
    """Record and fitted model: the first run with its memory, and the clock."""
    model = PCA(N_COMPONENTS)
    model.fit(X[:WARM_UP_ROWS])
    record = {"name": "gpuml"} | harness.first_run(lambda: model.fit(X))
    record |= harness.moved_by(lambda: model.fit(X))
    record["seconds"] = harness.timing(lambda: model.fit(X), repeats)
    record["solver"] = model._fit_svd_solver
    record["explained_variance"] = to_host(model.explained_variance_).tolist()
    return record, model


def measure_rival(name, X, own, model, repeats):
    """Record of one rival on the same rows, or of why it failed."""
    rival = RIVALS[name]

    def measure():
        with sklearn.config_context(**rival.config), harness.own_allocator():
            other = rival.estimator()
            other.fit(X[:WARM_UP_ROWS])
            seconds = harness.timing(lambda: other.fit(X), repeats)
            ratio = seconds["median"] / own["seconds"]["median"]
            return {"seconds": seconds, **disagreement(model, other), "ratio": ratio}

    return harness.attempt({"name": name}, measure)


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
    problem = result["problem"]
    title = (
        f"{result['scenario']}: {problem['rows']:,} x {problem['features']} {problem['dtype']} "
        f"({problem['library']}), {N_COMPONENTS} components"
    )
    harness.print_table(title, [as_row(contender) for contender in result["contenders"]])
    own = result["contenders"][0]
    facts = {"solver": own["solver"]} | harness.memory_facts(own)
    harness.print_facts(facts | harness.parts_of(result["breakdown_seconds"]))


def as_row(contender):
    return {
        "contender": contender["name"],
        **harness.clock_cells(contender),
        "x gpuml": harness.cell(contender.get("ratio"), ".1f"),
        "variance difference": harness.cell(contender.get("largest_variance_difference"), ".1e"),
        "sine of subspaces": harness.cell(contender.get("sine_of_subspaces"), ".1e"),
    }


def main():
    args = harness.arguments(__doc__, [*SCENARIOS, "all"], ["cpu"], RIVALS).parse_args()
    names = harness.names_of(args.scenario, {"all": tuple(SCENARIOS)})
    harness.report_on("pca", names, run_scenario, show, args)


if __name__ == "__main__":
    main()
