"""Selection of features: gpuml and scikit-learn on the same rows in the same run.

    python benchmarks/selection.py --json selection.json

Least squares with a penalty, 5 folds. README.md beside this file says how it is measured.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import _harness as harness
import numpy as np
import sklearn.feature_selection as sk
from _beside import contenders
from _harness import needed_cupy, scaled, to_host
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.model_selection import cross_val_score

import gpuml
from gpuml.feature_selection import RFECV, SequentialFeatureSelector, best_subset
from gpuml.linear_model import Ridge

SEED = 0
INFORMATIVE = 12
FOLDS = 5


def rows(args, n, p):
    """Normal features, a dozen of which make y, and noise."""
    random = np.random.default_rng(SEED)
    X = random.normal(size=(scaled(n, args), p))
    coef = random.normal(size=min(INFORMATIVE, p))
    return X, X[:, : len(coef)] @ coef + 3.0 * random.normal(size=len(X))


def forward(n_features):
    """Ten features, one after the other, by our selector and by theirs."""

    def ours(X, y):
        selector = SequentialFeatureSelector(Ridge(), n_features_to_select=n_features)
        return selector.fit(X, y).get_support()

    def theirs(X, y, n_jobs):
        model = SklearnRidge()
        selector = sk.SequentialFeatureSelector(
            model, n_features_to_select=n_features, n_jobs=n_jobs
        )
        return selector.fit(X, y).get_support()

    return ours, theirs


def eliminated():
    """How many features, and which, by coefficients."""

    def ours(X, y):
        return RFECV(Ridge()).fit(X, y).get_support()

    def theirs(X, y, n_jobs):
        return sk.RFECV(SklearnRidge(), n_jobs=n_jobs).fit(X, y).get_support()

    return ours, theirs


def all_subsets():
    """The best of all subsets; theirs is a loop over these."""

    def ours(X, y):
        return best_subset(X, y, alpha=1.0).support

    def theirs(X, y, n_jobs):
        p, best, support = X.shape[1], -np.inf, None
        for size in range(1, p + 1):
            for some in combinations(range(p), size):
                score = cross_val_score(SklearnRidge(), X[:, some], y, n_jobs=n_jobs).mean()
                if score > best:
                    best, support = score, some
        return np.isin(np.arange(p), support)

    return ours, theirs


@dataclass(frozen=True)
class Scenario:
    """Rows and features, who selects, and whether scikit-learn's time can be waited for."""

    n: int
    p: int
    select: Callable[[], tuple[Callable[..., Any], Callable[..., Any]]]
    has_rival: bool = True
    on_device: bool = False


SCENARIOS = {
    "forward_40": Scenario(20_000, 40, lambda: forward(10)),
    "forward_100": Scenario(20_000, 100, lambda: forward(10)),
    "rfecv_100": Scenario(20_000, 100, eliminated),
    "subsets_8": Scenario(5_000, 8, all_subsets),
    "subsets_20": Scenario(5_000, 20, all_subsets, has_rival=False),
    "device_forward_100": Scenario(1_000_000, 100, lambda: forward(10), False, True),
    "device_subsets_25": Scenario(1_000_000, 25, all_subsets, False, True),
}
GROUPS = {
    "cpu": tuple(name for name, each in SCENARIOS.items() if not each.on_device),
    "device": tuple(name for name, each in SCENARIOS.items() if each.on_device),
}


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    X, y = rows(args, scenario.n, args.features or scenario.p)
    if scenario.on_device:
        try:
            xp = needed_cupy()
        except RuntimeError as error:
            return {"scenario": name, "skipped": str(error)}
        X, y = xp.asarray(X, dtype=xp.float32), xp.asarray(y, dtype=xp.float32)
    ours, theirs = scenario.select()
    repeats, has_rival = args.repeats or 7, scenario.has_rival
    with gpuml.config_context(device="auto" if scenario.on_device else "cpu"):
        found = contenders(
            lambda: ours(X, y), partial(theirs, X, y) if has_rival else None, repeats, compared
        )
        selected = ours(X, y)
    problem = harness.facts_of(X) | {"folds": FOLDS, "selected": int(to_host(selected).sum())}
    return {"scenario": name, "problem": problem, "contenders": found}


def compared(own, other):
    return {"same_features": bool(np.array_equal(own, other))}


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
        "same features": str(contender.get("same_features", "")),
    }


def parser() -> argparse.ArgumentParser:
    return harness.arguments(__doc__, [*SCENARIOS, *GROUPS], ["cpu"])


def main():
    args = parser().parse_args()
    names = harness.names_of(args.scenario, GROUPS)
    harness.report_on("selection", names, run_scenario, show, args)


if __name__ == "__main__":
    main()
