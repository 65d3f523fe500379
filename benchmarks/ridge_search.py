"""Ridge grid search: gpuml and its rivals on the same data in the same run.

    python benchmarks/ridge_search.py --scenario flights --json flights.json

10 alphas x 5 folds, r2, refit on the best. README.md beside this file says how it is measured.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field

import _harness as harness
import numpy as np
from _harness import needed_cupy, scaled, to_gpu, to_host
from _searches import (
    N_SPLITS,
    all_contenders,
    found,
    rivals_over,
    score_difference,
    time_ours,
    time_rival,
)
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV

import gpuml
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV

GRID = {"alpha": np.logspace(-3, 3, 10)}
SEED = 0


# ---------------------------------------------------------------- data


def diabetes(args):
    return load_diabetes(return_X_y=True)


def flights(args):
    from gpuml.datasets import load_flights

    X, y = load_flights(return_X_y=True)
    rows = scaled(len(X), args)
    return X[:rows], y[:rows]


def on_device(args):
    """Rows made on the GPU: y = Xw + noise in float32, with r2 about 0.5 and features of mean 5."""
    cupy = needed_cupy()
    rows, features = scaled(7_000_000, args), args.features or 100
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


# ---------------------------------------------------------------- contenders


def ours(**options):
    return GridSearchCV(Ridge(), GRID, cv=N_SPLITS, scoring="r2", **options)


def theirs(ridge, n_jobs=None):
    # A rival that cannot do it should say why, not return a table of NaN.
    return SklearnGridSearchCV(
        ridge, GRID, cv=N_SPLITS, scoring="r2", n_jobs=n_jobs, error_score="raise"
    )


def cuml_ridge():
    import cuml.linear_model

    return cuml.linear_model.Ridge()


RIVALS = rivals_over(
    theirs,
    processors=lambda: SklearnRidge(solver="cholesky"),
    # The only solver that scikit-learn runs off NumPy.
    on_gpu=lambda: SklearnRidge(solver="svd"),
    in_cuml=cuml_ridge,
)


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
        on_device,
        "auto",
        ("sklearn", "cuml-array-api", "sklearn-array-api"),
        10,
        rival_rows=SLOW,
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
    facts = harness.facts_of(X) | {"alphas": GRID["alpha"].tolist()}
    return facts | {"splits": N_SPLITS, "scoring": "r2", "refit": True}


def measure_all(scenario, X, y, repeats, args):
    """Records of gpuml and of each rival."""

    def measure_ours(X, y):
        search = ours()
        record = {"name": "gpuml", "rows": len(X)} | time_ours(search, X, y, repeats)
        extra = record["extra_host_bytes"]
        record["extra_host_share_of_X"] = None if extra is None else extra / X.nbytes
        return record, search

    def measure_rival(name, X, y, own, own_search):
        def measure():
            rival = RIVALS[name]
            place, times = rival.place, scenario.rival_repeats
            search, seconds = time_rival(rival, place(X), place(y), times)
            return {
                "seconds": seconds,
                **found(search),
                "ratio": seconds["median"] / own["seconds"]["median"],
                "largest_score_difference": score_difference(search, own_search),
            }

        return harness.attempt({"name": name, "rows": len(X)}, measure)

    limits = scenario.rival_rows
    return all_contenders(X, y, args, scenario.rivals, limits, measure_ours, measure_rival)


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
    """Print a scenario as two tables."""
    problem = result["problem"]
    title = (
        f"{result['scenario']}: {problem['rows']:,} x {problem['features']} {problem['dtype']} "
        f"({problem['library']}), 10 alphas x 5 folds"
    )
    harness.print_table(title, [as_row(contender) for contender in result["contenders"]])
    own = result["contenders"][0]
    harness.print_facts(
        {
            "plan": own["plan"],
            "place": own["place"],
            **harness.memory_facts(own),
            "host memory, as a share of X": harness.cell(own["extra_host_share_of_X"], ".3f"),
            **harness.parts_of(result["breakdown_seconds"]),
        }
    )


def as_row(contender):
    params = contender.get("best_params", {})
    return {
        "contender": contender["name"],
        "rows": f"{contender['rows']:,}",
        **harness.clock_cells(contender),
        "x gpuml": harness.cell(contender.get("ratio"), ".1f"),
        "best": ", ".join(f"{k}={v:g}" for k, v in params.items()),
        "score difference": harness.cell(contender.get("largest_score_difference"), ".1e"),
    }


def main():
    parser = harness.arguments(__doc__, [*SCENARIOS, "all"], ["diabetes", "flights"], RIVALS)
    add = parser.add_argument
    add("--rival-rows", type=int, help="rows for every rival; gpuml runs on as many beside it")
    add("--device", choices=["auto", "cpu", "cuda"], help="gpuml's setting for host data")
    args = parser.parse_args()
    names = harness.names_of(args.scenario, {"all": tuple(SCENARIOS)})
    harness.report_on("ridge_search", names, run_scenario, show, args)


if __name__ == "__main__":
    main()
