"""Banded ridge: gpuml and himalaya on the same rows, shares of groups and folds in the same run.

    python benchmarks/bands.py --json bands.json

Each target chooses its penalties by 5 folds. README.md beside this file says how it is measured.
"""

from dataclasses import dataclass
from functools import partial

import _harness as harness
import numpy as np
from _harness import needed_cupy, scaled, to_host
from sklearn.model_selection import KFold

import gpuml
from gpuml.linear_model import BandedRidgeCV

SEED = 0
FOLDS = 5
ALPHAS = np.geomspace(1.0, 1e5, 10)


@dataclass(frozen=True)
class Scenario:
    """Rows, features, targets, groups, and how many shares of them are tried."""

    n: int
    p: int
    t: int
    groups: int
    shares: int
    on_device: bool = False


SCENARIOS = {
    "one_group": Scenario(5_000, 200, 500, 1, 1),
    "four_groups": Scenario(5_000, 200, 500, 4, 10),
    "wide": Scenario(500, 2_000, 500, 4, 10),
    "device_one_group": Scenario(100_000, 500, 1_000, 1, 1, True),
    "device_four_groups": Scenario(100_000, 500, 1_000, 4, 10, True),
}
GROUPS = {
    "cpu": tuple(name for name, each in SCENARIOS.items() if not each.on_device),
    "device": tuple(name for name, each in SCENARIOS.items() if each.on_device),
}


def rows(args, scenario):
    """Normal features, groups of them, and targets that some of the groups make."""
    random = np.random.default_rng(SEED)
    n, p, t = scaled(scenario.n, args), args.features or scenario.p, scenario.t
    group = np.arange(p) * scenario.groups // p
    X = random.normal(size=(n, p))
    used = random.random((scenario.groups, t)) < 0.5
    coef = random.normal(size=(p, t)) * used[group] / p**0.5
    return X, group, X @ coef + random.normal(size=(n, t))


def ours(scenario, X, group, Y):
    """Shares that were drawn, and the best mean score of each share and target."""
    model = BandedRidgeCV(
        ALPHAS, groups=group, n_iter=scenario.shares, cv=KFold(FOLDS), random_state=SEED
    )
    model.fit(X, Y)
    return model.shares_, model.cv_scores_


def theirs(shares, X, group, Y):
    """Scores of himalaya; of one group its RidgeCV, which is faster."""
    from himalaya.backend import set_backend
    from himalaya.ridge import RidgeCV, solve_group_ridge_random_search
    from himalaya.scoring import r2_score

    set_backend("numpy" if isinstance(X, np.ndarray) else "cupy")
    if len(shares[0]) == 1:
        model = RidgeCV(
            ALPHAS, fit_intercept=True, cv=KFold(FOLDS), solver_params={"score_func": r2_score}
        )
        return to_host(model.fit(X, Y).cv_scores_)[None, :]
    parts = [X[:, group == g] for g in range(shares.shape[1])]
    found = solve_group_ridge_random_search(
        parts,
        Y,
        n_iter=shares,
        alphas=ALPHAS,
        fit_intercept=True,
        return_weights=True,
        score_func=r2_score,
        cv=KFold(FOLDS),
        progress_bar=False,
        warn=False,
    )
    return to_host(found[2])


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    X, group, Y = rows(args, scenario)
    if scenario.on_device:
        try:
            xp = needed_cupy()
        except RuntimeError as error:
            return {"scenario": name, "skipped": str(error)}
        X, Y = (xp.asarray(a, dtype=xp.float32) for a in (X, Y))
    with gpuml.config_context(device="auto" if scenario.on_device else "cpu"):
        fit = partial(ours, scenario, X, group, Y)
        own = {"name": "gpuml"} | harness.first_run(fit)
        own["seconds"] = harness.timing(fit, args.repeats or 5)
        shares, scores = fit()

    def measure():
        results = []
        seconds = harness.timing(
            lambda: results.append(theirs(shares, X, group, Y)), 3, at_most=20.0
        )
        apart = float(np.max(np.abs(np.max(scores, axis=0) - np.max(results[-1], axis=0))))
        ratio = seconds["median"] / own["seconds"]["median"]
        return {"seconds": seconds, "ratio": ratio, "largest_score_difference": apart}

    problem = harness.facts_of(X) | {
        "folds": FOLDS,
        "targets": scenario.t,
        "groups": scenario.groups,
        "candidates": len(shares) * len(ALPHAS),
    }
    found = [own, harness.attempt({"name": "himalaya"}, measure)]
    return {"scenario": name, "problem": problem, "contenders": found}


def show(result):
    """Print a scenario as a table."""
    problem = result["problem"]
    title = (
        f"{result['scenario']}: {problem['rows']:,} x {problem['features']}, {problem['targets']} "
        f"targets, {problem['groups']} groups, {problem['candidates']} x {FOLDS} folds"
    )
    harness.print_table(title, [as_row(contender) for contender in result["contenders"]])


def as_row(contender):
    return {
        "contender": contender["name"],
        **harness.clock_cells(contender),
        "x gpuml": harness.cell(contender.get("ratio"), ".1f"),
        "score difference": harness.cell(contender.get("largest_score_difference"), ".1e"),
    }


def main():
    args = harness.arguments(__doc__, [*SCENARIOS, *GROUPS], ["cpu"]).parse_args()
    harness.report_on("bands", harness.names_of(args.scenario, GROUPS), run_scenario, show, args)


if __name__ == "__main__":
    main()
