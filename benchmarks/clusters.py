"""Searches over the number of clusters: gpuml and its rivals on the same rows in the same run.

    python benchmarks/clusters.py --json clusters.json

k-means of 2 to 12 (or 20) clusters, and Gaussian mixtures of 2 to 8 components and all types of
covariances, on 5 folds. Of k-means of rows on a GPU scikit-learn's search over cuML's class is the
rival; cuML has no mixtures, so that the rival is scikit-learn's search in CPU memory. README.md
beside this file says how it is measured.
"""

import argparse
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import _harness as harness
import numpy as np
import sklearn.cluster as sk
import sklearn.mixture as sk_mixture
from _beside import CUML, RIVALS, contenders
from _harness import needed_cupy, scaled
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV

import gpuml
from gpuml._cuml import import_cuml
from gpuml.cluster import KMeans
from gpuml.mixture import GaussianMixture
from gpuml.model_selection import GridSearchCV

SEED = 0
FOLDS = 5
CENTRES = 8
GRID = {"n_clusters": list(range(2, 13))}
TO_20 = {"n_clusters": list(range(2, 21))}
MIXTURES = {
    "n_components": [2, 4, 6, 8],
    "covariance_type": ["full", "tied", "diag", "spherical"],
}


@dataclass(frozen=True)
class Scenario:
    """Rows and features, starts of each fit, and how wide clusters of centres up to 10 off are.

    Without a width rows are uniform: nothing is a cluster, and runs take most iterations.
    """

    n: int
    p: int
    n_init: int
    width: float | None
    on_device: bool = False
    grid: dict[str, list[Any]] = field(default_factory=lambda: GRID)

    @property
    def is_mixture(self) -> bool:
        """Whether the models are mixtures, and not k-means."""
        return self.grid is MIXTURES


SCENARIOS = {
    "apart_20": Scenario(20_000, 20, 1, 3.0),
    "apart_20_starts": Scenario(10_000, 20, 10, 3.0),
    "overlapping_20_starts": Scenario(5_000, 20, 10, 8.0),
    "uniform_20": Scenario(10_000, 20, 1, None),
    "large_apart_20": Scenario(100_000, 20, 1, 3.0),
    "large_overlapping_20": Scenario(50_000, 20, 1, 8.0),
    "device_overlapping_20_starts": Scenario(100_000, 20, 10, 8.0, True),
    "device_overlapping_50": Scenario(1_000_000, 50, 1, 8.0, True),
    "device_apart_50": Scenario(1_000_000, 50, 1, 3.0, True, TO_20),
    "mixtures_10": Scenario(10_000, 10, 1, 4.0, False, MIXTURES),
    "mixtures_20_starts": Scenario(5_000, 20, 5, 4.0, False, MIXTURES),
    "device_mixtures_20": Scenario(200_000, 20, 1, 4.0, True, MIXTURES),
}
GROUPS = {
    "cpu": tuple(name for name, each in SCENARIOS.items() if not each.on_device),
    "device": tuple(name for name, each in SCENARIOS.items() if each.on_device),
}


def rows(args, scenario):
    n, p = scaled(scenario.n, args), args.features or scenario.p
    if scenario.width is None:
        return np.random.default_rng(SEED).random((n, p))
    options = {"centers": CENTRES, "cluster_std": scenario.width, "random_state": SEED}
    return make_blobs(n, p, **options)[0]


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    X = host = rows(args, scenario)
    by_cuml = scenario.on_device and not scenario.is_mixture
    model, rival = KMeans, sk.KMeans
    if scenario.is_mixture:
        model, rival = GaussianMixture, sk_mixture.GaussianMixture
    if scenario.on_device:
        try:
            xp = needed_cupy()
        except RuntimeError as error:
            return {"scenario": name, "skipped": str(error)}
        if by_cuml:
            import_cuml()
            from cuml.cluster import KMeans as rival

            host = host.astype(np.float32)
        X = xp.asarray(host)
    params = {"n_init": scenario.n_init, "random_state": SEED}

    def ours(rows=X):
        return GridSearchCV(model(**params), scenario.grid, cv=FOLDS, refit=False).fit(rows)

    def theirs(n_jobs):
        options = {"cv": FOLDS, "refit": False, "n_jobs": n_jobs}
        return SklearnGridSearchCV(rival(**params), scenario.grid, **options).fit(host)

    # cuML is given rows in CPU memory, and so is gpuml beside it.
    rivals, like = (CUML, partial(ours, host)) if by_cuml else (RIVALS, None)
    with gpuml.config_context(device="cuda" if scenario.on_device else "cpu"):
        found = contenders(ours, theirs, args.repeats or 5, compared, rivals, like)
    problem = harness.facts_of(X) | {"folds": FOLDS, "starts": scenario.n_init}
    return {"scenario": name, "problem": problem, "contenders": found}


def compared(own, other):
    """The largest relative difference of mean scores; cuML's starts are others."""
    own, other = (search.cv_results_["mean_test_score"] for search in (own, other))
    return {"most_off": float(np.abs(own / other - 1.0).max())}


def show(result):
    """Print a scenario as a table."""
    problem = result["problem"]
    title = f"{result['scenario']}: {problem['rows']:,} x {problem['features']}, {FOLDS} folds"
    harness.print_table(title, [as_row(contender) for contender in result["contenders"]])


def as_row(contender):
    return {
        "contender": contender["name"],
        **harness.clock_cells(contender),
        "x gpuml": harness.cell(contender.get("ratio"), ".1f"),
        "most off": harness.cell(contender.get("most_off"), ".1e"),
    }


def parser() -> argparse.ArgumentParser:
    return harness.arguments(__doc__, [*SCENARIOS, *GROUPS], ["cpu"])


def main():
    args = parser().parse_args()
    names = harness.names_of(args.scenario, GROUPS)
    harness.report_on("clusters", names, run_scenario, show, args)


if __name__ == "__main__":
    main()
